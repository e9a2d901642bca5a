"""`gaiad audit` on real files, with the exit codes scripts rely on."""

import json
import sqlite3
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gaiad.base.clock import FrozenClock
from gaiad.cli.main import program, run
from tests.makers.audits import open_audit


@pytest.fixture
def home(tmp_path: Path) -> Path:
    log = open_audit(tmp_path / "home", FrozenClock(datetime(2025, 12, 1, tzinfo=UTC)))
    for number in range(3):
        log.append_now("council.vote", "lite", {"n": number})
    log.close()
    return tmp_path / "home"


def gaiad(*arguments: str) -> int:
    return run(program, "gaiad", ["audit", *arguments])


def test_a_chain_that_holds(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert gaiad("verify", "--home", str(home), "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert {name: found[name] for name in ("ok", "rows", "first_bad")} == {"ok": True, "rows": 3, "first_bad": None}
    assert gaiad("verify", "--home", str(home), "--expect", found["head_sha256"].upper()) == 0
    assert capsys.readouterr().out == f"3 rows hold; head {found['head_sha256']}\n"


def test_a_changed_row_exits_1_and_is_named(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with sqlite3.connect(home / "state.db") as connection:
        connection.execute("DROP TRIGGER audit_rows_do_not_change")
        connection.execute("UPDATE audit SET actor = 'prime' WHERE number = 2")
    connection.close()
    assert gaiad("verify", "--home", str(home), "--json") == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["ok"], found["first_bad"]) == (False, 2)
    assert gaiad("verify", "--home", str(home)) == 1
    assert capsys.readouterr().out.startswith("problem: row 2 was altered")


def test_an_export_verifies_without_the_home(
    home: Path, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    target = tmp_path / "audit.jsonl"
    assert gaiad("export", "--home", str(home), "--output", str(target)) == 0
    assert gaiad("verify", "--home", str(tmp_path / "none"), str(target)) == 0
    assert gaiad("export", "--home", str(home), "--output", str(target)) == 2
    assert gaiad("export", "--home", str(home), "--output", str(target), "--force", "--json") == 0
    capfdbinary.readouterr()
    assert gaiad("export", "--home", str(home)) == 0
    assert capfdbinary.readouterr().out == target.read_bytes()


def test_wrong_input_says_what_to_give(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert gaiad("verify", "--home", str(home), "--expect", "abc") == 2
    assert "give the 64 hexadecimal digits" in capsys.readouterr().err
    for verb in (["verify"], ["export"], ["export", "--output", str(tmp_path / "out")]):
        assert gaiad(*verb, "--home", str(tmp_path / "none")) == 3
        assert "has no audit yet" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
