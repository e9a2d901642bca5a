"""The marker parser (GCP 7.1): a model's output, in any pieces, cut into marked blocks while it is still being written.

A marker begins a line, outside code fences and thoughts. A THOUGHT_SEED may be inside a PLAN, RESPONSE, VERIFY or
another seed and gives way to it again at a blank line; every other marker ends what is open. Text leaves as it comes:
held back are only a line's beginning that may still become a marker, white space that may be a block's end, and, where
a default is set, the first words of all, which are a preamble if a marker follows them. Pure, linear in the text.

EXECUTE is a command, so it counts only in capitals at the beginning of its own line: within a line, in other case or
in a list it is text, and the notes say so.

Three readers share it: a turn reads the answer on its way to people, the observer (council.observer_rules) checks the
same stream before, and the council (council.stage_output) reads finished replies of a stage.
"""

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

import msgspec

from gaiad.base.marker_forms import (
    INVISIBLE,
    LONGEST_HEAD,
    Fences,
    Forms,
    Frame,
    Marker,
    MarkerHead,
    MarkerPiece,
    Mode,
    Pieces,
)

PREAMBLE_CHARACTERS = 120
MOST_NOTES = 20
MOST_DEPTH = 8
"""Seeds nest this deep; a deeper one ends the one before it."""
_SEED: Marker = "THOUGHT_SEED"
_AROUND_SEEDS = ("PLAN", "RESPONSE", "VERIFY", _SEED)
_INLINE = "EXECUTE:"
_WAIT = -1


class Sighting(NamedTuple):
    """A marker as the text spells it. `at` is its first character in the stream.

    An EXECUTE behind another marker is sighted though it opens no block.
    """

    marker: Marker
    at: int


class MarkedBlock(msgspec.Struct, frozen=True):
    """A whole block, "" being text that belongs to no marker. `text` is its own, without that of blocks inside it."""

    marker: Marker | Literal[""]
    text: str
    depth: int
    thought: bool = False


class MarkedOutput(msgspec.Struct, frozen=True):
    """The blocks in the order in which they open, and what was tolerated, in words."""

    blocks: list[MarkedBlock]
    notes: list[str]


class MarkerParser:
    """Feed the stream's pieces, take what can be passed on; `finish` gives the rest and closes every block.

    "strict" reads GCP's spelling alone, "tolerant" what models make of it too. Output without a marker is a `default`
    block; with None it belongs to no marker. `others` are markers read beside GCP's six. `notes` say in words what was
    tolerated or was not a marker. `text_from` is where the current line's own words begin, behind its markers.
    """

    def __init__(
        self,
        mode: Mode,
        default: Marker | None,
        *,
        preamble_characters: int = PREAMBLE_CHARACTERS,
        others: Sequence[str] = (),
    ) -> None:
        self.notes: list[str] = []
        self.text_from = 0
        self._tolerant = mode == "tolerant"
        self._forms = Forms(mode, others)
        self._default = default
        self._preamble_characters = preamble_characters if default else 0
        self._fences = Fences()
        self._pieces = Pieces()
        self._frames = self._pieces.frames
        self._sightings: list[Sighting] = []
        self._first = ""  # text before the first block
        self._assumed: Marker | Literal[""] = ""  # the default, once text without a marker was taken for it
        self._held = ""
        self._at = 0  # of the first held character
        self._at_head = True  # the held text begins a line, or is behind a marker
        self._behind = False  # it is behind a marker
        self._thought: re.Pattern[str] | None = None  # the tag that ends the thoughts it is in
        self._tail = ""  # the end of what was read last, in which an EXECUTE within a line may begin

    @property
    def marker(self) -> Marker | Literal[""]:
        """Of the innermost open block; "" outside of blocks."""
        return self._frames[-1].marker if self._frames else ""

    @property
    def fenced(self) -> bool:
        """Whether what is read now is in a code fence or in thoughts, where nothing is a marker."""
        return self._fences.level > 0 or self._thought is not None

    @property
    def held_from(self) -> int | None:
        """Where a line's beginning starts that may still become a marker; None when nothing is undecided."""
        return self._at if self._held else None

    def sightings(self) -> list[Sighting]:
        """The markers since the last time, in order."""
        sightings, self._sightings = self._sightings, []
        return sightings

    def feed(self, piece: str) -> list[MarkerPiece]:
        """What can be passed on by now."""
        self._read(self._held + piece, final=False)
        return self._pieces.take()

    def finish(self) -> list[MarkerPiece]:
        """What was held back, and the end of every block: no more text comes."""
        self._read(self._held, final=True)
        self._fences.end_line()
        if self._fences.level:
            self._note("a code fence was never closed; markers behind it were read as text")
        if self._first and not self._frames:
            self._settle(self._default or "")
        while self._frames:
            self._pieces.close()
        return self._pieces.take()

    def _read(self, text: str, *, final: bool) -> None:
        settled = text if final else text.removesuffix("\r")
        place = 0
        while place < len(settled):
            if self._thought:
                after = self._thinks(settled, place, self._thought, final=final)
            elif self._at_head:
                after = self._head(settled, place, final=final)
            else:
                after = self._line(settled, place)
            if after == _WAIT:
                break
            self._at += after - place
            place = after
        self._held = text[place:]

    def _line(self, text: str, place: int) -> int:
        """The rest of a line whose beginning is settled."""
        newline = text.find("\n", place)
        after = newline + 1 or len(text)
        part = text[place:after].replace("\r\n", "\n")
        self._fences.rest(part)
        self._write(part)
        if newline >= 0:
            self._fences.end_line()
            self._at_head, self._behind = True, False
            self.text_from = self._at + after - place
        return after

    def _head(self, text: str, place: int, *, final: bool) -> int:
        """A line's beginning: where the marker, fence or tag in it ends, or _WAIT while one may still come."""
        newline = text.find("\n", place, place + LONGEST_HEAD + 2)
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
            self._write(head[:fence])
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
        """Open what a marker or a thought's tag at the line's beginning opens; 0 when there is none."""
        if found := self._forms.thought(head):
            self._think(found[1].lower())
            return place + found.end()
        if length := self._forms.chain(head):
            self._note("CONTINUE was written before an INTERRUPT; the INTERRUPT counts")
            self._write(head[:length])
            return place + length
        marker = self._forms.marker(head, ended=ended)
        if marker is None:
            return 0
        if not whole and self._forms.may_grow(head, marker.length):
            return _WAIT
        stray = self._behind and self._tolerant and marker.marker == "EXECUTE" and not marker.loose
        counts = self._counts(marker)
        if counts or stray:
            spelled = head[: marker.length]
            before = len(spelled) - len(spelled.lstrip(f" \t{INVISIBLE}"))
            self._sightings.append(Sighting(marker.marker, self._at + before))
            self.text_from = self._at + marker.length
        if not counts:
            return 0
        self._open(marker)
        self._behind = True
        return place + marker.length

    def _counts(self, head: MarkerHead) -> bool:
        """Whether a spelled marker counts where it is."""
        in_seed = head.marker == _SEED and bool(self._frames) and self._frames[-1].marker == _SEED
        if self._behind and not self._tolerant:
            return False
        if not self._behind and not in_seed and head.indent > self._forms.deepest_indent:
            return False
        if head.marker == "EXECUTE" and (head.loose or self._behind):
            self._note(f"{head.spelled!r} is plain text: EXECUTE counts only in capitals at the start of a line")
            return False
        if head.loose and not self._takes_loosely(head.marker):
            return False
        if not head.exact:
            self._note(f"{head.marker} was written as {head.spelled!r}")
        elif self._behind:
            self._note(f"{head.marker} is in the line of another marker")
        return True

    def _takes_loosely(self, marker: Marker) -> bool:
        """A spelling that is also ordinary text never ends a RESPONSE, in which it is ordinary text."""
        if marker == _SEED:
            return True
        if not self._frames:
            return self._default is None or not self._first or marker == "RESPONSE"
        block = self._frames[0]
        if block.marker == "RESPONSE":
            return False
        return block.marker == "" or block.loose or marker == "RESPONSE"

    def _open(self, head: MarkerHead) -> None:
        self._end_first(head.marker)
        nests = head.marker == _SEED
        if self._assumed and not nests:
            self._note(f"text before the first marker was passed on as {self._assumed} before the marker came")
            self._assumed = ""
        while self._frames and not (nests and self._holds(self._frames[-1], head)):
            self._pieces.close()
        self._pieces.open(head.marker, loose=head.loose, indent=head.indent)

    def _holds(self, frame: Frame, seed: MarkerHead) -> bool:
        """Whether the seed is inside this block; in another seed when it is indented more or in its line."""
        if frame.marker != _SEED:
            return frame.marker in _AROUND_SEEDS
        return frame.depth < MOST_DEPTH and (self._behind or seed.indent > frame.indent)

    def _end_first(self, marker: Marker) -> None:
        """Text before the first marker is a preamble, but before a seed, which is inside blocks, it is a block."""
        if self._frames or not self._first:
            return
        if marker == _SEED and self._default:
            self._settle(self._default)
        else:
            self._note("text before the first marker went to the council's log")
            self._settle("")

    def _blank_line(self) -> None:
        """The end of seeds inside a block, or where one may follow."""
        lowest = 0 if self._default and self._frames and self._frames[0].marker == _SEED else 1
        if not self._frames or not self._frames[-1].begun:
            return
        while len(self._frames) > lowest:
            self._pieces.close()
            if self._frames:
                self._frames[-1].blank = "\n"

    def _think(self, tag: str) -> None:
        if not self._frames and self._first:
            self._settle(self._default or "")
        self._note("thoughts went to the council's log")
        self._thought = re.compile(f"</{tag}>", re.IGNORECASE | re.ASCII)
        self._pieces.open("", thought=True)

    def _thinks(self, text: str, place: int, tag: re.Pattern[str], *, final: bool) -> int:
        """Thoughts up to the tag that ends them, what may be its beginning held back."""
        end = tag.search(text, place)
        stop = end.start() if end else len(text) - (0 if final else _begun_at_end(text[place:], tag.pattern))
        if stop > place:
            self._write(text[place:stop].replace("\r\n", "\n"))
        if end is None:
            return stop if stop > place else _WAIT
        self._pieces.close()
        self._thought, self._at_head = None, True
        return end.end()

    def _settle(self, marker: Marker | Literal[""]) -> None:
        """What was said first is a block of this marker."""
        first, self._first = self._first, ""
        self._assumed = marker
        self._pieces.open(marker)
        self._pieces.say(first)

    def _write(self, text: str) -> None:
        self._watch(text)
        if self._frames:
            self._pieces.say(text)
            return
        self._first = self._first + text if self._first else text.lstrip()
        if len(self._first) > self._preamble_characters:
            self._settle(self._default or "")

    def _watch(self, text: str) -> None:
        """Note an EXECUTE within a line."""
        seen = self._tail + text
        if not self._fences.level and not self._thought and _INLINE in seen:
            self._note("EXECUTE: within a line is plain text; it counts only at the start of a line")
        self._tail = seen[1 - len(_INLINE) :]

    def _note(self, note: str) -> None:
        if note not in self.notes and len(self.notes) < MOST_NOTES:
            self.notes.append(note)


def read_blocks(
    text: str,
    mode: Mode,
    default: Marker | None = "RESPONSE",
    *,
    preamble_characters: int = PREAMBLE_CHARACTERS,
    others: Sequence[str] = (),
) -> MarkedOutput:
    """A whole output as the same blocks that its stream gives (GCP 7.1)."""
    parser = MarkerParser(mode, default, preamble_characters=preamble_characters, others=others)
    opened: list[tuple[MarkerPiece, list[str]]] = []
    inside: list[list[str]] = []
    for piece in (*parser.feed(text), *parser.finish()):
        if piece.kind == "open":
            inside.append([])
            opened.append((piece, inside[-1]))
        elif piece.kind == "text":
            inside[-1].append(piece.text)
        else:
            inside.pop()
    blocks = [MarkedBlock(piece.marker, "".join(said), piece.depth, piece.thought) for piece, said in opened]
    return MarkedOutput(blocks, parser.notes)


def _begun_at_end(text: str, tag: str) -> int:
    """How many characters at the end of the text may begin the tag."""
    end = text[1 - len(tag) :].lower()
    return next((size for size in range(min(len(tag) - 1, len(text)), 0, -1) if end.endswith(tag[:size])), 0)
