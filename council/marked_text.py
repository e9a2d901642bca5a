"""One stage's whole output cut into its marked blocks, tolerant of how real models write, and saying so (GCP 6, 7.1).

A marker stands at the beginning of a line, outside code fences. Where the stage's own marker is nowhere exact it is
also taken in other case, in bold or as a heading, RESPONSE only in the first line, for "Response:" and "Plan:" are
ordinary words in an answer. Thoughts are those that begin a line or a block: their tag in a JSON string is text. The
router reads streams on their way to people; this reads a finished text for its meaning. Pure.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from council.stages import MARKERS

_EXACT = re.compile(rf"({'|'.join(MARKERS)}):")
_FENCE = re.compile(r"\s{0,3}(```|~~~)")
_THOUGHTS = re.compile(
    rf"(^[ \t]*(?:[*_#>]{{0,3}}(?:{'|'.join(MARKERS)})[*_]{{0,2}}:[*_]{{0,2}}\s*)?)"
    r"(?:<(think|thinking|reasoning)>(?s:.*?)(?:</\2>|\Z)[ \t]*)+",
    re.IGNORECASE | re.MULTILINE,
)


class MarkedBlock(NamedTuple):
    """`marker` as GCP spells it, "" for text before the first one; `body` without space around it."""

    marker: str
    body: str


class MarkedText(NamedTuple):
    """The blocks in order, and what was tolerated."""

    blocks: list[MarkedBlock]
    notes: list[str]

    def bodies(self, marker: str) -> list[str]:
        """The bodies of one marker's blocks that are not empty, in order."""
        return [block.body for block in self.blocks if block.marker == marker and block.body]


def read_marked(text: str, own: str) -> MarkedText:
    """The blocks of an output whose stage writes `own` blocks."""
    notes: list[str] = []
    text = text.replace("\r\n", "\n")
    kept = _THOUGHTS.sub(r"\1", text)
    if kept != text:
        notes.append("its thoughts were left out")
    loose = None if _has_exact(kept, own) else _loose(own)
    blocks: list[MarkedBlock] = []
    marker, lines, fence = "", list[str](), ""
    for line in kept.split("\n"):
        start = None if fence else _marker(line, own, loose, notes)
        if found := _FENCE.match(line if start is None else start[1]):
            fence = "" if fence == found[1] else fence or found[1]
        if own == "RESPONSE" and line.strip():
            loose = None
        if start is None:
            lines.append(line)
        else:
            blocks.append(MarkedBlock(marker, "\n".join(lines).strip()))
            marker, lines = start[0], [start[1]]
    blocks.append(MarkedBlock(marker, "\n".join(lines).strip()))
    return MarkedText([block for block in blocks if block.marker or block.body], list(dict.fromkeys(notes)))


def _has_exact(text: str, own: str) -> bool:
    return any(line.startswith(f"{own}:") for line in text.split("\n"))


def _marker(line: str, own: str, loose: re.Pattern[str] | None, notes: list[str]) -> tuple[str, str] | None:
    """The marker a line begins with, and the rest of the line."""
    if found := _EXACT.match(line):
        return found[1], line[found.end() :]
    if loose is not None and (found := loose.match(line)):
        notes.append(f"{own} was written as {line[: found.end()].strip()!r}")
        return own, line[found.end() :]
    return None


def _loose(own: str) -> re.Pattern[str]:
    """The stage's own marker in any case, decorated, or alone on its line as a heading."""
    word = re.escape(own).replace("_", "[_ ]")
    return re.compile(rf"\s{{0,8}}[#*_>\s]{{0,8}}{word}[*_\s]{{0,8}}(?::[*_]{{0,4}}|\Z)", re.IGNORECASE)


def without_fence(body: str) -> str:
    """A body that is one fenced block, without its fence."""
    lines: Sequence[str] = body.strip().splitlines()
    if len(lines) >= 2 and _FENCE.match(lines[0]) and lines[-1].strip() in ("```", "~~~"):
        return "\n".join(lines[1:-1]).strip()
    return body.strip()
