"""Databases that are gone, empty or damaged at a start."""

import random
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.makers.attacked import Attacked, Row, tries


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with two tenants that was stopped in order; copied for each case."""
    folder = tmp_path_factory.mktemp("filled")
    with Attacked(folder) as daemon:
        for tenant in ("local", "work"):
            documents = [{"name": "a.json", "content": '{"packet_id": "TP-A", "content": "The lamp is lit at six."}'}]
            daemon.post("/ingest", documents=documents, wait=True, tenant=tenant)
        daemon.post("/chat", message="When is the lamp lit?", session_id="s")
    return folder


def _copied(filled: Path, folder: Path) -> Attacked:
    folder.mkdir()
    daemon = Attacked(folder)
    shutil.copytree(filled, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("log", "*.sock"))
    return daemon


def _found(daemon: Attacked, tenant: str) -> bool:
    return bool(daemon.post("/search", query="lamp", tenant=tenant)["hits"])


def test_a_tenants_file_that_is_gone_or_empty_is_no_new_tenant(row: Row, filled: Path, tmp_path: Path) -> None:
    for number, ruin in enumerate(
        (Path.unlink, lambda path: path.write_bytes(b""), lambda path: path.write_bytes(b"x"))
    ):
        daemon = _copied(filled, tmp_path / str(number))
        path = daemon.home / "tenants" / "local" / "tenant.db"
        for beside in path.parent.glob("tenant.db-*"):
            beside.unlink()
        ruin(path)
        with daemon:
            told = " ".join(daemon.client.get("/status")["degraded"])
            row.check("tenant local cannot be used" in told and "restore" in told, told)
            row.check(_found(daemon, "work"), "the other tenant")
            answer = daemon.client.get("/doctor")["checks"]
            row.check(any("tenant local" in check["detail"] for check in answer), answer)


def _ruin(path: Path, table: str = "") -> None:
    """The root page of a table and of its indexes; without one the header."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (size,) = connection.execute("PRAGMA page_size").fetchone()
        roots = connection.execute("SELECT rootpage FROM sqlite_master WHERE tbl_name = ?", (table,)).fetchall()
    data = bytearray(path.read_bytes())
    for root in [number for (number,) in roots] if table else [1]:
        data[(root - 1) * size : root * size] = random.Random(root).randbytes(size)
    path.write_bytes(data)


def test_tables_damaged_that_a_chat_can_do_without(row: Row, filled: Path, tmp_path: Path) -> None:
    """The daemon starts, chats go on, and status says what is damaged."""
    state = ("", "audit", "council_messages", "escalations", "rfcs", "spans")
    tenant = ("turn_records", "cognition_packets", "approvals", "deliveries", "council_messages", "jobs", "seeds")
    cases = [("state.db", table) for table in state] + [("tenants/local/tenant.db", table) for table in tenant]
    choice = random.Random(4)
    for number, (name, table) in enumerate(choice.sample(cases, tries(2, len(cases)))):
        daemon = _copied(filled, tmp_path / str(number))
        _ruin(daemon.home / name, table)
        daemon.log.write_bytes(b"")
        with daemon:
            told = daemon.post("/chat", message="When is the lamp lit?", session_id="s")
            row.check("six" in told["answer"], f"{name} {table}: {told['answer']}")
            checks = daemon.client.get("/doctor")["checks"]
            row.check(
                any("damaged" in one["detail"] or "Page" in one["detail"] for one in checks), f"{table}: {checks}"
            )
            status = " ".join(daemon.client.get("/status")["degraded"])
            row.check("damaged" in status or "malformed" in status or table in ("rfcs", "spans", "escalations"), status)
        row.check("unexpected_error" not in daemon.log.read_text(errors="replace"), daemon.log.read_text()[-1500:])


def test_pages_damaged_in_every_file(row: Row, filled: Path, tmp_path: Path) -> None:
    """Every start succeeds; what is answered is no traceback, and the other tenant is served."""
    choice = random.Random(20261122)
    names = ["state.db", "tenants/local/tenant.db"]
    for number in range(tries(2, 60)):
        daemon = _copied(filled, tmp_path / f"copy{number}")
        path = daemon.home / names[number % len(names)]
        data = bytearray(path.read_bytes())
        for _ in range(1 + number % 5):
            place = choice.randrange(len(data))
            data[place : place + 512] = choice.randbytes(min(512, len(data) - place))
        path.write_bytes(data)
        daemon.log.write_bytes(b"")
        daemon.start(ready=False)
        try:
            daemon.await_ready()
        except AssertionError as error:
            row.check(False, f"{path.name}: {error}")
            continue
        if path.name == "tenant.db":
            row.check(_found(daemon, "work"), "the other tenant")
        daemon.client.get("/doctor")
        row.check(daemon.stop() == 0, "the stop")
        row.check("unexpected_error" not in daemon.log.read_text(errors="replace"), daemon.log.read_text()[-1500:])
