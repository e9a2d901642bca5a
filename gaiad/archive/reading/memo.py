"""The memo of a page: the names, dates, decisions and open questions that it adds to its session so far (JIT).

Rules over the page's own words and nothing else: the same page after the same pages always has the same memo, so a memo
is written with the page and made again by reindex. It seeds planning; the page itself stays the source of truth.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import date
from functools import cache

import msgspec

from constants.load import load
from gaiad.archive.reading.memo_dates import dates_in

_LETTERS = r"[^\W_]++(?:[\u0300-\u036f]++[^\W_]*+)*+"  # an accent may be a character of its own
_NAME_WORD = re.compile(rf"{_LETTERS}(?:['’\-.&]{_LETTERS})*")
_CLAUSE = re.compile(r"[^,;:!?()\[\]\"“”„«»—–|/*_~=<>{}+]+")
_OPENERS = frozenset(':!?"“”„«»([—–|*_')
_JOINERS = frozenset(
    ("of", "de", "del", "della", "di", "da", "van", "von", "der", "den", "la", "le", "el", "al", "bin")
)
_NAME_MARKS = {ord(mark): None for mark in "'’."}
_MAX_WORDS = 4
_NAME_MAX_CHARS = 60


def names_in(sentences: Sequence[str], not_names: Collection[str], acts: Collection[str]) -> Iterator[str]:
    """Names in order of appearance, each once. `not_names` and `acts` are lower-case words without apostrophes."""
    clauses = [clause for sentence in sentences for clause in _clauses(sentence)]
    inside = {
        _bare(word) for words, opens in clauses for word in words[1 if opens else 0 :] if _is_name_word(word, not_names)
    }
    seen: set[str] = set()
    for words, opens in clauses:
        for name in _names_of(words, opens, inside, not_names, acts):
            if name.casefold() not in seen:
                seen.add(name.casefold())
                yield name


def _clauses(sentence: str) -> list[tuple[list[str], bool]]:
    """Runs of words between punctuation, and whether one opens a sentence or a quotation: no name reaches across.

    None for headlines and shouting: capital letters mean nothing there.
    """
    clauses: list[tuple[list[str], bool]] = []
    letters = capital = end = 0
    for match in _CLAUSE.finditer(sentence):
        words = _NAME_WORD.findall(match.group())
        if words:
            clauses.append((words, end == 0 or any(mark in _OPENERS for mark in sentence[end : match.start()])))
            end = match.end()
            letters += sum(word[0].isalpha() for word in words)
            capital += sum(word[0].isupper() for word in words)
    return [] if letters > 3 and capital > 0.8 * letters else clauses


def _names_of(
    words: list[str], opens: bool, inside: set[str], not_names: Collection[str], acts: Collection[str]
) -> Iterator[str]:
    at = 0
    while at < len(words):
        run = _run(words, at, not_names)
        if run:
            name = words[at : at + run]
            bare = _bare(name[-1])
            follows = words[at + run].lower() if at + run < len(words) else ""
            within = at > 0 or not opens
            sure = within or run > 1 or bare != name[-1] or bare in inside or _is_initials(bare) or follows in acts
            joined = " ".join([*name[:-1], bare])
            if sure and len(joined) <= _NAME_MAX_CHARS:
                yield joined
        at += run or 1


def _run(words: list[str], at: int, not_names: Collection[str]) -> int:
    """How many words from `at` on make one name: capitalised ones, small joining words between them."""
    length = 0
    while at + length < len(words) and length < _MAX_WORDS:
        word = words[at + length]
        if _is_name_word(word, not_names):
            length += 1
            if word != _bare(word):
                break
        elif 0 < length < _MAX_WORDS - 1 and word in _JOINERS and _next_is_name(words, at + length + 1, not_names):
            length += 1
        else:
            break
    return length


def _next_is_name(words: list[str], at: int, not_names: Collection[str]) -> bool:
    return at < len(words) and _is_name_word(words[at], not_names)


def _is_name_word(word: str, not_names: Collection[str]) -> bool:
    if not word[0].isupper() or len(word) < 2:
        return False
    plain = _bare(word)
    stem = plain.replace("’", "'").partition("'")[0].lower()
    spelled = plain.lower().translate(_NAME_MARKS)
    return len(plain) > 1 and spelled not in not_names and (stem not in not_names or stem == plain.lower())


def _is_initials(word: str) -> bool:
    return 2 <= len(word) <= 6 and word.isupper() and word.isalpha()


def _bare(word: str) -> str:
    """Without a possessive ending."""
    return word[:-2] if word.endswith(("'s", "’s")) else word


MEMO_VERSION = 1  # raise it when a rule here, its words or what it lists changes: reindex then makes every memo again
_MAX_NAMES = 12
_MAX_DATES = 8
_MAX_SENTENCES = 3
_SENTENCE_MAX_CHARS = 160
_MIN_QUESTION_WORDS = 3

_LEFT_OUT = re.compile(
    r"```.*?(?:```|\Z)|`[^`\n]*`|\[Packet: [^\]\n]*\]|https?://\S+|^[ \t]*>[^\n]*$", re.DOTALL | re.MULTILINE
)
_SENTENCE = re.compile(r"[^.!?\n…]+(?:[.!?…](?!\s|$)[^.!?\n…]*)*[.!?…]*")
_MARKS = re.compile(r"^[\s#>*_\-•\d.)\]]*\s")
_WORD = re.compile(r"\w+(?:['’]\w+)?")


class MemoWords(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """constants/memo_words.toml."""

    decided: tuple[str, ...]
    hedges: tuple[str, ...]
    open: tuple[str, ...]
    no_names: tuple[str, ...]
    acts: tuple[str, ...]


class MemoItems(msgspec.Struct, frozen=True, kw_only=True):
    """What a page says, or adds, in the order it is there. `dates` are ISO days or months."""

    names: tuple[str, ...] = ()
    dates: tuple[str, ...] = ()
    decisions: tuple[str, ...] = ()
    open_questions: tuple[str, ...] = ()


def read_memo(text: str, day: date, *, answered: bool) -> MemoItems:
    """What is on a page written on `day` (the user's). `answered`: its questions were answered in the same turn."""
    words = load("memo_words.toml", MemoWords)
    plain = _without_quotations(text)
    sentences = list(_sentences(plain))
    return MemoItems(
        names=tuple(names_in(sentences, _not_names(), frozenset(words.acts)))[:_MAX_NAMES],
        dates=tuple(dates_in(plain, day))[:_MAX_DATES],
        decisions=_once(each for each in sentences if _decides(each))[:_MAX_SENTENCES],
        open_questions=_once(each for each in sentences if _is_open(each, answered=answered))[:_MAX_SENTENCES],
    )


def memo_keys(items: MemoItems) -> list[tuple[str, str]]:
    """(key, item) for each item: what is compared to tell whether the session knows it. A name's parts are keys too."""
    keys = [(f"name:{name.casefold()}", name) for name in items.names]
    keys += [(f"date:{day}", day) for day in items.dates]
    keys += [(f"said:{_spelled(sentence)}", sentence) for sentence in (*items.decisions, *items.open_questions)]
    return keys


def implied_keys(name: str) -> list[str]:
    """Keys a session knows as well once it knows `name`: Anna and Schmidt after Anna Schmidt."""
    parts = name.casefold().split()
    return [f"name:{part}" for part in parts if len(part) > 2] if len(parts) > 1 else []


def keep_items(items: MemoItems, fresh: Iterable[str]) -> MemoItems:
    """`items` with only those that are in `fresh`."""
    wanted = set(fresh)
    return MemoItems(
        **{name: tuple(each for each in getattr(items, name) if each in wanted) for name in items.__struct_fields__}
    )


def memo_text(items: MemoItems) -> str:
    """The memo in one line; "" when there is nothing in it."""
    parts = [
        f"{label}: {separator.join(found)}"
        for label, separator, found in (
            ("Names", ", ", items.names),
            ("Dates", ", ", items.dates),
            ("Decided", " | ", items.decisions),
            ("Open", " | ", items.open_questions),
        )
        if found
    ]
    return "; ".join(parts)


def merged(memos: Sequence[MemoItems]) -> MemoItems:
    """One memo of a session out of its pages', of the same size: first names, last dates, decisions and questions."""
    return MemoItems(
        names=_once(name for items in memos for name in items.names)[:_MAX_NAMES],
        dates=_once(day for items in memos for day in items.dates)[-_MAX_DATES:],
        decisions=_once(each for items in memos for each in items.decisions)[-_MAX_SENTENCES:],
        open_questions=_once(each for items in memos for each in items.open_questions)[-_MAX_SENTENCES:],
    )


def _once(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))


def _without_quotations(text: str) -> str:
    """The page's own words: without code, links, quoted lines and packet ids."""
    return _LEFT_OUT.sub(" ", text)


def _sentences(text: str) -> Iterator[str]:
    """Sentences on one line each, without list marks, clipped at a word."""
    for match in _SENTENCE.finditer(text):
        sentence = " ".join(_MARKS.sub("", f"{match.group()} ", count=1).split())
        if not sentence.isprintable():
            sentence = "".join(each for each in sentence if each.isprintable())
        if len(sentence) > _SENTENCE_MAX_CHARS:
            sentence = sentence[: _SENTENCE_MAX_CHARS - 1].rsplit(" ", 1)[0] + ("?" if sentence[-1] == "?" else "…")
        if sentence:
            yield sentence


def _decides(sentence: str) -> bool:
    if sentence.rstrip("\"'”)").endswith("?") or _cue("open").search(sentence):
        return False
    found = _cue("decided").search(sentence)
    return found is not None and not _cue("hedges").search(sentence, 0, found.start())


def _is_open(sentence: str, *, answered: bool) -> bool:
    if _cue("open").search(sentence):
        return True
    asks = sentence.rstrip("\"'”)").endswith("?")
    return asks and not answered and len(_WORD.findall(sentence)) >= _MIN_QUESTION_WORDS


@cache
def _cue(name: str) -> re.Pattern[str]:
    """The words of one list as an expression; either apostrophe will do."""
    cues: tuple[str, ...] = getattr(load("memo_words.toml", MemoWords), name)
    alternatives = "|".join(re.escape(cue).replace("'", "['’]") for cue in sorted(cues, key=len, reverse=True))
    return re.compile(rf"(?<![\w'’])(?:{alternatives})(?!\w)", re.IGNORECASE)


@cache
def _not_names() -> frozenset[str]:
    stop = load("stop_words.toml", _StopWords).words
    return frozenset((*stop, *load("memo_words.toml", MemoWords).no_names))


class _StopWords(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    words: tuple[str, ...]


def _spelled(sentence: str) -> str:
    return " ".join(word.casefold() for word in _WORD.findall(sentence))
