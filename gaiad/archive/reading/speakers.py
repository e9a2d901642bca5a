"""Who speaks in a transcript: lines such as `Anna: ...`, `**User:** ...`, `[10:31] Bob (driver): ...` begin a turn.

Prose with a colon here and there must stay whole, so a text counts as a dialogue only when the names behave like
speakers: they open the text, and they come back or are what chat programs call their roles.
"""

import re
from collections import Counter

import msgspec

from gaiad.archive.reading.packet import SectionKind

_LINE = re.compile(
    r"^[ \t]*(?:[-*>#]+[ \t]+)?(?:\[[^\]\n]{1,30}\][ \t]*)?(?:\*\*|__)?"
    r"(?P<name>[^\W\d_][\w.'’-]{0,30}(?:[ ][\w.'’-]{1,30}){0,3})(?:[ ]\([^)\n]{1,40}\))?"
    r"(?:\*\*|__)?:(?:\*\*|__)?(?=[ \t]+\S|[ \t]*\n)",
    re.MULTILINE,
)
_ROLES = frozenset(
    ["user", "human", "assistant", "ai", "model", "bot", "system", "tool", "interviewer", "interviewee", "q", "a"]
)
# fmt: off
_LABELS = frozenset((
    "note", "notes", "warning", "caution", "error", "result", "results", "summary", "status", "date", "time",
    "topic", "example", "examples", "step", "output", "input", "purpose", "goal", "todo", "fix", "cause", "reason",
    "source", "file", "url", "http", "https", "ps", "nb", "tip", "hint", "important", "version", "title", "subject",
    "from", "to", "re", "cc", "name", "id", "type", "scope", "context", "content", "description", "author", "tags",
    "phase", "session", "function", "rationale",
))
# fmt: on
_LEAD_SHARE = 0.2
_LEAD_MAX_CHARS = 80


class Turn(msgspec.Struct, frozen=True):
    """Characters `start` to `end` of a text, said by `speaker`; "" for what stands before the first turn."""

    start: int
    end: int
    speaker: str


def split_turns(text: str, kind: SectionKind) -> list[Turn]:
    """The turns of a dialogue, covering the text without gaps; an empty list when it is none."""
    marks = [found for found in _LINE.finditer(text) if found["name"].lower() not in _LABELS]
    counts = Counter(found["name"].casefold() for found in marks)
    if len(marks) < 2 or not _is_dialogue(text, marks, counts, kind):
        return []
    marks = [found for found in marks if _is_speaker(found["name"].casefold(), counts, len(marks))]
    if len(marks) < 2:
        return []
    starts = [found.start() for found in marks]
    turns = [Turn(0, starts[0], "")] if text[: starts[0]].strip() else []
    ends = [*starts[1:], len(text)]
    turns.extend(Turn(start, end, found["name"]) for start, end, found in zip(starts, ends, marks, strict=True))
    return turns


def _is_speaker(name: str, counts: Counter[str], lines: int) -> bool:
    return name in _ROLES or counts[name] > 1 or lines <= 4


def _is_dialogue(text: str, marks: list[re.Match[str]], counts: Counter[str], kind: SectionKind) -> bool:
    if len(text[: marks[0].start()].strip()) > max(_LEAD_MAX_CHARS, _LEAD_SHARE * len(text)):
        return False
    if all(name in _ROLES for name in counts) and len(counts) > 1:
        return True
    repeated = sum(count for count in counts.values() if count > 1)
    if kind != "transcript":
        return len(counts) > 1 and repeated >= 0.8 * len(marks) and len(marks) >= 4
    lines = sum(1 for line in text.splitlines() if line.strip())
    if len(counts) == 1:
        return len(marks) >= 0.8 * lines
    return repeated >= 0.6 * len(marks) or len(marks) >= 0.6 * lines
