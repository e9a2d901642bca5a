import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from gaiad.errors import GaiadError, Unavailable
from gaiad.store.database import StorageFull, connect
from gaiad.store.writer import Writer


@pytest.fixture
def path(tmp_path: Path) -> Path:
    connection = connect(tmp_path / "a.db")
    connection.execute("CREATE TABLE things (name TEXT PRIMARY KEY)")
    connection.close()
    return tmp_path / "a.db"


@pytest.fixture
def writer(path: Path) -> Iterator[Writer]:
    made = Writer(path)
    yield made
    made.close()


def insert(name: str):  # type: ignore[no-untyped-def]
    return lambda connection: connection.execute("INSERT INTO things VALUES (?)", (name,)).rowcount


def names(path: Path) -> set[str]:
    connection = connect(path, read_only=True)
    try:
        return {row[0] for row in connection.execute("SELECT name FROM things")}
    finally:
        connection.close()


class Gate:
    """Holds the writer's thread in one piece of work, so that what follows is queued together."""

    def __init__(self, writer: Writer) -> None:
        self.entered, self.leave = threading.Event(), threading.Event()
        self.future = writer.submit(self._wait)
        assert self.entered.wait(5)

    def _wait(self, connection: sqlite3.Connection) -> None:
        self.entered.set()
        assert self.leave.wait(5)


def test_a_result_is_on_disk_when_it_is_given(writer: Writer, path: Path) -> None:
    assert writer.submit(insert("a")).result(5) == 1
    assert names(path) == {"a"}


def test_what_is_queued_during_a_commit_goes_into_one_commit(writer: Writer, path: Path) -> None:
    commits: list[str] = []
    gate = Gate(writer)
    futures = [writer.submit(insert(f"n{number}")) for number in range(50)]
    futures.append(writer.submit(lambda c: commits.append("in") or names(path)))  # type: ignore[arg-type]
    gate.leave.set()
    seen = futures[-1].result(5)
    assert seen == set(), "the group's rows must not be visible to others before its one commit"
    assert names(path) == {f"n{number}" for number in range(50)}


def test_work_that_fails_undoes_itself_and_not_its_neighbours(writer: Writer, path: Path) -> None:
    gate = Gate(writer)

    def half(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO things VALUES ('half')")
        raise ValueError("stop")

    before, failing, clash, after = (
        writer.submit(insert("before")),
        writer.submit(half),
        writer.submit(insert("before")),
        writer.submit(insert("after")),
    )
    gate.leave.set()
    assert before.result(5) == after.result(5) == 1
    with pytest.raises(ValueError, match="stop"):
        failing.result(5)
    with pytest.raises(GaiadError, match="UNIQUE"):
        clash.result(5)
    assert names(path) == {"before", "after"}


def test_a_full_disk_fails_the_whole_group_and_the_writer_goes_on(writer: Writer, path: Path) -> None:
    writer.submit(lambda c: c.execute("PRAGMA max_page_count = 8").fetchone()).result(5)
    gate = Gate(writer)
    small = writer.submit(insert("small"))
    large = writer.submit(insert("x" * 100_000))
    late = writer.submit(insert("late"))
    gate.leave.set()
    with pytest.raises(StorageFull, match="Free some space"):
        large.result(5)
    outcome = {name for name, future in (("small", small), ("late", late)) if future.exception(5) is None}
    assert names(path) == outcome
    assert writer.submit(insert("again")).result(5) == 1


def test_cancelled_work_is_not_done(writer: Writer, path: Path) -> None:
    gate = Gate(writer)
    cancelled, kept = writer.submit(insert("cancelled")), writer.submit(insert("kept"))
    assert cancelled.cancel()
    gate.leave.set()
    assert kept.result(5) == 1
    assert names(path) == {"kept"}


def test_close_finishes_what_is_queued_and_refuses_more(writer: Writer, path: Path) -> None:
    gate = Gate(writer)
    futures = [writer.submit(insert(f"n{number}")) for number in range(600)]
    gate.leave.set()
    writer.close()
    assert all(future.result(5) == 1 for future in futures)
    assert len(names(path)) == 600
    with pytest.raises(Unavailable, match="closed"):
        writer.submit(insert("late"))
    writer.close()
