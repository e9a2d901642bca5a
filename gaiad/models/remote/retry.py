"""When a remote server is asked again, and how long to wait before it. Pure: the random source is passed in."""

from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import msgspec

PASSING = frozenset({429, 500, 502, 503, 504})


class RetryRule(msgspec.Struct, frozen=True, kw_only=True):
    """`tries` in all; waits double from `first_s` up to `longest_s`, and a server may ask for at most `asked_s`."""

    tries: int = 4
    first_s: float = 0.5
    longest_s: float = 8.0
    asked_s: float = 30.0


def wait_s(rule: RetryRule, failures: int, asked_s: float | None, random: Callable[[], float]) -> float | None:
    """Seconds until the next try after so many failures; None when there is none.

    `asked_s` is what the server said with Retry-After, and is honoured with up to a tenth more, so that those it sent
    away do not all come back together. Otherwise half of the doubled wait is certain and half is drawn.
    """
    if failures >= rule.tries or (asked_s is not None and asked_s > rule.asked_s):
        return None
    if asked_s is not None:
        return asked_s * (1.0 + 0.1 * random())
    full = min(rule.longest_s, rule.first_s * 2.0 ** (failures - 1))
    return full * (0.5 + 0.5 * random())


def retry_after_s(header: str, now: datetime) -> float | None:
    """What a Retry-After header asks for, in seconds: a number or a date; None when it says neither."""
    text = header.strip()
    if text.isascii() and text.replace(".", "", 1).isdigit():
        return float(text)
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - now).total_seconds())
