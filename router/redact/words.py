"""Whole words and listed texts: slurs, profanity, names and phrases. A word inside another word is none of them."""

import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping

from router.redact.items import Finder, Item

_WORD = re.compile(r"[^\W_]+")
_START = re.compile(r"\$?[^\W_]+")
_WITH_SIGNS = re.compile(r"\$?[^\W_]{1,40}(?:[@$!][^\W_]{1,40}){1,3}(?![^\W_])")
_SIGNS = frozenset("@$!")
_LONGEST_WORD = 40
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3001-\u30ff\u3400-\u9fff\uac00-\ud7af]")


class WordFinder:
    """Words of a list as items of one kind, also with some letters written as digits or signs."""

    def __init__(self, words: Collection[str], kind: str, letters: Mapping[str, str]) -> None:
        self.words = frozenset(map(str.casefold, words))
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
    return [unicodedata.normalize(form, text) for text in tidy for form in ("NFC", "NFD")]


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
    body = r"\s{1,2}".join(words)
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
