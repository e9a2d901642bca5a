"""Marked text through parser, matrix and redaction without a turn: where each block would go, and what would be read.

The parser is the one that Act's text goes through, the redactor the one of the stream.
"""

from collections.abc import Collection
from typing import Literal

import msgspec

from router.blocks import read_blocks
from router.matrix import Channel, Manner, Marker, destinations
from router.redact import STAGES, Redaction, Stage, redact
from router.routing import Routing

STANDING: tuple[Channel, ...] = ("council_chat", "shell", "memory")
"""What every turn has besides the channel it came from: the council's log, the approvals, the memory."""


class RoutedBlock(msgspec.Struct, frozen=True):
    """`channels` are where it goes, `manners` how; `text` is as those read it who get it scrubbed most, and without
    that of blocks inside it. `marker` "" is text that belongs to none.
    """

    marker: Marker | Literal[""]
    text: str
    channels: list[Channel]
    redactions: list[Redaction]
    manners: dict[Channel, Manner]
    depth: int = 0


class RoutedText(msgspec.Struct, frozen=True):
    """The blocks in their order, and in words what was tolerated. `channel` is where the turn came from, "" for any."""

    blocks: list[RoutedBlock]
    notes: list[str]
    channel: str = ""


def route_text(text: str, routing: Routing, origin: Channel | None) -> RoutedText:
    """With `origin` what a turn from there would send where (decision 15); without one all that the matrix permits."""
    output = read_blocks(text, "tolerant")
    blocks = []
    for block in output.blocks:
        manners = _destinations(routing, block.marker, origin)
        shown = redact(block.text, routing.rules, _stages(routing, manners))
        blocks.append(
            RoutedBlock(block.marker, shown.text, list(manners), shown.redactions, manners, block.depth),
        )
    return RoutedText(blocks, output.notes, origin or "")


def _destinations(routing: Routing, marker: Marker | Literal[""], origin: Channel | None) -> dict[Channel, Manner]:
    if origin is not None:
        return dict(destinations(routing.table, marker, origin, STANDING))
    return dict(destinations(routing.table, marker, "council_chat", routing.stages))


def _stages(routing: Routing, channels: Collection[Channel]) -> list[Stage]:
    """All that one of the channels scrubs."""
    return [stage for stage in STAGES if any(stage in routing.stages[channel] for channel in channels)]
