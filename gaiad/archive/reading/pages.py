"""The page rule: a packet's sections cut into pages, exact text with its byte span in the original (JIT; decision 18).

A page is one contiguous run of one section's text, ends at a paragraph, line, sentence or word, and the next page of
the same text begins a little before its end. In a dialogue a turn is a page. Pure: citations stand on these spans.
"""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator

from gaiad.archive.reading.packet import Packet, PageDraft, Section, Text
from gaiad.archive.reading.speakers import Turn, split_turns

_SENTENCE_END = re.compile(r"[.!?…。！？][\"'”’)\]]*\s")
_SPACE = re.compile(r"\s")
_SPOKEN = frozenset(("transcript", "content", "other"))
_JOINERS = "\u200d\ufe0e\ufe0f"


def cut_pages(packet: Packet, max_chars: int, overlap_chars: int) -> list[PageDraft]:
    """All text of `packet` as pages of at most `max_chars` characters, in document order, `sequence` from 0."""
    pages: list[PageDraft] = []
    for section in packet.sections:
        place = _Place(section.text, packet.encoding)
        for turn in _turns(section):
            for start, end in cut(section.text.value, turn.start, turn.end, max_chars, overlap_chars):
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
                    )
                )
    return pages


def _turns(section: Section) -> list[Turn]:
    whole = [Turn(0, len(section.text.value), section.speaker)]
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
    part = text[start:end]
    start += len(part) - len(part.lstrip())
    return start, start + len(part.strip())


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


class _Place:
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
