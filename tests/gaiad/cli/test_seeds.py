"""`gaiad council seeds`: what is asked of the daemon and what people read."""

import json
from typing import Any

import pytest

from gaiad.base.ids import short
from gaiad.cli.council import seeds, seeds_text
from gaiad.cli.main import run
from gaiad.wire.council import SeedRecord

SEED = {
    "seed_id": "seed_1",
    "text": "Ask \x1b[2Jabout\nthe tram.",
    "state": "passed",
    "turn_id": "turn_01JDXR5A4M3C2V7Y8Z9K6T1QWE",
    "added_at": "2025-12-01T12:00:00Z",
    "changed_at": "2025-12-01T12:15:00Z",
    "proposal": "Ask which tram.",
    "proposal_id": "msg_1",
    "reason": "passed by majority (2 yes, 1 no, 0 abstained)",
    "failures": 0,
}


def test_the_filters_are_asked_of_the_daemon(api: Any, capsys: pytest.CaptureFixture[str]) -> None:
    api.routes["POST /council/seeds"] = {"seeds": [SEED]}
    arguments = ["--state", "passed", "--limit", "3", "--tenant", "work", "--json", "--home", str(api.home)]
    assert run(seeds, "gaiad", arguments) == 0
    assert api.requests[-1][1] == {"tenant": "work", "limit": 3, "state": "passed"}
    assert json.loads(capsys.readouterr().out) == {"seeds": [SEED]}


def test_people_read_a_row_a_thought() -> None:
    record = SeedRecord(**SEED)  # type: ignore[arg-type]
    lines = seeds_text([record], 140).splitlines()
    assert lines[0].split() == ["state", "since", "(UTC)", "turn", "thought", "why"]
    assert lines[1].startswith(f"passed  2025-12-01 12:15  {short(record.turn_id)}  Ask ")
    assert "\x1b" not in "".join(lines)
    assert lines[1].endswith("passed by majority (2 yes, 1 no, 0 abstained)")


def test_long_thoughts_are_cut_to_the_terminal() -> None:
    record = SeedRecord(**{**SEED, "text": "tram " * 100})  # type: ignore[arg-type]
    assert all(len(line) <= 100 for line in seeds_text([record], 100).splitlines())


def test_no_thoughts_is_said() -> None:
    assert seeds_text([], 80) == "no thoughts for later yet"
