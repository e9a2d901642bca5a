"""The published truth table has exactly one row for every situation, and each row says what it should."""

from itertools import product
from typing import get_args

import msgspec
import pytest

from council.depth import (
    DepthTable,
    Length,
    Presence,
    Setting,
    Situation,
    choose_depth,
    depth_table,
    length_of,
    presence,
)
from gaiad.base.errors import ConfigError
from prompts.packet import RiskLevel

TABLE = depth_table()
EVERY = [
    Situation(setting=setting, quorum=quorum, risk=risk, length=length, action=action)
    for setting, quorum, risk, length, action in product(
        get_args(Setting), get_args(Presence), get_args(RiskLevel), get_args(Length), (False, True)
    )
]


def expected(at: Situation) -> str:
    """The table again, in words of its own."""
    if at.quorum == "none":
        return "fast"
    if at.setting != "auto":
        return at.setting
    if at.quorum == "reduced":
        return "full" if at.risk == "high" else "fast"
    return "full" if at.action or at.risk == "high" or at.length == "long" else "fast"


def test_one_row_fits_every_situation_and_decides_as_it_should() -> None:
    assert len(EVERY) == 108
    for situation in EVERY:
        assert sum(row.fits(situation) for row in TABLE.rows) == 1, situation
        choice = choose_depth(TABLE, situation)
        assert choice.depth == expected(situation), situation
        assert choice.why


@pytest.mark.parametrize("row", TABLE.rows, ids=lambda row: row.why[:40])
def test_every_row_decides_something(row) -> None:
    fitting = [situation for situation in EVERY if row.fits(situation)]
    assert fitting
    assert {choose_depth(TABLE, situation) for situation in fitting} == {choose_depth(TABLE, fitting[0])}
    assert choose_depth(TABLE, fitting[0]).why == row.why
    assert len({other.why for other in TABLE.rows}) == len(TABLE.rows)


def test_a_table_with_a_gap_or_a_clash_is_named() -> None:
    for rows, found in ((TABLE.rows[1:], "0 rows fit"), ((*TABLE.rows, TABLE.rows[0]), "2 rows fit")):
        broken: DepthTable = msgspec.structs.replace(TABLE, rows=rows)
        with pytest.raises(ConfigError, match=found):
            choose_depth(broken, msgspec.structs.replace(EVERY[0], quorum="none"))


def test_presence_and_length() -> None:
    assert [presence(writers, 2) for writers in range(4)] == ["none", "reduced", "whole", "whole"]
    assert (length_of(TABLE, "x" * 599), length_of(TABLE, "x" * 600)) == ("short", "long")
