"""Bounds of numbers, and how long many take to read; the rest is tested with sentences that disagree."""

import math
import time

import pytest

from gaiad.research.sentence_values import read_numbers


@pytest.mark.parametrize(
    ("said", "low", "high"),
    [
        ("no fewer than 7", 7, math.inf),
        ("fewer than 7", -math.inf, 7),
        ("no more than 7", -math.inf, 7),
        ("more than 7", 7, math.inf),
    ],
)
def test_the_longest_phrase_says_which_bound_is_meant(said: str, low: float, high: float) -> None:
    (one,) = read_numbers(f"There were {said} cats.").quantities
    assert (one.low, one.high) == (low, high)


def test_many_numbers_cost_no_square_of_them() -> None:
    began = time.process_time()
    quantities = read_numbers("no fewer than 7 cats, " * 10_000).quantities
    assert len(quantities) == 10_000
    assert {one.text for one in quantities} == {"no fewer than 7 cats"}
    assert time.process_time() - began < 15  # a square of them takes minutes
