"""A question that holds several ("What is the rent, and who is the landlord?"): each is looked for, chosen for and
judged by itself, and the answer is theirs in order. One that has no answer is missing. Pure.
"""

import re
from collections.abc import Callable, Sequence

import msgspec

from gaiad.research.evidence import Evidence, Term
from gaiad.research.query import SearchParameters
from gaiad.research.reflect import ReflectionResult, combine
from gaiad.research.sentences import Quote, Statement
from gaiad.research.words import Word, cut, stop_words


def names(text: str) -> list[str]:
    """Capitalised words inside sentences, in order."""
    words = cut(text)
    return [word.text for word in words if _is_name(text, word)]


def _is_name(text: str, word: Word) -> bool:
    before = text[: word.start].rstrip(" \"'“‘([")
    inside = bool(before) and before[-1] not in ".!?:\n"
    return inside and word.text[0].isupper() and len(word.text) > 1 and word.lower not in stop_words()


MOST_QUESTIONS = 3
_WORD = r"(?:what|which|who|whom|whose|when|where|why|how)\b"
_DETERMINER = r"(?:the|our|my|your|his|her|its|their|this|that|a|an)"
_WHOM = r"(?:we|i|you|he|she|it|they|there|(?-i:[A-Z])\w*)\b"
_TURNED = (
    rf"(?:did|does|do|can|could|will|would|should)\s+(?:{_WHOM}|{_DETERMINER}\b)|"
    rf"(?:is|was|are|were)\s+(?:{_WHOM}|(?:the|our|my|your|this|that)\b)|(?:has|have|had)\s+{_WHOM}"
)
_ASKS = rf"(?:(?:in|on|at|for|from|to|by|with|since|until)\s+)?(?:{_WORD}|{_TURNED}|tell me\b)"
_NEXT = re.compile(rf"(?:[,;?]?\s+(?:and|but)|[;?])\s+(?:and\s+|but\s+)?(?={_ASKS})", re.IGNORECASE)
_THING = rf"{_DETERMINER}\s+[\w'’-]+(?:\s+[\w'’-]+)?"
_ABOUT_TWO = re.compile(
    rf"\b(?:about|regarding|concerning)\s+(?:(?P<a>{_THING})\s+and\s+(?P<b>{_THING})|(?P<c>[\w'’-]+)\s+and\s+(?P<d>[\w'’-]+))$",
    re.IGNORECASE,
)
_POINTS_BACK = re.compile(
    r"\b(?:it|its|they|them|their|he|him|his|she|her|there|this|these|those|that(?=$| \w+ed\b))\b", re.IGNORECASE
)
Read = Callable[[str], SearchParameters]


class SubQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """One of the questions: as it was put, and in full, with what `it` or `she` points back to."""

    words: str
    full: str


class ParsedQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """One of the questions, read; `query` is what its search looks for."""

    words: str
    query: str
    parameters: SearchParameters
    terms: Sequence[Term]

    @classmethod
    def of(cls, words: str, parameters: SearchParameters, terms: Sequence[Term]) -> "ParsedQuestion":
        """`parameters` are the question as read, in full."""
        return cls(words=words, query=parameters.search_text, parameters=parameters, terms=terms)


def questions(text: str) -> tuple[SubQuestion, ...]:
    """The questions that `text` holds, at most MOST_QUESTIONS; () when it is one. `about A and B` asks of each."""
    clauses = [clause.strip(" ,;?.!") for clause in _NEXT.split(text, maxsplit=MOST_QUESTIONS - 1)]
    if len(clauses) > 1:
        return tuple(SubQuestion(words=one, full=_in_full(one, clauses[:at])) for at, one in enumerate(clauses))
    whole = text.strip(" ?.!")
    two = _ABOUT_TWO.search(whole)
    if two is None:
        return ()
    about = whole[: min(start for start in (two.start("a"), two.start("c")) if start >= 0)]
    things = (two["a"] or two["c"], two["b"] or two["d"])
    return tuple(SubQuestion(words=f"{about}{thing}", full=f"{about}{thing}") for thing in things)


def _in_full(clause: str, before: Sequence[str]) -> str:
    """The clause with the names, else all words of weight, of the clause before that a pronoun of it points back to."""
    if not before or not _POINTS_BACK.search(clause) or names(clause):
        return clause
    meant = names(before[-1]) or [word.text for word in cut(before[-1]) if word.lower not in stop_words()]
    return f"{clause} {' '.join(meant)}"


def read_questions(whole: SearchParameters, read: Read) -> tuple[tuple[str, SearchParameters], ...]:
    """The questions that `whole` holds, as put and as read; () when it is one, or when one of them cannot be looked up
    by itself ("how and why ...")."""
    if whole.kind == "listing" or whole.subjects:
        return ()
    found = tuple((one.words, read(one.full)) for one in questions(whole.text))
    alone = all(each.keywords and not each.ambiguous and each.kind != "listing" for _, each in found)
    return found if alone else ()


def in_one_place(whole: SearchParameters, selected: Sequence[Evidence]) -> bool:
    """Whether `A and B` are a pair ("trial and error"): one page has every word of the question."""
    two = _ABOUT_TWO.search(whole.text.strip(" ?.!"))
    loose = two is not None and not two["a"]
    return loose and any(item.credits and min(item.credits.values()) == 1.0 for item in selected)


def together(held: Sequence[ParsedQuestion], judged: Sequence[ReflectionResult]) -> ReflectionResult:
    """One judgement of all: as good as the worst of them, and without an answer to those that found none."""
    answered = [one for one in judged if one.is_relevant]
    likelihood = min((one.likelihood for one in answered), default=0.0)
    criteria = {
        "coverage": min(one.coverage if one.is_relevant else 0.0 for one in judged),
        "specificity": min((one.specificity for one in answered), default=0.0),
        "temporality": min((one.temporality for one in answered), default=0.0),
        "completeness": min((one.completeness for one in answered), default=0.0) * len(answered) / len(judged),
    }
    missing = [
        aspect
        for one, its in zip(held, judged, strict=True)
        for aspect in (its.missing_aspects if its.is_relevant else (one.words,))
    ]
    open_ones = [one for one in judged if not one.is_sufficient]
    return ReflectionResult(
        is_sufficient=not open_ones,
        is_relevant=bool(answered),
        confidence=combine(**criteria, likelihood=likelihood) if answered else 0.0,
        missing_aspects=tuple(dict.fromkeys(missing)),
        refinement_suggestions=tuple(dict.fromkeys(s for one in open_ones for s in one.refinement_suggestions)),
        likelihood=likelihood,
        **criteria,
    )


def each_once(statements: Sequence[Statement]) -> list[Statement]:
    """Without those that lie within another one of their page."""
    return [
        one
        for at, one in enumerate(statements)
        if not any(
            _within(one.quote, other.quote, first=at < place) for place, other in enumerate(statements) if place != at
        )
    ]


def _within(quote: Quote, other: Quote, *, first: bool) -> bool:
    """Whether all of a quote occurs in the other one; of two that are the same the `first` is kept."""
    if quote.page.page_id != other.page.page_id or not other.start <= quote.start <= quote.end <= other.end:
        return False
    return not (first and (quote.start, quote.end) == (other.start, other.end))
