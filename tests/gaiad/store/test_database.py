import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from gaiad.base.errors import Conflict, GaiadError, Unavailable
from gaiad.store.database import Damaged, StorageFull, chunks, connect, marks, split_statements, translate
from gaiad.store.file import DatabaseFile

ID = 0x1234
ONE = "CREATE TABLE things (name TEXT NOT NULL);"
TWO = "ALTER TABLE things ADD COLUMN size INTEGER NOT NULL DEFAULT 7;"


@pytest.fixture
def file(tmp_path: Path) -> Iterator[DatabaseFile]:
    opened = DatabaseFile.open(tmp_path / "data" / "a.db", [ONE], ID)
    yield opened
    opened.close()


def snapshot(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_new_file_is_private_and_carries_version_and_owner(tmp_path: Path) -> None:
    DatabaseFile.open(tmp_path / "data" / "a.db", [ONE, TWO], ID).close()
    connection = sqlite3.connect(tmp_path / "data" / "a.db")
    assert connection.execute("PRAGMA user_version").fetchone() == (2,)
    assert connection.execute("PRAGMA application_id").fetchone() == (ID,)
    connection.close()
    assert (tmp_path / "data" / "a.db").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700


def test_an_older_file_is_brought_up_with_its_rows(file: DatabaseFile) -> None:
    file.write(lambda c: c.execute("INSERT INTO things VALUES ('kept')").rowcount)
    file.close()
    newer = DatabaseFile.open(file.path, [ONE, TWO], ID)
    assert newer.read(lambda c: c.execute("SELECT name, size FROM things").fetchall()) == [("kept", 7)]
    newer.close()


def test_a_failing_migration_leaves_the_version_before_it(file: DatabaseFile) -> None:
    file.close()
    with pytest.raises(GaiadError, match="no_such_table"):
        DatabaseFile.open(file.path, [ONE, TWO, "CREATE TABLE half (a);\nINSERT INTO no_such_table VALUES (1);"], ID)
    connection = sqlite3.connect(file.path)
    assert connection.execute("PRAGMA user_version").fetchone() == (2,)
    assert connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'half'").fetchone() == (0,)
    connection.close()


def test_a_newer_file_is_refused_and_not_a_byte_changes(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    DatabaseFile.open(path, [ONE, TWO], ID).close()
    before = snapshot(tmp_path)
    with pytest.raises(Conflict, match=r"schema 2, this one knows 1.*upgrade gaiad"):
        DatabaseFile.open(path, [ONE], ID)
    assert snapshot(tmp_path) == before


def test_a_newer_version_that_stands_only_in_the_log_is_refused_too(tmp_path: Path) -> None:
    first, crashed = tmp_path / "first", tmp_path / "crashed"
    crashed.mkdir()
    DatabaseFile.open(first / "a.db", [ONE], ID).close()
    writer = connect(first / "a.db")
    writer.execute("PRAGMA user_version = 9")
    for path in first.iterdir():
        if not path.name.endswith("-shm"):
            (crashed / path.name).write_bytes(path.read_bytes())
    writer.close()
    assert (crashed / "a.db").read_bytes()[60:64] == (1).to_bytes(4, "big")
    before = snapshot(crashed)
    with pytest.raises(Conflict, match="schema 9"):
        DatabaseFile.open(crashed / "a.db", [ONE], ID)
    after = snapshot(crashed)
    assert {name: after[name] for name in before} == before


@pytest.mark.parametrize("content", [b"not a database, only text " * 200, b""])
def test_a_file_that_is_not_gaiads_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.db"
    if content:
        path.write_bytes(content)
    else:
        other = sqlite3.connect(path)
        other.execute("CREATE TABLE theirs (a)")
        other.close()
    content = path.read_bytes()
    with pytest.raises(Conflict, match=r"a\.db"):
        DatabaseFile.open(path, [ONE], ID)
    assert path.read_bytes() == content


def test_statements_are_split_with_triggers_whole() -> None:
    trigger = "CREATE TRIGGER t AFTER INSERT ON a BEGIN\n  UPDATE a SET b = 1;\n  UPDATE a SET c = 2;\nEND;\n"
    parts = list(split_statements(f"CREATE TABLE a (b, c);\n{trigger}-- the end\n"))
    assert parts[1] == trigger
    assert len(parts) == 3


def test_readers_see_one_moment_and_cannot_write(file: DatabaseFile) -> None:
    file.write(lambda c: c.execute("INSERT INTO things VALUES ('a')").rowcount)

    def look_twice(connection: sqlite3.Connection) -> tuple[int, int]:
        first = connection.execute("SELECT count(*) FROM things").fetchone()[0]
        file.write(lambda c: c.execute("INSERT INTO things VALUES ('b')").rowcount)
        return first, connection.execute("SELECT count(*) FROM things").fetchone()[0]

    assert file.read(look_twice) == (1, 1)
    with pytest.raises(Conflict):
        file.read(lambda c: c.execute("DELETE FROM things"))
    assert file.read(lambda c: c.execute("SELECT count(*) FROM things").fetchone()) == (2,)


async def test_a_closed_file_says_so_on_every_door(file: DatabaseFile) -> None:
    assert await file.aread(lambda c: c.execute("SELECT 1").fetchone()) == (1,)
    assert file.write(lambda c: 5) == 5
    file.close()
    with pytest.raises(Unavailable, match="closed"):
        await file.aread(lambda c: None)
    with pytest.raises(Unavailable, match="closed"):
        file.write(lambda c: None)
    with pytest.raises(Unavailable, match="closed"):
        file.read(lambda c: None)


def test_a_backup_during_writes_is_one_consistent_moment(file: DatabaseFile, tmp_path: Path) -> None:
    file.write(lambda c: c.execute("CREATE TABLE pairs (a, b)").rowcount)
    stop = threading.Event()

    def keep_writing() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            file.write(lambda c, n=number: c.execute("INSERT INTO pairs VALUES (?, ?)", (n, -n)).rowcount)  # type: ignore[misc]

    thread = threading.Thread(target=keep_writing)
    thread.start()
    try:
        for number in range(5):
            file.backup(tmp_path / f"{number}.db")
    finally:
        stop.set()
        thread.join()
    copy = sqlite3.connect(tmp_path / "4.db")
    assert copy.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert (
        copy.execute("SELECT count(*), max(a) FROM pairs WHERE a = -b").fetchone()[0]
        == copy.execute("SELECT max(a) FROM pairs").fetchone()[0]
    )
    copy.close()


def test_errors_name_file_and_remedy(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "small.db", isolation_level=None)
    connection.execute("CREATE TABLE a (b)")
    connection.execute("PRAGMA max_page_count = 3")
    with pytest.raises(sqlite3.OperationalError) as caught:
        connection.execute("INSERT INTO a VALUES (zeroblob(100000))")
    error = translate(caught.value, Path("/x/small.db"))
    assert isinstance(error, StorageFull)
    assert "/x/small.db" in error.message
    assert "Free some space" in error.message
    connection.close()


def test_text_that_is_no_text_is_damage_without_its_words(file: DatabaseFile) -> None:
    file.write(lambda c: c.execute("INSERT INTO things VALUES (CAST(x'736563726574ff' AS TEXT))").rowcount)
    with pytest.raises(Damaged, match=r"a\.db: Could not decode to UTF-8 column 'name'; .*restore") as caught:
        file.read(lambda c: c.execute("SELECT name FROM things").fetchall())
    assert "secret" not in caught.value.message
    assert file.damage == caught.value.message


def test_a_schema_that_is_no_text_is_damage(file: DatabaseFile) -> None:
    file.close()
    data = file.path.read_bytes()
    file.path.write_bytes(data.replace(b"tablethings", b"table\x8bhings").replace(b"CREATE", b"\x8bREATE"))
    with pytest.raises(Damaged, match=r"a\.db: its schema is not UTF-8"):
        DatabaseFile.open(file.path, [ONE], ID)


def test_what_a_check_finds_stays_told(file: DatabaseFile) -> None:
    assert (file.check(), file.damage) == ([], "")
    file.write(lambda c: c.executemany("INSERT INTO things VALUES (?)", [("word " * 500,)] * 50).rowcount)
    file.empty_log()
    with file.path.open("r+b") as raw:
        raw.seek(3 * 4096)
        raw.write(b"\xff" * 4096)
    (found, *_) = file.check()
    assert f"{file.path} is damaged (" in found
    assert file.damage.startswith(found)


@pytest.mark.parametrize("count", [0, 1, 499, 500, 501, 1234])
def test_every_value_comes_once_in_order(count: int) -> None:
    found = list(chunks(range(count)))
    assert [value for chunk in found for value in chunk] == list(range(count))
    assert all(0 < len(chunk) <= 500 for chunk in found)
    assert len(found) == -(-count // 500)


def test_a_chunk_fits_its_marks() -> None:
    connection = sqlite3.connect(":memory:")
    try:
        for chunk in chunks(range(1001)):
            statement = f"SELECT {chunk[0]} IN ({marks(chunk)}), 5000 IN ({marks(chunk)})"
            assert connection.execute(statement, chunk * 2).fetchone() == (1, 0)
    finally:
        connection.close()
