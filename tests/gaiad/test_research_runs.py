"""Research runs over a real daemon: every run is kept with its payload, shown, listed, reviewed, backed up."""

import json
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gaiad.base.errors import BadInput, NotFound
from gaiad.bench.daemon_process import BenchDaemon, running_daemon
from gaiad.cli.main import program, run
from gaiad.service.research import TOLD_AGAIN
from gaiad.wire.chat import ChatRequest
from gaiad.wire.ingest import IngestDocument, IngestRequest
from gaiad.wire.research import ResearchAgentPayload
from gaiad.wire.schemas import Filters, ResearchRequest, ResearchResult

FOUNDED = "The council was founded on {} in the old mill."
QUESTION = "When was the council founded?"


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BenchDaemon]:
    home = tmp_path_factory.mktemp("runs") / "h"
    home.mkdir(mode=0o700)
    with running_daemon("embedder.kind=none", home=home) as living:
        yield living


@pytest.fixture
def asked(daemon: BenchDaemon, make_packet: Callable[..., bytes]) -> ResearchResult:
    """The answer of one run over two packets that disagree on a date."""
    long = "It met under the oak. " * 600
    contents = (FOUNDED.format("12 October 2025") + " " + long, FOUNDED.format("19 October 2025"))
    documents = [
        IngestDocument(name=f"{number}.xml", content=make_packet(f"TP-{number}", text, f"Founding {number}").decode())
        for number, text in enumerate(contents, start=1)
    ]
    daemon.client.ingest(IngestRequest(documents=documents))
    return daemon.client.research(ResearchRequest(query=QUESTION))


def shell(daemon: BenchDaemon, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = run(program, "gaiad", [*arguments, "--home", str(daemon.home)])
    return code, capsys.readouterr().out


def test_an_answer_names_its_run_and_the_run_holds_the_answer(daemon: BenchDaemon, asked: ResearchResult) -> None:
    assert asked.research_id.startswith("res_")
    kept = daemon.client.runs.show(asked.research_id, "local")
    assert kept.result == msgspec.structs.replace(asked)
    assert kept.run.query == QUESTION
    assert kept.run.outcome == asked.status
    assert (kept.run.sources, kept.run.contradictions) == (2, 1)
    assert kept.payload.metadata.research_id == asked.research_id
    assert "disagree on a date" in asked.note
    assert kept.payload.contradictions[0].status == "open"
    assert daemon.client.get(f"/research/{asked.research_id}")["payload"]["metadata"]["researchID"] == asked.research_id


def test_the_json_of_ask_has_kind_parameters_and_run(
    daemon: BenchDaemon, asked: ResearchResult, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out = shell(daemon, capsys, "ask", "--json", QUESTION)
    answer = json.loads(out)
    assert code == 0
    assert answer["kind"] == "factual"
    assert answer["parameters"]["keywords"] == ["council", "founded"]
    assert answer["research_id"] > asked.research_id


def test_a_run_is_told_on_a_terminal(
    daemon: BenchDaemon, asked: ResearchResult, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out = shell(daemon, capsys, "research", "show", asked.research_id)
    assert "Read as: factual question; keywords council, founded; order relevance" in out
    assert code == 0
    assert out.startswith(asked.research_id)
    for words in (
        f'Asked: "{QUESTION}"',
        "Iteration 1: ",
        "src_002 [Packet: TP-",
        "disagree on a date",
        "It ended as ",
    ):
        assert words in " ".join(out.split()), words


def test_the_commands_that_ask_tells_of_reach_the_memory_that_was_asked(
    daemon: BenchDaemon, make_packet: Callable[..., bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    documents = [
        IngestDocument(name="w.xml", content=make_packet("TP-W", "The council was founded in Porto.").decode())
    ]
    daemon.client.ingest(IngestRequest(tenant="work", documents=documents, wait=True))
    code, out = shell(daemon, capsys, "ask", "--why", "--tenant", "work", QUESTION)
    told = out.partition("; gaiad ")[2].splitlines()[0].strip()
    assert (code, told.endswith(f" --tenant work --home {daemon.home}")) == (0, True)
    assert run(program, "gaiad", shlex.split(told)) == 0
    assert "It ended as " in capsys.readouterr().out
    _, listed = shell(daemon, capsys, "ask", "--tenant", "work", "List all packets about the council")
    assert f"gaiad packets show PACKET_ID --tenant work --home {daemon.home}" in " ".join(listed.split())


def test_the_payload_alone_is_the_seeds(
    daemon: BenchDaemon, asked: ResearchResult, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out = shell(daemon, capsys, "research", "show", asked.research_id, "--payload")
    assert code == 0
    payload = msgspec.json.decode(out.encode(), type=ResearchAgentPayload)
    assert payload.metadata.research_goal == QUESTION
    assert {source.file_type for source in payload.sources} == {"application/xml"}


def test_the_rest_of_a_long_source_is_fetched_by_its_id(
    daemon: BenchDaemon, asked: ResearchResult, capsys: pytest.CaptureFixture[str]
) -> None:
    sources = daemon.client.runs.show(asked.research_id, "local").payload.sources
    long = next(source for source in sources if source.content_length > 10_000)
    whole = daemon.client.runs.source(asked.research_id, long.source_id, "local")
    assert len(whole.content) == whole.content_length == long.content_length
    assert whole.content.startswith(long.content)
    assert not whole.changed
    code, out = shell(daemon, capsys, "research", "source", asked.research_id, long.source_id)
    assert (code, out.rstrip("\n")) == (0, whole.content.rstrip("\n"))
    with pytest.raises(NotFound, match="has no source 'src_099'"):
        daemon.client.runs.source(asked.research_id, "src_099", "local")


def test_runs_are_listed_newest_first_and_the_doubtful_ones_to_review(
    daemon: BenchDaemon, asked: ResearchResult, capsys: pytest.CaptureFixture[str]
) -> None:
    one_packet = Filters(packet_ids=["TP-1"])
    partial = daemon.client.research(ResearchRequest(query="How did the council evolve?", filters=one_packet))
    assert partial.status == "PARTIAL"
    newest = daemon.client.runs.newest("local", 2)
    assert [row.research_id for row in newest] == [partial.research_id, asked.research_id]
    listed = json.loads(shell(daemon, capsys, "research", "list", "--json", "--limit", "1")[1])["runs"]
    assert [row["research_id"] for row in listed] == [partial.research_id]
    doubtful = daemon.client.runs.newest("local", 50, to_review=True)
    assert [row.research_id for row in doubtful] == [partial.research_id]
    done = ("research", "review", "--done", partial.research_id)
    assert shell(daemon, capsys, *done) == (0, f"reviewed {partial.research_id}\n")
    assert daemon.client.runs.newest("local", 50, to_review=True) == []
    assert "Reviewed 20" in " ".join(shell(daemon, capsys, "research", "show", partial.research_id)[1].split())
    code, out = shell(daemon, capsys, "research", "review", "--again", partial.research_id)
    assert (code, out) == (0, f"put back {partial.research_id}\n")
    assert daemon.client.runs.newest("local", 50, to_review=True) == doubtful
    code, out = shell(daemon, capsys, "research", "review", "--tenant", "nobody")
    assert (code, out) == (0, "nothing to review: no run is PARTIAL or of low confidence\n")


def test_a_turn_of_a_chat_keeps_its_run_and_a_rendering_keeps_none(daemon: BenchDaemon, asked: ResearchResult) -> None:
    before = len(daemon.client.runs.newest("local", 1000))
    daemon.client.render_packet(ChatRequest(message=QUESTION, session_id="s"))
    assert len(daemon.client.runs.newest("local", 1000)) == before
    list(daemon.client.chat_events(ChatRequest(message=QUESTION, session_id="s")))
    assert len(daemon.client.runs.newest("local", 1000)) == before + 1


def test_a_run_can_be_followed_by_its_id(daemon: BenchDaemon, asked: ResearchResult) -> None:
    told = list(daemon.client.research_events(ResearchRequest(query=QUESTION)))
    research_id = told[0].data["research_id"]
    assert [event.event for event in told][:3] == ["started", "searching", "planned"]
    assert told[-1].data["research_id"] == research_id
    again = list(daemon.client.runs.follow(research_id, "local"))
    assert [(event.event, event.data) for event in again] == [(event.event, event.data) for event in told]
    assert [event.id for event in again] == [str(number) for number in range(1, len(told) + 1)]
    rest = list(daemon.client.runs.follow(research_id, "local", after=len(told) - 1))
    assert [event.event for event in rest] == ["result"]
    with pytest.raises(NotFound):
        list(daemon.client.runs.follow("res_none", "local"))
    with pytest.raises(NotFound):
        list(daemon.client.runs.follow(research_id, "work"))


def test_of_a_run_of_long_ago_the_end_is_told(daemon: BenchDaemon, asked: ResearchResult) -> None:
    for _ in range(TOLD_AGAIN + 2):
        daemon.client.research(ResearchRequest(query="Tell me about that thing"))
    (event,) = daemon.client.runs.follow(asked.research_id, "local")
    assert (event.event, event.data["research_id"]) == ("result", asked.research_id)


def test_what_is_not_there_is_not_found(daemon: BenchDaemon, asked: ResearchResult) -> None:
    with pytest.raises(NotFound, match="`gaiad research list` shows the newest"):
        daemon.client.runs.show("res_nothing", "local")
    with pytest.raises(NotFound):
        daemon.client.runs.show(asked.research_id, "work")
    with pytest.raises(BadInput, match="give a number from 1 to 1000"):
        daemon.client.get("/research?limit=many")
    with pytest.raises(BadInput, match="review='yes'"):
        daemon.client.get("/research?review=yes")


def test_a_backup_holds_the_runs_and_a_restore_brings_them_back(
    daemon: BenchDaemon, asked: ResearchResult, tmp_path: Path
) -> None:
    daemon.client.backup(tmp_path / "b")
    later: Any = daemon.client.research(ResearchRequest(query=QUESTION))
    daemon.client.restore(tmp_path / "b")
    assert daemon.client.runs.show(asked.research_id, "local").run.query == QUESTION
    with pytest.raises(NotFound):
        daemon.client.runs.show(later.research_id, "local")
