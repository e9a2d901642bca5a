"""Pieces of marked output put together to blocks: of a stream as it comes, or of a whole text at once."""

from collections.abc import Iterable
from typing import Literal

import msgspec

from constants.marker_forms import Mode
from router.markers import MarkerParser
from router.matrix import Marker
from router.pieces import Piece


class MarkedBlock(msgspec.Struct, frozen=True):
    """A whole block, "" being text that belongs to no marker. `text` is its own, without that of blocks inside it."""

    marker: Marker | Literal[""]
    text: str
    depth: int


class MarkedOutput(msgspec.Struct, frozen=True):
    """The blocks in the order in which they open, and what was tolerated, in words."""

    blocks: list[MarkedBlock]
    notes: list[str]


class BlockCollector:
    """Add the pieces of one stream; `blocks` are those so far, the open ones with what they have said."""

    def __init__(self) -> None:
        self._texts: list[tuple[Piece, list[str]]] = []
        self._open: list[list[str]] = []

    def add(self, pieces: Iterable[Piece]) -> None:
        """More of the stream, in its order."""
        for piece in pieces:
            if piece.kind == "open":
                self._open.append([])
                self._texts.append((piece, self._open[-1]))
            elif piece.kind == "text":
                self._open[-1].append(piece.text)
            else:
                self._open.pop()

    def blocks(self) -> list[MarkedBlock]:
        """In the order in which they opened; one that said nothing has the text ""."""
        return [MarkedBlock(piece.marker, "".join(texts), piece.depth) for piece, texts in self._texts]


def read_blocks(text: str, mode: Mode, default: Marker | None = "RESPONSE") -> MarkedOutput:
    """A whole output as the same blocks that its stream gives (GCP 7.1)."""
    parser, collector = MarkerParser(mode, default), BlockCollector()
    collector.add(parser.feed(text))
    collector.add(parser.finish())
    return MarkedOutput(collector.blocks(), parser.notes)
