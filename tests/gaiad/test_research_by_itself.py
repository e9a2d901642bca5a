"""Research that goes on by itself in a real daemon: killed in the middle, begun, followed, broken off and forgotten."""

import asyncio
import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gaiad.base.clock import SystemClock
from gaiad.base.errors import BadInput, NotFound
from gaiad.base.ports import RequestContext
from gaiad.bench.daemon_process import BenchDaemon
from gaiad.cli.main import program, run
from gaiad.research.payload.kept_runs import KIND, payload_of
from gaiad.service.research import ATTEMPTS
from gaiad.store.home_databases import HomeDatabases
from gaiad.store.jobs import Jobs
from gaiad.wire.ingest import IngestDocument, IngestRequest
from gaiad.wire.schemas import ResearchRequest

QUESTION = "Where is the float switch wired?"
IN_PART = "Where is the float switch wired and who paid the plumber?"
TEXTS = ("The float switch is wired in series.", "A committee hums.", "The float switch was moved to the basin.")
SETTINGS = ("embedder.kind=none",)


def filled(home: Path, make_packet: Callable[..., bytes]) -> BenchDaemon:
    """A daemon over three packets."""
    home.mkdir(mode=0o700)
    living = BenchDaemon(home, SETTINGS)
    documents = [
        IngestDocument(name=f"{number}.xml", content=make_packet(f"TP-{number}", text, f"Topic {number}").decode())
        for number, text in enumerate(TEXTS, start=1)
    ]
    living.client.ingest(IngestRequest(documents=documents, wait=True))
    return living


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Callable[..., bytes]], BenchDaemon]]:
    started: list[BenchDaemon] = []

    def once(make_packet: Callable[..., bytes]) -> BenchDaemon:
        if not started:
            started.append(filled(tmp_path_factory.mktemp("alone") / "h", make_packet))
        return started[0]

    yield once
    for living in started:
        living.stop()


@pytest.fixture
def daemon(homes: Any, make_packet: Callable[..., bytes]) -> BenchDaemon:
    """One for all the tests here that only ask it."""
    living: BenchDaemon = homes(make_packet)
    return living


@pytest.fixture
def shell(daemon: BenchDaemon, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    def call(*arguments: str) -> tuple[int, str, str]:
        code = run(program, "gaiad", [*arguments, "--home", str(daemon.home)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def as_a_crash_leaves_it(home: Path, research_id: str, attempts: int, query: str = QUESTION) -> None:
    async def write() -> None:
        databases = HomeDatabases(home)
        jobs = Jobs(databases, SystemClock())
        job = await jobs.create(
            KIND, "local", payload_of(ResearchRequest(query=query), RequestContext()), job_id=research_id
        )
        for _ in range(attempts):
            await jobs.start(job)
        databases.close()

    asyncio.run(write())


def test_a_run_that_was_promised_comes_to_its_end_though_the_daemon_is_killed(
    tmp_path: Path, make_packet: Callable[..., bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / "h"
    daemon = filled(home, make_packet)
    promised = [daemon.client.runs.start(ResearchRequest(query=QUESTION)) for _ in range(8)]
    os.kill(daemon.status()["pid"], signal.SIGKILL)
    daemon.stop()
    as_a_crash_leaves_it(home, "res_1", attempts=1)
    as_a_crash_leaves_it(home, "res_2", attempts=ATTEMPTS)
    again = BenchDaemon(home, SETTINGS)
    try:
        told = list(again.client.runs.follow("res_1", "local"))
        assert [event.event for event in told][:2] == ["started", "resumed"]
        assert told[-1].data["status"] == "SUCCESS"
        for research_id in promised:
            *_, last = again.client.runs.follow(research_id, "local")
            assert (last.event, last.data["status"], last.data["research_id"]) == ("result", "SUCCESS", research_id)
        rows = {row.research_id: row for row in again.client.runs.newest("local", 100)}
        assert {rows[one].status for one in (*promised, "res_1")} == {"complete"}
        assert rows["res_2"].status == "failed"
        assert run(program, "gaiad", ["research", "show", "res_2", "--home", str(home)]) == 0
        assert "It was failed: the daemon stopped during it 3 times" in capsys.readouterr().out
    finally:
        again.stop()


def test_a_run_is_begun_followed_shown_and_forgotten(shell: Any, daemon: BenchDaemon) -> None:
    code, out, err = shell("research", "start", *QUESTION.split())
    research_id = out.strip()
    assert code == 0
    assert f"gaiad research follow {research_id}" in err
    code, out, err = shell("research", "follow", research_id)
    assert code == 0
    assert "The float switch is wired in series. [Packet: TP-1]" in out
    assert f"gaiad research show {research_id}" in out
    assert "That is enough, confidence" in err
    code, out, _ = shell("research", "show", research_id)
    assert "It took 1 round, 1 search, " in " ".join(out.split())
    assert shell("research", "cancel", research_id)[0] == 1
    assert shell("research", "forget", research_id)[:2] == (0, f"forgot {research_id}\n")
    for verb in ("follow", "cancel", "forget", "show"):
        assert shell("research", verb, research_id)[0] == 3
    with pytest.raises(NotFound):
        daemon.client.runs.cancel("res_none", "local")


def test_a_program_reads_the_events_of_a_run_line_by_line(shell: Any) -> None:
    _, out, _ = shell("research", "start", "--json", QUESTION)
    research_id = json.loads(out)["research_id"]
    code, out, err = shell("research", "follow", "--json", research_id)
    lines = [json.loads(line) for line in out.splitlines()]
    assert (code, err) == (0, "")
    assert lines[0]["event"] == "started"
    assert lines[-1]["event"] == "result"
    assert lines[-1]["data"]["research_id"] == research_id


def test_ask_tells_on_stderr_what_it_searches_and_what_the_answer_is_so_far(shell: Any) -> None:
    code, silent, err = shell("ask", IN_PART)
    assert (code, err) == (0, "")
    code, out, err = shell("ask", "--follow", IN_PART)
    assert code == 0
    assert out.splitlines()[2:-1] == silent.splitlines()[2:-1]
    lines = err.splitlines()
    assert lines[0].startswith("Searching: ")
    assert "Not enough yet, confidence" in err
    assert "missing: " in err
    assert lines.index("  | The float switch is wired in series. [Packet: TP-1]") > 2
    assert any(line.startswith("Searching again: ") for line in lines)
    code, out, err = shell("ask", "--json", "--follow", IN_PART)
    assert json.loads(out)["status"] == "PARTIAL"
    assert "So far, confidence" in err


def test_on_a_terminal_ask_tells_it_unless_it_shall_not(shell: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert "Searching: " in shell("ask", QUESTION)[2]
    assert shell("ask", "--no-follow", QUESTION)[2] == ""
    assert shell("ask", "--json", QUESTION)[2] == ""


@pytest.mark.parametrize(
    ("asked", "error", "words"),
    [
        ({"query": " "}, BadInput, "the question is empty"),
        ({"query": "x" * 4001}, BadInput, "4001 characters"),
        ({"query": QUESTION, "now": "soon"}, BadInput, "now = 'soon'"),
        ({"query": QUESTION, "filters": {"since": "soon"}}, BadInput, "since = 'soon'"),
        ({"query": QUESTION, "tenant": "nosuch"}, NotFound, "nosuch"),
    ],
)
def test_what_no_run_can_be_made_of_is_refused_before_it_has_an_id(
    daemon: BenchDaemon, asked: dict[str, Any], error: type[Exception], words: str
) -> None:
    for path in ("/research", "/research/start"):
        with pytest.raises(error, match=words):
            daemon.client.post(path, asked)
    assert not (daemon.home / "tenants" / "nosuch").exists()


def test_what_nobody_may_look_at_is_not_there_to_forget(daemon: BenchDaemon) -> None:
    research_id = daemon.client.research(ResearchRequest(query=QUESTION)).research_id
    with pytest.raises(NotFound):
        daemon.client.runs.forget(research_id, "work")
    assert daemon.client.runs.show(research_id, "local").run.research_id == research_id
