"""The audit on real files: durable, one chain for all writers, refusing changes, saying when its end is not right."""

import asyncio
import os
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gaiad.base.clock import FrozenClock
from gaiad.base.errors import BadInput, Conflict
from gaiad.base.ports import Audit, RequestContext
from gaiad.ledger.audit import AuditLog, newest_event, verify_home
from tests.makers.audits import open_audit

CLOCK = FrozenClock(datetime(2025, 12, 1, tzinfo=UTC))
Open = Callable[[], AuditLog]


@pytest.fixture
def open_log(tmp_path: Path) -> Iterator[Open]:
    opened: list[AuditLog] = []

    def start() -> AuditLog:
        opened.append(open_audit(tmp_path, CLOCK))
        return opened[-1]

    yield start
    for log in opened:
        log.close()


def change(home: Path, *statements: str) -> None:
    """What somebody does who goes around the triggers."""
    with sqlite3.connect(home / "state.db") as connection:
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")]
        for statement in [*(f"DROP TRIGGER {name}" for name in names), *statements]:
            connection.execute(statement)
    connection.close()


async def test_rows_are_numbered_chained_and_carry_who_and_what(open_log: Open, tmp_path: Path) -> None:
    log = open_log()
    numbers = [await log.append("council.vote", "lite", {"n": n}, RequestContext(tenant="work")) for n in range(3)]
    assert numbers == [1, 2, 3]
    row = log.newest(("council.vote",))
    assert row is not None
    assert (row.number, row.at, row.kind, row.tenant, row.actor, row.body) == (
        3,
        "2025-12-01T00:00:00Z",
        "council.vote",
        "work",
        "lite",
        '{"n":2}',
    )
    assert verify_home(tmp_path).head_sha256 == row.sha256
    assert [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("state.db", "audit.head")] == [0o600, 0o600]


async def test_many_writers_at_once_make_one_chain(open_log: Open, tmp_path: Path) -> None:
    log = open_log()
    numbers = await asyncio.gather(
        *(log.append("council.vote", "lite", {"n": n}, RequestContext()) for n in range(200))
    )
    assert sorted(numbers) == list(range(1, 201))
    verdict = verify_home(tmp_path)
    assert (verdict.ok, verdict.rows) == (True, 200)


async def test_a_bad_row_does_not_break_its_neighbours(open_log: Open, tmp_path: Path) -> None:
    log = open_log()
    kinds = ["council.vote", "No Kind", "council.vote"]
    results = await asyncio.gather(
        *(log.append(kind, "lite", {}, RequestContext()) for kind in kinds), return_exceptions=True
    )
    assert [type(result) for result in results] == [int, BadInput, int]
    assert verify_home(tmp_path).rows == 2


async def test_the_chain_goes_on_after_it_was_closed(open_log: Open, tmp_path: Path) -> None:
    first = open_log()
    await first.append("council.vote", "lite", {}, RequestContext())
    first.close()
    second = open_log()
    assert second.trouble == ""
    assert await second.append("council.vote", "lite", {}, RequestContext()) == 2
    assert verify_home(tmp_path).ok


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE audit SET body = '{}' WHERE number = 1",
        "DELETE FROM audit WHERE number = 2",
        "INSERT OR REPLACE INTO audit SELECT * FROM audit WHERE number = 1",
        "INSERT INTO audit SELECT 9, at, kind, tenant, actor, body, sha256, sha256 FROM audit WHERE number = 2",
    ],
)
def test_the_table_itself_refuses_changes(open_log: Open, tmp_path: Path, statement: str) -> None:
    log = open_log()
    for _ in range(2):
        log.append_now("council.vote", "lite", {})
    with pytest.raises(Exception, match="append-only"):
        log.file.write(lambda connection: connection.execute(statement))
    assert verify_home(tmp_path).rows == 2


def test_a_cut_off_end_is_said_at_the_next_start_and_the_evidence_stays(open_log: Open, tmp_path: Path) -> None:
    log = open_log()
    for _ in range(5):
        log.append_now("council.vote", "lite", {})
    log.close()
    change(tmp_path, "DELETE FROM audit WHERE number > 3")
    assert verify_home(tmp_path).first_bad == 4
    again = open_log()
    assert "ends at row 3, and row 5 was noted" in again.trouble
    for _ in range(4):
        again.append_now("council.vote", "prime", {})
    verdict = verify_home(tmp_path)
    assert (verdict.ok, verdict.first_bad) == (False, 5)
    assert "differs from the recorded" in verdict.problem


def test_a_lost_note_is_made_anew_and_its_loss_is_a_row(open_log: Open, tmp_path: Path) -> None:
    log = open_log()
    log.append_now("council.vote", "lite", {})
    log.close()
    (tmp_path / "audit.head").unlink()
    assert not verify_home(tmp_path).ok
    again = open_log()
    assert again.trouble == ""
    assert newest_event(tmp_path, ("audit.head_was_lost",)) is not None
    assert verify_home(tmp_path).ok


def test_a_kill_between_making_and_writing_the_note_is_no_trouble(open_log: Open, tmp_path: Path) -> None:
    open_log().close()
    (tmp_path / "audit.head").write_text("")
    log = open_log()
    assert log.trouble == ""
    assert log.append_now("council.vote", "lite", {}) == 1
    assert verify_home(tmp_path).ok


def test_an_altered_last_row_is_said_at_the_next_start(open_log: Open, tmp_path: Path) -> None:
    log = open_log()
    log.append_now("council.vote", "lite", {"yes": True})
    log.close()
    change(tmp_path, """UPDATE audit SET body = '{"yes":false}'""")
    assert open_log().trouble.startswith("row 1 was altered")


def test_a_note_that_is_none_is_said_and_left(open_log: Open, tmp_path: Path) -> None:
    open_log().close()
    (tmp_path / "audit.head").write_text("something else\n")
    assert "does not contain an audit head" in open_log().trouble
    assert (tmp_path / "audit.head").read_text() == "something else\n"


def test_a_database_of_another_kind_is_refused(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "state.db") as connection:
        connection.execute("CREATE TABLE t (x)")
    connection.close()
    with pytest.raises(Conflict, match="is not a gaiad database"):
        open_audit(tmp_path, CLOCK)


def test_what_was_appended_survives_a_kill(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from gaiad.base.clock import SystemClock\n"
        "from gaiad.ledger.audit import AuditLog; from gaiad.store.home_databases import HomeDatabases\n"
        "log = AuditLog.open(HomeDatabases(Path(sys.argv[1])).state, SystemClock())\n"
        "while True: print(log.append_now('council.vote', 'lite', {}), flush=True)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        said = [int(child.stdout.readline()) for _ in range(20)]
        os.kill(child.pid, signal.SIGKILL)
        said += [int(line) for line in child.stdout.read().splitlines()]
    verdict = verify_home(tmp_path)
    assert verdict.ok
    assert said == list(range(1, len(said) + 1))
    assert verdict.rows >= said[-1]
    open_audit(tmp_path, CLOCK).close()
    assert verify_home(tmp_path).ok


async def test_it_is_the_audit_port(open_log: Open) -> None:
    port: Audit = open_log()
    assert await port.append("council.vote", "lite", {}, RequestContext()) == 1
