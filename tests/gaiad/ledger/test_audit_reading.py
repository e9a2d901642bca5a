"""What `gaiad audit` reads: the first bad row whatever was done to the file, and an export that verifies by itself."""

import hashlib
import json
import sqlite3
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gaiad.base.clock import FrozenClock
from gaiad.base.errors import BadInput, NotFound, Unavailable
from gaiad.ledger.audit import export_lines, newest_event, verify_export, verify_home
from tests.makers.audits import open_audit

CLOCK = FrozenClock(datetime(2025, 12, 1, tzinfo=UTC))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """An audit of ten rows."""
    log = open_audit(tmp_path, CLOCK)
    for number in range(1, 11):
        log.append_now("council.vote", "lite", {"n": number, "word": "ä"})
    log.close()
    return tmp_path


def change(home: Path, *statements: str) -> None:
    with sqlite3.connect(home / "state.db") as connection:
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")]
        for statement in [*(f"DROP TRIGGER {name}" for name in names), *statements]:
            connection.execute(statement)
    connection.close()


@pytest.mark.parametrize(
    ("statements", "first_bad", "word"),
    [
        (["UPDATE audit SET actor = 'prime' WHERE number = 7"], 7, "altered"),
        (["UPDATE audit SET body = CAST(x'7bff7d' AS TEXT) WHERE number = 7"], 7, "altered"),
        (["UPDATE audit SET at = '' WHERE number = 1"], 1, "altered"),
        (["DELETE FROM audit WHERE number = 4"], 4, "missing"),
        (["DELETE FROM audit WHERE number <= 4"], 1, "missing"),
        (["DELETE FROM audit WHERE number > 6"], 7, "rows 7 to 10 are missing"),
        (["DELETE FROM audit"], 1, "rows 1 to 10 are missing"),
        (
            [
                "UPDATE audit SET number = 99 WHERE number = 3",
                "UPDATE audit SET number = 3 WHERE number = 5",
                "UPDATE audit SET number = 5 WHERE number = 99",
            ],
            3,
            "altered",
        ),
    ],
)
def test_the_first_bad_row_is_named(home: Path, statements: list[str], first_bad: int, word: str) -> None:
    assert verify_home(home).ok
    change(home, *statements)
    verdict = verify_home(home)
    assert (verdict.ok, verdict.first_bad, verdict.rows) == (False, first_bad, first_bad - 1)
    assert word in verdict.problem


def test_a_noted_head_must_be_in_the_chain(home: Path) -> None:
    head = verify_home(home).head_sha256
    assert verify_home(home, head).ok
    verdict = verify_home(home, "f" * 64)
    assert (verdict.ok, verdict.first_bad) == (False, 11)


def test_a_damaged_file_is_a_finding(home: Path) -> None:
    content = bytearray((home / "state.db").read_bytes())
    content[4096:] = bytes(len(content) - 4096)
    (home / "state.db").write_bytes(content)
    verdict = verify_home(home)
    assert (verdict.ok, verdict.first_bad) == (False, 1)
    assert "cannot be read" in verdict.problem


def test_a_file_that_is_held_is_no_finding(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gaiad.store.database._BUSY_TIMEOUT_MS", 1)
    with sqlite3.connect(home / "state.db", isolation_level=None) as holder:
        holder.execute("PRAGMA locking_mode = EXCLUSIVE")
        holder.execute("BEGIN EXCLUSIVE")
        with pytest.raises(Unavailable, match="the file is locked by another program"):
            verify_home(home)
        holder.execute("ROLLBACK")
    holder.close()


def test_a_file_that_is_no_database_is_a_finding(home: Path) -> None:
    (home / "state.db").write_bytes(b"not a database" * 1000)
    verdict = verify_home(home)
    assert (verdict.ok, verdict.first_bad) == (False, 1)


@pytest.mark.parametrize("content", [None, "", "something else\n"])
def test_without_a_readable_note_of_the_head_the_end_is_in_doubt(home: Path, content: str | None) -> None:
    (home / "audit.head").unlink() if content is None else (home / "audit.head").write_text(content)
    verdict = verify_home(home)
    assert (verdict.ok, verdict.first_bad, verdict.rows) == (False, 11, 10)
    assert "audit.head" in verdict.problem


def test_a_home_without_an_audit_says_so(tmp_path: Path) -> None:
    assert newest_event(tmp_path, ("council.vote",)) is None
    with pytest.raises(NotFound, match="has no audit yet"):
        verify_home(tmp_path)


def test_it_reads_beside_a_process_that_writes(home: Path) -> None:
    log = open_audit(home, CLOCK)
    log.append_now("council.vote", "lite", {})
    assert verify_home(home).rows == 11
    log.append_now("council.vote", "lite", {})
    assert verify_home(home).rows == 12
    log.close()


def test_the_export_verifies_by_itself_and_with_nothing_but_sha256(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    file.write_bytes(b"".join(export_lines(home)))
    verdict = verify_home(home)
    assert verify_export(file, verdict.head_sha256) == verdict
    previous = "0" * 64
    for line in file.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        names = ("number", "at", "kind", "tenant", "actor", "body")
        text = "\n".join([previous, *(str(row[name]) for name in names)])
        previous = hashlib.sha256(text.encode()).hexdigest()
        assert row["sha256"] == previous
    assert previous == verdict.head_sha256


def test_a_changed_export_is_found(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    lines = list(export_lines(home))
    file.write_bytes(b"".join([*lines[:4], lines[4].replace(b"lite", b"life"), *lines[5:]]))
    assert verify_export(file).first_bad == 5
    file.write_bytes(b"".join(lines[:4]))
    assert verify_export(file).ok
    assert not verify_export(file, verify_home(home).head_sha256).ok
    file.write_bytes(lines[0] + b"{}\n")
    with pytest.raises(BadInput, match="line 2 is not an exported row"):
        verify_export(file)
    with pytest.raises(NotFound, match="give a file that gaiad audit export wrote"):
        verify_export(tmp_path / "none")


def test_bytes_that_are_no_text_are_exported_as_a_bad_row(home: Path, tmp_path: Path) -> None:
    change(home, "UPDATE audit SET body = CAST(x'7bff7d' AS TEXT) WHERE number = 7")
    file = tmp_path / "audit.jsonl"
    file.write_bytes(b"".join(export_lines(home)))
    assert verify_export(file).first_bad == 7
