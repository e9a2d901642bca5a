"""The page rule: a packet's sections cut into pages, exact text with its byte span in the original (JIT; decision 18).

A page is one contiguous run of one section's text, ends at a paragraph, line, sentence or word, and the next page of
the same text begins a little before its end. In a dialogue a turn is a page. Pure: citations rely on these spans.
"""

import re
import sys
import unicodedata
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator

import msgspec

from gaiad.archive.reading.document import over_limit
from gaiad.archive.reading.packet import Packet, PageDraft, Section, SectionKind, Text
from gaiad.base.errors import PacketRejected

_LINE = re.compile(
    r"^[ \t]*(?:[-*>#]+[ \t]+)?(?:\[[^\]\n]{1,30}\][ \t]*)?(?:\*\*|__)?"
    r"(?P<name>[^\W\d_][\w.'’-]{0,30}(?:[ ][\w.'’-]{1,30}){0,3})(?:[ ]\([^)\n]{1,40}\))?"
    r"(?:\*\*|__)?:(?:\*\*|__)?(?=[ \t]+\S|[ \t]*\n)",
    re.MULTILINE,
)
SPEAKING_ROLES = frozenset(
    ["user", "human", "assistant", "ai", "model", "bot", "system", "tool", "interviewer", "interviewee", "q", "a"]
)
"""Names of speakers that say what somebody does, not who it is."""
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


class SpokenTurn(msgspec.Struct, frozen=True):
    """Characters `start` to `end` of a text, said by `speaker`; "" for what is before the first turn."""

    start: int
    end: int
    speaker: str


def split_turns(text: str, kind: SectionKind) -> list[SpokenTurn]:
    """The turns of a dialogue, covering the text without gaps; an empty list when it is none."""
    marks = [found for found in _LINE.finditer(text) if found["name"].lower() not in _LABELS]
    counts = Counter(found["name"].casefold() for found in marks)
    if len(marks) < 2 or not _is_dialogue(text, marks, counts, kind):
        return []
    marks = [found for found in marks if _is_speaker(found["name"].casefold(), counts, len(marks))]
    if len(marks) < 2:
        return []
    starts = [found.start() for found in marks]
    turns = [SpokenTurn(0, starts[0], "")] if text[: starts[0]].strip() else []
    ends = [*starts[1:], len(text)]
    turns.extend(SpokenTurn(start, end, found["name"]) for start, end, found in zip(starts, ends, marks, strict=True))
    return turns


def _is_speaker(name: str, counts: Counter[str], lines: int) -> bool:
    return name in SPEAKING_ROLES or counts[name] > 1 or lines <= 4


def _is_dialogue(text: str, marks: list[re.Match[str]], counts: Counter[str], kind: SectionKind) -> bool:
    if len(text[: marks[0].start()].strip()) > max(_LEAD_MAX_CHARS, _LEAD_SHARE * len(text)):
        return False
    if all(name in SPEAKING_ROLES for name in counts) and len(counts) > 1:
        return True
    repeated = sum(count for count in counts.values() if count > 1)
    if kind != "transcript":
        return len(counts) > 1 and repeated >= 0.8 * len(marks) and len(marks) >= 4
    lines = sum(1 for line in text.splitlines() if line.strip())
    if len(counts) == 1:
        return len(marks) >= 0.8 * lines
    return repeated >= 0.6 * len(marks) or len(marks) >= 0.6 * lines


_SENTENCE_END = re.compile(r"[.!?…。！？][\"'”’)\]]*\s")
_SPACE = re.compile(r"\s")
_VISIBLE = re.compile(r"\S")
_SPOKEN = frozenset(("transcript", "content", "other"))
_JOINERS = "\u200d\ufe0e\ufe0f"


def cut_pages(packet: Packet, max_chars: int, overlap_chars: int, max_pages: int = sys.maxsize) -> list[PageDraft]:
    """All text of `packet` as pages of at most `max_chars` characters, in document order, `sequence` from 0.

    Raises PacketRejected above `max_pages`.
    """
    pages: list[PageDraft] = []
    for section in packet.sections:
        place = _ByteOffsets(section.text, packet.encoding)
        for turn in _turns(section):
            for start, end in cut(section.text.value, turn.start, turn.end, max_chars, overlap_chars):
                if len(pages) >= max_pages:
                    raise PacketRejected(over_limit("pages", "max_pages", max_pages))
                first, last = place.span(start, end)
                pages.append(
                    PageDraft(
                        sequence=len(pages),
                        section=section.kind,
                        path=section.path,
                        speaker=turn.speaker,
                        text=section.text.value[start:end],
                        start=first,
                        end=last,
                        timestamp_ms=section.timestamp_ms,
                    )
                )
    return pages


def _turns(section: Section) -> list[SpokenTurn]:
    whole = [SpokenTurn(0, len(section.text.value), section.speaker)]
    if section.speaker or section.composed or section.kind not in _SPOKEN:
        return whole
    return split_turns(section.text.value, section.kind) or whole


def cut(text: str, start: int, end: int, max_chars: int, overlap_chars: int) -> Iterator[tuple[int, int]]:
    """Cuts of text[start:end], trimmed of space, none empty; together they cover all that is not space."""
    while True:
        start, end = _trim(text, start, end)
        if start >= end:
            return
        if end - start <= max_chars:
            yield start, end
            return
        stop = _boundary(text, start, start + max_chars)
        yield _trim(text, start, stop)
        start = _restart(text, start, stop, overlap_chars)


def _trim(text: str, start: int, end: int) -> tuple[int, int]:
    """Without copying the text, of which a long one has thousands of pages."""
    found = _VISIBLE.search(text, start, end)
    if found is None:
        return end, end
    while text[end - 1].isspace():
        end -= 1
    return found.start(), end


def _boundary(text: str, start: int, limit: int) -> int:
    """Where a page from `start` ends, `limit` at the latest: after a paragraph, line, sentence, word, or character."""
    room = limit - start
    paragraph = text.rfind("\n\n", start + room // 3, limit)
    if paragraph >= 0:
        return paragraph
    line = text.rfind("\n", start + room // 2, limit + 1)
    if line >= 0:
        return line
    sentences = [found.end() - 1 for found in _SENTENCE_END.finditer(text, start + room // 3, limit + 1)]
    if sentences:
        return sentences[-1]
    position = limit
    while position > start + room // 4 and not text[position].isspace():
        position -= 1
    if position > start + room // 4:
        return position
    return _whole_character(text, start, limit)


def _whole_character(text: str, start: int, position: int) -> int:
    """A cut within a long word does not part a base character from its marks; after 16 of them it may."""
    for back in range(16):
        at = position - back
        if at - 1 <= start:
            break
        if not unicodedata.combining(text[at]) and text[at] not in _JOINERS and text[at - 1] != "\u200d":
            return at
    return position


def _restart(text: str, start: int, stop: int, overlap_chars: int) -> int:
    """Where the page after `stop` begins: at a line, sentence or word within the overlap, always past `start`."""
    earliest = max(stop - overlap_chars, start + 1)
    if overlap_chars <= 0 or earliest >= stop:
        return stop
    line = text.find("\n", earliest, stop)
    if line >= 0:
        return line + 1
    sentence = _SENTENCE_END.search(text, earliest, stop)
    if sentence:
        return sentence.end()
    word = _SPACE.search(text, earliest, stop)
    return word.end() if word else stop


class _ByteOffsets:
    """Characters of a Text to bytes of the original; steps on from the last answer: a long text stays linear."""

    def __init__(self, text: Text, encoding: str) -> None:
        self.text, self.encoding = text, encoding
        self.character = self.byte = self.segment = -1

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Byte span of characters `start` to `end` (not empty); an escape or label is taken whole."""
        return self._start(start), self._end(end)

    def _start(self, position: int) -> int:
        segment = bisect_right(self.text.offsets, position) - 1
        begin, offset = self.text.starts[segment], self.text.offsets[segment]
        if self.text.ends[segment] < 0:
            return begin
        if segment == self.segment and self.character <= position:
            begin, offset = self.byte, self.character
        byte = begin + len(self.text.value[offset:position].encode(self.encoding))
        self.character, self.byte, self.segment = position, byte, segment
        return byte

    def _end(self, position: int) -> int:
        segment = bisect_right(self.text.offsets, position - 1) - 1
        if self.text.ends[segment] < 0:
            return -self.text.ends[segment]
        begin, offset = self.text.starts[segment], self.text.offsets[segment]
        if segment == self.segment and self.character <= position:
            begin, offset = self.byte, self.character
        return begin + len(self.text.value[offset:position].encode(self.encoding))
