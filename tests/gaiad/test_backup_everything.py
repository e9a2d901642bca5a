"""A backup holds every database of a home, also those that are not the memory's."""

import json
import sqlite3
from pathlib import Path

from gaiad.bench.daemon_process import running_daemon
from gaiad.chat_schemas import ChatRequest


def test_jobs_audit_and_packets_of_turns_are_in_a_backup(tmp_path: Path) -> None:
    home, target = tmp_path / "home", tmp_path / "backup"
    with running_daemon("embedder.kind=none", home=home) as daemon:
        events = list(daemon.client.chat_events(ChatRequest(message="What did we decide?", session_id="s")))
        daemon.client.backup(target)
    manifest = json.loads(next(target.glob("*.json")).read_bytes())
    assert {file["path"] for file in manifest["files"]} >= {
        "tenants/local/archive.db",
        "state.db",
        "audit.db",
        "governance.db",
        "cognition/local.db",
        "council/_house.db",
        "turns/local.db",
    }
    with sqlite3.connect(target / "cognition" / "local.db") as copy:
        turns = [row[0] for row in copy.execute("SELECT turn_id FROM packets")]
    copy.close()
    assert turns == [events[-1].data["turn_id"]]
