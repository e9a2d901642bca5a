"""Bodies of numbers have no rule names, so that a regular expression can stand for llama.cpp."""

import re
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaiad.models.grammar.gbnf_writer import BadGrammar
from gaiad.models.grammar.number_ranges import decimals, integers

WHOLE = st.integers(-2000, 2000)
PARTS = st.decimals(-30, 30, places=3)


def fits(body, text):
    pattern = re.sub(r'"([^"]*)"', lambda found: re.escape(found[1]), body).replace(" ", "")
    return re.fullmatch(pattern, text) is not None


@given(st.tuples(WHOLE, WHOLE).map(sorted), WHOLE)
def test_whole_numbers_between_two_bounds_and_no_others(bounds, value):
    low, high = bounds
    assert fits(integers(low, high), str(value)) == (low <= value <= high)


@given(st.tuples(PARTS, PARTS).map(sorted), PARTS)
def test_decimals_between_two_bounds_and_no_others(bounds, value):
    low, high = bounds
    body = decimals(low, high)
    assert fits(body, f"{value:.3f}") == (low <= value <= high)
    assert fits(body, f"{value.normalize():f}") == (low <= value <= high)
    assert not fits(body, f"{high}0000001")


@pytest.mark.parametrize(
    ("low", "high", "yes", "no"),
    [
        (None, None, ["0", "-17", "999999999999999"], ["007", "1.0", "", "-"]),
        (5, None, ["5", "123456789"], ["4", "-5"]),
        (None, -3, ["-3", "-99999"], ["-2", "3"]),
        (10**15, None, [str(10**15)], ["12"]),
    ],
)
def test_bounds_on_one_side(low, high, yes, no):
    body = integers(low, high)
    assert [text for text in yes if not fits(body, text)] == []
    assert [text for text in no if fits(body, text)] == []


def test_a_confidence_is_from_0_to_1():
    body = decimals(Decimal(0), Decimal(1))
    for text in ("0", "1", "0.5", "0.123456", "1.0", "0.0"):
        assert fits(body, text), text
    for text in ("1.1", "2", "1.000001", "01", ".5", "0.", "1e3"):
        assert not fits(body, text), text


def test_bounds_between_which_nothing_lies_are_refused():
    with pytest.raises(BadGrammar, match="no whole number lies between 3 and 2"):
        integers(3, 2)
    with pytest.raises(BadGrammar, match="6 decimals"):
        decimals(Decimal("0.1234561"), Decimal("0.1234569"))
