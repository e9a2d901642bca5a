"""A text redacted while it streams: pieces in, what can be shown out, and counts and kinds of what was taken.

Text is settled up to the last break, or, where there is none, up to a window before its end; what begins in the settled
part is decided by what has been read. So any split gives the same text, and at most a window and a part of one is held
back (`LARGEST_WAIT` windows). Linear in the text.
"""

import re
import unicodedata
from collections.abc import Collection

import msgspec

from gaiad.base.channels import Stage
from gaiad.base.text import IGNORABLE, JOINERS, fold
from router.redact.rules import JOINED_SCRIPTS, RedactionRules
from router.redact.settings import STAGES
from router.redact.words import Finder, Item, WordFinder

LARGEST_WAIT = 1.25
_UNDECIDED = frozenset(["", *".!?:@&"])  # whether a tail goes on behind such a sign, the next character says
_STROKE = re.compile("[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]")
_JOINER = re.compile(f"[{JOINERS}]")


def _strikes(character: str, last: str) -> bool:
    """Whether it is a line through, under or around the character before it, and no part of a letter."""
    if not (last and last.isascii() and _STROKE.match(character)):
        return False
    return len(unicodedata.normalize("NFC", last + character)) == 2


class Redaction(msgspec.Struct, frozen=True):
    """So many items of a kind were taken out."""

    kind: str
    count: int


class Redacted(msgspec.Struct, frozen=True):
    """A whole text as it may leave, and what was taken out of it."""

    text: str
    redactions: list[Redaction]


class Redactor:
    """One stream on its way to one channel: feed its pieces, show what comes back, `finish` gives the rest.

    Without stages every piece passes as it is. Characters that nobody sees are taken out before anything is looked for;
    joiners stay in pictures, and in scripts that need them unless a name of such a script is listed. What looks like
    another character is looked for as that one (`folding`).
    """

    def __init__(self, rules: RedactionRules, stages: Collection[Stage] = STAGES) -> None:
        self._rules = rules
        self._finders = rules.finders(stages)
        self._wordless = [finder for finder in self._finders if not isinstance(finder, WordFinder)]
        self._window = rules.window_characters
        self._step = int(self._window * (LARGEST_WAIT - 1))
        self._text = ""  # what was read: some that has left, for its context, and what is held back
        self._folded = ""  # the same as it reads, character for character
        self._place = 0  # where the held back part begins
        self._break = -1  # the last break
        self._looked = 0  # no break between the place and here
        self._tail: re.Pattern[str] | None = None  # of the item that the last text belongs to
        self._taken = ""  # the kind of the item that ended just before the place
        self._counts: dict[str, int] = {}

    @property
    def redactions(self) -> list[Redaction]:
        """What was taken out so far, by kind."""
        return [Redaction(kind, count) for kind, count in sorted(self._counts.items())]

    def feed(self, piece: str) -> str:
        """What can be shown by now."""
        if not self._finders:
            return piece
        if not piece.isascii() and (IGNORABLE.search(piece) or _STROKE.search(piece)):
            piece = self._without_ignorable(piece)
        self._text += piece
        self._folded += fold(piece)
        return self._advance(final=False)

    def _without_ignorable(self, piece: str) -> str:
        kept, last = [], self._text[-1:]
        for character in piece:
            hides = IGNORABLE.match(character) and not (_JOINER.match(character) and self._joins(last))
            if not hides and not _strikes(character, last):
                kept.append(character)
                last = character
            else:
                self._count("hidden_character", 1)
        return "".join(kept)

    def _joins(self, last: str) -> bool:
        """Whether a joiner behind this character may belong there."""
        if not last or unicodedata.category(last) in ("So", "Sk") or _JOINER.match(last):
            return bool(last)
        return ord(last) in JOINED_SCRIPTS and self._rules.keeps_joiners and not fold(last).isascii()

    def finish(self) -> str:
        """What was held back: no more text comes."""
        return self._advance(final=True)

    def _advance(self, *, final: bool) -> str:
        if self._tail is not None:
            self._swallow(self._tail, final=final)
        if self._tail is not None:
            self._forget()
            return ""
        end = len(self._text) if final else self._settled()
        if end <= self._place:
            return ""
        begun = self._folded[self._place : end if final or end == self._break else None]
        if self._rules.may_hold_items(begun):
            finders = self._finders if self._rules.may_hold_words(begun) else self._wordless
            shown = self._scrub(finders, end, final=final)
        else:
            shown, self._place, self._taken = self._text[self._place : end], end, ""
        self._forget()
        return shown

    def _settled(self) -> int:
        """Where the part ends in which all that begins can be decided."""
        text = self._folded
        place, looked = self._place, self._looked
        self._break = self._rules.breaks.last(text, looked if looked > place else place)
        if self._break < 0:
            self._looked = len(text.rstrip()) if text[-1:].isspace() else len(text)
        end = len(text) - self._window
        return end if end > self._break and end - place >= self._step else self._break

    def _scrub(self, finders: list[Finder], end: int, *, final: bool) -> str:
        """What is shown of the settled text, its items taken out."""
        text, folded, shown = self._text, self._folded, []
        ahead = [finder(folded, self._place) for finder in finders]
        while True:
            for number, item in enumerate(ahead):
                if item is not None and item.start < self._place:
                    ahead[number] = finders[number](folded, self._place)
            first = min((item for item in ahead if item is not None), key=_start, default=None)
            if first is None or first.start >= end:
                break
            shown.append(text[self._place : first.start])
            shown.append(self._take(first, final=final))
            if self._tail is not None:
                break
        if self._tail is None and self._place < end:
            shown.append(text[self._place : end])
            self._place, self._taken = end, ""
        return "".join(shown)

    def _take(self, item: Item, *, final: bool) -> str:
        """Take an item out, with its tail; one that goes on right behind another of its kind is part of it."""
        joined = item.start == self._place and item.kind == self._taken
        self._place, self._taken = item.end, item.kind
        if item.tail is not None:
            self._swallow(item.tail, final=final)
        if joined:
            return ""
        self._count(item.kind, 1)
        return self._rules.placeholders[item.kind]

    def _swallow(self, tail: re.Pattern[str], *, final: bool) -> None:
        """Pass over what belongs to the last item; the tail stays open while it may go on."""
        found = tail.match(self._folded, self._place)
        self._place = found.end() if found else self._place
        self._tail = tail if not final and self._folded[self._place :] in _UNDECIDED else None

    def _forget(self) -> None:
        """Keep no more of what has left than the context."""
        cut = self._place - self._rules.context_characters
        if cut > 0:
            self._text = self._text[cut:]
            self._folded = self._folded[cut:]
            self._place -= cut
            self._looked = self._looked - cut if self._looked > cut else 0

    def _count(self, kind: str, count: int) -> None:
        self._counts[kind] = self._counts.get(kind, 0) + count


def redact(text: str, rules: RedactionRules, stages: Collection[Stage] = STAGES) -> Redacted:
    """A whole text as its stream would be redacted."""
    redactor = Redactor(rules, stages)
    shown = redactor.feed(text) + redactor.finish()
    return Redacted(shown, redactor.redactions)


def _start(item: Item) -> int:
    return item.start
