"""Databases besides the memory: exchanged under those who use them, all or none, and only with what fits."""

import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from gaiad.archive.keeping.backup import BackupFile, Manifest, hash_file
from gaiad.archive.keeping.restore_others import STAGING, OtherFiles, Others, interrupted
from gaiad.errors import BadInput, Conflict, GaiadError
from gaiad.ledger.tenant_files import TenantFiles
from gaiad.store.file import DatabaseFile

KIND = 0x67616900
MIGRATIONS = ["CREATE TABLE said (word TEXT)", "ALTER TABLE said ADD COLUMN how TEXT NOT NULL DEFAULT 'low'"]


class Place:
    """A home with `one.db` and a folder `many`, and a backup of it with what is put there."""

    def __init__(self, root: Path) -> None:
        self.home, self.backup = root / "home", root / "backup"
        self.home.mkdir()
        self.one = DatabaseFile.open(self.home / "one.db", MIGRATIONS, KIND)
        self.many = TenantFiles(self.home / "many", MIGRATIONS, KIND)
        self.others = Others(files=self.files, by_tenant={"many": self.many.file})
        self.names: list[str] = []

    def files(self) -> dict[str, DatabaseFile]:
        return {"one.db": self.one} | self.many.files()

    def kept(self, name: str, word: str, migrations: list[str] = MIGRATIONS, kind: int = KIND) -> None:
        file = DatabaseFile.open(self.backup / "live" / name, migrations, kind)
        file.write(lambda connection: connection.execute("INSERT INTO said (word) VALUES (?)", (word,)))
        (self.backup / name).parent.mkdir(parents=True, exist_ok=True)
        file.backup(self.backup / name)
        file.close()
        self.names.append(name)

    def restore(self) -> OtherFiles:
        files = []
        for name in self.names:
            digest, size = hash_file(self.backup / name)
            files.append(BackupFile(path=name, sha256=digest, size=size, schema=0))
        manifest = Manifest(format=1, gaiad="", created_at="", tenants=[], counts={}, files=files)
        return OtherFiles(self.home, self.backup, manifest, self.others)

    def say(self, file: DatabaseFile, word: str) -> None:
        file.write(lambda connection: connection.execute("INSERT INTO said (word) VALUES (?)", (word,)))

    def words(self, file: DatabaseFile) -> list[Any]:
        return file.read(lambda connection: [row[0] for row in connection.execute("SELECT word FROM said")])


@pytest.fixture
def place(tmp_path: Path) -> Any:
    made = Place(tmp_path)
    yield made
    for file in made.files().values():
        file.close()


def exchanged(place: Place) -> OtherFiles:
    restore = place.restore()
    restore.prepare()
    restore.exchange(place.home / "aside")
    return restore


def test_what_is_open_goes_on_with_what_the_backup_had(place: Place) -> None:
    place.say(place.one, "now")
    place.say(place.many.file("work"), "now too")
    place.kept("one.db", "then", MIGRATIONS[:1])
    place.kept("many/new.db", "then too")
    exchanged(place).finish()
    assert place.words(place.one) == ["then"]
    assert place.one.read(lambda c: c.execute("SELECT how FROM said").fetchall()) == [("low",)], "migrated"
    assert place.words(place.many.file("new")) == ["then too"]
    assert place.words(place.many.file("work")) == [], "the backup has nothing of it"
    place.say(place.one, "later")
    place.one.close()
    place.one = DatabaseFile.open(place.home / "one.db", MIGRATIONS, KIND)
    assert place.words(place.one) == ["then", "later"]
    for name, word in (("one.db", "now"), ("many/work.db", "now too")):
        with closing(sqlite3.connect(place.home / "aside" / name)) as before:
            assert before.execute("SELECT word FROM said").fetchall() == [(word,)]
    assert not (place.home / STAGING).exists()


def test_writers_and_readers_meanwhile_lose_nothing_and_see_one_or_the_other(place: Place) -> None:
    place.say(place.one, "now")
    place.kept("one.db", "then")
    stop, seen, failed = threading.Event(), set(), []

    def use() -> None:
        number = 0
        while not stop.is_set():
            try:
                place.say(place.one, f"word {number}")
                seen.add(place.words(place.one)[0])
            except Exception as error:
                failed.append(error)
            number += 1

    thread = threading.Thread(target=use)
    thread.start()
    try:
        exchanged(place)
    finally:
        stop.set()
        thread.join()
    assert failed == []
    assert seen <= {"now", "then"}
    held = place.words(place.one)
    assert held[0] == "then"
    numbers = [int(word.removeprefix("word ")) for word in held[1:]]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers))) if numbers else True


def test_undone_everything_is_as_it_was(place: Place) -> None:
    place.say(place.one, "now")
    place.kept("one.db", "then")
    place.kept("many/new.db", "then")
    exchanged(place).undo()
    assert (place.words(place.one), place.words(place.many.file("new"))) == (["now"], [])
    assert interrupted(place.home) == ""


def test_one_that_fails_takes_the_others_back(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.say(place.one, "now")
    place.say(place.many.file("work"), "now")
    for name in ("one.db", "many/work.db"):
        place.kept(name, "then")
    restore = place.restore()
    restore.prepare()
    assert "run `gaiad restore DIR` again" in interrupted(place.home), "as a crash here would leave it"
    (place.home / "aside").mkdir()
    (place.home / "aside" / "many").write_text("in the way")
    with pytest.raises(BadInput, match="nothing was changed"):
        restore.exchange(place.home / "aside")
    assert (place.words(place.one), place.words(place.many.file("work"))) == (["now"], ["now"])
    assert interrupted(place.home) == ""


@pytest.mark.parametrize("fault", ["newer", "foreign", "unknown", "escape"])
def test_what_does_not_fit_changes_nothing(place: Place, fault: str) -> None:
    place.say(place.one, "now")
    place.kept("one.db", "then")
    match fault:
        case "newer":
            place.kept("many/a.db", "then", [*MIGRATIONS, "CREATE TABLE more (word TEXT)"])
        case "foreign":
            place.kept("many/a.db", "then", kind=1)
        case "unknown":
            place.kept("letters/a.db", "then")
        case "escape":
            place.kept("many/a.db", "then")
            place.kept("many/../two.db", "then")
    with pytest.raises(GaiadError) as caught:
        exchanged(place)
    assert isinstance(caught.value, BadInput if fault == "escape" else Conflict)
    assert place.words(place.one) == ["now"]
    assert not (place.home / "aside").exists()
    assert not (place.home / "two.db").exists()


def test_a_backup_of_the_memory_alone_leaves_the_rest(place: Place) -> None:
    place.say(place.one, "now")
    exchanged(place)
    assert place.words(place.one) == ["now"]
