"""One stage's finished reply as its marked blocks, tolerant of how real models write (GCP 6, 7.1).

Where the stage's own marker is spelled exactly, only exact spellings count; where it is not, every spelling the parser
tolerates does. Thoughts are left out. Pure.
"""

from collections.abc import Sequence
from typing import NamedTuple

from gaiad.base.marker_forms import MARKERS, Fences, Marker, Mode
from gaiad.base.markers import MarkedOutput, read_blocks


class MarkedBody(NamedTuple):
    """`marker` as GCP spells it, "" for text before the first one; `body` without space around it."""

    marker: str
    body: str


class MarkedText(NamedTuple):
    """The blocks in order, and what was tolerated."""

    blocks: list[MarkedBody]
    notes: list[str]

    def bodies(self, marker: str) -> list[str]:
        """The bodies of one marker's blocks that are not empty, in order."""
        return [block.body for block in self.blocks if block.marker == marker and block.body]


def read_marked(text: str, own: str) -> MarkedText:
    """The blocks of a reply whose stage writes `own` blocks: one of the six markers, or a judgement's own."""
    output = _read(text, own, "strict")
    if all(block.marker != own for block in output.blocks):
        output = _read(text, own, "tolerant")
    blocks = [MarkedBody(block.marker, block.text) for block in output.blocks if not block.thought]
    return MarkedText(blocks, output.notes)


def _read(text: str, own: str, mode: Mode) -> MarkedOutput:
    """An unmarked answer is one RESPONSE as soon as it begins, so that "Response:" and "Plan:" in it are words."""
    default: Marker | None = "RESPONSE" if own == "RESPONSE" and mode == "tolerant" else None
    others = () if own in MARKERS else (own,)
    return read_blocks(text, mode, default, preamble_characters=0, others=others)


def without_fence(body: str) -> str:
    """A body that is one fenced block, without its fence."""
    lines: Sequence[str] = body.strip().splitlines()
    if len(lines) >= 2 and Fences().begin(lines[0]) and lines[-1].strip() in ("```", "~~~"):
        return "\n".join(lines[1:-1]).strip()
    return body.strip()
