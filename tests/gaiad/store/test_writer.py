"""Group commit, and who goes first: what a person waits for is never behind background work."""

import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gaiad.base.errors import Unavailable
from gaiad.store.writer import Steps, Writer


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Writer]:
    opened = Writer(tmp_path / "a.db")
    opened.submit(lambda c: c.execute("CREATE TABLE seen (name TEXT)").rowcount).result()
    yield opened
    opened.close()


def see(name: str) -> Callable[[sqlite3.Connection], int]:
    return lambda connection: connection.execute("INSERT INTO seen VALUES (?)", (name,)).rowcount


def seen(tmp_path: Path) -> list[str]:
    connection = sqlite3.connect(tmp_path / "a.db")
    found = [row[0] for row in connection.execute("SELECT name FROM seen ORDER BY rowid")]
    connection.close()
    return found


class Gate:
    """Work that holds the writer until it is opened."""

    def __init__(self) -> None:
        self.reached, self.open = threading.Event(), threading.Event()

    def __call__(self, connection: sqlite3.Connection) -> None:
        self.reached.set()
        assert self.open.wait(60)


def test_what_a_person_waits_for_goes_before_background_work(writer: Writer, tmp_path: Path) -> None:
    gate = Gate()
    writer.submit(gate)
    assert gate.reached.wait(60)
    background = [writer.submit(see(f"background {n}"), background=True) for n in range(3)]
    urgent = writer.submit(see("urgent"))
    gate.open.set()
    for future in (urgent, *background):
        future.result()
    assert seen(tmp_path) == ["urgent", "background 0", "background 1", "background 2"]


def test_long_background_work_lets_others_in_at_its_steps_and_keeps_what_it_had(writer: Writer, tmp_path: Path) -> None:
    reached, go_on = threading.Event(), threading.Event()

    def steps(connection: sqlite3.Connection) -> Steps[str]:
        for number in range(3):
            connection.execute("INSERT INTO seen VALUES (?)", (f"step {number}",))
            reached.set()
            assert go_on.wait(60)
            if writer.hurry():
                yield
        return "all"

    long = writer.submit_steps(steps)
    assert reached.wait(60)
    urgent = writer.submit(lambda c: c.execute("SELECT count(*) FROM seen").fetchone()[0])
    go_on.set()
    assert urgent.result() == 1, "it waited for one step, not for all"
    assert long.result() == "all"
    assert seen(tmp_path) == ["step 0", "step 1", "step 2"]


def test_background_work_that_fails_after_a_pause_keeps_its_committed_steps(writer: Writer, tmp_path: Path) -> None:
    reached, go_on = threading.Event(), threading.Event()

    def steps(connection: sqlite3.Connection) -> Steps[None]:
        connection.execute("INSERT INTO seen VALUES ('committed')")
        reached.set()
        assert go_on.wait(60)
        yield
        connection.execute("INSERT INTO seen VALUES ('undone')")
        raise ValueError("stop")

    failing = writer.submit_steps(steps)
    assert reached.wait(60)
    urgent = writer.submit(see("urgent"))
    go_on.set()
    urgent.result()
    with pytest.raises(ValueError, match="stop"):
        failing.result()
    assert seen(tmp_path) == ["committed", "urgent"]


def test_one_failure_undoes_itself_and_not_its_neighbours(writer: Writer, tmp_path: Path) -> None:
    gate = Gate()
    writer.submit(gate)
    assert gate.reached.wait(60)
    futures = [writer.submit(see("a")), writer.submit(lambda c: c.execute("no SQL")), writer.submit(see("b"))]
    gate.open.set()
    assert futures[0].result() == futures[2].result() == 1
    with pytest.raises(Exception, match="syntax error"):
        futures[1].result()
    assert seen(tmp_path) == ["a", "b"]


def test_closing_finishes_what_is_queued_and_takes_no_more(tmp_path: Path, writer: Writer) -> None:
    futures = [writer.submit(see(str(n)), background=bool(n % 2)) for n in range(8)]
    writer.close()
    assert all(future.done() for future in futures)
    assert len(seen(tmp_path)) == 8
    with pytest.raises(Unavailable, match="closed"):
        writer.submit(see("late"))
