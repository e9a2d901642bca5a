"""Where markers stand in a text that is being written, for the observer: whatever the router would open, it sees first.

Forms and fences are read by the router's own rules (`constants.marker_forms`, `constants.fences`). Whether a spelling
that is also ordinary text counts is decided as the router's parser decides it, or more strictly: what is seen here and
not opened there costs an interrupt, what is opened there unseen would cost the rule. Pure, linear in the text.
"""

from typing import NamedTuple

from constants.fences import Fences
from constants.marker_forms import LONGEST_HEAD, MOST_DEPTH, Forms, Head, Marker

_SEED: Marker = "THOUGHT_SEED"
_DEFAULT: Marker = "RESPONSE"
_AROUND_SEEDS = ("PLAN", "RESPONSE", "VERIFY")
_WAIT = -1


class Found(NamedTuple):
    """A marker that opens a block, and the first character of it as it is spelled."""

    marker: Marker
    at: int


class _Block(NamedTuple):
    marker: Marker
    loose: bool = False
    indent: int = 0


class MarkerRule:
    """Feed the text; what comes back are the markers that are settled by then, in order.

    `held_from` is where a line's beginning stands that may still become one. `text_from` is where
    the line's own words begin, behind its markers; `fenced` says that it stands in code or in thoughts, where nothing
    is a marker.
    """

    def __init__(self) -> None:
        self._forms = Forms("tolerant")
        self._fences = Fences()
        self._held = ""
        self._at = 0  # of the first held character
        self._at_head = True
        self._behind = False
        self._thought = ""
        self._blocks: list[_Block] = []
        self._said = False  # words before any block
        self._begun = False  # words since the last marker
        self._found: list[Found] = []
        self.text_from = 0

    @property
    def open(self) -> Marker | None:
        """The innermost block; None before the first and behind the last."""
        return self._blocks[-1].marker if self._blocks else None

    @property
    def held_from(self) -> int | None:
        """None when nothing is undecided."""
        return self._at if self._held else None

    @property
    def fenced(self) -> bool:
        """Whether what is read now stands in a code fence or in thoughts."""
        return self._fences.level > 0 or bool(self._thought)

    def feed(self, text: str) -> list[Found]:
        """More of the text."""
        return self._read(self._held + text, final=False)

    def finish(self) -> list[Found]:
        """No more text comes."""
        return self._read(self._held, final=True)

    def _read(self, text: str, *, final: bool) -> list[Found]:
        self._found = []
        settled = text.removesuffix("" if final else "\r")
        place, end = 0, len(settled)
        while place < end:
            if self._thought:
                after = self._thinks(settled, place, final=final)
            elif self._at_head:
                after = self._head(settled, place, final=final)
            else:
                after = self._line(settled, place)
            if after == _WAIT:
                break
            self._at += after - place
            place = after
        self._held = text[place:]
        return self._found

    def _line(self, text: str, place: int) -> int:
        newline = text.find("\n", place)
        after = newline + 1 or len(text)
        self._fences.rest(text[place:after].replace("\r\n", "\n"))
        self._words(text[place:after])
        if newline >= 0:
            self._fences.end_line()
            self._at_head, self._behind = True, False
            self.text_from = self._at + after - place
        return after

    def _head(self, text: str, place: int, *, final: bool) -> int:
        """A line's beginning up to the marker or fence in it, or _WAIT while one may still come."""
        newline = text.find("\n", place, place + LONGEST_HEAD + 1)
        stop = len(text) if newline < 0 else newline - (newline > place and text[newline - 1] == "\r")
        if stop - place >= LONGEST_HEAD:
            newline, stop = -1, place + LONGEST_HEAD
        head = text[place:stop]
        ended = newline >= 0 or (final and stop == len(text))
        whole = ended or len(head) == LONGEST_HEAD
        fenced = self._fences.level > 0
        if fence := self._fences.begin(head):
            if fence == len(head) and not whole:
                return _WAIT
            self._words(head[:fence])
            self._at_head = False
            return place + fence
        if not fenced and (after := self._sign(head, place, ended=ended, whole=whole)):
            return after
        if not whole and self._forms.may_become(head, fenced=fenced):
            return _WAIT
        if newline >= 0 and not fenced and not self._behind and not head.strip():
            self._blank_line()
        self._at_head = False
        return place

    def _sign(self, head: str, place: int, *, ended: bool, whole: bool) -> int:
        """What a thought's tag, a chain or a marker at the line's beginning does; 0 when there is none that counts."""
        if tag := self._forms.thought(head):
            self._thought = f"</{tag[1]}>"
            return place + tag.end()
        if length := self._forms.chain(head):
            self._words(head[:length])
            return place + length
        marker = self._forms.marker(head, ended=ended)
        if marker is None:
            return 0
        if not whole and self._forms.may_grow(head, marker.length):
            return _WAIT
        if not self._counts(marker):
            return 0
        spelled = head[: marker.length]
        self._found.append(Found(marker.marker, self._at + len(spelled) - len(spelled.lstrip())))
        self.text_from = self._at + marker.length
        if marker.marker == "EXECUTE" and self._behind:  # the router reads it as text, so that nothing opens
            return 0
        self._opens(marker)
        return place + marker.length

    def _counts(self, head: Head) -> bool:
        """Whether it counts where it stands."""
        if head.marker == "EXECUTE" and head.loose:
            return False
        in_seed = head.marker == _SEED == self.open
        if not self._behind and not in_seed and head.indent > self._forms.deepest_indent:
            return False
        if not head.loose or head.marker == _SEED:
            return True
        if not self._blocks:
            return not self._said or head.marker == _DEFAULT
        outer = self._blocks[0]
        return outer.marker != _DEFAULT and (outer.loose or head.marker == _DEFAULT)

    def _opens(self, head: Head) -> None:
        nests = head.marker == _SEED
        if nests and self._said and not self._blocks:
            self._blocks.append(_Block(_DEFAULT))
        while self._blocks and not (nests and self._holds(self._blocks[-1], head)):
            self._blocks.pop()
        self._blocks.append(_Block(head.marker, head.loose, head.indent))
        self._said = self._begun = False
        self._behind = True

    def _holds(self, block: _Block, seed: Head) -> bool:
        """Whether the thought for later stands inside this block."""
        if block.marker != _SEED:
            return block.marker in _AROUND_SEEDS
        return len(self._blocks) <= MOST_DEPTH and (self._behind or seed.indent > block.indent)

    def _blank_line(self) -> None:
        """Thoughts for later end here, inside a block and by themselves."""
        if self.open == _SEED and self._begun:
            del self._blocks[0 if self._blocks[0].marker == _SEED else 1 :]

    def _words(self, text: str) -> None:
        if text.strip():
            self._begun = True
            self._said = self._said or not self._blocks

    def _thinks(self, text: str, place: int, *, final: bool) -> int:
        """Thoughts up to the tag that ends them."""
        end = text.find(self._thought, place)
        if end < 0:
            kept = 0 if final else len(self._thought) - 1
            after = max(place, len(text) - kept)
            return after if after > place else _WAIT
        after = end + len(self._thought)
        self._thought, self._at_head = "", True
        return after
