"""Multi-hop questions: what a question is split into, and what the second search takes over from the first.

Pure. "Which city have both Vera and Otto visited?" holds one question for each of the two; "Where did she move, and
what does she measure there?" one for each clause. The second hop asks the question again together with what the best
pages of the first name that the question does not: the bridge from one page to the next. Only a question that says who
or what it means by something else ("Otto's wife", "the town where he was born") leads over such a bridge.
"""

import re
from collections.abc import Collection, Sequence

from constants.calendar import MONTHS, WEEKDAYS
from gaiad.research.evidence import Evidence
from gaiad.research.words import Word, cut, normalise, stem, stop_words

MOST_PARTS = 3
BEST_PAGES = 3
MOST_NEW_NAMES = 4
_CLAUSE = re.compile(
    r"(?:,|;|\?)?\s+(?:and|or|but)\s+(?=(?:what|which|who|whom|whose|when|where|why|how|did|does|do|is|was|were|has|have)\b)"
    r"|\?\s+(?=\w)",
    re.IGNORECASE,
)
_PAIR = re.compile(r"\b(?:both\s+)?(?P<a>[A-Z][\w'’-]*)\s+and\s+(?P<b>[A-Z][\w'’-]*)(?:\s+both)?\b")
_BY_SOMETHING_ELSE = re.compile(r"\b(?:that|who|whom|whose|where|which)\b|\w['’]s\b|s['’]\s|\bof\b", re.IGNORECASE)


def parts(question: str) -> tuple[str, ...]:
    """The questions that `question` holds, at most `MOST_PARTS`; () when it is one question.

    A clause without a name of its own takes those of the first one; of two who did the same each gets a question.
    """
    clauses = [clause.strip(" ,;?") for clause in _CLAUSE.split(question) if clause.strip(" ,;?")]
    if len(clauses) > 1:
        named = " ".join(names(clauses[0]))
        whole = [
            clause if number == 0 or names(clause) else f"{clause} {named}" for number, clause in enumerate(clauses)
        ]
        return tuple(one.strip() for one in whole)[:MOST_PARTS]
    pair = _PAIR.search(question)
    if pair is None:
        return ()
    return tuple(_single_spaced(question[: pair.start()] + pair[side] + question[pair.end() :]) for side in ("a", "b"))


def bridge(question: str, found: Sequence[Evidence]) -> str:
    """The second hop's query: the question and the new names on the best pages `found` first; "" without any, and for
    a question that names all it means.

    Who speaks on them or beside them is no bridge: people call each other by name.
    """
    if not _BY_SOMETHING_ELSE.search(question, 1):
        return ""
    best = [item.page for item in found[:BEST_PAGES]]
    speakers = {page.speaker for page in best} | {
        near.speaker for item in found[:BEST_PAGES] for near in item.neighbours
    }
    known = {normalise(word) for name in speakers for word in name.split()}
    return with_new_names(question, [page.text for page in best], known)


def with_new_names(question: str, texts: Sequence[str], known: Collection[str] = ()) -> str:
    """The question with the names of the texts that are neither in it nor `known` (normalised), most frequent first.

    No day of the week or month is a name here: every packet has one, and it leads nowhere.
    """
    asked = {stem(word.lower) for word in cut(question)} | {stem(word) for word in known}
    found: dict[str, int] = {}
    for text in texts:
        for name in dict.fromkeys(re.sub(r"['’]s$", "", name) for name in names(text)):
            if stem(normalise(name)) not in asked and not _of_calendar(name):
                found[name] = found.get(name, 0) + 1
    new = sorted(found, key=lambda name: -found[name])[:MOST_NEW_NAMES]
    return f"{question.rstrip(' ?')} {' '.join(new)}" if new else ""


def names(text: str) -> list[str]:
    """Capitalised words inside sentences, in order."""
    words = cut(text)
    return [word.text for word in words if _is_name(text, word)]


def _is_name(text: str, word: Word) -> bool:
    before = text[: word.start].rstrip(" \"'“‘([")
    inside = bool(before) and before[-1] not in ".!?:\n"
    return inside and word.text[0].isupper() and len(word.text) > 1 and word.lower not in stop_words()


def _of_calendar(name: str) -> bool:
    word = re.sub(r"(?:['’]s|s)$", "", name.lower())
    return word in MONTHS or word in WEEKDAYS or word in {day[:3] for day in WEEKDAYS}


def _single_spaced(text: str) -> str:
    return " ".join(text.split())
