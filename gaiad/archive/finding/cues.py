"""What a question asks for, and which pages hold such a thing: a time, a number, a name, what somebody says of himself.

"When did she move?" is answered by a page with "last week" in it, whatever other words it shares with the question.
Pure; only the best pages of a search are looked at, by their text.
"""

import functools
import re
from collections.abc import Collection
from dataclasses import dataclass

from gaiad.archive.finding.query_terms import STOP_WORDS, split_words

_WHEN = re.compile(r"^when\b|\bhow long\b|\b(?:which|what) (?:day|date|month|year)\b", re.IGNORECASE)
_NUMBER = re.compile(r"\bhow (?:many|much|often|long)\b", re.IGNORECASE)
_NAMED_THINGS = (
    "city|cities|country|countries|state|states|place|places|location|locations|book|books|game|games|movie|movies"
    "|film|films|band|bands|artist|artists|song|songs|company|companies|school|schools"
)
_NAME = re.compile(rf"\b(?:who|whom|whose|where|which|names?|what (?:{_NAMED_THINGS}))\b", re.IGNORECASE)
_SEVERAL = re.compile(
    r"^(?:in |on |at |with |for )?(?:what|which|who|where)\b[^?]*\b(?:has|have)\b|\bhow many\b", re.IGNORECASE
)
"""What has been done until now, or how many there are: several pages hold a part of it."""
_BETWEEN_NAMES = "a about an and at by during for from in into of on or the to with"
"""Stop words that join the names of things; any other one makes a sentence."""
_TIMES = re.compile(
    r"\b(?:yesterday|today|tonight|tomorrow|last|next|ago|this (?:week|month|year|morning|weekend)|week(?:end)?s?"
    r"|months?|years?|monday|tuesday|wednesday|thursday|friday|saturday|sunday|january|february|march|april|may|june|july"
    r"|august|september|october|november|december|recently|since|just|(?:19|20)\d\d)\b",
    re.IGNORECASE,
)
_NUMBERS = re.compile(
    r"\b(?:\d+|one|two|three|four|five|six|seven|eight|nine|ten|twice|once|couple|few|several|dozen|first|second|third"
    r"|another)\b",
    re.IGNORECASE,
)
_NAMES = re.compile(r"(?<=[a-z,;] )[A-Z][a-z]+|\"[^\"]+\"")
_OWN = re.compile(r"\b(?:i|i'm|i've|i'd|i'll|me|my|mine|we|we're|we've|us|our)\b", re.IGNORECASE)
_ENOUGH = 2
"""Times or names of which a page has all that counts; one is half of it."""
_KEPT_TEXTS = 8192


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which kinds of things a question asks for."""

    when: bool
    number: bool
    names: bool
    several: bool = False


@dataclass(frozen=True, slots=True)
class Held:
    """What a page's text holds: times (0 to 1), a number (0 or 1), names, and whether it speaks of its speaker."""

    when: float
    number: float
    names: frozenset[str]
    own: float

    def named(self, known: Collection[str]) -> float:
        """How many names besides those `known` it holds, 0 to 1."""
        return min(1.0, len(self.names.difference(known)) / _ENOUGH)


def wanted(question: str) -> Wanted:
    """What the words of a question ask for."""
    return Wanted(
        when=bool(_WHEN.search(question.strip())),
        number=bool(_NUMBER.search(question)),
        names=bool(_NAME.search(question)),
        several=bool(_SEVERAL.search(question.strip())),
    )


def bare_words(query: str) -> bool:
    """Whether a query only names things ("oak door", "notes on the harbour"): no question and no sentence."""
    return "?" not in query and STOP_WORDS.isdisjoint(set(split_words(query)).difference(_BETWEEN_NAMES.split()))


@functools.lru_cache(maxsize=_KEPT_TEXTS)
def held(text: str) -> Held:
    """What a page holds. A capital that begins a sentence makes no name."""
    return Held(
        when=min(1.0, len(_TIMES.findall(text)) / _ENOUGH),
        number=float(bool(_NUMBERS.search(text))),
        names=frozenset(_NAMES.findall(text)),
        own=float(bool(_OWN.search(text))),
    )
