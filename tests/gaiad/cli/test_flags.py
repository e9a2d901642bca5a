"""Dates and metric ranges on flags."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import click
import pytest

from gaiad.cli.flags import filters_from, metric_range, moment
from gaiad.wire.schemas import MetricRange

BERLIN = ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize(
    ("text", "after_day", "expected"),
    [
        ("2025-11-30", False, "2025-11-29T23:00:00Z"),
        ("2025-11-30", True, "2025-11-30T23:00:00Z"),
        ("2025-03-30", True, "2025-03-30T22:00:00Z"),
        ("2025-11-30T15:45", True, "2025-11-30T14:45:00Z"),
        ("2025-11-30T15:45:00Z", False, "2025-11-30T15:45:00Z"),
        ("2025-11-30T15:45:00-05:00", False, "2025-11-30T20:45:00Z"),
    ],
)
def test_a_date_is_a_day_of_the_users_zone_and_summer_time_is_minded(text: str, after_day: bool, expected: str) -> None:
    assert moment(text, BERLIN, after_day) == expected


@pytest.mark.parametrize(
    ("text", "since", "until"),
    [
        ("yesterday", "2025-11-26", "2025-11-27"),
        ("Last  week", "2025-11-17", "2025-11-24"),
        ("3 days ago", "2025-11-24", "2025-11-25"),
        ("march 2024", "2024-03-01", "2024-04-01"),
        ("November", "2025-11-01", "2025-12-01"),
        ("2024", "2024-01-01", "2025-01-01"),
        ("monday", "2025-11-24", "2025-11-25"),
        ("since monday", "2025-11-24", "2025-11-24"),
        ("the 3rd of may", "2025-05-03", "2025-05-04"),
    ],
)
def test_dates_in_words_are_those_of_questions(text: str, since: str, until: str) -> None:
    now = datetime(2025, 11, 27, 12, tzinfo=UTC)
    assert moment(text, UTC, now=now) == f"{since}T00:00:00Z"
    assert moment(text, UTC, after_day=True, now=now) == f"{until}T00:00:00Z"


@pytest.mark.parametrize("text", ["soonish", "2025-02-30", "", "9999-12-31", "garden in march 2024"])
def test_an_invalid_date_is_named(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not a valid date"):
        moment(text, timezone(-timedelta(hours=12)) if text == "9999-12-31" else UTC, after_day=True)


@pytest.mark.parametrize(
    ("text", "minimum", "maximum"),
    [("c:0.5..0.9", 0.5, 0.9), ("c:0.5..", 0.5, None), ("c:..0.9", None, 0.9), ("c:0.7", 0.7, 0.7), ("c:-1..1", -1, 1)],
)
def test_a_metric_range_may_be_open_or_one_value(text: str, minimum: float, maximum: float) -> None:
    assert metric_range(text) == MetricRange(name="c", minimum=minimum, maximum=maximum)


def test_a_metric_name_may_hold_a_colon() -> None:
    assert metric_range("a:b:1..2").name == "a:b"


@pytest.mark.parametrize("text", ["c", "c:", "c:..", ":1..2", "c:x..y", "c:2..1", "c:1...2"])
def test_a_wrong_metric_range_is_named(text: str) -> None:
    with pytest.raises(click.BadParameter) as caught:
        metric_range(text)
    assert repr(text) in caught.value.message


def test_filters_without_dates_read_no_settings() -> None:
    given: dict[str, Any] = {
        "since": "",
        "until": "",
        "model": ("m",),
        "topic": (),
        "tag": ("a", "b"),
        "metric": ("c:1",),
    }
    found = filters_from(given)
    assert (found.models, found.tags, found.metrics[0].name, found.since) == (["m"], ["a", "b"], "c", "")
