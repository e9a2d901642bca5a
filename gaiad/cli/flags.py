"""Flags into requests: dates, metric ranges and the filters that search, ask and packets share.

A date on a flag is a day in the user's zone; so is a time that names none. "yesterday" and "last week" are read as in
a question.
"""

import os
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, tzinfo
from typing import TYPE_CHECKING, Any

import click

from gaiad.cli.command import invocation

if TYPE_CHECKING:
    from gaiad.wire.schemas import Filters, MetricRange

_DATE_HINT = 'write a day as 2025-11-30, a time as 2025-11-30T15:45, or words such as yesterday or "last week"'


def moment(text: str, zone: tzinfo, after_day: bool = False, now: datetime | None = None) -> str:
    """A day, a time or a date in words, as questions understand them, as UTC ISO 8601.

    A date that lasts (a day, "last week") is its beginning, with `after_day` the moment after its end. Words count
    from `now`. Raises BadParameter naming the text.
    """
    from gaiad.base.clock import SystemClock, to_iso

    try:
        if len(text) == len("2025-11-30"):
            day = date.fromisoformat(text) + timedelta(days=1 if after_day else 0)
            return to_iso(datetime.combine(day, time(), zone))
        found = datetime.fromisoformat(text)
        return to_iso(found if found.tzinfo else found.replace(tzinfo=zone))
    except (ValueError, OverflowError) as error:
        if in_words := _in_words(text, zone, after_day, now or SystemClock().now()):
            return to_iso(in_words)
        raise click.BadParameter(f"{text!r} is not a valid date; {_DATE_HINT}") from error


def _in_words(text: str, zone: tzinfo, after_day: bool, now: datetime) -> datetime | None:
    """The one end of the period that the whole text names; None when it names none."""
    from gaiad.research.dates import find_periods

    words = " ".join(text.split())
    for phrase in (words, f"in {words}", f"on {words}"):
        for period in find_periods(phrase, now, zone):
            if period.end - period.start == len(phrase):
                return (period.until if after_day else period.since) or period.since or period.until
    return None


def metric_range(text: str) -> "MetricRange":
    """`name:min..max`, either end open, or `name:value`. Raises BadParameter naming the text."""
    from gaiad.wire.schemas import MetricRange

    name, colon, bounds = text.rpartition(":")
    low, dots, high = bounds.partition("..")
    try:
        minimum = float(low) if low else None
        maximum = (float(high) if high else None) if dots else minimum
    except ValueError:
        minimum = maximum = None
    if not name or not colon or (minimum is None and maximum is None):
        raise click.BadParameter(f"{text!r}: write a metric as name:min..max, name:min.., name:..max or name:value")
    if minimum is not None and maximum is not None and minimum > maximum:
        raise click.BadParameter(f"{text!r}: the minimum is above the maximum; swap them")
    return MetricRange(name=name, minimum=minimum, maximum=maximum)


def user_zone() -> tzinfo:
    """The zone of dates on flags: user.timezone of this user's settings, else the machine's."""
    from gaiad.base.clock import load_zone
    from gaiad.base.config import load_config, user_files

    home = invocation().find_home().root
    return load_zone(load_config(user_files(home, os.environ)).user.timezone)


def filters_from(given: dict[str, Any]) -> "Filters":
    """The Filters of the options that `filter_options` adds."""
    from gaiad.wire.schemas import Filters

    zone = user_zone() if given["since"] or given["until"] else None
    return Filters(
        since=moment(given["since"], zone) if zone and given["since"] else "",
        until=moment(given["until"], zone, after_day=True) if zone and given["until"] else "",
        models=list(given["model"]),
        topics=list(given["topic"]),
        tags=list(given["tag"]),
        metrics=[metric_range(text) for text in given["metric"]],
    )


def filter_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the exact filters; a verb passes what they gave, as a whole, to `filters_from`."""
    options = [
        click.option("--since", default="", metavar="DATE", help='Not before this date; also yesterday, "last week".'),
        click.option("--until", default="", metavar="DATE", help="Up to the end of this date."),
        click.option("--model", multiple=True, metavar="NAME", help="Only packets of this model; may repeat."),
        click.option("--topic", multiple=True, metavar="TEXT", help="Only packets on this topic; may repeat."),
        click.option("--tag", multiple=True, metavar="TAG", help="Only packets with this tag; may repeat."),
        click.option(
            "--metric", multiple=True, metavar="NAME:MIN..MAX", help="Only packets with this metric in range."
        ),
    ]
    for option in reversed(options):
        function = option(function)
    return function
