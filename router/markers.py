"""The marker parser (GCP 7.1): a model's output, in any pieces, cut into marked blocks while it is still being written.

A marker begins a line, outside code fences and thoughts. A THOUGHT_SEED may stand inside a PLAN, RESPONSE, VERIFY or
another seed and gives way to it again at a blank line; every other marker ends what is open. Text leaves as it comes:
held back are only a line's beginning that may still be a marker, white space that may be a block's end, and, where a
default is set, the first words of all, which are a preamble if a marker follows them. Pure, linear in the text.

EXECUTE is a command, so it counts only in capitals at the beginning of its own line: within a line, in other case or
in a list it is text, and the notes say so. council.marked_text reads finished texts for their meaning; this decides
what people see.
"""

from typing import Literal

from constants.fences import Fences
from constants.marker_forms import LONGEST_HEAD, MOST_DEPTH, Forms, Head, Mode
from router.matrix import Marker
from router.pieces import Frame, Piece, Pieces

PREAMBLE_CHARACTERS = 120
MOST_NOTES = 20
_SEED: Marker = "THOUGHT_SEED"
_AROUND_SEEDS = ("PLAN", "RESPONSE", "VERIFY", _SEED)
_INLINE = "EXECUTE:"
_WAIT = -1


class MarkerParser:
    """Feed the stream's pieces, take what can be passed on; `finish` gives the rest and closes every block.

    "strict" reads GCP's spelling alone, "tolerant" what models make of it too. Output without a marker is a `default`
    block; with None it belongs to no marker. `notes` say in words what was tolerated or was not a marker.
    """

    def __init__(self, mode: Mode, default: Marker | None, *, preamble_characters: int = PREAMBLE_CHARACTERS) -> None:
        self.notes: list[str] = []
        self._tolerant = mode == "tolerant"
        self._forms = Forms(mode)
        self._default = default
        self._preamble_characters = preamble_characters if default else 0
        self._fences = Fences()
        self._pieces = Pieces()
        self._frames = self._pieces.frames
        self._first = ""  # text before the first block
        self._assumed: Marker | Literal[""] = ""  # the default, once text without a marker was taken for it
        self._held = ""
        self._at_head = True  # the held text begins a line, or stands behind a marker
        self._behind = False  # it stands behind a marker
        self._thought = ""  # the tag that ends the thoughts it is in
        self._tail = ""  # the end of what was read last, in which an EXECUTE within a line may begin

    def feed(self, piece: str) -> list[Piece]:
        """What can be passed on by now."""
        self._read(self._held + piece, final=False)
        return self._pieces.take()

    def finish(self) -> list[Piece]:
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
        cut = "\r" if not final and text.endswith("\r") else ""
        if "\r" in text:
            text = text[: len(text) - len(cut)].replace("\r\n", "\n")
        place = 0
        while place < len(text):
            if self._thought:
                after = self._thinks(text, place, final=final)
            elif self._at_head:
                after = self._head(text, place, final=final)
            else:
                after = self._line(text, place)
            if after == _WAIT:
                break
            place = after
        self._held = text[place:] + cut

    def _line(self, text: str, place: int) -> int:
        """The rest of a line whose beginning is settled."""
        newline = text.find("\n", place)
        after = newline + 1 or len(text)
        part = text[place:after]
        self._fences.rest(part)
        self._write(part)
        if newline >= 0:
            self._fences.end_line()
            self._at_head, self._behind = True, False
        return after

    def _head(self, text: str, place: int, *, final: bool) -> int:
        """A line's beginning: where the marker, fence or tag in it ends, or _WAIT while one may still come."""
        end = min(place + LONGEST_HEAD, len(text))
        newline = text.find("\n", place, end)
        head = text[place : newline if newline >= 0 else end]
        ended = newline >= 0 or (final and end == len(text))
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
            self._think(found[1])
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
        if not self._counts(marker):
            return 0
        self._open(marker)
        self._behind = True
        return place + marker.length

    def _counts(self, head: Head) -> bool:
        """Whether a spelled marker is one where it stands."""
        in_seed = head.marker == _SEED and bool(self._frames) and self._frames[-1].marker == _SEED
        if self._behind and not self._tolerant:
            return False
        if not self._behind and not in_seed and head.indent > self._forms.deepest_indent:
            return False
        if head.marker == "EXECUTE" and (head.loose or self._behind):
            self._note(f"{head.spelled!r} is text: EXECUTE counts only in capitals at the beginning of its own line")
            return False
        if head.loose and not self._takes_loosely(head.marker):
            return False
        if not head.exact:
            self._note(f"{head.marker} was written as {head.spelled!r}")
        elif self._behind:
            self._note(f"{head.marker} stands in the line of another marker")
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

    def _open(self, head: Head) -> None:
        self._end_first(head.marker)
        nests = head.marker == _SEED
        if self._assumed and not nests:
            self._note(f"text before the first marker was passed on as {self._assumed} before the marker came")
            self._assumed = ""
        while self._frames and not (nests and self._holds(self._frames[-1], head)):
            self._pieces.close()
        self._pieces.open(head.marker, loose=head.loose, indent=head.indent)

    def _holds(self, frame: Frame, seed: Head) -> bool:
        """Whether the seed stands inside this block; in another seed when it is indented more or stands in its line."""
        if frame.marker != _SEED:
            return frame.marker in _AROUND_SEEDS
        return frame.depth < MOST_DEPTH and (self._behind or seed.indent > frame.indent)

    def _end_first(self, marker: Marker) -> None:
        """Text before the first marker is a preamble, but before a seed, which stands inside blocks, it is a block."""
        if self._frames or not self._first:
            return
        if marker == _SEED and self._default:
            self._settle(self._default)
        else:
            self._note("text before the first marker went to the council's log")
            self._settle("")

    def _blank_line(self) -> None:
        """The end of seeds that stand inside a block, or where one may follow."""
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
        self._thought = f"</{tag}>"
        self._pieces.open("")

    def _thinks(self, text: str, place: int, *, final: bool) -> int:
        """Thoughts up to the tag that ends them, what may be its beginning held back."""
        end = text.find(self._thought, place)
        if end < 0 and not final:
            end = len(text) - _begun_at_end(text[place:], self._thought)
            if end == place:
                return _WAIT
            self._write(text[place:end])
            return end
        self._write(text[place:end] if end >= 0 else text[place:])
        if end < 0:
            return len(text)
        self._pieces.close()
        after = end + len(self._thought)
        self._thought, self._at_head = "", True
        return after

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
            self._note("EXECUTE: within a line is text; it counts only at the beginning of its own line")
        self._tail = seen[1 - len(_INLINE) :]

    def _note(self, note: str) -> None:
        if note not in self.notes and len(self.notes) < MOST_NOTES:
            self.notes.append(note)


def _begun_at_end(text: str, tag: str) -> int:
    """How many characters at the end of the text may begin the tag."""
    return next((size for size in range(min(len(tag) - 1, len(text)), 0, -1) if text.endswith(tag[:size])), 0)
