"""What a person deletes is nowhere: whatever was said about it, in every channel, in a backup and in the bytes."""

import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import pytest

from gaiad.bench.daemon_process import BenchDaemon, running_daemon
from gaiad.wire.chat import ChatRequest
from gaiad.wire.ingest import ImportOutcome, ImportRequest
from gaiad.wire.schemas import DEFAULT_TENANT, PacketFilter, ResearchRequest, SearchRequest
from tests.makers.exports import chatgpt, chatgpt_node
from tests.makers.page import Page

COUNT = 12
PATIENCE_S = 240.0


def word(number: int, part: str) -> str:
    """A word of one conversation that stands nowhere else."""
    return f"zq{part}{number:03}xylem"


def conversation(number: int) -> dict[str, Any]:
    words = {part: word(number, part) for part in ("question", "answer", "other", "branch")}
    return chatgpt(
        chatgpt_node("q", "root", "user", f"Where does the {words['question']} grow?"),
        chatgpt_node("old", "q", "assistant", f"Nobody knows the {words['branch']}.", 3.0),
        chatgpt_node("a", "q", "assistant", f"The {words['question']} grows beside the {words['answer']}.", 5.0),
        chatgpt_node("b", "a", "user", f"And the {words['other']}?", 9.0),
        title=f"On the {word(number, 'title')}",
        conversation_id=f"c-{number:03}",
    )


def imported(daemon: BenchDaemon, path: Path, **options: Any) -> list[ImportOutcome]:
    job = daemon.client.import_paths(ImportRequest(paths=[str(path)], **options))
    deadline = time.monotonic() + PATIENCE_S
    while daemon.client.job(job.job_id).state not in ("done", "failed"):
        assert time.monotonic() < deadline, daemon.client.job(job.job_id)
        time.sleep(0.05)
    return daemon.client.imported(job.job_id)


def answers(daemon: BenchDaemon, page: Page, asked: list[str]) -> Iterator[str]:
    """What every channel gives, as text."""
    for query in asked:
        yield repr(daemon.client.search(SearchRequest(query=query, limit=50)))
        yield repr(daemon.client.research(ResearchRequest(query=query)).citations)
    yield repr(daemon.client.packets(PacketFilter(limit=500)))
    for session in daemon.client.sessions(DEFAULT_TENANT, 100):
        yield repr(daemon.client.session_turns(session.session_id, DEFAULT_TENANT, 100))
    yield repr(daemon.client.council.turns(DEFAULT_TENANT, 100))
    yield repr(daemon.client.cognition_packets(DEFAULT_TENANT, 100))
    yield repr(daemon.client.runs.newest(DEFAULT_TENANT, 100))
    yield page.post("/packets/list", limit=500).body.decode()
    yield page.post("/search", query=" ".join(asked), limit=100).body.decode()


def bytes_below(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


@pytest.mark.parametrize("seed", [1, 2])
def test_nothing_of_a_deleted_conversation_is_left(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    export = tmp_path / "conversations.json"
    export.write_text(json.dumps([conversation(number) for number in range(COUNT)]))
    home = tmp_path / "h"
    with running_daemon("embedder.kind=none", home=home) as daemon:
        assert {each.outcome for each in imported(daemon, export)} == {"accepted"}
        for number in random.sample(range(COUNT), 5):
            message = f"Where does the {word(number, 'question')} grow?"
            list(daemon.client.chat_events(ChatRequest(message=message, session_id=f"s-{number % 2}", depth="fast")))
            daemon.client.research(ResearchRequest(query=message))
        gone = random.sample(range(COUNT), 4)
        parts = ("answer", "other", "branch", "title")
        packets = [f"chatgpt-c-{number:03}" for number in gone]
        report = daemon.client.post("/forget", {"packet_ids": packets, "now": True})
        assert report["packets"] == len(gone)
        secrets = [word(number, part) for number in gone for part in parts]
        kept = [word(number, "answer") for number in range(COUNT) if number not in gone]
        told = "\n".join(answers(daemon, Page(daemon), [word(number, "question") for number in gone]))
        assert [each for each in secrets if each in told] == []
        assert all(each in repr(daemon.client.search(SearchRequest(query=each))) for each in kept)
        daemon.client.backup(tmp_path / "backup")
        again = imported(daemon, export)
        assert sorted(each.conversation_id for each in again if each.outcome == "ignored") == sorted(
            f"c-{number:03}" for number in gone
        )
        assert {each.outcome for each in again} == {"duplicate", "ignored"}
    for place in (home, tmp_path / "backup"):
        stored = bytes_below(place)
        assert [each for each in secrets if each.encode() in stored] == []
        assert all(each.encode() in stored for each in kept)
    with running_daemon("embedder.kind=none", home=home) as daemon:
        back = [each for each in imported(daemon, export, again=True) if each.outcome == "accepted"]
        assert sorted(each.packet_id for each in back) == sorted(packets)
    with closing(sqlite3.connect(home / "tenants" / "local" / "tenant.db")) as connection:
        assert connection.execute("SELECT count(*) FROM files WHERE path LIKE 'packet:%'").fetchone() == (0,)
