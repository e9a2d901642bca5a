"""Does a message need what was said before (GAM, Integration Point 2)? By rules; the archive's facets come in.

A message that names a time, a topic, a person or a model the archive knows is looked up too: a needless look costs
milliseconds, a missed one costs the answer.
"""

import functools
import re
from datetime import datetime, tzinfo

import msgspec

from constants.load import load
from gaiad.research.query import process_query
from gaiad.schemas import Facets


class _Sign(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    why: str
    pattern: str


class _Signs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    sign: tuple[_Sign, ...]


def history_need(message: str, facets: Facets, now: datetime, zone: tzinfo) -> str:
    """Why the archive is to be looked into, in words; "" when the message stands by itself."""
    lowered = " ".join(message.lower().split())
    for why, pattern in _signs():
        if pattern.search(lowered):
            return why
    found = process_query(message, facets, now, zone)
    if found.date_text:
        return f"names a time: {found.date_text}"
    for kind, values in (("topic", found.topics), ("person", found.people), ("model", found.models)):
        if values:
            return f"names a {kind} of the archive: {values[0]}"
    return ""


@functools.cache
def _signs() -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple((sign.why, re.compile(sign.pattern)) for sign in load("history_words.toml", _Signs).sign)
