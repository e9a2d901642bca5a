"""Times as packets write them: ISO 8601 in its forms, dates alone, seconds or milliseconds since 1970."""

import re
from datetime import UTC, datetime

_EPOCH = re.compile(r"\d{10}(?:\d{3})?(?:\.\d+)?$")
_FRACTION = re.compile(r"(\.\d{6})\d+")
_ZONE_NAME = re.compile(r"\s*(?:UTC|GMT|Z)$", re.IGNORECASE)


def parse_time(text: str) -> tuple[datetime, bool] | None:
    """The moment in UTC and whether its zone was missing (then read as UTC); None when it cannot be read."""
    text = text.strip()
    if _EPOCH.match(text):
        seconds = float(text) if len(text.partition(".")[0]) == 10 else float(text) / 1000
        return datetime.fromtimestamp(seconds, UTC), False
    if len(text) < 8 or len(text) > 40:
        return None
    text = _ZONE_NAME.sub("+00:00", _FRACTION.sub(r"\1", text))
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            return moment.replace(tzinfo=UTC), True
        return moment.astimezone(UTC), False
    except (ValueError, OverflowError):
        return None
