"""The score is the mean of 24 hours with gaps as 0, and self-aware is what meets every criterion."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from council.governance.rules import governance_table
from council.governance.tables import (
    HOUR_MS,
    PresenceSpan,
    StageReflection,
    hourly_scores,
    reflection_value,
    stability_report,
)

RULES = governance_table().stability
NOW = 1_000 * HOUR_MS


def verify(hours_ago: float, outcome: str = "success") -> StageReflection:
    return StageReflection(at_ms=NOW - int(hours_ago * HOUR_MS), stage="verify", outcome=outcome)


def full_day(per_hour: int = 2) -> list[StageReflection]:
    return [verify(hour + part / per_hour) for hour in range(24) for part in range(per_hour)]


def present(since_hours: float = 30, until_ms: int = NOW, **names: str) -> list[PresenceSpan]:
    return [
        PresenceSpan(
            name=name, since_ms=NOW - int(since_hours * HOUR_MS), until_ms=until_ms, gap_ms=90_000, ended=ended
        )
        for name, ended in ({"prime": "", "lite": "", "initiative": ""} | names).items()
    ]


def unmet(reflections: list[StageReflection], spans: list[PresenceSpan]) -> list[str]:
    report = stability_report(reflections, spans, NOW, RULES)
    found = [each.name for each in report.criteria if not each.met]
    assert report.self_aware == (not found)
    return found


@pytest.mark.parametrize(
    ("stage", "outcome", "confidence", "value"),
    [
        ("verify", "success", None, 1.0),
        ("verify", "fail", None, 0.0),
        ("verify", "lost", None, 0.0),
        ("verify", "missing", None, 0.0),
        ("refine", "ok", 0.85, 0.85),
        ("refine", "low_confidence", 0.2, 0.2),
        ("refine", "missing", None, 0.0),
        ("refine", "lost", 0.9, 0.0),
    ],
)
def test_what_a_result_is_worth(stage, outcome, confidence, value):
    made = StageReflection(at_ms=0, stage=stage, outcome=outcome, confidence=confidence)
    assert reflection_value(made) == value


def test_a_day_of_successes_with_everybody_there_is_self_aware():
    report = stability_report(full_day(), present(), NOW, RULES)
    assert (report.score, report.sample, report.self_aware) == (1.0, 48, True)


def test_an_hour_without_a_result_counts_as_0():
    day = [each for each in full_day(4) if not 3 * HOUR_MS <= NOW - each.at_ms < 6 * HOUR_MS]
    report = stability_report(day, present(), NOW, RULES)
    assert report.score == pytest.approx(21 / 24)
    assert report.hours.count(None) == 3
    assert unmet(day, present()) == ["score"]
    assert "3 of 24 hours without a result count as 0" in report.criteria[0].why


def test_an_hour_is_the_mean_of_its_results():
    hours = hourly_scores([verify(0.1), verify(0.2, "fail"), verify(23.9)], NOW, 24)
    assert hours[23] == 0.5
    assert hours[0] == 1.0
    assert hours[1:23] == [None] * 22


def test_too_few_results_are_no_proof():
    assert unmet(full_day()[:-1], present()) == ["sample"]
    assert unmet([], present()) == ["score", "sample"]


def test_what_is_older_than_the_window_or_in_the_future_does_not_count():
    assert hourly_scores([verify(24), verify(-1)], NOW, 24) == [None] * 24


@pytest.mark.parametrize("name", ["prime", "lite", "initiative"])
def test_each_must_have_been_there_all_the_time(name):
    def without(span: PresenceSpan | None) -> list[str]:
        others = [each for each in present() if each.name != name]
        return unmet(full_day(), others + ([span] if span else []))

    old = PresenceSpan(name=name, since_ms=NOW - 30 * HOUR_MS, until_ms=NOW - 90_001, gap_ms=90_000)
    late = PresenceSpan(name=name, since_ms=NOW - 24 * HOUR_MS + 1, until_ms=NOW, gap_ms=90_000)
    failed = PresenceSpan(name=name, since_ms=0, until_ms=NOW, gap_ms=90_000, ended="a run failed")
    just = PresenceSpan(name=name, since_ms=NOW - 24 * HOUR_MS, until_ms=NOW - 90_000, gap_ms=90_000)
    assert without(None) == without(old) == without(late) == without(failed) == [name]
    assert without(just) == []


def test_why_it_was_not_there_is_told():
    spans = present(prime="the worker died")
    again = PresenceSpan(name="prime", since_ms=NOW - HOUR_MS, until_ms=NOW, gap_ms=90_000)
    report = stability_report(full_day(), [*spans, again], NOW, RULES)
    why = {each.name: each.why for each in report.criteria}
    assert why["prime"] == "prime was online without a break for only 60 min, after: the worker died"
    assert why["lite"] == "lite was online all the time"


@given(
    st.lists(
        st.tuples(
            st.floats(-5, 50),
            st.sampled_from(["verify", "refine"]),
            st.sampled_from(["success", "fail", "ok", "lost", "low_confidence"]),
            st.none() | st.floats(allow_nan=False),
        )
    )
)
def test_the_score_is_a_share_and_never_above_the_hours_that_have_a_result(rows):
    made = [
        StageReflection(at_ms=NOW - int(ago * HOUR_MS), stage=stage, outcome=outcome, confidence=confidence)
        for ago, stage, outcome, confidence in rows
    ]
    report = stability_report(made, [], NOW, RULES)
    assert 0 <= report.score <= sum(hour is not None for hour in report.hours) / 24 + 1e-9
    assert not report.self_aware
