"""Names on a page by their capital letters: people, places and things, as written, several words as one name.

A capital letter that opens a sentence says nothing by itself; such a word is a name when it stands with a capital
letter inside a sentence too, when another capitalised word follows, or when what follows is what people do.
"""

import re
from collections.abc import Collection, Iterator, Sequence

_LETTERS = r"[^\W_]++(?:[\u0300-\u036f]++[^\W_]*+)*+"  # an accent may be a character of its own
_WORD = re.compile(rf"{_LETTERS}(?:['’\-.&]{_LETTERS})*")
_CLAUSE = re.compile(r"[^,;:!?()\[\]\"“”„«»—–|/*_~=<>{}+]+")
_OPENERS = frozenset(':!?"“”„«»([—–|*_')
_JOINERS = frozenset(
    ("of", "de", "del", "della", "di", "da", "van", "von", "der", "den", "la", "le", "el", "al", "bin")
)
_MARKS = {ord(mark): None for mark in "'’."}
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
        words = _WORD.findall(match.group())
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
    spelled = plain.lower().translate(_MARKS)
    return len(plain) > 1 and spelled not in not_names and (stem not in not_names or stem == plain.lower())


def _is_initials(word: str) -> bool:
    return 2 <= len(word) <= 6 and word.isupper() and word.isalpha()


def _bare(word: str) -> str:
    """Without a possessive ending."""
    return word[:-2] if word.endswith(("'s", "’s")) else word
