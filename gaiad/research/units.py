"""Units of an answer: a field with its value, a whole list, a table row with its header, a section, a turn, a sentence.

Pure. Units are read from the pages of one packet in reading order. Pages that overlap are read as one text, so a list
that begins on one page and ends on the next is one unit; every unit keeps its exact place on each page (`pieces`).
"""

from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from gaiad.base.text import words_of
from gaiad.research.sentences import split
from gaiad.research.unit_lines import (
    HEADING,
    KEY,
    ROW,
    RULE,
    Line,
    Piece,
    Stream,
    heading_depth,
    is_key,
    line_of,
    line_spans,
    streams,
)
from gaiad.wire.schemas import Page

Kind = Literal["field", "item", "list", "record", "row", "section", "turn", "sentence"]

WHOLE_MAX_CHARS = 900
"""The longest list, record or section that is one unit; a longer one answers by its parts."""
TURN_MAX_CHARS = 400
SECTION_MAX_CHARS = 450
"""The longest section or paragraph that is one unit; a longer one answers by its sentences and lists."""
FENCES = ("```", "~~~")
_ROOT_FIELDS_MAX = 6
"""Of a page of fields without a common path above them; more of them are no one thing."""
FRONT_MATTER = "front matter"
"""The path of the page that holds the front matter of a Markdown note."""


class Unit(msgspec.Struct, frozen=True):
    """`path` is what stands above it, in words; `label` names a field; `size` counts the entries of a list."""

    kind: Kind
    path: str
    text: str
    pieces: tuple[Piece, ...]
    label: str = ""
    size: int = 1

    @property
    def page(self) -> Page:
        return self.pieces[0].page


def units_of(pages: Sequence[Page]) -> list[Unit]:
    """All units of pages of one packet, in reading order."""
    return [unit for stream in streams(pages) for unit in _read(stream)]


def _read(stream: Stream) -> list[Unit]:
    reader = _Reader(stream)
    reader.run()
    return reader.units


class _Reader:
    """Reads one stream line by line; `headings` are those above the line, with their depth."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.units: list[Unit] = []
        self.above = words_of(stream.page.path)
        self.headings: list[tuple[int, str]] = []
        self.lines = [line_of(stream.text, *span) for span in line_spans(stream)]

    @property
    def path(self) -> str:
        return " ".join(filter(None, (self.above, *(text for _, text in self.headings))))

    def run(self) -> None:
        stream = self.stream
        spoken = stream.text[stream.begin :].strip()
        if stream.page.speaker and len(spoken) <= TURN_MAX_CHARS:
            self._add("turn", stream.begin, len(stream.text))
            if "\n" not in spoken:
                return
        if stream.page.path == FRONT_MATTER:
            self._front_matter()
            return
        at = 0
        while at < len(self.lines):
            at = self._take(at)
        self._sections()

    def _add(self, kind: Kind, start: int, end: int, label: str = "", size: int = 1, path: str | None = None) -> None:
        text = " ".join(self.stream.text[start:end].split())
        pieces = self.stream.pieces(start, end)
        if pieces and any(map(str.isalnum, text)):  # a fence or a rule by itself says nothing
            self.units.append(Unit(kind, self.path if path is None else path, text, pieces, label, size))

    def _take(self, at: int) -> int:
        """Read the block that begins at a line; returns the line after it."""
        line = self.lines[at]
        if line.text.startswith(FENCES):
            return self._code(at)
        if not line.text or RULE.match(line.text):
            return at + 1
        if depth := heading_depth(line):
            self._enter(depth, line.text)
            return at + 1
        if line.composed:
            return self._fields(at)
        if ROW.match(line.text):
            return self._table(at)
        if line.mark:
            return self._list(at)
        return self._paragraph(at)

    def _enter(self, depth: int, text: str) -> None:
        while self.headings and self.headings[-1][0] >= depth:
            self.headings.pop()
        self.headings.append((depth, text.strip("#*_: ")))

    def _front_matter(self) -> None:
        """Each field by itself, with what is nested below it."""
        own = [line for line in self.lines if not line.indent and not line.mark and ":" in line.text]
        for number, line in enumerate(own):
            stop = own[number + 1].start if number + 1 < len(own) else self.lines[-1].end
            self._add("field", line.start, stop, words_of(line.text.partition(":")[0]))

    # ---- fields of a composed page: `path/to/label (attribute value): text`

    def _fields(self, at: int) -> int:
        end = at
        while end < len(self.lines) and (self.lines[end].composed or self._wraps(end)):
            end += 1
        own = [line for line in self.lines[at:end] if line.composed]
        for number, line in enumerate(own):
            stop = own[number + 1].start if number + 1 < len(own) else self.lines[end - 1].end
            above, _, name = line.label.rpartition("/")
            path = " ".join(filter(None, (self.path, words_of(above))))
            self._add("field", line.start, stop, words_of(name), path=path)
            if len(line.value) > WHOLE_MAX_CHARS // 2:
                self._sentences(stop - len(self.stream.text[line.start : stop].lstrip()), stop)
        self._same_label(own, self.lines[end - 1].end)
        self._records(own, self.lines[end - 1].end)
        return end

    def _wraps(self, at: int) -> bool:
        """Whether a line goes on with the value of the field above it."""
        line = self.lines[at]
        return bool(line.text) and not line.mark and not HEADING.match(line.text) and not line.label

    def _same_label(self, lines: Sequence[Line], end: int) -> None:
        """Neighbouring fields of one name are a list."""
        first = 0
        for at in range(1, len(lines) + 1):
            if at < len(lines) and lines[at].label == lines[first].label:
                continue
            if at - first > 1 and lines[first].label:
                stop = lines[at].start if at < len(lines) else end
                if stop - lines[first].start <= WHOLE_MAX_CHARS:
                    above, _, name = lines[first].label.rpartition("/")
                    path = " ".join(filter(None, (self.path, words_of(above))))
                    self._add("list", lines[first].start, stop, words_of(name), at - first, path)
            first = at

    def _records(self, lines: Sequence[Line], end: int) -> None:
        """Fields with the same path above them are one record; a new one begins where its first name comes again."""
        paths = dict.fromkeys(path for line in lines for path in _paths_above(line))
        spans: dict[tuple[int, int], str] = {}
        for above in paths:
            for first, last in _runs(lines, above):
                stop = lines[last].start if last < len(lines) else end
                alike = all(line.label == lines[first].label for line in lines[first:last])  # a list has it
                one_thing = above or (last - first <= _ROOT_FIELDS_MAX and self.stream.page.section != "header")
                if last - first > 1 and not alike and one_thing and stop - lines[first].start <= WHOLE_MAX_CHARS:
                    spans[lines[first].start, stop] = above
        for (start, stop), above in spans.items():
            parent, _, name = above.rpartition("/")
            path = " ".join(filter(None, (self.path, words_of(parent))))
            self._add("record", start, stop, words_of(name), path=path)

    # ---- lists, tables, code and text

    def _code(self, at: int) -> int:
        """A block of code with the line that announces it; a long one is read line by line."""
        end, opening = self._after_code(at), self._announcing(at)
        start, stop = self.lines[at].start if opening is None else opening, self.lines[end - 1].end
        if stop - start > WHOLE_MAX_CHARS:
            return at + 1
        self._add("section", start, stop)
        return end

    def _after_code(self, at: int) -> int:
        """The line after the block of code that begins at a line; the one after its fence where it never ends."""
        rest = range(at + 1, len(self.lines))
        return next((end + 1 for end in rest if self.lines[end].text.startswith(FENCES)), at + 1)

    def _before(self, at: int) -> str:
        """The last line above this one that is not empty."""
        return next((line.text for line in reversed(self.lines[:at]) if line.text), "")

    def _list(self, at: int) -> int:
        indent, end, starts = self.lines[at].indent, at, []
        while end < len(self.lines):
            line = self.lines[end]
            if line.text.startswith(FENCES):
                if line.indent <= indent and not self._before(end).endswith(":"):
                    break
                end = self._after_code(end)
                continue
            if not line.text:
                after = self.lines[end + 1] if end + 1 < len(self.lines) else None
                if after is None or not (after.mark or after.indent > indent):
                    break
            elif line.mark and line.indent <= indent + 1:
                if line.indent < indent - 1:
                    break
                starts.append(end)
            elif not line.mark and line.indent <= indent and (not self.lines[end - 1].text or heading_depth(line)):
                break
            end += 1
        stop = self.lines[end - 1].end
        for number, first in enumerate(starts):
            line = self.lines[first]
            until = self.lines[starts[number + 1] - 1].end if number + 1 < len(starts) else stop
            if until - line.start <= WHOLE_MAX_CHARS:
                self._add("field" if line.label else "item", line.start, until, words_of(line.label))
            else:
                self._sentences(line.start, until)
        self._same_label([self.lines[first] for first in starts], stop)
        if len(starts) > 1 and stop - self.lines[at].start <= 2 * WHOLE_MAX_CHARS:
            opening = self._announcing(at)
            self._add("list", self.lines[at].start if opening is None else opening, stop, size=len(starts))
        return end

    def _announcing(self, at: int) -> int | None:
        """Where the line begins that announces the list: `The phases are:`."""
        back = at - 1
        while back >= 0 and not self.lines[back].text:
            back -= 1
        if back >= 0 and self.lines[back].text.endswith(":") and not HEADING.match(self.lines[back].text):
            return self.lines[back].start
        return None

    def _table(self, at: int) -> int:
        end = at
        while end < len(self.lines) and ROW.match(self.lines[end].text):
            end += 1
        rows = [line for line in self.lines[at:end] if not RULE.match(line.text)]
        header = " ".join(rows[0].text.strip("|").replace("|", " ").split())
        for line in rows[1:]:
            self._add("row", line.start, line.end, path=f"{self.path} {header}")
        if len(rows) > 1 and rows[-1].end - rows[0].start <= 2 * WHOLE_MAX_CHARS:
            self._add("list", rows[0].start, rows[-1].end, size=len(rows) - 1)
        return end

    def _paragraph(self, at: int) -> int:
        end = at
        while end < len(self.lines):
            line = self.lines[end]
            if not line.text or ROW.match(line.text) or line.text.startswith(FENCES):
                break
            if end > at and (line.mark or heading_depth(line)):
                break
            end += 1
        start, stop = self.lines[at].start, self.lines[end - 1].end
        found = self._sentences(start, stop)
        if found > 1 and stop - start <= SECTION_MAX_CHARS:
            self._add("section", start, stop)
        return end

    def _sentences(self, start: int, stop: int) -> int:
        """Each sentence, or line with a name before a colon, by itself; returns how many there are."""
        sentences = split(self.stream.text[start:stop])
        for one in sentences:
            key = KEY.match(one.text)
            label = words_of(key["label"]) if key and is_key(key["label"]) else ""
            kind: Kind = "field" if label and len(one.text) <= WHOLE_MAX_CHARS // 2 else "sentence"
            self._add(kind, start + one.start, start + one.end, label)
        return len(sentences)

    def _sections(self) -> None:
        """What stands below each heading, with the heading."""
        open_headings: list[tuple[int, int, str]] = []
        above: list[str] = []
        ends = [*self.lines, None]
        for line in ends:
            depth = heading_depth(line) if line else 1
            if not depth:
                continue
            stop = line.start if line else len(self.stream.text)
            while open_headings and (line is None or open_headings[-1][0] >= depth):
                _, start, path = open_headings.pop()
                above.pop()
                body = self.stream.text[start:stop].strip()
                if "\n" in body and len(body) <= SECTION_MAX_CHARS:
                    self._add("section", start, start + len(body), path=path)
            if line:
                name = line.text.strip("#*_: ")
                path = " ".join(filter(None, (self.above, *above, name)))
                open_headings.append((depth, line.start, path))
                above.append(name)


def _paths_above(line: Line) -> Iterator[str]:
    steps = line.label.split("/")
    for depth in range(len(steps) + (not line.value)):
        yield "/".join(steps[:depth])


def _runs(lines: Sequence[Line], above: str) -> Iterator[tuple[int, int]]:
    """From and to which line each record below this path goes."""
    at = 0
    while at < len(lines):
        if not _below(lines[at].label, above):
            at += 1
            continue
        first = at
        at += 1
        while at < len(lines) and _below(lines[at].label, above):
            if lines[at].label == lines[first].label and lines[at - 1].label != lines[first].label:
                break
            at += 1
        yield first, at


def _below(label: str, above: str) -> bool:
    return not above or label == above or label.startswith(f"{above}/")
