"""Ranges of metrics in words."""

import pytest

from gaiad.research.entities import find_metrics, without_metrics

SPOKEN = {"critical_thinking": ("critical thinking",), "sycophancy_level": ("sycophancy level", "sycophancy")}


@pytest.mark.parametrize(
    ("text", "name", "low", "high"),
    [
        ("critical thinking above 0.9", "critical_thinking", 0.9, None),
        ("with a critical thinking score of at least 0.9", "critical_thinking", 0.9, None),
        ("critical thinking ≥ .85", "critical_thinking", 0.85, None),
        ("critical_thinking>=0.9", "critical_thinking", 0.9, None),
        ("where critical thinking is over 90%", "critical_thinking", 0.9, None),
        ("critical thinking 0.9 or higher", "critical_thinking", 0.9, None),
        ("sycophancy level below .3", "sycophancy_level", None, 0.3),
        ("sycophancy of no more than 0.3", "sycophancy_level", None, 0.3),
        ("sycophancy between 0.5 and 0.2", "sycophancy_level", 0.2, 0.5),
        ("sycophancy level from 0.2 to 0.5", "sycophancy_level", 0.2, 0.5),
        ("a sycophancy level of 0.72", "sycophancy_level", 0.72, 0.72),
        ("packets with high sycophancy", "sycophancy_level", 0.7, None),
        ("sessions with a very low sycophancy level", "sycophancy_level", None, 0.3),
    ],
)
def test_words_name_a_range(text: str, name: str, low: float | None, high: float | None) -> None:
    (found,) = find_metrics(text, SPOKEN)
    assert (found.range.name, found.range.minimum, found.range.maximum) == (name, low, high)


@pytest.mark.parametrize("text", ["Why is high sycophancy bad?", "critical thinking", "sycophancy above 2025-11"])
def test_words_without_a_bound_name_none(text: str) -> None:
    assert find_metrics(text, SPOKEN) == []


def test_two_ranges_are_taken_out_of_the_question() -> None:
    question = "List schema packets with sycophancy below 0.3 and critical thinking of at least 0.9 please"
    found = find_metrics(question, SPOKEN)
    assert [one.range.name for one in found] == ["critical_thinking", "sycophancy_level"]
    assert without_metrics(question, found) == "List schema packets with and please"
