"""A sentence as something that can be held against another: what it is about, its dates, its numbers, its negations.

Pure. Rules over English words, no model; what they cannot read they leave out, so that two sentences which they cannot
compare do not disagree.
"""

import functools
import re
from collections.abc import Sequence
from datetime import UTC, tzinfo
from itertools import pairwise

import msgspec

from constants.calendar import MONTHS, WEEKDAYS
from gaiad.research.dates import Period
from gaiad.research.sentence_values import (
    Quantity,
    When,
    dates_in,
    disagreement_words,
    read_numbers,
    read_times,
    without_weekdays,
)
from gaiad.research.words import cut, lowered, normalise, stem, stop_words

_ENDS = re.compile(
    r"[.,;:!?()]|\s[-–—]\s|\b(?:for|in|on|at|by|with|from|to|because|since|as|and|but|which|that|who|after|before|when|"
    r"was|were|is|are|had|has|have)\b",
    re.IGNORECASE,
)


class Change(msgspec.Struct, frozen=True):
    """`given_up` are the stems of what is no more, empty when it is not named; `text` is how it stands there."""

    given_up: frozenset[str]
    text: str


def read_change(sentence: str) -> Change | None:
    """What `sentence` says it takes the place of; None when it announces no change of what held."""
    lower = sentence.lower()
    if sentence.isascii() and not any(pattern.search(lower) for pattern in _in_lower_case()):
        return None
    found: set[str] = set()
    said: list[str] = []
    for bare, pattern in _patterns():
        for match in pattern.finditer(sentence) if bare.search(sentence) else ():
            said.append(match.group() if not match.groupdict().get("what") else match.group("what"))
            found |= _stems(match.groupdict().get("what") or "")
    return Change(frozenset(found), " ".join(said[0].split()).strip(" .,;:")) if said else None


@functools.cache
def _in_lower_case() -> tuple[re.Pattern[str], ...]:
    """The patterns without `WHAT`: those that begin at a word in one, five times as fast as each alone."""
    bare = [one.replace("WHAT", "") for one in disagreement_words().given_up]
    at_a_word = [one for one in bare if one.startswith(r"\b")]
    others = [one for one in bare if one not in at_a_word]
    return tuple(re.compile("|".join(f"(?:{one})" for one in some)) for some in (at_a_word, others) if some)


@functools.cache
def _patterns() -> tuple[tuple[re.Pattern[str], re.Pattern[str]], ...]:
    """`WHAT` in the table, first or last there, is a run of words up to where its phrase ends.

    Each comes after itself without `WHAT`, which stands wherever it stands and is found 100 times as fast: a run of
    words may begin anywhere (7 ms of a sentence).
    """
    what = rf"(?P<what>(?:(?!{_ENDS.pattern}).)+)"
    return tuple(
        (re.compile(one.replace("WHAT", ""), re.IGNORECASE), re.compile(one.replace("WHAT", what), re.IGNORECASE))
        for one in disagreement_words().given_up
    )


def _stems(text: str) -> set[str]:
    return {stem(word.lower) for word in cut(text) if word.lower not in stop_words()}


_CONDITION = re.compile(
    r"\b(?:if|unless|when|whenever|in case|provided(?: that)?|as long as)\b(?P<then>[^,;:.]*)", re.IGNORECASE
)
_RULE = re.compile(
    r"\b(?:must|should|shall|ought|has to|have to|needs? to|supposed to)\b|"
    r"^\W*(?:please|always|never|do not|don['’]?t|keep|avoid|ensure|make sure|confirm|check|ask|remember|use) ",
    re.IGNORECASE,
)


def condition_of(sentence: str) -> frozenset[str]:
    """The stems of what it holds under, negations counted; empty when it holds without condition."""
    found = [match["then"] for match in _CONDITION.finditer(sentence)]
    idle = stop_words() - disagreement_words().negations
    return frozenset(stem(word.lower) for part in found for word in cut(part) if word.lower not in idle)


def is_rule(clause: str) -> bool:
    """Whether it says what is to be, as a rule or an order does."""
    return bool(_RULE.search(clause.strip()))


_YEAR = re.compile(r"(?:1[89]|20)\d\d")
_CLAUSE_ENDS = re.compile(
    r"[;:,]|\s[-–]\s|—|\b(?:but|and|because|although|though|while|whereas|since|so that|that|which|who|whose|where|"
    r"unless|if|when)\b",
    re.IGNORECASE,
)
_INSIDE_NUMBER = re.compile(r"(?<=\d)[,:](?=\d)")
_OPENS = re.compile(r"[:.!?…][\"'”’)]*\s+[\"'“‘(]*\Z")  # a capital after it names nothing
_DID_NOT = re.compile(r"\bdid not(?: \w+ly)? (?P<verb>[a-z]+)")
_ASIDE = re.compile(r"\[[^\]]*\]")
_ORDINAL = re.compile(r"\b(?:first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|\d+(?:st|nd|rd|th))\b")
_IT_TAKES = re.compile(r"it (?:takes|took|costs?|is (?:im)?possible)\b")  # "it" stands for nothing here
_CONTRACTED = re.compile(r"\b(\w+)n['’]t\b", re.IGNORECASE)
_SAID_BY = "said by "


class Clause(msgspec.Struct, frozen=True):
    """A part of a sentence with one statement: its words, whether it is negated, and which of its words stand there by
    their opposite (rejected, for accepted). `own` are its words without the sentence's names, `written` as they are
    written; `did_not` is the verb of which it says that it did not happen, `rule` says that it tells what is to be."""

    words: frozenset[str]
    negated: bool
    opposite: frozenset[str] = frozenset()
    own: frozenset[str] = frozenset()
    written: frozenset[str] = frozenset()
    did_not: str = ""
    rule: bool = False


class Assertion(msgspec.Struct, frozen=True, kw_only=True):
    """One sentence read, without what is in square brackets. `subject` are stems without numbers, dates and
    negations; `names` are those of its words that name one thing among others (capitalised in the sentence, numbered,
    or the speaker of an "I"). `change` is what it gives up, `condition` what it holds under; `parts` are those of its
    clauses that hold a date or a number, where it has several."""

    text: str
    said_at: str
    subject: frozenset[str]
    names: frozenset[str]
    quantities: tuple[Quantity, ...]
    dates: tuple[When, ...]
    clauses: tuple[Clause, ...]
    vague: bool
    hedged: bool
    replaces: bool
    asks: bool
    change: Change | None = None
    condition: frozenset[str] = frozenset()
    parts: tuple["Assertion", ...] = ()


@functools.lru_cache(maxsize=4096)  # half a millisecond each, and the same packets are found again
def read_assertion(text: str, said_at: str = "", speaker: str = "", zone: tzinfo = UTC) -> Assertion:
    """Read one sentence. `said_at` (ISO 8601, "" when unknown) is what "yesterday" counts from, in days of `zone`."""
    sentence = one_line(text)
    plain = without_weekdays(sentence)
    whole, ends = _read(plain, said_at, speaker, zone)
    whole = msgspec.structs.replace(whole, text=sentence)
    if not ends or not (whole.dates or whole.quantities):
        return whole
    pieces = [plain[start:end] for start, end in pairwise([0, *ends, len(plain)])]
    parts = (_part(_read(piece, said_at, speaker, zone)[0], whole) for piece in pieces if piece.strip())
    return msgspec.structs.replace(whole, parts=tuple(part for part in parts if part.dates or part.quantities))


def one_line(text: str) -> str:
    """The sentence without what is in square brackets, its words one space apart."""
    return " ".join(_ASIDE.sub(" ", text).split())


def full_negations(text: str) -> str:
    """With `do not` for `don't`."""
    return _CONTRACTED.sub(r"\1 not", text)


def replaces(plain: str) -> bool:
    """Whether the sentence says, without a weekday beside its date, that it takes the place of an earlier one."""
    return bool(_replacements().search(plain.lower()))


def _part(piece: Assertion, whole: Assertion) -> Assertion:
    """A clause with what the whole sentence says of it: its first word is a name when it is one there."""
    said_by = frozenset(name for name in whole.names if name.startswith(_SAID_BY))
    return msgspec.structs.replace(
        piece,
        subject=piece.subject | said_by,
        names=piece.names | said_by | (whole.names & piece.subject),
        hedged=whole.hedged,
        replaces=whole.replaces,
        change=whole.change,
        condition=whole.condition,
    )


def _read(sentence: str, said_at: str, speaker: str, zone: tzinfo) -> tuple[Assertion, list[int]]:
    """A sentence or a part of one, and where in it a clause ends."""
    table = disagreement_words()
    dates, days, undated, taken = dates_in(sentence, said_at, zone)
    times, untimed = read_times(undated)
    numbers = read_numbers(untimed)
    spoken = full_negations(numbers.rest)
    words = lowered(spoken)
    own = table.first_person & set(words[:8])
    names = {
        *_capitalised(sentence),
        *days,
        *numbers.labels,
        *_ORDINAL.findall(numbers.rest),
        *([f"{_SAID_BY}{normalise(speaker)}"] if own and speaker else []),
    }
    read = Assertion(
        text=sentence,
        said_at=said_at,
        subject=frozenset(_telling(words)) | names,
        names=frozenset(names),
        quantities=(*times, *(one for one in numbers.quantities if one.unit or not _is_year(one))),
        dates=dates,
        clauses=_clauses(spoken, frozenset(names)),
        vague=bool(words) and words[0] in table.pronouns and not _IT_TAKES.match(spoken.strip()),
        hedged=bool(table.hedges & set(words)),
        replaces=replaces(sentence),
        asks=sentence.endswith("?"),
        change=read_change(sentence),
        condition=condition_of(sentence),
    )
    return read, _clause_ends(sentence, taken)


def _clause_ends(sentence: str, taken: Sequence[Period]) -> list[int]:
    """Where clauses end, but for the commas inside of dates and numbers."""
    inside = [(period.start, period.end) for period in taken]
    inside += [match.span() for match in _INSIDE_NUMBER.finditer(sentence)]
    ends = [match.start() for match in _CLAUSE_ENDS.finditer(sentence)]
    return [end for end in ends if not any(start <= end < last for start, last in inside)]


@functools.cache
def _replacements() -> re.Pattern[str]:
    """All in one: searched for each by itself they take five times as long."""
    return re.compile("|".join(f"(?:{pattern})" for pattern in disagreement_words().replacements))


@functools.cache
def _opposite() -> dict[str, tuple[str, int]]:
    """A word of the table -> the stem of its pair's positive word, and 1 when it is the negative one."""
    found: dict[str, tuple[str, int]] = {}
    for positive, negative in disagreement_words().opposites:
        found.setdefault(positive, (stem(positive), 0))
        found.setdefault(negative, (found[positive][0], 1))
    return found


@functools.cache
def _same() -> dict[str, str]:
    """A word of the table -> the stem of the first of those that say the same."""
    return {word: stem(group[0]) for group in disagreement_words().same for word in group}


def _is_year(quantity: Quantity) -> bool:
    return bool(_YEAR.fullmatch(quantity.text))


# -------------------------------------------------------------------------------------------------------------- words


def _telling(words: list[str]) -> list[str]:
    """The stems of the words that say what a sentence is about."""
    idle, same = _idle(), _same()
    return [same.get(word) or stem(word) for word in words if word not in idle and not word[0].isdigit()]


@functools.cache
def _idle() -> frozenset[str]:
    """Words that do not say what a sentence is about."""
    table = disagreement_words()
    return frozenset(stop_words() | table.about_changes | table.hedges | table.negations)


def _capitalised(sentence: str) -> list[str]:
    """Stems of words with a capital inside the sentence, not where one is due anyway, months and weekdays left out."""
    words = [word for word in cut(sentence)[1:] if word.text[0].isupper() and word.text != "I"]
    named = [word.lower for word in words if not _OPENS.search(sentence[max(0, word.start - 6) : word.start])]
    return [stem(word) for word in named if word not in MONTHS and word not in WEEKDAYS and word not in stop_words()]


def _clauses(spoken: str, names: frozenset[str]) -> tuple[Clause, ...]:
    """The clauses of a sentence that state something; each is about the sentence's names."""
    read = [_clause(part) for part in _CLAUSE_ENDS.split(spoken)]
    return tuple(
        msgspec.structs.replace(one, words=one.words | names, own=one.words - names)
        for one in read
        if len(one.words) > 1
    )


def _clause(part: str) -> Clause:
    table, opposites, idle, same = disagreement_words(), _opposite(), _idle(), _same()
    negations = 0
    kept: set[str] = set()
    opposite: set[str] = set()
    written = lowered(part)
    for word in written:
        if word in table.negations:
            negations += 1
        elif word in opposites and (word not in stop_words() or _ends_so(part, word)):
            token, sign = opposites[word]
            kept.add(token)
            opposite |= {token} if sign else set()
        elif word not in idle and not word[0].isdigit():
            kept.add(same.get(word) or stem(word))
    denied = _DID_NOT.search(" ".join(written))
    return Clause(
        frozenset(kept),
        bool(negations % 2),
        frozenset(opposite),
        written=frozenset(written),
        did_not=denied["verb"] if denied else "",
        rule=is_rule(part),
    )


def _ends_so(part: str, word: str) -> bool:
    """ "on" and "off" are opposites only where the clause ends with them: the light is on."""
    return bool(re.search(rf"\b{word}\W*$", part))
