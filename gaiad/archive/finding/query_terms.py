"""From a person's query to index terms: words, without stop words, stemmed exactly as FTS5 stems pages.

The stems come from FTS5 itself, over a table in memory: any other stemmer would differ from it on some word, and the
postings of that word would never be found. Query text never reaches FTS5's query language unquoted.
"""

import functools
import re
import sqlite3
import threading
import unicodedata
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import msgspec

from constants.word_forms import families

TOKENIZER = "porter unicode61 remove_diacritics 2"
MAX_WORDS = 64
"""Distinct words of one query that take part; the rest of a longer text says little more about what is sought."""
_MAX_QUERY_CHARS = 20_000
_MAX_WORD_CHARS = 200
_CACHE_WORDS = 50_000
_APOSTROPHE = re.compile("['’]")
_LETTERS = r"[^\W_]++(?:[\u0300-\u036f]++[^\W_]*+)*+"  # an accent that no letter composes with is not the end of a word
_WORD = re.compile(rf"{_LETTERS}(?:['’]{_LETTERS})*")

_STOP_WORDS = """
a about above after again against all also am an and any are as at be because been before being below between both
but by can could did do does doing don down during each few for from further had has have having he her here hers
herself him himself his how i if in into is it its itself just let me more most my myself no nor not now of off on
once only or other our ours ourselves out over own please same shall she should so some such tell than that the
their theirs them themselves then there these they this those through to too under until up us very was we were
what when where which while who whom whose why will with would you your yours yourself yourselves
"""
STOP_WORDS = frozenset(_STOP_WORDS.split())


class QueryTerm(msgspec.Struct, frozen=True):
    """A word as typed and the terms the index holds for it (more than one for such as `o'brien`).

    `forms` are the terms of its irregular forms: of `buy` that of `bought`. `spelled` has, for each term that a match
    would stem into another one (of `house`, `hous` becomes `hou`), a word that it stems into the term.
    """

    word: str
    stems: tuple[str, ...]
    forms: tuple[str, ...] = ()
    spelled: tuple[tuple[str, str], ...] = ()


class Stemmer:
    """FTS5's tokenizer and stemmer, word by word; safe from any thread, caches what it has seen."""

    def __init__(self) -> None:
        self._connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self._connection.execute(
            f"CREATE VIRTUAL TABLE words USING fts5 (word, content = '', tokenize = '{TOKENIZER}')"
        )
        self._connection.execute("CREATE VIRTUAL TABLE stems USING fts5vocab ('words', 'instance')")
        self._lock = threading.Lock()
        self._known: dict[str, tuple[str, ...]] = {}
        self._forms: dict[str, tuple[str, ...]] = {}
        self._family_words: dict[str, str] = {}

    def stems(self, words: Sequence[str]) -> list[tuple[str, ...]]:
        """The index terms of each word, in order; () for a word without letters or digits."""
        with self._lock:
            unknown = [word for word in dict.fromkeys(words) if word not in self._known]
            if unknown:
                if len(self._known) + len(unknown) > _CACHE_WORDS:
                    self._known.clear()
                    unknown = list(dict.fromkeys(words))
                self._learn(unknown)
            return [self._known[word] for word in words]

    def forms(self, stem: str) -> tuple[str, ...]:
        """The stems of a word's irregular forms, without its own; () for a regular word."""
        if not self._forms:
            found: dict[str, list[str]] = {}
            for family in families():
                stems = list(dict.fromkeys(stem for stems in self.stems(family) for stem in stems))
                self._family_words |= self._by_stem(family)
                for one in stems:
                    found.setdefault(one, []).extend(other for other in stems if other != one)
            self._forms = {one: tuple(dict.fromkeys(others)) for one, others in found.items()}
        return self._forms.get(stem, ())

    def spelled(self, word: str, terms: Sequence[str]) -> tuple[tuple[str, str], ...]:
        """What to match for those of a word's terms (its stems, its forms) that are not stems of themselves."""
        moved = [term for term, again in zip(terms, self.stems(terms), strict=True) if again != (term,)]
        own = self._by_stem(_APOSTROPHE.split(word)) if moved else {}
        known = ((term, own.get(term) or self._family_words.get(term, "")) for term in moved)
        return tuple((term, spelled) for term, spelled in known if spelled)

    def _by_stem(self, words: Sequence[str]) -> dict[str, str]:
        return {stems[0]: word for word, stems in zip(words, self.stems(words), strict=True) if len(stems) == 1}

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    def _learn(self, words: Sequence[str]) -> None:
        found: list[list[str]] = [[] for _ in words]
        self._connection.execute("BEGIN")
        try:
            self._connection.executemany("INSERT INTO words (rowid, word) VALUES (?, ?)", enumerate(words))
            for number, stem in self._connection.execute("SELECT doc, term FROM stems ORDER BY doc, offset"):
                found[number].append(stem)
        finally:
            self._connection.execute("ROLLBACK")
        self._known.update((word, tuple(stems)) for word, stems in zip(words, found, strict=True))


def split_words(text: str) -> list[str]:
    """The distinct words of the first 20,000 characters of a text in order, lower case, accents composed."""
    seen: dict[str, None] = {}
    for match in _WORD.finditer(unicodedata.normalize("NFC", text[:_MAX_QUERY_CHARS]).replace("\0", " ")):
        seen.setdefault(match.group()[:_MAX_WORD_CHARS].lower())
    return list(seen)


def parse_query(query: str, stemmer: Stemmer) -> list[QueryTerm]:
    """The query's terms: stop words only when there is nothing else, one term for words of the same stem."""
    words = split_words(query)
    words = ([word for word in words if word.removesuffix("'s").removesuffix("’s") not in STOP_WORDS] or words)[
        :MAX_WORDS
    ]
    words = [word.removesuffix("'s").removesuffix("’s") for word in words]
    distinct: dict[tuple[str, ...], QueryTerm] = {}
    for word, stems in zip(words, stemmer.stems(words), strict=True):
        if stems:
            forms = stemmer.forms(stems[0]) if len(stems) == 1 else ()
            terms = (*stems, *forms)
            spelled = stemmer.spelled(word, terms)
            distinct.setdefault(tuple(sorted(terms)), QueryTerm(word, stems, forms, spelled))
    return list(distinct.values())


def quote(text: str) -> str:
    """`text` as one FTS5 string: a phrase of its words, whatever characters it holds."""
    return '"' + text.replace("\0", " ").replace('"', '""') + '"'


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
class QuestionFeatures:
    """Which kinds of things a question asks for."""

    when: bool
    number: bool
    names: bool
    several: bool = False


@dataclass(frozen=True, slots=True)
class PageFeatures:
    """What a page's text holds: times (0 to 1), a number (0 or 1), names, and whether it speaks of its speaker."""

    when: float
    number: float
    names: frozenset[str]
    own: float

    def named(self, known: Collection[str]) -> float:
        """How many names besides those `known` it holds, 0 to 1."""
        return min(1.0, len(self.names.difference(known)) / _ENOUGH)


def wanted(question: str) -> QuestionFeatures:
    """What the words of a question ask for."""
    return QuestionFeatures(
        when=bool(_WHEN.search(question.strip())),
        number=bool(_NUMBER.search(question)),
        names=bool(_NAME.search(question)),
        several=bool(_SEVERAL.search(question.strip())),
    )


def bare_words(query: str) -> bool:
    """Whether a query only names things ("oak door", "notes on the harbour"): no question and no sentence."""
    return "?" not in query and STOP_WORDS.isdisjoint(set(split_words(query)).difference(_BETWEEN_NAMES.split()))


@functools.lru_cache(maxsize=_KEPT_TEXTS)
def held(text: str) -> PageFeatures:
    """What a page holds. A capital that begins a sentence makes no name."""
    return PageFeatures(
        when=min(1.0, len(_TIMES.findall(text)) / _ENOUGH),
        number=float(bool(_NUMBERS.search(text))),
        names=frozenset(_NAMES.findall(text)),
        own=float(bool(_OWN.search(text))),
    )
