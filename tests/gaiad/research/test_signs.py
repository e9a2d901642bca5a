"""What has no sign contradicts nothing: held against every pair of the labelled sentences."""

import tomllib
from itertools import product
from pathlib import Path

import pytest

from gaiad.research.assertions import read_assertion
from gaiad.research.contradictions import compare
from gaiad.research.disagreement import may_overturn, signs_of

_PAIRS = tomllib.loads(Path(__file__).with_name("disagreeing_pairs.toml").read_text())


def _sentences(table: object) -> list[str]:
    if isinstance(table, str):
        return [table]
    values = table.values() if isinstance(table, dict) else table if isinstance(table, list) else []
    return [sentence for value in values for sentence in _sentences(value)]


def test_whatever_overturns_another_sentence_shows_a_sign() -> None:
    sentences = [one for one in _sentences(_PAIRS) if " " in one][:160]
    overturned = 0
    for one, other in product(sentences, sentences):
        relation = compare(read_assertion(one), read_assertion(other))
        if relation is None or not (relation.kind == "contradiction" or relation.replaces == "second"):
            continue
        overturned += 1
        assert may_overturn(signs_of(one), signs_of(other)), (one, other)
        if relation.replaces == "second":
            assert signs_of(other).replaces or signs_of(other).gives_up, (one, other)
    assert overturned > 20


@pytest.mark.parametrize(
    ("one", "other", "may"),
    [
        ("Mara has a boat by the lake", "Mara sees her boat", False),
        ("Mara doesn't have a boat", "Mara has a boat", True),
        ("The boat is open", "The boat is closed", True),
        ("The boat cost 40 dollars", "The boat is blue", False),
        ("The boat cost 40 dollars", "The boat cost forty-two dollars", True),
        ("We meet on Monday", "We meet in March", True),
        ("We meet Monday", "We meet Tom", False),
        ("Mara lives in Graz", "Mara lives in Linz", True),
        ("Mara has a boat", "We no longer use the boat", True),
    ],
)
def test_signs_of_two_sentences(one: str, other: str, may: bool) -> None:
    assert may_overturn(signs_of(one), signs_of(other)) is may
