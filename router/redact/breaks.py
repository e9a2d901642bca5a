"""Where no item can go on: text before such a place is settled, and what waits for an end is held back no longer.

Most white space is a break, and in scripts written without it every character. White space within numbers, listed
names, keys of many lines and home folders is none.
"""

import re
from collections.abc import Iterable

_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3001-\u30ff\u3400-\u9fff\uac00-\ud7af\uff01-\uff0f"
_PLACE = re.compile(rf"\s+|[{_UNSPACED}]")
_UNSPACED_CHARACTER = re.compile(f"[{_UNSPACED}]")
_IN_HOME = re.compile(r"(?:/home/|[/\\]Users[/\\]{1,2})[^/\\]{0,100}\Z")
_LEFT = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789)/–-:=")
_RIGHT = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789(+/–-:=")
_ANYTHING = frozenset(":=")
_NAMED_SECRETS = ("bearer", "password", "passwort", "passwd", "secret", "token", "key")
_MOST_SPACES = 8
_STEP = 64
_LOOK_BACK = 128


class Breaks:
    """Breaks of texts in which the listed names and phrases may stand."""

    def __init__(self, listed: Iterable[str]) -> None:
        self._open = _beginnings(listed) + tuple(word + quote for word in _NAMED_SECRETS for quote in ("", '"', "'"))
        self._longest_open = max(map(len, self._open))

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
        if left in _ANYTHING or (left in _LEFT and (not right or right in _RIGHT)) or before.endswith("-----"):
            return False
        return not self._goes_on(before)

    def _goes_on(self, before: str) -> bool:
        if before[-self._longest_open :].casefold().endswith(self._open):
            return True
        return ("/home/" in before or "Users" in before) and _IN_HOME.search(before) is not None


def _beginnings(listed: Iterable[str]) -> tuple[str, ...]:
    """How listed texts begin, up to each place that were a break without them."""
    found: set[str] = set()
    for text in listed:
        folded = text.casefold()
        found.update(folded[: place.start()] for place in re.finditer(r"\s", folded))
        found.update(folded[: place.end()] for place in _UNSPACED_CHARACTER.finditer(folded[:-1]))
    return tuple(sorted(found))
