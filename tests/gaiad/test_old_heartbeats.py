"""Heartbeats older than the setting says are forgotten, every day and at the start; what was said stays."""

import sqlite3
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from council.room import ID_PREFIX
from gaiad.base.clock import FrozenClock
from gaiad.base.ids import lowest
from gaiad.bench.daemon_process import running_daemon
from gaiad.daemon.conversations import CouncilParts
from gaiad.ledger.audit import AuditLog
from gaiad.ledger.council_log import CouncilLog
from gaiad.ledger.turn_log import TurnLog
from gaiad.store.home_databases import HomeDatabases
from gaiad.wire.council import HOUSE, StoredMessage


def put_beats(file: Path, now: datetime) -> None:
    """One heartbeat and one word of the house for each of the last 20 days."""
    with closing(sqlite3.connect(file)) as connection, connection:
        for days in range(20):
            then = now - timedelta(days=days, minutes=1)
            for number, kind in enumerate(("HEARTBEAT", "INFO")):
                full_id = f"{lowest(then, ID_PREFIX)[:-1]}{number}"
                connection.execute("INSERT INTO council_messages VALUES (?, ?, '', '{}')", (full_id, kind))


def counts(file: Path) -> tuple[int, int]:
    """Old heartbeats, and words; a daemon that runs adds heartbeats of its own."""
    with closing(sqlite3.connect(file)) as connection:
        words = "SELECT count(*) FROM council_messages WHERE body = '{}' AND type = "
        return tuple(connection.execute(words + f"'{kind}'").fetchone()[0] for kind in ("HEARTBEAT", "INFO"))  # type: ignore[return-value]


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock(datetime(2025, 12, 1, tzinfo=UTC))


async def test_a_change_of_the_setting_holds_at_the_next_run(tmp_path: Path, clock: FrozenClock) -> None:
    log = CouncilLog(HomeDatabases(tmp_path), clock)
    await log.add(HOUSE, StoredMessage(full_id="msg_0", type="INFO", turn_id="", body=b""))
    house = tmp_path / "state.db"
    put_beats(house, clock.now())
    convened = CouncilParts(
        room=cast(Any, SimpleNamespace()),
        log=log,
        turn_log=cast(TurnLog, None),
        audit=cast(AuditLog, None),
        clock=clock,
    )
    days = [15]
    forget = convened.forgetting(lambda: days[0])
    await forget()
    assert counts(house) == (15, 20)
    days[0] = 3
    await forget()
    assert counts(house) == (3, 20)
    log._databases.close()


def test_a_daemon_forgets_them_when_it_starts(tmp_path: Path) -> None:
    home = tmp_path / "h"
    file = home / "state.db"
    with running_daemon("embedder.kind=none", home=home):
        deadline = time.monotonic() + 60
        while not file.exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)
    put_beats(file, datetime.now(UTC))
    with running_daemon("embedder.kind=none", "council.keep_heartbeats_days=5", home=home) as daemon:
        deadline = time.monotonic() + 60
        while counts(file) != (5, 20):
            assert time.monotonic() < deadline, counts(file)
            time.sleep(0.05)
        assert daemon.status()["degraded"] == []
