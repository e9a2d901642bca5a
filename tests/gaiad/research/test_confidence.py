import pytest

from gaiad.research.reflect import CAP, PARTIAL_CAP, band, combine, final, main_reason


@pytest.mark.parametrize(
    ("confidence", "expected"),
    [(0.0, "LOW"), (0.49, "LOW"), (0.5, "MEDIUM"), (0.65, "MEDIUM"), (0.74, "MEDIUM"), (0.75, "HIGH"), (1.0, "HIGH")],
)
def test_the_bands(confidence: float, expected: str) -> None:
    assert band(confidence) == expected


def test_all_criteria_met_is_as_certain_as_it_gets_and_none_at_most_half_of_that() -> None:
    assert combine(1, 1, 1, 1) == CAP
    assert combine(0, 0, 0, 0) == 0.5
    assert combine(1, 1, 1, 0) == pytest.approx(0.9)


def test_an_answer_is_no_surer_than_it_is_likely_that_its_packets_are_the_right_ones() -> None:
    assert combine(1, 1, 1, 1, 0.6) == pytest.approx(0.6)
    assert combine(1, 0.5, 1, 1, 0.6) == pytest.approx(0.57)
    assert combine(1, 1, 1, 1, 0) == 0.0


def test_a_partial_answer_is_never_high() -> None:
    assert final(0.95, "PARTIAL", 3, 0) == PARTIAL_CAP


def test_an_answer_whose_packets_contradict_each_other_is_never_high() -> None:
    assert final(0.95, "SUCCESS", 3, 0, doubtful=True) < 0.75


def test_citations_that_failed_lower_it() -> None:
    assert final(0.8, "SUCCESS", 3, 1) == 0.6


@pytest.mark.parametrize("status", ["NOT_FOUND", "CLARIFY"])
def test_no_answer_has_no_confidence(status: str) -> None:
    assert final(0.9, status, 1, 0) == 0.0  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("values", "taken", "reason"),
    [
        ((1, 0.9, 1, 1, 0.43), 0.0, "the quotes may not hold the answer (likelihood 0.43)"),
        ((0.2, 0.9, 1, 1, 0.9), 0.0, "it leaves out words of the question (coverage 0.20)"),
        ((0.9, 0.2, 1, 1, 1), 0.0, "other pages say nearly as much (specificity 0.20)"),
        ((1, 1, 0, 1, 1), 0.0, "not all of it is of the time asked about (temporality 0.00)"),
        ((1, 1, 1, 0.4, 1), 0.0, "a part of what was asked is missing (completeness 0.40)"),
        ((1, 0.9, 1, 1, 0.9), 0.2, "its packets contradict each other"),
    ],
)
def test_the_main_reason_is_what_takes_most(values: tuple[float, ...], taken: float, reason: str) -> None:
    assert main_reason(combine(*values) - taken, *values, "its packets contradict each other") == reason
