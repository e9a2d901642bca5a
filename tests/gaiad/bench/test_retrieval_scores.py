"""The measures have the values their definitions give, and the intervals hold the means."""

import pytest

from gaiad.bench import retrieval as scores

RANKING = ["a", "b", "c", "d"]


def test_recall_all_and_hit_look_at_the_first_places_only():
    assert scores.recall(RANKING, ["b", "d"], 2) == 0.5
    assert scores.recall(RANKING, ["b", "d"], 4) == 1.0
    assert scores.all_found(RANKING, ["b", "d"], 3) == 0.0
    assert scores.all_found(RANKING, ["b", "d"], 4) == 1.0
    assert scores.hit(RANKING, ["d", "x"], 3) == 0.0
    assert scores.hit(RANKING, ["d", "x"], 4) == 1.0


def test_the_reciprocal_rank_is_of_the_first_found():
    assert scores.reciprocal_rank(RANKING, ["c", "d"]) == pytest.approx(1 / 3)
    assert scores.reciprocal_rank(RANKING, ["x"]) == 0.0


def test_ndcg_by_hand():
    grades = {"a": 0, "b": 2, "c": 1, "x": 1}
    found = 2 / 1.584962500721156 + 1 / 2
    ideal = 2 + 1 / 1.584962500721156 + 1 / 2
    assert scores.discounted_gain(RANKING, grades, 10) == pytest.approx(found / ideal)
    assert scores.discounted_gain(["b", "c", "x"], grades, 10) == pytest.approx(1.0)
    assert scores.discounted_gain(["c", "b"], {"b": 1}, 1) == 0.0
    assert scores.discounted_gain(RANKING, {}, 10) == 0.0


def test_intervals_hold_the_mean_and_are_the_same_each_time():
    rows = [{"hit": float(number % 3 == 0)} for number in range(90)]
    low, high = scores.intervals(rows)["hit"]
    assert low < scores.means(rows)["hit"] == 0.3333 < high
    assert 0.2 < low < 0.28 < 0.38 < high < 0.47
    assert scores.intervals(rows) == scores.intervals(rows)
    assert scores.intervals([{"hit": 1.0}] * 5)["hit"] == [1.0, 1.0]
    assert scores.means([]) == scores.intervals([]) == {}
