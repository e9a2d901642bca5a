"""XML into the document tree, by expat: it tells byte offsets, and a limit can stop it in the middle of a hostile file.

No entity is ever declared or fetched (ARCHITECTURE decision 21): a declaration ends the parse. Prefixes are dropped,
undeclared ones tolerated; the namespace of the root is kept for telling dialects apart.
"""

import codecs
import re
from array import array
from collections.abc import Callable
from xml.parsers import expat

from gaiad.archive.reading.document import NO_TEXT, TEXT_RUN, Document, Node, line_of, over_limit, plain
from gaiad.archive.reading.packet import Text
from gaiad.base.config import PacketLimits
from gaiad.base.errors import PacketRejected

_QUOTE_OR_END = re.compile(rb"""["'>]""")
_START_TAG = re.compile(rb"<[A-Za-z_:\x80-\xff]")
_DECLARED = re.compile(rb"""^\s*<\?xml[^>]*?encoding\s*=\s*["']([A-Za-z0-9._-]+)["']""")
_SINGLE_BYTE = re.compile(r"utf-8|ascii|iso8859-\d+|cp\d+|koi8-\w|mac-\w+|tis-620|kz1048|ptcp154")
_WIDE = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be", b"<\0": "utf-16-le", b"\0<": "utf-16-be"}


def find_encoding(data: bytes) -> str:
    """The document's encoding as a Python codec without byte order mark; rejects NUL bytes and UTF-32."""
    if data.startswith((b"\xff\xfe\0\0", b"\0\0\xfe\xff", b"<\0\0\0", b"\0\0\0<")):
        raise PacketRejected("is UTF-32; save the packet as UTF-8", 1)
    wide = _WIDE.get(data[:2])
    if wide:
        return wide
    nul = data.find(b"\0")
    if nul >= 0:
        raise PacketRejected(f"has a NUL byte at offset {nul}; the file is damaged or not text", line_of(data, nul))
    declared = _DECLARED.match(data.removeprefix(codecs.BOM_UTF8)[:400])
    if not declared or data.startswith(codecs.BOM_UTF8):
        return "utf-8"
    name = declared[1].decode("ascii")
    try:
        codec = codecs.lookup(name).name
    except LookupError as error:
        raise PacketRejected(f"declares encoding {name!r}, which is unknown; save the packet as UTF-8", 1) from error
    if codec.startswith(("utf-16", "utf-32")):
        raise PacketRejected(f"declares {name} but is not; correct the XML declaration", 1)
    if not _SINGLE_BYTE.fullmatch(codec):
        raise PacketRejected(f"declares encoding {name!r}, which is not read; save the packet as UTF-8", 1)
    return codec


def refuse_attribute_flood(data: bytes, encoding: str, limit: int) -> None:
    """Expat builds all attributes of a tag before it reports the tag, so a tag with too many is found beforehand."""
    if data.count(b"=") <= limit:
        return
    ascii_data = data.decode(encoding, "replace").encode() if encoding.startswith("utf-16") else data
    for tag in _START_TAG.finditer(ascii_data):
        position, quotes, end = tag.end(), 0, min(tag.end(), len(ascii_data))
        following = ascii_data.find(b"<", end)
        if ascii_data.count(b"=", end, following if following >= 0 else len(ascii_data)) <= limit:
            continue
        while (found := _QUOTE_OR_END.search(ascii_data, position)) and found[0] != b">":
            quotes += 1
            closing = ascii_data.find(found[0], found.end())
            position = closing + 1 if closing >= 0 else len(ascii_data)
            if quotes > limit:
                raise PacketRejected(
                    over_limit("attributes of one element", "max_nodes", limit), line_of(ascii_data, end)
                )


def explain(error: expat.ExpatError, data: bytes, encoding: str) -> str:
    """Expat's error in words that help."""
    reason = f"not well-formed XML: {expat.ErrorString(error.code)}, column {error.offset + 1}"
    if encoding == "utf-8" and error.code == expat.errors.codes[expat.errors.XML_ERROR_INVALID_TOKEN]:
        try:
            data.decode("utf-8")
        except UnicodeDecodeError as wrong:
            return (
                f"is not UTF-8: byte 0x{data[wrong.start]:02X} at offset {wrong.start}; "
                "save it as UTF-8 or declare its encoding"
            )
    return reason


_ESCAPE_BYTES = b"&\r"


def read_xml(data: bytes, limits: PacketLimits) -> Document:
    """Parse `data`. Raises PacketRejected with the line: malformed, entities declared, a limit passed."""
    encoding = find_encoding(data)
    refuse_attribute_flood(data, encoding, limits.max_nodes)
    try:
        builder = _Builder(data, encoding, limits)
        try:
            builder.parser.Parse(data, True)
        finally:
            del builder.parser  # it holds the builder's methods: a cycle that would keep the file in memory
    except expat.ExpatError as error:
        raise PacketRejected(explain(error, data, encoding), error.lineno) from error
    except (LookupError, ValueError, TypeError) as error:
        raise PacketRejected(f"encoding {encoding!r} cannot be read ({error}); save the packet as UTF-8", 1) from error
    return Document(
        root=builder.root,
        data=data,
        media_type="application/xml",
        encoding=encoding,
        namespace=builder.namespace,
    )


class _Builder:
    """Expat's callbacks. Text is gathered with its segments until the next tag, then kept unless it is all space."""

    def __init__(self, data: bytes, encoding: str, limits: PacketLimits) -> None:
        self.data, self.encoding, self.limits = data, encoding, limits
        self.root = Node("", "", 0, 0, {}, [], NO_TEXT)
        self.namespace = ""
        self.stack = [self.root]
        self.names: dict[str, tuple[str, str]] = {}
        self.nodes = self.characters = 0
        self.max_nodes, self.max_depth = limits.max_nodes, limits.max_depth
        self.max_text_chars = limits.max_text_chars
        self.ampersand, self.carriage, self.newline = (each.encode(encoding) for each in "&\r\n")
        self.empty_end = "/>".encode(encoding)
        self.unit = len(self.ampersand)
        self.low = self.unit - 1 if encoding == "utf-16-be" else 0
        self.single_byte = encoding != "utf-8" and self.unit == 1
        self.in_cdata = False
        self.parts: list[str] = []
        self.blank: list[str] = []
        self.blank_start = 0
        self.offsets, self.starts, self.ends = array("q"), array("q"), array("q")
        self.count = 0
        self.expected = -1
        self.parser = self._make_parser()

    def _make_parser(self) -> expat.XMLParserType:
        parser = expat.ParserCreate(None if not self.encoding.startswith("utf-16") else "utf-16")
        parser.ordered_attributes = True
        parser.specified_attributes = True
        parser.buffer_text = False
        parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
        parser.StartElementHandler = self.open
        parser.EndElementHandler = self.close
        parser.CharacterDataHandler = self.text
        parser.StartCdataSectionHandler = self._cdata_switch(True)
        parser.EndCdataSectionHandler = self._cdata_switch(False)
        parser.EntityDeclHandler = self.refuse_entity
        parser.AttlistDeclHandler = self.refuse_default
        parser.SkippedEntityHandler = self.refuse_skipped
        return parser

    def _cdata_switch(self, inside: bool) -> Callable[[], None]:
        def switch() -> None:
            self.in_cdata = inside

        return switch

    def refuse_entity(self, name: str, *_: object) -> None:
        raise self._rejected(f"declares entities (such as {name[:40]!r}); remove the DOCTYPE")

    def refuse_default(self, element: str, attribute: str, kind: str, default: str | None, required: bool) -> None:
        if default is not None:
            raise self._rejected(f"declares a default for attribute {attribute[:40]!r}; remove the DOCTYPE")

    def refuse_skipped(self, name: str, is_parameter: bool) -> None:
        raise self._rejected(f"uses the entity &{name[:40]}; that it does not contain; write the character itself")

    def _rejected(self, reason: str) -> PacketRejected:
        return PacketRejected(reason, self.parser.CurrentLineNumber)

    def open(self, raw_name: str, attributes: list[str]) -> None:
        if self.parts or self.blank:
            self._flush(True)
        stack = self.stack
        self.nodes += 1 + len(attributes) // 2
        if self.nodes > self.max_nodes:
            raise self._rejected(over_limit("elements and attributes", "max_nodes", self.limits.max_nodes))
        if len(stack) > self.max_depth:
            raise self._rejected(over_limit("levels of nesting", "max_depth", self.limits.max_depth))
        name, key = self.names.get(raw_name) or self._local(raw_name)
        start = self.parser.CurrentByteIndex
        node = Node(name, key, start, start, self._attributes(attributes) if attributes else {}, [], NO_TEXT)
        if len(stack) == 1:
            prefix = raw_name.rpartition(":")[0]
            wanted = f"xmlns:{prefix}" if prefix else "xmlns"
            self.namespace = dict(zip(attributes[::2], attributes[1::2], strict=True)).get(wanted, "")
            self.root = node
        else:
            stack[-1].children.append(node)
        stack.append(node)

    def _local(self, raw_name: str) -> tuple[str, str]:
        local = raw_name.rpartition(":")[2] or raw_name
        self.names[raw_name] = (local, plain(local))
        return self.names[raw_name]

    def _attributes(self, ordered: list[str]) -> dict[str, str]:
        """Attributes by local name; namespace and schema plumbing is dropped, on a clash a prefix stays."""
        found: dict[str, str] = {}
        pairs = list(zip(ordered[::2], ordered[1::2], strict=True))
        for raw_name, value in sorted(pairs, key=lambda pair: ":" in pair[0]):
            self.characters += len(value)
            prefix, _, local = raw_name.rpartition(":")
            if prefix in ("xmlns", "xsi", "xml") or raw_name == "xmlns":
                continue
            found[raw_name if local in found else local] = value
        self._check_characters()
        return found

    def close(self, _raw_name: str) -> None:
        node = self.stack.pop()
        if self.parts or self.blank:
            self._flush(bool(node.children), node)
        index = self.parser.CurrentByteIndex
        if (
            not node.children
            and not node.text.value
            and self.data[index - len(self.empty_end) : index] == self.empty_end
        ):
            node.end = index
        elif self.unit > 1:
            node.end = self._find_after(">", index)
        else:
            node.end = self.data.find(b">", index) + 1

    def _find_after(self, character: str, start: int) -> int:
        wanted, position = character.encode(self.encoding), start
        while (position := self.data.find(wanted, position)) >= 0 and (position - start) % self.unit:
            position += 1
        return position + self.unit if position >= 0 else len(self.data)

    def text(self, data: str) -> None:
        length = len(data)
        self.characters += length
        if self.characters > self.max_text_chars:
            self._check_characters()
        start = self.parser.CurrentByteIndex
        if not self.parts:
            if data.isspace():
                if not self.blank:
                    self.blank_start = start
                self.blank.append(data)
                return
            if self.blank:
                self._keep_blank(start)
        if length == 1 and self.data[start + self.low] in _ESCAPE_BYTES and self._escape(data, start):
            return
        if start != self.expected:
            self._new_segment(start)
        self.parts.append(data)
        self.count += length
        self.expected = start + (
            length if self.single_byte or (self.unit == 1 and data.isascii()) else len(data.encode(self.encoding))
        )

    def _keep_blank(self, end: int) -> None:
        """The space before the first word belongs to the text: one segment, literal unless line ends were folded."""
        value = "".join(self.blank)
        self.blank = []
        self._new_segment(self.blank_start)
        self.parts.append(value)
        self.count += len(value)
        literal = self.data[self.blank_start : end] == value.encode(self.encoding)
        if literal:
            self.expected = end
        else:
            self.ends.append(-end)
            self.expected = -1

    def _escape(self, data: str, start: int) -> bool:
        """Record `data` as standing for an escape or a carriage return; False when it is there itself."""
        ampersand = self.data[start : start + self.unit] == self.ampersand
        if not ampersand and self.data[start : start + self.unit] != self.carriage:
            return False
        if self.in_cdata and ampersand:
            return False
        self._new_segment(start)
        self.parts.append(data)
        self.count += 1
        if ampersand:
            end = self._find_after(";", start)
        else:
            end = start + self.unit
            if self.data[end : end + self.unit] == self.newline:
                end += self.unit
        self.ends.append(-end)
        self.expected = -1
        return True

    def _new_segment(self, start: int) -> None:
        if len(self.ends) < len(self.starts):
            self.ends.append(self.expected)
        self.offsets.append(self.count)
        self.starts.append(start)

    def _flush(self, among_children: bool, node: Node | None = None) -> None:
        if not self.parts:
            self.blank = []
            return
        if len(self.ends) < len(self.starts):
            self.ends.append(self.expected)
        text = Text("".join(self.parts), _compact(self.offsets), _compact(self.starts), _compact(self.ends))
        if among_children:
            self._append_run(node or self.stack[-1], text)
        elif node:
            node.text = text
        self.parts = []
        self.count = 0
        self.expected = -1
        self.offsets, self.starts, self.ends = array("q"), array("q"), array("q")

    def _append_run(self, parent: Node, text: Text) -> None:
        self.nodes += 1
        parent.children.append(Node(TEXT_RUN, TEXT_RUN, text.start, text.end, {}, [], text))

    def _check_characters(self) -> None:
        if self.characters > self.max_text_chars:
            raise self._rejected(over_limit("characters of text", "max_text_chars", self.limits.max_text_chars))


def _compact(row: "array[int]") -> "array[int] | tuple[int, ...]":
    return tuple(row) if len(row) < 8 else row
