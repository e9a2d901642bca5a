"""How well a unit answers a question: a few features and one learned score over them. Pure.

The features are how much of the question the unit covers, by rarity of its words, how well its field
name fits, how good its page is, and whether it holds the type of thing asked for. The weights were fitted on one set of
records and two long conversations, each set weighing the same; `gaiad bench answers` measures them on any set.
"""

import functools
import re
from collections.abc import Mapping
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from constants.load import load
from gaiad.base.text import words_of
from gaiad.research.units import Unit
from gaiad.research.words import forms, lowered, normalise, stem, stop_words

Wants = Literal["number", "time", "person", "list", "steps", "reason", "place", "thing"]
IN_PATH = 0.8
COVERED = 0.3
"""A term with less credit is not covered."""
_SPELLED = (
    "zero|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|thirty|forty|fifty|sixty|seventy|"
    "eighty|ninety|dozen|hundred|thousand|million"
)
_NUMBER = re.compile(rf"\d|\b(?:{_SPELLED})\b", re.I)
_TOKEN = re.compile(r"[\w$€£%'.-]+")
_COUNT = re.compile(rf"[$€£]?\d+(?:[.,:]\d+)*(?:%|[a-z]{{1,2}})?$|(?:{_SPELLED})$", re.I)
BESIDE_WORDS = 4
_TIME = re.compile(
    r"\b\d{4}-\d\d|\b(?:19|20)\d\d\b|\b\d{1,2}:\d\d|\b(?:yester|to)day\b|\btomorrow\b|\btonight\b|\bago\b"
    r"|\b(?:last|next|this|past) \w+|\b(?:mon|tues|wednes|thurs|fri|satur|sun)day\b|\b(?:jan|febr)uary\b"
    r"|\b(?:march|april|may|june|july|august)\b|\b(?:septem|octo|novem|decem)ber\b",
    re.I,
)
_NAME = re.compile(r"(?<![.!?\n] )(?<!^)\b[A-Z][\w-]+")
_PLACE = re.compile(r"\b(?:in|on|at|near|from|to|into|with|by|under|behind|beside|between) (?:the |a |an )?\w+")
_REASON = re.compile(
    r"\b(?:because|since|so that|due to|in order to|reason|therefore|to (?:avoid|keep|make|ensure|prevent))\b",
    re.I,
)
_WANTS: tuple[tuple[Wants, re.Pattern[str]], ...] = (
    (
        "number",
        re.compile(
            r"\bhow (?:many|much|long|old|often|far|big|large|fast|high|deep|complete)\b"
            r"|\bwhat (?:share|percentage|number|amount|size|version|price|rate)\b"
            r"|\bwhat(?:'s| is| are| was| were) (?:\S+ ){1,6}?"
            r"(?:number|amount|size|version|price|rate|salary|age)\b(?! one\b)"
            r"|\bwhat (?:do|does|did) .*\bcost\b",
            re.I,
        ),
    ),
    ("time", re.compile(r"^when\b|\b(?:what|which) (?:date|day|year|month|time)\b|\b(?:since|from) when\b", re.I)),
    ("person", re.compile(r"\bwho(?:se|m)?\b|\b(?:which|what) (?:model|assistant|ai)\b", re.I)),
    ("steps", re.compile(r"\bhow (?:do|does|did|can|could|should|to|is|are)\b|\bwalk me\b|\bsteps?\b", re.I)),
    ("reason", re.compile(r"\bwhy\b|\bwhat for\b|\breason", re.I)),
    ("place", re.compile(r"^where\b", re.I)),
)
_MANY = re.compile(
    r"\b(?:which|what)(?: \w+){0,3}? \w{2,}(?<!s)s\b|\bwhat (?:are|were)\b|\blist\b|\ball\b"
    r"|\b(?:two|both|three|four|five|six|seven|eight|nine|ten|[2-9])\b",
    re.I,
)
_HEAD = re.compile(
    r"\b(?:which|what|whose|how many|how much)\s+((?:[\w'-]+\s+){0,2}?[\w'-]+)(?=\s+(?:is|are|was|were|do|does|did"
    r"|has|have|had|can|could|will|would|should|may|might|must|of|in|on|at|for|from|to|with|by|that)\b|\s*\?|$|\s+\w+(?:s|ed)\b)",
    re.I,
)
_COUNTED = re.compile(r"\bhow many\s+((?:[\w'-]+\s+){0,2}?[\w'-]{2,}s)\b", re.I)
KINDS = ("field", "sentence", "turn", "record")
"""Kinds of units with a weight of their own."""
FEATURES = (
    "own", "all", "label", "rare", "length", "type", "list", "page", "packet", "cosine", "first",
    *KINDS,
)  # fmt: skip


class _Weights(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    unit: dict[str, float]
    confidence: dict[str, float]

    @functools.cached_property
    def unit_vector(self) -> NDArray[np.float32]:
        """The weights of a unit in the order of FEATURES."""
        return np.array([self.unit[name] for name in FEATURES], np.float32)


class AskedTerm(msgspec.Struct, frozen=True):
    """A content word of the question and its stem; `weight` is its rarity, 0 to 1.

    `known` says whether it occurs anywhere in the archive.
    """

    word: str
    stem: str
    weight: float
    known: bool = True

    @property
    def stems(self) -> tuple[str, ...]:
        """Its stem and those of its irregular forms, as `laid` and `lay`."""
        return (self.stem, *map(stem, forms(self.word)))


class Question(msgspec.Struct, frozen=True):
    """What is asked: its words, the type of thing, whether several are, and which words name the thing asked for."""

    text: str
    terms: tuple[AskedTerm, ...]
    wants: Wants
    many: bool
    head: frozenset[int] = frozenset()

    @property
    def weight(self) -> float:
        return sum(term.weight for term in self.terms) or 1.0


@functools.cache
def weights() -> _Weights:
    return load("answer_weights.toml", _Weights)


def words_asked(text: str) -> list[str]:
    """The content words of a question, field names split into words."""
    return list(dict.fromkeys(word for word in lowered(words_of(text)) if word not in stop_words()))


def wants_of(text: str) -> Wants:
    """The type of thing that a question asks for."""
    return next((wants for wants, pattern in _WANTS if pattern.search(text)), "thing")


def read_question(text: str, rarity: Mapping[str, float], frequencies: Mapping[str, int]) -> Question:
    """`rarity` is the weight of each of `words_asked`, `frequencies` the pages that it stands on."""
    terms: dict[str, AskedTerm] = {}
    for word in words_asked(text):
        weight = max(0.05, rarity.get(word, 1.0))
        terms.setdefault(stem(word), AskedTerm(word, stem(word), weight, known=frequencies.get(word, 1) > 0))
    found = tuple(terms.values())
    head = _COUNTED.search(text) or _HEAD.search(text)
    named = set(lowered(words_of(head[1]))) if head else set()
    return Question(
        text,
        found,
        wants_of(text),
        many=bool(_MANY.search(text)),
        head=frozenset(at for at, term in enumerate(found) if term.word in named),
    )


def counts(question: Question, unit: Unit) -> bool:
    """Whether a number that the question does not give itself is beside one of its words, or in a field they name."""
    own = {term.stem for term in question.terms}
    given = set(lowered(question.text))
    tokens = _TOKEN.findall(words_of(unit.text))
    asked = [at for at, token in enumerate(tokens) if stem(normalise(token)) in own]
    numbers = [at for at, token in enumerate(tokens) if _COUNT.match(token) and normalise(token) not in given]
    return any(abs(at - other) <= BESIDE_WORDS for at in numbers for other in asked)


_DEED = re.compile(r"who (?!(?:is|are|was|were|has|have|had|do|does|did|will|would|can|could|should)\b)", re.I)


def deed_of(question: Question) -> int | None:
    """Which term says what somebody did, in "Who wrote the report?"; None where no such thing is asked."""
    return 0 if question.terms and _DEED.match(question.text) else None


_HOW_MANY = re.compile(r"\bhow many\b", re.I)


def asks_how_many(question: Question) -> bool:
    """Whether things are to be counted, and it says which."""
    return bool(question.head and _HOW_MANY.search(question.text))


def counted_in(question: Question, unit: Unit) -> int:
    """How many of the things that the question counts a unit lists, 0 where it lists something else.

    The list is named for them by its label, its heading or the line that announces it.
    """
    if unit.kind != "list":
        return 0
    announcing = unit.text.partition(":")[0] if not unit.label else ""
    named = {stem(word) for word in lowered(words_of(f"{unit.label or unit.path} {announcing}"))}
    return unit.size if all(question.terms[at].stem in named for at in question.head) else 0


def holds_type(wants: Wants, unit: Unit) -> bool:
    """Whether a unit holds the type of thing wanted."""
    match wants:
        case "number":
            return bool(_NUMBER.search(unit.text))
        case "time":
            return bool(_TIME.search(unit.text))
        case "person":
            return bool(_NAME.search(unit.text))
        case "place":
            return bool(_PLACE.search(unit.text))
        case "reason":
            return bool(_REASON.search(unit.text))
        case "steps":
            return unit.kind in ("list", "section", "record") or len(unit.text) > 60
    return False
