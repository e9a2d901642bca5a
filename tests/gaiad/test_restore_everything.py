"""A restore brings back everything a backup holds; what was there stands aside, and the audit is never shortened."""

import asyncio
import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from gaiad.base.clock import SystemClock
from gaiad.base.errors import Conflict
from gaiad.bench.daemon_process import BenchDaemon, running_daemon
from gaiad.client.client import Client
from gaiad.ledger.audit import export_lines, verify_home
from gaiad.ledger.delivery_log import DeliveryLog
from gaiad.store.backup import hash_file
from gaiad.store.home_databases import HomeDatabases
from gaiad.wire.chat import ChatRequest
from gaiad.wire.council import Open, Parcel
from gaiad.wire.ingest import IngestDocument, IngestRequest
from gaiad.wire.schemas import ResearchRequest
from tests.makers.scripted_home import scripted_settings

SCRIPT = """
[[reply]]
text = "RESPONSE: The tram goes at nine.\\nTHOUGHT_SEED: Ask which tram is meant."
"""


PARCEL = Parcel(
    id="dlv_1", tenant="local", channel="discord_chat", address="a", after="", turn_id="turn_1", block=0, piece=0,
    marker="RESPONSE", text="The tram goes at nine.",
)  # fmt: skip


@contextmanager
def living(home: Path, script: str = SCRIPT) -> Iterator[BenchDaemon]:
    home.mkdir(mode=0o700, exist_ok=True)
    (home / "script.toml").write_text(script)
    (home / "config.toml").write_text(scripted_settings(home / "script.toml") + "[initiative]\nevery_s = 3600\n")
    with running_daemon("embedder.kind=none", home=home) as daemon:
        yield daemon


def say(daemon: BenchDaemon, message: str) -> str:
    events = list(daemon.client.chat_events(ChatRequest(message=message, session_id=message.split()[0], depth="fast")))
    return str(events[-1].data["turn_id"])


def turns(daemon: BenchDaemon) -> set[str]:
    return {turn.turn_id for turn in daemon.client.council.turns("local", 100)}


def open_seeds(daemon: BenchDaemon) -> int:
    return int(daemon.client.post("/council/status", {})["initiative"]["open_seeds"])


def memory(home: Path) -> Path:
    return home / "tenants" / "local" / "tenant.db"


def rows(file: Path, query: str) -> list[Any]:
    with closing(sqlite3.connect(file)) as connection:
        return [row[0] for row in connection.execute(query)]


def kinds(home: Path) -> list[str]:
    return [json.loads(line)["kind"] for line in export_lines(home)]


def test_a_home_goes_back_to_its_backup_whole_and_forward_from_there(tmp_path: Path) -> None:
    home, backup = tmp_path / "home", tmp_path / "backup"
    with living(home) as daemon:
        first = say(daemon, "morning trams?")
        daemon.client.backup(backup)
        second = say(daemon, "evening trams?")
        assert turns(daemon) == {first, second}
        report = daemon.client.restore(backup)
        assert report["audit"] == "stays: it continues the backup's"
        assert turns(daemon) == {first}
        third = say(daemon, "evening trams?")
        assert turns(daemon) == {first, third}
    assert rows(memory(home), "SELECT turn_id FROM cognition_packets ORDER BY turn_id") == [
        first,
        third,
    ]
    said = rows(memory(home), "SELECT DISTINCT turn_id FROM council_messages WHERE turn_id != ''")
    assert second not in said
    aside = Path(report["previous"])
    assert set(rows(memory(aside), "SELECT turn_id FROM turn_records")) == {first, second}
    assert second in rows(memory(aside), "SELECT turn_id FROM cognition_packets")
    assert (memory(aside)).is_file()
    assert verify_home(home).ok
    assert kinds(home)[-1] == "memory.restored"
    assert not list(home.glob("restore.*"))
    with living(home) as daemon:
        assert turns(daemon) == {first, third}


def test_what_the_backup_does_not_have_is_empty_afterwards(tmp_path: Path) -> None:
    home, backup = tmp_path / "home", tmp_path / "backup"
    with living(home) as daemon:
        daemon.client.backup(backup)
        say(daemon, "morning trams?")
        daemon.client.restore(backup)
        assert turns(daemon) == set()
        assert open_seeds(daemon) == 0
    assert rows(memory(home), "SELECT count(*) FROM seeds") == [0]


def test_a_backup_whose_audit_was_altered_is_not_gone_on_with(tmp_path: Path) -> None:
    old, new, backup = tmp_path / "old", tmp_path / "new", tmp_path / "backup"
    with living(old) as daemon:
        daemon.client.backup(backup)
    shutil.copytree(tmp_path / "old.config", tmp_path / "new.config")
    with closing(sqlite3.connect(backup / "state.db")) as connection:
        connection.execute("DROP TRIGGER audit_rows_do_not_change")
        connection.execute("UPDATE audit SET actor = 'somebody' WHERE number = 1")
        connection.commit()
    manifest = json.loads((backup / "manifest.json").read_bytes())
    for file in manifest["files"]:
        file["sha256"], file["size"] = hash_file(backup / file["path"])
    (backup / "manifest.json").write_text(json.dumps(manifest))
    with living(new) as daemon:
        assert "stays, for the backup's cannot be continued here (row 1 " in daemon.client.restore(backup)["audit"]
    assert verify_home(new).ok


def everything(home: Path) -> dict[str, list[Any]]:
    """Every row of a home's databases, by table."""
    found: dict[str, list[Any]] = {}
    for file in (memory(home), home / "state.db"):
        with closing(sqlite3.connect(file)) as connection:
            tables = "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE '%VIRTUAL%'"
            for (table,) in connection.execute(tables).fetchall():
                found[table] = found.get(table, []) + connection.execute(f"SELECT * FROM {table}").fetchall()
    return found


def test_a_backup_restored_on_an_empty_machine_has_every_row_deliveries_and_audit_included(
    tmp_path: Path, make_packet: Callable[..., bytes]
) -> None:
    old, new, backup = tmp_path / "old", tmp_path / "new", tmp_path / "backup"
    asyncio.run(something_to_deliver(old))
    with living(old) as daemon:
        say(daemon, "morning trams?")
        packet = make_packet("TP-1", "The float switch is wired in series.").decode()
        daemon.client.ingest(IngestRequest(documents=[IngestDocument(name="1.xml", content=packet)], wait=True))
        assert daemon.client.research(ResearchRequest(query="Where is the float switch wired?")).status == "SUCCESS"
        daemon.client.post("/feedback", {"packet_id": "TP-1", "verdict": "useful"})
        daemon.client.backup(backup)
    shutil.copytree(tmp_path / "old.config", tmp_path / "new.config")
    with living(new) as daemon:
        assert daemon.client.restore(backup)["audit"] == "the backup's is continued"
    before, after = everything(backup), everything(new)
    filled = {table for table, found in before.items() if found}
    assert filled >= {
        *("packets", "originals", "pages", "sessions", "memos", "feedback", "jobs", "deliveries", "seeds", "audit"),
        *("cognition_packets", "turn_records", "council_messages", "research_runs", "research_sources"),
    }
    for table in filled - {"deliveries", "spans"}:
        assert [row for row in before[table] if row not in after[table]] == [], table
    assert verify_home(new).rows == len(before["audit"]) + 1, "its own row follows the backup's head"
    assert verify_home(new).ok
    assert asyncio.run(next_delivery(new)) == Open(parcel=PARCEL, tried=True), (
        "it is looked for before it is sent again"
    )


async def something_to_deliver(home: Path) -> None:
    databases = HomeDatabases(home)
    await DeliveryLog(databases, SystemClock()).add([PARCEL], 10)
    databases.close()


async def next_delivery(home: Path) -> Open | None:
    databases = HomeDatabases(home)
    try:
        return await DeliveryLog(databases, SystemClock()).next("discord_chat", "local", "a")
    finally:
        databases.close()


@pytest.mark.parametrize("same_owner", [True, False])
def test_a_new_home_gets_it_all_and_the_audit_where_its_owner_is_the_same(tmp_path: Path, same_owner: bool) -> None:
    old, new, backup = tmp_path / "old", tmp_path / "new", tmp_path / "backup"
    with living(old) as daemon:
        first = say(daemon, "morning trams?")
        daemon.client.backup(backup)
    if same_owner:
        shutil.copytree(tmp_path / "old.config", tmp_path / "new.config")
    with living(new) as daemon:
        report = daemon.client.restore(backup)
        assert turns(daemon) == {first}
        assert [one.session_id for one in daemon.client.sessions("local", 10)] == ["morning"]
        assert open_seeds(daemon) == 1
    if same_owner:
        assert report["audit"] == "the backup's is continued"
        assert rows(Path(report["previous"]) / "state.db", "SELECT kind FROM audit LIMIT 1") == ["identity.signed"]
    else:
        assert "signed this home's identity before" in report["audit"]
        assert kinds(new)[-1] == "memory.restored"
    assert verify_home(new).ok, verify_home(new).problem
    held = list(export_lines(backup))
    assert (list(export_lines(new))[: len(held)] == held) == same_owner
    with living(new) as daemon:  # and it starts again
        assert turns(daemon) == {first}
        assert daemon.status()["degraded"] == []


def test_while_a_turn_is_taken_nothing_is_restored(tmp_path: Path) -> None:
    home, backup = tmp_path / "home", tmp_path / "backup"
    with living(home, "[[reply]]\ntext = 'RESPONSE: At nine.'\ndelay_ms = 1500\n") as daemon:
        daemon.client.backup(backup)
        events = daemon.client.chat_events(ChatRequest(message="morning trams?", session_id="s", depth="fast"))
        next(events)
        with Client(home) as second, pytest.raises(Conflict, match=r"turn turn_.* is being taken; restore when it"):
            second.restore(backup)
        assert list(events)[-1].data["answer"] == "At nine."
        assert len(turns(daemon)) == 1
        assert not list(home.glob("before-restore-*"))
