"""What leaves the marker parser: blocks that open, speak and close, without the white space around what they say."""

from typing import Literal

import msgspec

from router.matrix import Marker

BLANK_CHARACTERS = 256
"""White space held back, for a block may end behind it; of a longer run the beginning is passed on."""


class Piece(msgspec.Struct, frozen=True):
    """A block opens, says something, or closes. `marker` is "" for text that belongs to no marker: the council's log.

    `depth` is 0 for a block of its own and grows inside other blocks. Only `text` pieces have text.
    """

    kind: Literal["open", "text", "close"]
    marker: Marker | Literal[""]
    text: str
    depth: int


class Frame:
    """An open block. `loose` and `indent` are how its marker was spelled, `begun` whether it has said anything."""

    __slots__ = ("begun", "blank", "depth", "indent", "loose", "marker")

    def __init__(self, marker: Marker | Literal[""], depth: int, *, loose: bool, indent: int) -> None:
        self.marker = marker
        self.depth = depth
        self.loose = loose
        self.indent = indent
        self.begun = False
        self.blank = ""  # white space that is said when more follows


class Pieces:
    """The blocks that are open, outermost first, and the pieces not yet taken."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self._pieces: list[Piece] = []
        self._texts: list[str] = []

    def take(self) -> list[Piece]:
        """All pieces since the last time."""
        self._flush()
        pieces, self._pieces = self._pieces, []
        return pieces

    def open(self, marker: Marker | Literal[""], *, loose: bool = False, indent: int = 0) -> None:
        """Open a block inside the innermost one."""
        self._flush()
        frame = Frame(marker, len(self.frames), loose=loose, indent=indent)
        self.frames.append(frame)
        self._pieces.append(Piece("open", marker, "", frame.depth))

    def close(self) -> None:
        """Close the innermost block."""
        self._flush()
        frame = self.frames.pop()
        self._pieces.append(Piece("close", frame.marker, "", frame.depth))

    def say(self, text: str) -> None:
        """Text of the innermost block."""
        frame = self.frames[-1]
        if not frame.begun:
            text = text.lstrip()
            frame.begun = bool(text)
        body = text.rstrip()
        blank = text[len(body) :] if body else frame.blank + text
        if body:
            self._texts += (frame.blank, body)
        if len(blank) > BLANK_CHARACTERS:
            self._texts.append(blank[:-BLANK_CHARACTERS])
        frame.blank = blank[-BLANK_CHARACTERS:]

    def _flush(self) -> None:
        if self._texts:
            frame = self.frames[-1]
            self._pieces.append(Piece("text", frame.marker, "".join(self._texts), frame.depth))
            self._texts = []
