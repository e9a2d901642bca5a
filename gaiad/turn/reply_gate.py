"""What stands between a model's text and the person: the stage's marker goes, citations of unknown packets go. Pure.

Text is released as it comes, except for what may still become a marker or a citation. A citation can only be of a
packet that stood in the context (decision 22); one that is made up is taken out, with the space before it, and counted.
"""

import re
from collections.abc import Collection

from gaiad.archive.reading.reader import ID_MAX_CHARS

_OPENING = "[Packet:"
_LONGEST_INSIDE = ID_MAX_CHARS + 8  # an id with the spaces around it
_LONGEST_OPEN = len(_OPENING) + _LONGEST_INSIDE
_CITATION = re.compile(rf" ?\[Packet:([^\[\]\n]{{1,{_LONGEST_INSIDE}}})\]")


class ReplyGate:
    """Feed pieces, take what may be shown; `finish` gives the rest. `removed` are ids that nobody gave the model."""

    def __init__(self, marker: str, known: Collection[str]) -> None:
        self._marker = f"{marker}:"
        self._known = frozenset(known)
        self._begun = False
        self._held = ""
        self.removed: list[str] = []
        self.cited: list[str] = []

    def feed(self, text: str) -> str:
        """What can be shown by now."""
        self._held += text
        if not self._begun and not self._begin(final=False):
            return ""
        keep = _open_at(self._held)
        shown, self._held = self._held[:keep], self._held[keep:]
        return self._check(shown)

    def finish(self) -> str:
        """What was held back: no more text comes."""
        self._begin(final=True)
        shown, self._held = self._held, ""
        return self._check(shown)

    def _begin(self, *, final: bool) -> bool:
        """Drop the marker and the space around it; False while it may still come."""
        if self._begun:
            return True
        text = self._held.lstrip()
        if not final and (not text or (len(text) < len(self._marker) and self._marker.startswith(text))):
            return False
        found = text.startswith(self._marker)
        rest = text[len(self._marker) :].lstrip() if found else text
        if found and not rest and not final:
            return False
        self._held, self._begun = rest, True
        return True

    def _check(self, text: str) -> str:
        return _CITATION.sub(self._citation, text)

    def _citation(self, found: re.Match[str]) -> str:
        packet = found[1].strip()
        if packet in self._known:
            if packet not in self.cited:
                self.cited.append(packet)
            return found[0]
        self.removed.append(packet)
        return ""


def _open_at(text: str) -> int:
    """Where a citation that is not closed yet may begin, with the space before it; the length when none does."""
    start = text.rfind("[")
    tail = text[start:] if start >= 0 else ""
    open_ = tail and len(tail) <= _LONGEST_OPEN and not ("]" in tail or "\n" in tail)
    if not open_ or not (tail.startswith(_OPENING) or _OPENING.startswith(tail)):
        start = len(text)
    return start - 1 if text[:start].endswith(" ") else start
