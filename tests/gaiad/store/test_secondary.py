import random
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from gaiad.base.errors import Conflict
from gaiad.store.database import find_damage
from gaiad.store.file import DatabaseFile
from gaiad.store.home_databases import HomeDatabases

_SCHEMA = ["CREATE TABLE notes (number INTEGER PRIMARY KEY, body BLOB NOT NULL);"]
_ID = 0x67414954


@pytest.fixture
def second(tmp_path: Path) -> Path:
    return tmp_path / "second" / "tenant.db"


@pytest.fixture
def opened(tmp_path: Path, second: Path) -> Iterator[DatabaseFile]:
    (tmp_path / "first").mkdir()
    file = open_file(tmp_path, second)
    yield file
    file.close()


def open_file(tmp_path: Path, second: Path) -> DatabaseFile:
    return DatabaseFile.open(tmp_path / "first" / "tenant.db", _SCHEMA, _ID, second=second)


def add(file: DatabaseFile, number: int, size: int = 100) -> None:
    body = random.Random(number).randbytes(size)
    file.write(lambda connection: connection.execute("INSERT INTO notes VALUES (?, ?)", (number, body)))


def numbers(file: DatabaseFile) -> list[int]:
    return file.read(lambda connection: [number for (number,) in connection.execute("SELECT number FROM notes")])


def numbers_in(path: Path, scratch: Path) -> list[int]:
    """What a crash would leave there: a copy of the file and its log, opened."""
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    for suffix in ("", "-wal"):
        if path.with_name(path.name + suffix).exists():
            shutil.copyfile(path.with_name(path.name + suffix), scratch / f"copy.db{suffix}")
    with closing(sqlite3.connect(scratch / "copy.db")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return [number for (number,) in connection.execute("SELECT number FROM notes")]


def damage(path: Path) -> None:
    """Every page but the first, and nothing of it in a cache or log."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    content = bytearray(path.read_bytes())
    content[4096:] = b"\x5a" * (len(content) - 4096)
    with path.open("r+b") as file:
        file.write(content)


def retry_now(file: DatabaseFile) -> None:
    assert file._secondary is not None
    file._secondary._retry_at = 0.0


def test_every_commit_is_in_the_second_place_when_it_is_acknowledged(opened, second, tmp_path):
    draw = random.Random(3)
    for number in range(60):
        add(opened, number, draw.choice([100, 5_000, 400_000]))  # the log begins again several times
        assert numbers_in(second, tmp_path / "scratch") == list(range(number + 1))
    assert not opened.problem


def test_what_was_rolled_back_is_not_in_the_second_place(opened, second, tmp_path):
    def fail(connection: sqlite3.Connection) -> None:
        connection.execute("PRAGMA cache_size = 5")  # so that pages reach the log before the commit
        for number in range(100, 120):
            connection.execute("INSERT INTO notes VALUES (?, zeroblob(50000))", (number,))
        raise ValueError("not today")

    add(opened, 0)
    with pytest.raises(ValueError):
        opened.write(fail)
    assert numbers_in(second, tmp_path / "scratch") == [0]
    add(opened, 1)
    assert numbers_in(second, tmp_path / "scratch") == [0, 1]


def test_reads_and_writes_go_on_from_the_second_place_and_come_back(opened, second, tmp_path):
    for number in range(50):
        add(opened, number, 3_000)
    damage(opened.path)
    assert numbers(opened) == list(range(50))
    assert opened.path == second
    add(opened, 50)
    assert "tenant.db serves in place of" in opened.problem
    assert "malformed" in opened.problem
    retry_now(opened)
    add(opened, 51)
    assert opened.path == tmp_path / "first" / "tenant.db"
    assert numbers(opened) == list(range(52))
    assert not opened.problem
    assert find_damage(opened.path) == []
    assert (tmp_path / "first" / "tenant.db.damaged-1").exists()
    assert numbers_in(second, tmp_path / "scratch") == list(range(52))


def test_a_full_disk_is_left_and_nothing_is_refused(opened, second, tmp_path):
    add(opened, 0)
    opened.write(lambda connection: connection.execute("PRAGMA max_page_count = 10"))
    for number in range(1, 30):
        add(opened, number, 20_000)
    assert opened.path == second
    assert "disk is full" in opened.problem
    assert numbers(opened) == list(range(30))
    retry_now(opened)
    add(opened, 30)
    assert numbers_in(tmp_path / "first" / "tenant.db", tmp_path / "scratch") == list(range(31))
    assert not (tmp_path / "first" / "tenant.db.damaged-1").exists(), "it was whole, so nothing of it is missing"


def test_long_work_is_refused_when_the_disk_fails_and_begun_again_by_its_owner(opened, second):
    def steps(connection, hurry):
        for number in range(20):
            connection.execute("INSERT INTO notes VALUES (?, zeroblob(20000))", (number,))
            yield

    opened.write(lambda connection: connection.execute("PRAGMA max_page_count = 10"))
    with pytest.raises(Exception, match="the disk is full"):
        opened.submit_steps(steps).result()
    assert opened.path == second
    done = len(numbers(opened))
    assert numbers(opened) == list(range(done))


def test_after_a_crash_the_second_place_takes_the_rest_of_the_log(opened, second, tmp_path):
    for number in range(5):
        add(opened, number)
    behind = second.with_name("tenant.db-wal").read_bytes()
    add(opened, 5)
    left = tmp_path / "left"
    shutil.copytree(tmp_path / "first", left / "first")
    shutil.copytree(second.parent, left / "second")
    (left / "second" / "tenant.db-wal").write_bytes(behind)  # killed between the two
    again = open_file(left, left / "second" / "tenant.db")
    try:
        assert again._secondary is not None
        assert again._secondary._in_step
        assert numbers_in(left / "second" / "tenant.db", tmp_path / "scratch") == list(range(6))
        add(again, 6)
        assert numbers_in(left / "second" / "tenant.db", tmp_path / "scratch") == list(range(7))
    finally:
        again.close()


def test_a_second_place_that_failed_is_named_and_copied_again(opened, second, tmp_path):
    add(opened, 0)
    shutil.rmtree(second.parent)
    second.parent.write_text("not a folder")
    for number in range(1, 4):
        add(opened, number)
    opened.empty_log()
    add(opened, 4)
    assert "is not up to date" in opened.problem
    damage_is_not_served = opened._secondary
    assert damage_is_not_served is not None
    assert not damage_is_not_served.take_over("never from a copy that lacks a commit")
    second.parent.unlink()
    retry_now(opened)
    add(opened, 5)
    assert not opened.problem
    assert numbers_in(second, tmp_path / "scratch") == list(range(6))


@pytest.mark.parametrize("lost", ["damaged", "missing"])
def test_a_first_place_that_cannot_be_opened_is_made_again_from_the_second(lost, opened, second, tmp_path):
    for number in range(20):
        add(opened, number, 3_000)
    opened.close()
    path = tmp_path / "first" / "tenant.db"
    if lost == "missing":
        path.unlink()
    else:
        path.write_bytes(b"\x5a" * 20_000)
    opened.reopen()
    add(opened, 20)
    assert numbers(opened) == list(range(21))
    assert numbers_in(path, tmp_path / "scratch") == list(range(21))


def test_a_file_that_was_closed_is_followed_without_a_copy_unless_it_was_changed(opened, second, tmp_path):
    add(opened, 0)
    opened.close()
    inode = second.stat().st_ino
    opened.reopen()
    add(opened, 1)
    assert second.stat().st_ino == inode
    opened.close()
    with closing(sqlite3.connect(tmp_path / "first" / "tenant.db")) as connection:
        connection.execute("INSERT INTO notes VALUES (2, 'by somebody else')")
        connection.commit()
    opened.reopen()
    add(opened, 3)
    assert second.stat().st_ino != inode
    assert numbers_in(second, tmp_path / "scratch") == [0, 1, 2, 3]


def test_a_second_place_that_leads_still_does_after_a_restart(opened, second, tmp_path):
    for number in range(50):
        add(opened, number, 3_000)
    damage(opened.path)
    add(opened, 50)
    numbers(opened)
    opened.close()
    (tmp_path / "first" / "tenant.db").chmod(0o600)
    opened.reopen()
    assert numbers(opened) == list(range(51))


def test_text_that_was_deleted_is_in_neither_place(opened, second):
    opened.write(lambda connection: connection.execute("INSERT INTO notes VALUES (1, 'a secret to delete')"))
    opened.write(lambda connection: connection.execute("DELETE FROM notes"))
    opened.empty_log()
    for path in (*opened.path.parent.iterdir(), *second.parent.iterdir()):
        assert b"a secret to delete" not in path.read_bytes(), path.name


def test_a_second_place_belongs_to_one_home(tmp_path):
    HomeDatabases(tmp_path / "one", second=tmp_path / "second").close()
    with pytest.raises(Conflict, match="another home"):
        HomeDatabases(tmp_path / "two", second=tmp_path / "second")


def test_what_is_restored_counts_not_what_the_second_place_held(tmp_path):
    databases = HomeDatabases(tmp_path / "home", second=tmp_path / "second")
    count = "SELECT count(*) FROM jobs"
    assert databases.file("ada").read(lambda connection: connection.execute(count).fetchone()) == (0,)
    databases.exchange(lambda: shutil.rmtree(tmp_path / "home" / "tenants"), "a restore is running")
    assert databases.tenants() == []
    assert [path.name for path in (tmp_path / "second").glob("replaced-1/tenants/*")] == ["ada"]
    databases.close()
