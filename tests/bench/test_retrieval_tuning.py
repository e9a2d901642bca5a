"""Weights are learnt from what tells evidence apart, and judged on conversations they did not see."""

import numpy as np
import pytest

from gaiad.bench.retrieval_data import RetrievalQuestion
from tests.bench.retrieval_tuning import PARTS, WEIGHTS_SUM, Talk, TuningQuestion, learn, left_out, settings


def made(name, seed, telling):
    """Ten questions whose evidence is the best candidate by part `telling`; the other parts are noise."""
    source = np.random.default_rng(seed)
    asked = []
    for number in range(10):
        parts = source.random((20, len(PARTS)), np.float32)
        holds = parts[:, PARTS.index(telling)] == parts[:, PARTS.index(telling)].max()
        unit = f"{name}-{number}-{int(np.flatnonzero(holds)[0])}"
        pages = [(f"{name}-{number}-{place}", name) for place in range(20)]
        asked.append(TuningQuestion(RetrievalQuestion("?", "1", {unit: 1}), pages, parts, holds))
    units = {page: [page] for one in asked for page, _ in one.pages}
    return Talk(name, asked, units, dict.fromkeys(units, name))


def test_the_part_that_tells_gets_the_weight():
    weights = learn(made("a", 1, "dense").asked + made("b", 2, "dense").asked)
    assert PARTS[int(weights.argmax())] == "dense"
    assert weights.max() > 3 * np.sort(weights)[-2]
    assert weights.min() >= 0


def test_a_conversation_left_out_is_judged_by_what_the_others_teach():
    agreeing = left_out([made(name, seed, "window") for seed, name in enumerate("abc")], 0.0)
    assert np.mean([row["turn recall@5"] for row in agreeing]) > 0.9
    opposed = left_out([made("a", 1, "window"), made("b", 2, "name")], 0.0)
    assert np.mean([row["turn recall@5"] for row in opposed]) < 0.6


def test_settings_are_named_as_in_the_configuration():
    found = settings(np.ones(len(PARTS), np.float32))
    assert set(found) == {f"weight_{part}" for part in PARTS}
    assert sum(found.values()) == pytest.approx(WEIGHTS_SUM, abs=0.01)
