"""The measure of many clients at once, with few of them."""

import asyncio
from pathlib import Path

import pytest

from gaiad.base.errors import Unavailable
from gaiad.bench.daemon_process import running_daemon
from tests.bench import many_readers
from tests.bench.many_readers import Read, rows, scripted


def test_each_row_is_measured_over_the_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(many_readers, "_AT_READING_SPEED", (10, 5.0))
    monkeypatch.setattr(many_readers, "_AT_ONCE", (10, 0.0))
    with running_daemon("embedder.kind=none", *scripted(tmp_path)) as daemon:
        found = asyncio.run(rows(daemon, 6))
    by_name = {row.what: row for row in found}
    assert "6 turns at once, 5 pieces a second each: the fastest" in by_name
    assert "6 readers of one turn: the fastest" in by_name
    assert all(row.value >= 1.0 for row in found if row.unit == "ratio")
    assert by_name["memory of the daemon after 12 turns"].value > 20
    assert [row.aim for row in found if row.unit == "% more"] == ["<= 5"]


def test_an_error_in_place_of_an_answer_ends_the_measure() -> None:
    with pytest.raises(Unavailable, match="failed: no model"):
        Read(0.0).note("error", {"message": "no model"})
