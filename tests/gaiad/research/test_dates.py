"""Dates in words against a clock that stands at Monday 15 December 2025, 12:00 UTC."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaiad.base.clock import FrozenClock
from gaiad.research.dates import find_periods, hull, moved, read_days

CLOCK = FrozenClock(datetime(2025, 12, 15, 12, tzinfo=UTC))


def days(text: str) -> tuple[str, str]:
    """(since, until) of the whole question as dates, "" when open."""
    since, until = hull(find_periods(text, CLOCK.now(), CLOCK.zone))
    return (since.date().isoformat() if since else "", until.date().isoformat() if until else "")


@pytest.mark.parametrize(
    ("text", "since", "until"),
    [
        ("What did we discuss in November?", "2025-11-01", "2025-12-01"),
        ("in December", "2025-12-01", "2026-01-01"),
        ("in January", "2025-01-01", "2025-02-01"),
        ("November 2024", "2024-11-01", "2024-12-01"),
        ("on 27 November 2025", "2025-11-27", "2025-11-28"),
        ("Nov 27, 2025", "2025-11-27", "2025-11-28"),
        ("November 27th", "2025-11-27", "2025-11-28"),
        ("the 27th of November", "2025-11-27", "2025-11-28"),
        ("on Dec 20", "2024-12-20", "2024-12-21"),
        ("2025-11-27", "2025-11-27", "2025-11-28"),
        ("in 2025-11", "2025-11-01", "2025-12-01"),
        ("today", "2025-12-15", "2025-12-16"),
        ("yesterday", "2025-12-14", "2025-12-15"),
        ("the day before yesterday", "2025-12-13", "2025-12-14"),
        ("this week", "2025-12-15", "2025-12-22"),
        ("last week", "2025-12-08", "2025-12-15"),
        ("last month", "2025-11-01", "2025-12-01"),
        ("last year", "2024-01-01", "2025-01-01"),
        ("earlier this month", "2025-12-01", "2026-01-01"),
        ("3 days ago", "2025-12-12", "2025-12-13"),
        ("two weeks ago", "2025-12-01", "2025-12-08"),
        ("a month ago", "2025-11-01", "2025-12-01"),
        ("14 months ago", "2024-10-01", "2024-11-01"),
        ("in the last 7 days", "2025-12-08", "2025-12-16"),
        ("over the past two weeks", "2025-12-01", "2025-12-16"),
        ("between March and May 2025", "2025-03-01", "2025-06-01"),
        ("between November and January", "2024-11-01", "2025-02-01"),
        ("from March 3 to April 2", "2025-03-03", "2025-04-03"),
        ("from 2025-11-01 to 2025-11-05", "2025-11-01", "2025-11-06"),
        ("from Wednesday to Friday", "2025-12-10", "2025-12-13"),
        ("from Friday to today", "2025-12-12", "2025-12-16"),
        ("since October", "2025-10-01", ""),
        ("after November 2025", "2025-12-01", ""),
        ("before 2025-11-01", "", "2025-11-01"),
        ("until 5 May 2025", "", "2025-05-06"),
        ("after March and before June", "2025-04-01", "2025-06-01"),
        ("after November and before March", "2024-12-01", "2025-03-01"),
        ("since November until February", "2024-11-01", "2025-03-01"),
        ("after June 2026 and before March 2026", "", ""),
        ("since 2026 but before 2025", "", ""),
        ("from 2024 on, until 9999-12-30", "2024-01-01", "2025-01-01"),
        ("in 2025", "2025-01-01", "2026-01-01"),
        ("in early 2025", "2025-01-01", "2025-05-02"),
        ("in late 2025", "2025-09-02", "2026-01-01"),
        ("in mid-November", "2025-11-11", "2025-11-21"),
        ("in Q3 2025", "2025-07-01", "2025-10-01"),
        ("on Monday", "2025-12-15", "2025-12-16"),
        ("last Monday", "2025-12-08", "2025-12-09"),
        ("on Thursday", "2025-12-11", "2025-12-12"),
        ("in May", "2025-05-01", "2025-06-01"),
        ("on 1 February, 2023", "2023-02-01", "2023-02-02"),
        ("between May 3 and 5 May 2024", "2024-05-03", "2024-05-06"),
        ("last November", "2025-11-01", "2025-12-01"),
        ("last March", "2025-03-01", "2025-04-01"),
        ("last December", "2024-12-01", "2025-01-01"),
        ("this November", "2025-11-01", "2025-12-01"),
        ("since last November", "2025-11-01", ""),
        ("last weekend", "2025-12-13", "2025-12-15"),
        ("this weekend", "2025-12-20", "2025-12-22"),
        ("in the week before last", "2025-12-01", "2025-12-08"),
        ("last quarter", "2025-07-01", "2025-10-01"),
        ("this quarter", "2025-10-01", "2026-01-01"),
        ("late last month", "2025-11-21", "2025-12-01"),
        ("this morning", "2025-12-15", "2025-12-16"),
        ("at the end of October", "2025-10-22", "2025-11-01"),
        ("end of November 2025", "2025-11-21", "2025-12-01"),
        ("in the first week of November", "2025-11-01", "2025-11-08"),
        ("the last week of October", "2025-10-25", "2025-11-01"),
        ("in the second half of November", "2025-11-16", "2025-12-01"),
        ("in the first half of 2025", "2025-01-01", "2025-07-01"),
        ("the third quarter of 2025", "2025-07-01", "2025-10-01"),
        ("the week of November 26", "2025-11-24", "2025-12-01"),
        ("last summer", "2025-06-01", "2025-09-01"),
        ("in the winter", "2025-12-01", "2026-03-01"),
        ("last winter", "2024-12-01", "2025-03-01"),
        ("in spring 2025", "2025-03-01", "2025-06-01"),
        ("November 3-5", "2025-11-03", "2025-11-06"),
        ("from 3 to 5 November", "2025-11-03", "2025-11-06"),
        ("November 3 to December 10", "2025-11-03", "2025-12-11"),
        ("between the 3rd and the 5th of November", "2025-11-03", "2025-11-06"),
        ("2025-11-01 to 2025-11-05", "2025-11-01", "2025-11-06"),
        ("on 11/27/2025", "2025-11-27", "2025-11-28"),
        ("on 27.11.2025", "2025-11-27", "2025-11-28"),
        ("on the 27th?", "2025-11-27", "2025-11-28"),
        ("earlier than November", "", "2025-11-01"),
        ("later than 5 November", "2025-11-06", ""),
        ("no later than November", "", "2025-12-01"),
        ("two weeks before November 27", "2025-11-13", "2025-11-27"),
        ("the 3 days after November 27", "2025-11-28", "2025-12-01"),
        ("the week before last week", "2025-12-01", "2025-12-08"),
        ("in November before the 20th", "2025-11-01", "2025-11-20"),
        ("in November since 10 November", "2025-11-10", "2025-12-01"),
    ],
)
def test_words_name_days(text: str, since: str, until: str) -> None:
    assert days(text) == (since, until)


@pytest.mark.parametrize(
    "text",
    [
        "What may we conclude?",
        "Where did the last march end?",
        "The last may be first",
        "Where did they march to?",
        "What did April say about it?",
        "The troops march on",
        "the 2025 roadmap",
        "packet tp-20251127-033715",
        "31 February 2025",
        "2025-02-30",
        "an august gathering",
        "the second hand",
        "version 2.0 of 12 sections",
        "on 10/11/2025",
        "on 31.02.2025",
        "the 27th packet",
        "the 19th century",
        "the third half of it",
        "fall back to the spring",
        "the weekend",
        "How many days after dinner?",
        "The cell will last 90 days on one charge",
        "A roof made to last ten years",
    ],
)
def test_words_that_are_no_dates_are_left_alone(text: str) -> None:
    assert find_periods(text, CLOCK.now(), CLOCK.zone) == []


def test_a_day_is_a_day_of_the_users_zone() -> None:
    zone = ZoneInfo("America/Chicago")
    (period,) = find_periods("yesterday", datetime(2025, 12, 15, 3, tzinfo=UTC), zone)
    assert period.since == datetime(2025, 12, 13, 6, tzinfo=UTC)
    assert period.until == datetime(2025, 12, 14, 6, tzinfo=UTC)


def test_a_period_says_where_its_words_stand() -> None:
    question = "What was said about RAG in November?"
    (period,) = find_periods(question, CLOCK.now(), CLOCK.zone)
    assert question[period.start : period.end] == period.text == "in November"


def test_a_month_that_runs_counts_as_this_years() -> None:
    (period,) = find_periods("in November", datetime(2025, 11, 2, tzinfo=UTC), UTC)
    assert period.since == datetime(2025, 11, 1, tzinfo=UTC)


def test_a_quarter_without_its_year_is_not_in_the_future() -> None:
    (period,) = find_periods("What did we decide in Q4?", datetime(2026, 2, 10, tzinfo=UTC), UTC)
    assert (period.since, period.until) == (datetime(2025, 10, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC))
    (period,) = find_periods("in Q1", datetime(2026, 2, 10, tzinfo=UTC), UTC)
    assert period.since == datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York"])
@pytest.mark.parametrize(
    "text", ["on 0001-01-01", "on 9999-12-30", "999 years before 0500-01-01", "999 years after 9500-01-01"]
)
def test_days_at_the_calendars_ends_are_not_meant(text: str, zone: str) -> None:
    assert find_periods(text, CLOCK.now(), ZoneInfo(zone)) == []


def test_no_time_beyond_the_calendar_is_open() -> None:
    first = datetime.min.replace(tzinfo=UTC)
    assert moved(first, timedelta(days=-1)) is None
    assert moved(first, timedelta(days=1)) == first + timedelta(days=1)


def test_an_unknown_expression_is_none() -> None:
    assert read_days("in a while", CLOCK.now().date()) is None


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=80))
def test_any_text_is_read_with_true_offsets(text: str) -> None:
    for period in find_periods(text, CLOCK.now(), CLOCK.zone):
        assert text[period.start : period.end] == period.text
        assert period.since is None or period.until is None or period.since < period.until


@pytest.mark.parametrize(
    ("text", "since"),
    [
        ("in November", "2024-11-01"),
        ("in October", "2025-10-01"),
        ("on November 27", "2024-11-27"),
        ("November 2025", "2025-11-01"),
        ("last month", "2025-11-01"),
        ("between October and November", "2025-10-01"),
    ],
)
def test_a_month_without_its_year_is_not_later_than_the_newest_packet(text: str, since: str) -> None:
    newest = datetime(2025, 10, 20, tzinfo=UTC)
    found, _ = hull(find_periods(text, CLOCK.now(), CLOCK.zone, newest))
    assert found is not None
    assert found.date().isoformat() == since


def test_a_range_ends_after_it_starts() -> None:
    newest, now = datetime(2025, 11, 20, tzinfo=UTC), datetime(2026, 3, 10, tzinfo=UTC)
    found = hull(find_periods("between November and February", now, UTC, newest))
    assert found == (datetime(2025, 11, 1, tzinfo=UTC), datetime(2026, 3, 1, tzinfo=UTC))


def test_a_packet_from_the_future_does_not_move_the_present() -> None:
    newest = datetime(2030, 1, 1, tzinfo=UTC)
    found, _ = hull(find_periods("in November", CLOCK.now(), CLOCK.zone, newest))
    assert found == datetime(2025, 11, 1, tzinfo=UTC)
