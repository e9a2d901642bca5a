"""Does a message ask for what was said before (GAM, Integration Point 2)? By rules; the archive's facets come in.

A message that names a past time, a topic, a person or a model the archive knows is looked up too. One that shows none
of this may still speak of what the archive holds; `familiar` finds that out.
"""

import functools
import re
from datetime import datetime, tzinfo

import msgspec

from constants.load import load
from gaiad.research.query import SearchParameters, process_query
from gaiad.schemas import Facets


class _Sign(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    why: str
    pattern: str


class _Signs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    sign: tuple[_Sign, ...]


def history_need(message: str, facets: Facets, now: datetime, zone: tzinfo) -> str:
    """Why the archive is to be looked into, in words; "" when the message shows no sign of it."""
    lowered = " ".join(message.lower().split())
    for why, pattern in _signs():
        if pattern.search(lowered):
            return why
    found = process_query(message, facets, now, zone)
    if found.date_text and _is_remembered(found, facets, now, zone):
        return f"names a time: {found.date_text}"
    for kind, values in (("topic", found.topics), ("person", found.people), ("model", found.models)):
        if values:
            return f"names a {kind} of the archive: {values[0]}"
    return ""


def _is_remembered(found: SearchParameters, facets: Facets, now: datetime, zone: tzinfo) -> bool:
    """Whether the time began before today and did not end before the archive begins."""
    today = now.astimezone(zone).replace(hour=0, minute=0, second=0, microsecond=0)
    is_past = found.since is None or found.since < today
    oldest = datetime.fromisoformat(facets.first) if facets.first else None
    return is_past and (oldest is None or found.until is None or found.until > oldest)


@functools.cache
def _signs() -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple((sign.why, re.compile(sign.pattern)) for sign in load("history_words.toml", _Signs).sign)
