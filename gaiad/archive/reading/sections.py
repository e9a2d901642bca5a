"""A document as sections: every piece of text once, in document order, under the kind its dialect gives it.

Long or mapped leaves are sections of their own, literally. Small ones of the same part are gathered into one section as
`name: value` lines, so that a packet becomes a handful of pages and not one page a field; each value keeps its place in
the original, a label that of the tag or key it was made from. Attributes are part of the label:
`node (role Conductor): text`.
"""

import re
from array import array

import msgspec

from gaiad.archive.reading.dialect import Dialect
from gaiad.archive.reading.document import NO_TEXT, TEXT_RUN, Document, Node
from gaiad.archive.reading.packet import Section, SectionKind, Text

SMALL_MAX_CHARS = 600
_LABEL_MAX_CHARS = 120
_PATH_MAX_CHARS = 300
_ATTRIBUTE_MAX_CHARS = 2000
_LIST_NAMES = frozenset(("item", "entry", "entries", "metric", TEXT_RUN))
_PROSE = frozenset(("content", "transcript", "summary", "other", "closure", "instructions"))
_SPEAKER_KEYS = ("role", "speaker", "author", "sender", "from", "name")
_SPOKEN_KEYS = ("content", "text", "message", "value", "utterance", "parts")
_INLINE = frozenset(("b", "i", "em", "strong", "code", "a", "span", "u", "sub", "sup", "mark", "emphasis"))


class TextWriter:
    """Composes a Text out of labels and pieces of the document."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._offsets, self._starts, self._ends = array("q"), array("q"), array("q")
        self.length = 0

    def label(self, value: str, start: int, end: int) -> None:
        """`value` was read from the bytes from `start` to `end`."""
        self._offsets.append(self.length)
        self._starts.append(start)
        self._ends.append(-max(start, end))
        self._add(value)

    def text(self, text: Text) -> None:
        """`text` as it is in the document."""
        for offset, start, end in zip(text.offsets, text.starts, text.ends, strict=True):
            self._offsets.append(self.length + offset)
            self._starts.append(start)
            self._ends.append(end)
        self._add(text.value)

    def _add(self, value: str) -> None:
        self._parts.append(value)
        self.length += len(value)

    @property
    def end(self) -> int:
        return abs(self._ends[-1]) if self._ends else 0

    def finish(self) -> Text:
        return Text("".join(self._parts), self._offsets, self._starts, self._ends)


class _Position(msgspec.Struct):
    """The place of the walk: a node, its path as spelled and as compared, the part of the packet it belongs to."""

    node: Node
    path: str
    compared: str
    kind: SectionKind
    group: str


def make_sections(document: Document, dialect: Dialect) -> tuple[Section, ...]:
    """All text of the document as sections, in document order. See the module for what goes together."""
    return _Walk(document, dialect).run()


class _Walk:
    def __init__(self, document: Document, dialect: Dialect) -> None:
        self.document, self.dialect = document, dialect
        self.sections: list[Section] = []
        self.group: _Position | None = None
        self.writer = TextWriter()
        self.first_path = ""
        self.leaf_count = 0

    def run(self) -> tuple[Section, ...]:
        stack = [_Position(self.document.root, "", "", "other", "")]
        while stack:
            place = stack.pop()
            if not self._take(place):
                stack.extend(reversed([self._below(place, child) for child in place.node.children]))
        self._close_group()
        return tuple(self.sections)

    def _below(self, place: _Position, child: Node) -> _Position:
        path = _clip_path(f"{place.path}/{child.name}" if place.path else child.name)
        compared = f"{place.compared}/{child.key}"[-_PATH_MAX_CHARS:] if place.compared else child.key
        mapped = self.dialect.section_paths.get(compared)
        if mapped:
            return _Position(child, path, compared, mapped, path)
        group = place.group or (path if child.children else "")
        return _Position(child, path, compared, place.kind, group)

    def _take(self, place: _Position) -> bool:
        """Write the node if it is a unit of its own: a leaf, a turn, or running text with inline elements."""
        node = place.node
        if not node.children:
            self._leaf(place, node.text)
            return True
        structure = place.compared in self.dialect.section_parents
        if not structure and place.kind in ("transcript", "content", "other") and self._turn(place):
            return True
        if not structure and place.kind in _PROSE and place.path and _is_mixed(node):
            self._leaf(place, _flatten(self.document, node))
            return True
        if place.kind == "behavior" and self._metric(place):
            return True
        if node.attributes and place.path:
            self._line(place, NO_TEXT, node.children[0].start)
        return False

    def _leaf(self, place: _Position, text: Text) -> None:
        node = place.node
        alone = place.group == place.path or len(text.value) > SMALL_MAX_CHARS
        if not text.value or (not alone and place.path):
            if text.value or node.attributes:
                self._line(place, text, text.start or node.end)
            return
        self._close_group()
        if node.attributes and place.path:
            writer = TextWriter()
            writer.label(f"({_attributes(node)}) ", node.start, text.start)
            writer.text(text)
            text = writer.finish()
        self.sections.append(Section(kind=place.kind, path=place.path, text=text, speaker=_attribute_speaker(place)))

    def _line(self, place: _Position, text: Text, label_end: int) -> None:
        """One `label: value` line in the group of the part that `place` belongs to."""
        self._open_group(place)
        writer, node = self.writer, place.node
        label = _label(place.path, place.group)
        attributes = f" ({_attributes(node)})" if node.attributes else ""
        shown = f"{label}{attributes}".strip()
        if writer.length:
            shown = f"\n{shown}"
        if text.value and shown.strip():
            shown += ": "
        if shown:
            writer.label(shown, node.start, label_end)
        if text.value:
            writer.text(text)

    def _open_group(self, place: _Position) -> None:
        group = self.group
        if group is None or group.kind != place.kind or group.group != place.group:
            self._close_group()
            self.group = place
            self.first_path = place.path
            self.leaf_count = 0
        self.leaf_count += 1

    def _close_group(self) -> None:
        if self.group and self.writer.length:
            path = self.first_path if self.leaf_count == 1 else self.group.group
            self.sections.append(Section(kind=self.group.kind, path=path, text=self.writer.finish(), composed=True))
        self.group = None
        self.writer = TextWriter()

    def _metric(self, place: _Position) -> bool:
        """<metric><name/><value/><unit/></metric> as one line: `name: value unit`."""
        children = {child.key: child for child in place.node.children}
        if not {"name", "value"} <= children.keys() or any(child.children for child in place.node.children):
            return False
        self._open_group(place)
        if self.writer.length:
            self.writer.label("\n", place.node.start, place.node.start)
        for index, child in enumerate(place.node.children):
            if index:
                separator = ": " if place.node.children[index - 1].key == "name" else " "
                self.writer.label(separator, child.start, child.text.start or child.start)
            self.writer.text(child.text)
        return True

    def _turn(self, place: _Position) -> bool:
        """{"role": "user", "content": "..."} as one section spoken by `user`; whatever else it holds follows."""
        children = {child.key: child for child in place.node.children}
        speaker = next((children[key] for key in _SPEAKER_KEYS if key in children), None)
        if speaker is None or speaker.children or not speaker.text.value:
            return False
        if not any(key in children for key in _SPOKEN_KEYS) or len(speaker.text.value) > 80:
            return False
        self._close_group()
        writer = TextWriter()
        for child in place.node.children:
            self._say(writer, child, child is speaker)
        if writer.length:
            name = " ".join(speaker.text.value.split())
            self.sections.append(Section(kind="transcript", path=place.path, text=writer.finish(), speaker=name))
        return True

    def _say(self, writer: TextWriter, child: Node, is_speaker: bool) -> None:
        stack = [(child, is_speaker or child.key in _SPOKEN_KEYS)]
        while stack:
            node, plain_text = stack.pop()
            stack.extend(reversed([(each, each.key in (*_SPOKEN_KEYS, "item")) for each in node.children]))
            if not (node.text.value or (node.attributes and not node.children)):
                continue
            label = "\n" if writer.length and not writer_ends_with_speaker(writer) else ""
            if not plain_text:
                label += f"{node.name[:_LABEL_MAX_CHARS]}: "
            if label:
                writer.label(label, node.start, node.text.start or node.start)
            writer.text(node.text)
            if is_speaker:
                writer.label(": ", node.end, node.end)


def writer_ends_with_speaker(writer: TextWriter) -> bool:
    return bool(writer._parts) and writer._parts[-1] == ": "


def _attribute_speaker(place: _Position) -> str:
    if place.kind != "transcript":
        return ""
    found = next((value for key in _SPEAKER_KEYS if (value := place.node.attribute(key))), "")
    return " ".join(found.split())[:80]


def _attributes(node: Node) -> str:
    return ", ".join(f"{name} {value}" for name, value in node.attributes.items())[:_ATTRIBUTE_MAX_CHARS]


def _label(path: str, group: str) -> str:
    """The path below the group's own, names of list elements left out."""
    below = path[len(group) :].strip("/") if path.startswith(group) else path
    steps = [step for step in below.split("/") if step and step not in _LIST_NAMES]
    if not steps and below:
        steps = [step for step in path.split("/") if step not in _LIST_NAMES][-1:]
    return "/".join(steps)[-_LABEL_MAX_CHARS:]


def _clip_path(path: str) -> str:
    return path if len(path) <= _PATH_MAX_CHARS else f"{path[:140]}…{path[-140:]}"


def _is_mixed(node: Node) -> bool:
    return any(child.name == TEXT_RUN for child in node.children)


def _flatten(document: Document, node: Node) -> Text:
    """Running text with elements in it, as one text; a break where a block element or space stood between words."""
    writer = TextWriter()
    stack = list(reversed(node.children))
    while stack:
        child = stack.pop()
        stack.extend(reversed(child.children))
        if not child.text.value:
            continue
        if writer.length:
            between = document.data[writer.end : child.text.start]
            gap = _gap(between)
            if gap:
                writer.label(gap, writer.end, writer.end)
        writer.text(child.text)
    return writer.finish()


def _gap(between: bytes) -> str:
    names = {name.decode("utf-8", "replace").lower() for name in re.findall(rb"</?(?:\w+:)?(\w+)", between)}
    if names - _INLINE:
        return "\n"
    return " " if re.sub(rb"<[^>]*>", b"", between).isspace() else ""
