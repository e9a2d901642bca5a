"""Whole words and listed texts: slurs, profanity, names and phrases. A word inside another word is none of them."""

import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from gaiad.base.text import fold


class Item(NamedTuple):
    """text[start:end] is of this kind; what matches `tail` right behind it belongs to it too, however long.

    A tail looks at most one character ahead, and that only behind one of `.!?:@&`.
    """

    start: int
    end: int
    kind: str
    tail: re.Pattern[str] | None = None


Finder = Callable[[str, int], Item | None]
"""The first item of a text that begins at or behind a place."""


_WORD = re.compile(r"[^\W_]+")
_START = re.compile(r"\$?[^\W_]+")
_WITH_SIGNS = re.compile(r"\$?[^\W_]{1,40}(?:[@$!][^\W_]{1,40}){1,3}(?![^\W_])")
_SEPARATORS = r"[\s._*`~-]"  # of two words of a listed text: bold, joined, over two lines
_BETWEEN = _SEPARATORS + "{1,4}"
_SIGNS = frozenset("@$!")
_LONGEST_WORD = 40
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3001-\u30ff\u3400-\u9fff\uac00-\ud7af]")


class WordFinder:
    """Words of a list as items of one kind, also with some letters written as digits or signs."""

    def __init__(self, words: Collection[str], kind: str, letters: Mapping[str, str]) -> None:
        self.words = frozenset(fold(word.casefold()) for word in words)
        self._kind = kind
        self._letters = str.maketrans(dict(letters))

    def __call__(self, text: str, place: int) -> Item | None:
        """The first word of the list that begins at or behind the place."""
        for found in _START.finditer(text, place):
            start, end = found.span()
            if text[start] != "$" and _inside(text, start):
                continue
            if end - start <= _LONGEST_WORD and self._listed(found[0]):
                return Item(start, end, self._kind)
            longer = _WITH_SIGNS.match(text, start) if text[end : end + 1] in _SIGNS else None
            if longer and self._listed(longer[0]):
                return Item(start, longer.end(), self._kind)
        return None

    def _listed(self, word: str) -> bool:
        folded = word.casefold()
        if folded in self.words:
            return True
        return not word.isalpha() and not word.isdigit() and folded.translate(self._letters) in self.words


def words_in(text: str) -> list[str]:
    """All words of a text, for a quick look whether any is on a list."""
    return _WORD.findall(text.casefold())


def spellings(texts: Iterable[str]) -> list[str]:
    """Listed texts with single spaces, composed and decomposed."""
    tidy = [" ".join(text.split()) for text in texts]
    return [fold(unicodedata.normalize(form, text)) for text in tidy for form in ("NFC", "NFD")]


def find_listed(texts: Iterable[str], kind: str, *, any_case: bool) -> Finder:
    """Listed texts as items of one kind, the longest first; white space in them may be written in other ways.

    Without `any_case` a single word counts only as it is listed and in capitals: Rose, ROSE, but no rose.
    """
    written = sorted(set(spellings(texts)), key=lambda text: (-len(text), text))
    pattern = re.compile("|".join(_pattern(text, any_case=any_case or " " in text) for text in written))

    def find(text: str, place: int) -> Item | None:
        found = pattern.search(text, place)
        return Item(found.start(), found.end(), kind) if found else None

    return find


def _pattern(text: str, *, any_case: bool) -> str:
    words = [re.escape(word).replace("'", "['’]") for word in text.split()]
    body = _BETWEEN.join(words)
    if any_case:
        body = f"(?i:{body})"
    elif text.upper() != text:
        body = f"(?:{body}|{re.escape(text.upper())})"
    before = "" if _UNSPACED.match(text[0]) else r"(?<![^\W_])"
    behind = "" if _UNSPACED.match(text[-1]) else r"(?![^\W_])"
    return before + body + behind


def _inside(text: str, place: int) -> bool:
    """Whether a word goes on from before the place."""
    return place > 0 and text[place - 1].isalnum()


SPELLED_DOT = r"\s{1,2}(?i:dot)\s{1,2}"
_SPELLS_NEXT = re.compile(r"(?:[\[({]\s?)?(?:(?:a|do?)?\Z|(?:at|dot)(?![^\W_]))|[\[({]\s?[@.]|[\])}]", re.IGNORECASE)
_SPELLED_BEFORE = re.compile(r"(?:(?<![^\W_])(?:at|dot)|[\[({]\s?[@.])(?:\s?[\])}])?\Z", re.IGNORECASE)
_UNSPACED_SCRIPTS = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3001-\u30ff\u3400-\u9fff\uac00-\ud7af\uff01-\uff0f"
_PLACE = re.compile(rf"\s+|[{_UNSPACED_SCRIPTS}]")
_UNSPACED_CHARACTER = re.compile(f"[{_UNSPACED_SCRIPTS}]")
_IN_HOME = re.compile(r"(?:/home/|[/\\]Users[/\\]{1,2})[^/\\]{0,100}\Z")
_LEFT = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789)/–-:=")
_RIGHT = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789(+/–-:=")
_ANYTHING = frozenset(":=")
_NAMED_SECRETS = ("bearer", "password", "passwort", "passwd", "secret", "token", "key")
_SPELLED_LEFT = re.compile(r"[A-Za-z0-9À-ɏ._%+'\[({\])}-]").match
_MOST_SPACES = 8
_STEP = 64
_LOOK_BACK = 128


class Breaks:
    """Breaks of texts in which the listed names and phrases may stand."""

    def __init__(self, listed: Iterable[str], also: Callable[[str], bool]) -> None:
        """`also` says of the text before a space whether something may go on behind it."""
        self._also = also
        opened = _beginnings(listed) + tuple(word + quote for word in _NAMED_SECRETS for quote in ("", '"', "'"))
        self._open = tuple({*opened, *filter(None, map(_spaced, opened))})

    def last(self, text: str, start: int) -> int:
        """The last break behind `start`, that is where the text behind it begins; -1 when there is none.

        The text may go on: white space at its end is a break only if it is one whatever comes next.
        """
        end = len(text)
        space = text.rfind(" ", start)
        if space > start and not text[space - 1].isspace() and not _PLACE.search(text, space + 1):
            if self._breaks(text, space, space + 1):  # as nearly always: one space before the last word
                return space + 1
            end = space
        while end > start:
            window = max(start, end - _STEP)
            for found in reversed(list(_PLACE.finditer(text, window, end))):
                if self._breaks(text, *found.span()):
                    return found.end()
            end = window
        return -1

    def _breaks(self, text: str, start: int, end: int) -> bool:
        before = text[max(0, start - _LOOK_BACK) : start]
        if not text[start].isspace():
            return not self._goes_on(text[max(0, end - _LOOK_BACK) : end])
        if not before or end - start > _MOST_SPACES:
            return True
        left, right = before[-1], text[end : end + 1]
        if left.isspace():  # the rest of white space that was looked at from its middle
            return False
        if (_SPELLED_LEFT(left) and _SPELLS_NEXT.match(text, end)) or _SPELLED_BEFORE.search(before[-8:]):
            return False
        if left in _ANYTHING or (left in _LEFT and (not right or right in _RIGHT)) or before.endswith("-----"):
            return False
        return not self._goes_on(before)

    def _goes_on(self, before: str) -> bool:
        read = before.casefold()
        if read.endswith(self._open) or _spaced(read).endswith(self._open) or self._also(before):
            return True
        return ("/home/" in before or "Users" in before) and _IN_HOME.search(before) is not None


def _spaced(text: str) -> str:
    """With one space for whatever separates its words, and none at its end."""
    return re.sub(f"{_SEPARATORS}+", " ", text).rstrip()


def _beginnings(listed: Iterable[str]) -> tuple[str, ...]:
    """How listed texts begin, up to each place that were a break without them."""
    found: set[str] = set()
    for text in listed:
        folded = text.casefold()
        found.update(folded[: place.start()] for place in re.finditer(r"\s", folded))
        found.update(folded[: place.end()] for place in _UNSPACED_CHARACTER.finditer(folded[:-1]))
    return tuple(sorted(found))
