"""Models, topics, people and names a question speaks of, recognised against what the archive knows (Facets).

Recognition is by whole words, ignoring case; a model answers to its family name, so "Gemini" finds "Gemini 2.5 Pro".
"""

import functools
import re
from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet

import msgspec

from constants.load import load
from gaiad.research.words import Word, content_words, cut, stop_words
from gaiad.wire.schemas import Facets, MetricRange

_VERSION_AFTER = re.compile(r"[\s-]v?\d{1,2}\.\d\b|[\s-]v?\d(?!\w|\s+\w+s\b)")
_VERSION_BEFORE = re.compile(r"\bv?\d{1,2}\.\d[\s-]$")
_FORGOTTEN_AT = 100_000  # topics known beyond twice those asked about, say of an archive that was taken away


class _Families(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    everyday: tuple[str, ...]
    families: dict[str, tuple[str, ...]]


class Entities(msgspec.Struct, frozen=True, kw_only=True):
    """`models` and `people` as the archive spells them, keyed by the word the question used; `names` are other
    capitalised words of the question, normalised: things that, when they occur nowhere, were never spoken of."""

    models: dict[str, tuple[str, ...]]
    unknown_models: tuple[str, ...]
    topics: tuple[str, ...]
    people: tuple[str, ...]
    names: tuple[str, ...]


def recognise(question: str, facets: Facets, roles: Collection[str]) -> Entities:
    """What `question` names; `roles` are no people."""
    words = cut(question)
    lowered = {word.lower for word in words}
    called = {word: _models_called(word, facets) for word in _model_words(lowered, facets)}
    known = {word: found for word, found in called.items() if _is_call(word, found, question.lower(), lowered)}
    models = {word: found for word, found in known.items() if found}
    people = tuple(person for person in facets.people if _names_person(person, lowered - set(roles)))
    return Entities(
        models=models,
        unknown_models=tuple(sorted(word for word, found in known.items() if not found)),
        topics=_topics(question, facets),
        people=people,
        names=_names(question, words),
    )


def _alphabetic_words(name: str) -> list[str]:
    return [word for word in re.findall(r"[a-z]+", name.lower()) if len(word) >= 3]


def _model_words(lowered: set[str], facets: Facets) -> list[str]:
    """The question's words that call a model: a family's names, and the leading word of every model in the archive."""
    families = load("models.toml", _Families).families
    calls = {alias for aliases in families.values() for alias in aliases}
    for name in facets.models:
        calls.update(word for word in _alphabetic_words(name)[:1] if word not in stop_words())
    return sorted(lowered & calls)


def _is_call(word: str, found: Collection[str], lower: str, words: AbstractSet[str]) -> bool:
    """Whether a word that people use of other things too (a haiku) calls the models `found`: it stands beside a
    version, or its family's name stands there as well."""
    table = load("models.toml", _Families)
    if word not in table.everyday:
        return True
    places = list(re.finditer(rf"\b{re.escape(word)}\b", lower))
    if any(_VERSION_AFTER.match(lower, at.end()) or _VERSION_BEFORE.search(lower[: at.start()]) for at in places):
        return True
    family = next(names for names in table.families.values() if word in names)
    return bool(found) and not words.isdisjoint(set(family).difference(table.everyday))


def _models_called(word: str, facets: Facets) -> tuple[str, ...]:
    aliases = {word}
    for names in load("models.toml", _Families).families.values():
        if word in names and word == names[-1] and len(names) > 1:
            aliases.update(names)
    return tuple(name for name in facets.models if aliases & set(_alphabetic_words(name)))


def _names_person(person: str, lowered: set[str]) -> bool:
    """Whether the whole name stands there, or its first or last word of three letters or more."""
    words = _spelled(person).split()
    if not words:
        return False
    ends = {word for word in (words[0], words[-1]) if len(word) >= 3 and word not in stop_words()}
    return set(words) <= lowered or bool(ends & lowered)


@functools.lru_cache(maxsize=65536)
def _spelled(name: str) -> str:
    """The words of a name, lower case, one space apart."""
    return " ".join(word.lower for word in cut(name))


@functools.lru_cache(maxsize=65536)
def _topic_words(topic: str) -> frozenset[str]:
    return frozenset(content_words(topic))


class TopicsByWord:
    """Topics under the longest of their words: a question looks at those of its own words, and not at all of a hundred
    thousand. What is new among them is read once; nothing is told of topics that were not given with the question.
    """

    def __init__(self) -> None:
        self._by_word: dict[str, list[str]] = {}
        self._known: set[str] = set()
        self._read: Collection[str] = ()

    def named(self, asked: AbstractSet[str], topics: Collection[str]) -> set[str]:
        """Those of `topics` (which nobody changes later) of two words or more, all of which are among `asked`."""
        if self._read is not topics:
            self._learn(topics)
            self._read = topics
        likely = (topic for word in asked for topic in self._by_word.get(word, ()))
        return {topic for topic in likely if topic in topics and _topic_words(topic) <= asked}

    def _learn(self, topics: Collection[str]) -> None:
        if len(self._known) > _FORGOTTEN_AT + 2 * len(topics):
            self._known, self._by_word = set(), {}
        for topic in set(topics) - self._known:
            words = content_words(topic)
            if len(words) >= 2:
                self._by_word.setdefault(max(words, key=lambda word: (len(word), word)), []).append(topic)
        self._known.update(topics)


_topics_by_word = TopicsByWord()


def _topics(question: str, facets: Facets) -> tuple[str, ...]:
    found = _topics_by_word.named(set(content_words(question)), facets.topics)
    return tuple(topic for topic in facets.topics if topic in found) if found else ()


def _names(question: str, words: list[Word]) -> tuple[str, ...]:
    """Capitalised words that do not open a sentence, and all-capital words anywhere."""
    found = []
    for word in words:
        if not word.text[0].isupper() or word.lower in stop_words():
            continue
        before = question[: word.start].rstrip(" \"'“‘(")
        opens = not before or before[-1] in ".!?"
        if not opens or (len(word.text) > 1 and word.text.isupper()):
            found.append(word.lower)
    return tuple(dict.fromkeys(found))


HIGH, LOW = 0.7, 0.3
"""What a high metric has at least, and a low one at most, when no number is given."""

_NUMBER = r"(\d*\.?\d+ ?%?)(?![\w.-]*\w)"
_IS = r"(?:\s+(?:score|level|value|rating))?(?:\s+(?:is|was|of|being|at|that is|=))?\s*"
_MORE = r"(?:above|over|exceeding|exceeds|greater than|more than|higher than|at least|no less than|>=?|≥)"
_LESS = r"(?:below|under|less than|lower than|at most|no more than|up to|<=?|≤)"
_BETWEEN = rf"{_IS}(?:between|from)\s+{_NUMBER}\s+(?:and|to)\s+{_NUMBER}"
_OR_MORE = rf"{_IS}{_NUMBER}\s+(?:or|and) (?:more|higher|above|over)\b"
_OR_LESS = rf"{_IS}{_NUMBER}\s+(?:or|and) (?:less|lower|below|under)\b"
_EXACTLY = rf"(?:\s+(?:score|level|value|rating))?\s*(?:of|is|was|=|equal to|equals)\s*{_NUMBER}"
_PACKETS_WITH = r"(?:packets?|conversations?|sessions?|discussions?|chats?|ones?)\s+(?:with|of|that have|having)\s+"
_HIGH_OR_LOW = rf"{_PACKETS_WITH}(?:a |an |very )*"
_ASKS = r"(?:what|who|whom|whose|when|where|why|how|did|does|do|is|was|were|are|has|have)\b"


class MetricWords(msgspec.Struct, frozen=True, kw_only=True):
    """A range and where its words occur in the question, in characters."""

    range: MetricRange
    start: int
    end: int


def find_metrics(question: str, spoken: Mapping[str, Sequence[str]]) -> list[MetricWords]:
    """At most one range a metric, in the order of `spoken`: metric name to what people call it."""
    lower = question.lower()
    found = (_range_of(name, (name, *words), lower) for name, words in spoken.items())
    return [one for one in found if one is not None]


def without_metrics(question: str, found: Sequence[MetricWords]) -> str:
    """The question without the words of its ranges."""
    for one in sorted(found, key=lambda each: -each.start):
        question = f"{question[: one.start]} {question[one.end :]}"
    return " ".join(question.split())


def ranges_of_packets(question: str, found: Sequence[MetricWords]) -> bool:
    """Whether all that the question says of its ranges is that it wants the packets in them, as in "garden packets with
    critical thinking over .8"."""
    lower = question.lower()
    if re.match(_ASKS, lower):
        return False
    return any(re.search(rf"\b{_PACKETS_WITH}(?:a |an |the )?$", lower[: one.start]) for one in found)


def _range_of(name: str, spoken: Sequence[str], lower: str) -> MetricWords | None:
    called = rf"\b(?:{'|'.join(re.escape(words) for words in sorted(spoken, key=len, reverse=True))})"
    for pattern, has_low, has_high in (
        (_BETWEEN, True, True),
        (_OR_MORE, True, False),
        (_OR_LESS, False, True),
        (rf"{_IS}{_MORE}\s*{_NUMBER}", True, False),
        (rf"{_IS}{_LESS}\s*{_NUMBER}", False, True),
        (_EXACTLY, True, True),
    ):
        if match := re.search(called + pattern, lower):
            values = sorted(_value(text) for text in match.groups())
            low, high = values[0] if has_low else None, values[-1] if has_high else None
            return _at(match, 0, MetricRange(name=name, minimum=low, maximum=high))
    if match := re.search(rf"{_HIGH_OR_LOW}(?P<how>high|low)\s+{called}\b", lower):
        high = match["how"] == "high"
        return _at(match, "how", MetricRange(name=name, minimum=HIGH if high else None, maximum=None if high else LOW))
    return None


def _at(match: re.Match[str], first: int | str, metric: MetricRange) -> MetricWords:
    return MetricWords(range=metric, start=match.start(first), end=match.end())


def _value(text: str) -> float:
    return float(text.rstrip(" %")) / (100 if text.endswith("%") else 1)
