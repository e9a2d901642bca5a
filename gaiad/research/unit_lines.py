"""Pages of one path as one text, and its lines: where each begins, what marks it, and the name before its colon. Pure.

Pages that overlap are read once; every span knows its exact place on each page (`Piece`).
"""

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from gaiad.wire.schemas import Page

_OVERLAP_MAX_CHARS = 400
_PATH_LABEL = re.compile(r"(?P<label>[^\s:()|*`#]+)(?: \((?P<attributes>[^\n]*?)\))?(?::[ \t]+(?=\S)|:?[ \t]*$)")
_MARK = re.compile(r"(?:[-*+•‣–]|\d{1,3}[.)]|\(?[a-z]\)|\[[ xX]\])[ \t]+")
HEADING = re.compile(r"(?P<marks>#{1,6})[ \t]+(?P<text>.+)$")
_BOLD_LINE = re.compile(r"(?:\*\*|__)(?P<text>[^*_\n]{2,100})(?:\*\*|__):?[ \t]*$")
KEY = re.compile(
    r"(?:\*\*|__|`)?(?P<label>[^\s:*|`=→][^:*|`=→\n]{0,59}?)(?:\*\*|__|`)?[ \t]*"
    r"(?::|→|=|[—–](?=[ \t]))(?:\*\*|__)?[ \t]+(?=\S)"
)
_CATEGORY = re.compile(r"\[(?P<label>[^\[\]\n]{2,40})\][ \t]+(?=\S)")
"""What a fact in a list is filed under: `- [born] 1815`."""
ROW = re.compile(r"\|.*\|[ \t]*$")
RULE = re.compile(r"[\s|:+=-]+$")
_KEY_WORDS_MAX = 7


class Piece(NamedTuple):
    """`page.text[start:end]`."""

    page: Page
    start: int
    end: int

    @property
    def text(self) -> str:
        return self.page.text[self.start : self.end]


class Stream(NamedTuple):
    """Pages of one path as one text; each mark is (offset in `text`, page, offset in the page)."""

    text: str
    marks: tuple[tuple[int, Page, int], ...]
    begin: int

    @property
    def page(self) -> Page:
        return self.marks[0][1]

    def pieces(self, start: int, end: int) -> tuple[Piece, ...]:
        found = []
        for number, (offset, page, at) in enumerate(self.marks):
            stop = self.marks[number + 1][0] if number + 1 < len(self.marks) else len(self.text)
            first, last = max(start, offset), min(end, stop)
            if first < last and self.text[first:last].strip():
                piece = self.text[first:last]
                lead = len(piece) - len(piece.lstrip())
                found.append(Piece(page, first - offset + at + lead, first - offset + at + len(piece.rstrip())))
        return tuple(found)


def streams(pages: Sequence[Page]) -> Iterator[Stream]:
    run: list[Page] = []
    for page in sorted(pages, key=lambda one: one.sequence):
        if run and not _continues(run[-1], page):
            yield _joined(tuple(run))
            run = []
        run.append(page)
    if run:
        yield _joined(tuple(run))


def _continues(before: Page, page: Page) -> bool:
    same = (before.path, before.section, before.speaker) == (page.path, page.section, page.speaker)
    return same and page.sequence == before.sequence + 1 and page.start < before.end + 3 and page.start > before.start


def _joined(pages: tuple[Page, ...]) -> Stream:
    text, marks = pages[0].text, [(0, pages[0], 0)]
    for before, page in itertools.pairwise(pages):
        skip = _overlap(before.text, page.text) if page.start < before.end else 0
        if not skip:
            text += "\n"
        marks.append((len(text), page, skip))
        text += page.text[skip:]
    return Stream(text, tuple(marks), _spoken_from(pages[0]))


def _overlap(before: str, after: str) -> int:
    for length in range(min(len(before), len(after), _OVERLAP_MAX_CHARS), 0, -1):
        if before.endswith(after[:length]):
            return length
    return 0


def _spoken_from(page: Page) -> int:
    """Where what is said begins: after the speaker's name, where the page opens with it."""
    if page.speaker:
        opening = re.match(
            rf"\s*(?:[-*>#]+[ \t]+)?(?:\[[^\]\n]{{1,30}}\][ \t]*)?(?:\*\*|__)?{re.escape(page.speaker)}"
            r"(?: \([^)\n]{1,40}\))?(?:\*\*|__)?:(?:\*\*|__)?\s*",
            page.text,
        )
        if opening:
            return opening.end()
    return len(page.text) - len(page.text.lstrip())


class Line(msgspec.Struct):
    """A line of a stream from `start` to `end`, its indent, and the label that it begins with."""

    start: int
    end: int
    text: str
    indent: int
    mark: bool = False
    label: str = ""
    attributes: str = ""
    value: str = ""
    composed: bool = False


def is_key(label: str) -> bool:
    return len(label.split()) <= _KEY_WORDS_MAX and not label.startswith("http") and not re.search(r"[.!?,;]\s", label)


def heading_depth(line: Line) -> int:
    """1 to 6 for `#` marks, 7 for a bold line and 8 for a line in capitals; 0 when it is no heading."""
    found = HEADING.match(line.text)
    if found:
        return len(found["marks"])
    if _BOLD_LINE.match(line.text):
        return 7
    letters = [mark for mark in line.text if mark.isalpha()]
    if len(letters) > 3 and len(line.text) <= 70 and line.text == line.text.upper() and not line.composed:
        return 8 if not line.mark and "|" not in line.text else 0
    return 0


def line_spans(stream: Stream) -> Iterator[tuple[int, int]]:
    at = stream.begin
    for part in stream.text[stream.begin :].splitlines(keepends=True):
        yield at, at + len(part.rstrip())
        at += len(part)


def line_of(text: str, start: int, end: int) -> Line:
    raw = text[start:end]
    stripped = raw.strip()
    indent = len(raw) - len(raw.lstrip())
    line = Line(start + indent, end, stripped, indent)
    composed = _PATH_LABEL.match(stripped)
    if composed and not indent and _is_path(composed, stripped):
        line.composed, line.label = True, composed["label"]
        line.attributes = composed["attributes"] or ""
        line.value = stripped[composed.end() :]
        return line
    mark = _MARK.match(stripped)
    line.mark = mark is not None
    rest = stripped[mark.end() :] if mark else stripped
    key = _CATEGORY.match(rest) or KEY.match(rest)
    if mark and key and is_key(key["label"]):
        line.label, line.value = key["label"], rest[key.end() :]
    return line


def _is_path(match: re.Match[str], line: str) -> bool:
    """Whether a line begins with a field's name as pages write it, and not with a word of running text."""
    if match["attributes"] is None and not match.group().rstrip().endswith(":"):
        return False
    named = "/" in match["label"] or "_" in match["label"]
    return named or match.end() < len(line) or match["attributes"] is not None
