"""JSON into the document tree, by a scanner of our own: the standard one tells no byte offsets and recurses.

Works on the bytes with a few compiled expressions and an explicit stack; limits stop it early. An object with
the same key twice is refused. Only UTF-8: JSON on the wire is UTF-8 (RFC 8259).
"""

import codecs
import json
import re
from array import array

from gaiad.archive.reading.document import NO_TEXT, Document, Node, line_of, over_limit, plain
from gaiad.archive.reading.packet import Text
from gaiad.base.config import PacketLimits
from gaiad.base.errors import PacketRejected

_SPACE = re.compile(rb"[ \t\r\n]*")
_KEY = re.compile(rb'[ \t\r\n]*("[^"\\\x00-\x1f]*")[ \t\r\n]*:')
_KEY_ESCAPED = re.compile(rb'[ \t\r\n]*("[^"\\\x00-\x1f]*+(?:\\.[^"\\\x00-\x1f]*+)*+")[ \t\r\n]*:')
_VALUE = re.compile(
    rb"[ \t\r\n]*(?:"
    rb'"(?P<string>[^"\\\x00-\x1f]*)"|(?P<open>[{\[])|(?P<number>-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)'
    rb'(?![0-9A-Za-z.])|(?P<word>true|false|null)(?![0-9A-Za-z_])|(?P<escaped>"))'
)
_NEXT = re.compile(rb"[ \t\r\n]*([,}\]])")
_EMPTY = re.compile(rb"[ \t\r\n]*([}\]])")
_CHUNK = re.compile(rb'[^"\\\x00-\x1f]*')
_SIMPLE_ESCAPES = {b"n": "\n", b"t": "\t", b"r": "\r", b"b": "\b", b"f": "\f", b'"': '"', b"\\": "\\", b"/": "/"}
_HEX4 = re.compile(rb"\\u([0-9a-fA-F]{4})")
_KEY_MAX = 10_000


def read_json(data: bytes, limits: PacketLimits) -> Document:
    """Parse `data`, an object or an array. Raises PacketRejected with the line for malformed text or a limit passed."""
    _check_encoding(data)
    scanner = _Scanner(data, limits)
    root = scanner.scan()
    return Document(root=_unwrap(root), data=data, media_type="application/json", encoding="utf-8")


def _check_encoding(data: bytes) -> None:
    if data[:2] in (b"\xff\xfe", b"\xfe\xff") or (len(data) > 3 and data[:2].count(0) == 1):
        raise PacketRejected("is UTF-16; JSON packets are UTF-8, save it as UTF-8", 1)
    nul = data.find(b"\0")
    if nul >= 0:
        raise PacketRejected(f"has a NUL byte at offset {nul}; the file is damaged or not text", line_of(data, nul))
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise PacketRejected(
            f"is not UTF-8: byte 0x{data[error.start]:02X} at offset {error.start}; save it as UTF-8",
            line_of(data, error.start),
        ) from error


def _unwrap(root: Node) -> Node:
    """{"transmission_packet": {...}} is a packet named transmission_packet."""
    if root.name == "" and len(root.children) == 1 and root.children[0].children and root.children[0].name != "item":
        return root.children[0]
    return root


class _Scanner:
    def __init__(self, data: bytes, limits: PacketLimits) -> None:
        self.data, self.limits = data, limits
        self.position = len(codecs.BOM_UTF8) if data.startswith(codecs.BOM_UTF8) else 0
        self.stack: list[tuple[Node, bool]] = []
        self.nodes = self.characters = 0
        self.keys: dict[bytes, tuple[str, str]] = {}

    def scan(self) -> Node:
        at = _SPACE.match(self.data, self.position)
        root = self._value(("", ""), at.end() if at else 0)
        if not self.stack:
            raise self._rejected("is a single JSON value; a packet is an object", 0)
        while self.stack:
            self._member()
        at = _SPACE.match(self.data, self.position)
        if at and at.end() < len(self.data):
            raise self._rejected("continues after the end of the JSON object; put one packet in a file", at.end())
        return root

    def _member(self) -> None:
        """One step inside the innermost open container: close it, or read its next value."""
        node, is_object = self.stack[-1]
        found = (_NEXT if node.children else _EMPTY).match(self.data, self.position)
        if found and found[1] != b",":
            self._close(node, is_object, found)
            return
        if node.children:
            if not found:
                raise self._rejected("not well-formed JSON: a comma or a closing bracket is missing", self.position)
            self.position = found.end()
        node.children.append(self._keyed() if is_object else self._value(("item", "item"), -1))

    def _close(self, node: Node, is_object: bool, found: re.Match[bytes]) -> None:
        if (found[1] == b"}") != is_object:
            raise self._rejected(f"not well-formed JSON: unexpected {found[1].decode()}", found.start(1))
        if is_object and len({child.name for child in node.children}) < len(node.children):
            raise self._twice(node)
        self.position = node.end = found.end()
        self.stack.pop()

    def _twice(self, node: Node) -> PacketRejected:
        """Readers differ about which of two values counts, so neither does."""
        seen: set[str] = set()
        twice = next(child for child in node.children if child.name in seen or seen.add(child.name))  # type: ignore[func-returns-value]
        return self._rejected(f"has the key {twice.name[:80]!r} twice in one object", twice.start)

    def _keyed(self) -> Node:
        found = _KEY.match(self.data, self.position) or _KEY_ESCAPED.match(self.data, self.position)
        if not found:
            raise self._rejected('not well-formed JSON: a "key": is missing', self.position)
        self.position = found.end()
        return self._value(self.keys.get(found[1]) or self._key(found), found.start(1))

    def _key(self, found: re.Match[bytes]) -> tuple[str, str]:
        raw = found[1]
        if len(raw) > _KEY_MAX:
            raise self._rejected(f"has a key longer than {_KEY_MAX} bytes; this is not a packet", found.start(1))
        try:
            name = json.loads(raw)
        except ValueError as error:
            raise self._rejected(f"not well-formed JSON: {error}", found.start(1)) from error
        name = name.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").replace("\0", "\ufffd")
        self.keys[raw] = (name, plain(name))
        return self.keys[raw]

    def _value(self, names: tuple[str, str], start: int) -> Node:
        found = _VALUE.match(self.data, self.position)
        if not found:
            raise self._no_value()
        self.nodes += 1
        if self.nodes > self.limits.max_nodes:
            raise self._over("values", "max_nodes", self.limits.max_nodes)
        kind = found.lastgroup
        assert kind is not None
        begin, self.position = found.start(kind), found.end()
        node = Node(names[0], names[1], begin if start < 0 else start, self.position, {}, [], NO_TEXT)
        if kind == "open":
            if len(self.stack) >= self.limits.max_depth:
                raise self._over("levels of nesting", "max_depth", self.limits.max_depth)
            self.stack.append((node, found[kind] == b"{"))
        elif kind == "escaped":
            node.text = self._escaped_string(found.end())
            node.end = self.position
        elif kind != "word" or found[kind] != b"null":
            value = found[kind].decode()
            self._count(len(value))
            if value and not value.isspace():
                node.text = Text(value, (0,), (begin,), (found.end(kind),))
        return node

    def _no_value(self) -> PacketRejected:
        at = _SPACE.match(self.data, self.position)
        position = at.end() if at else self.position
        word = self.data[position : position + 9].decode("utf-8", "replace")
        if word.lstrip("-").startswith(("NaN", "Infinity")):
            return self._rejected("not well-formed JSON: NaN and Infinity are not JSON numbers; use null", position)
        if not word:
            return self._rejected("not well-formed JSON: ends in the middle; the file is truncated", position)
        return self._rejected(f"not well-formed JSON: no value begins with {word!r}", position)

    def _escaped_string(self, position: int) -> Text:
        """A string with escapes, from after its opening quote: literal chunks and one segment for each escape."""
        parts: list[str] = []
        offsets, starts, ends = array("q"), array("q"), array("q")
        count = 0
        while True:
            chunk = _CHUNK.match(self.data, position)
            assert chunk is not None
            if chunk.end() > position:
                offsets.append(count)
                starts.append(position)
                ends.append(chunk.end())
                parts.append(chunk[0].decode())
                count += len(parts[-1])
                position = chunk.end()
            if self.data[position : position + 1] == b'"':
                break
            character, end = self._escape(position)
            offsets.append(count)
            starts.append(position)
            ends.append(-end)
            parts.append(character)
            count, position = count + 1, end
            if self.characters + count > self.limits.max_text_chars:
                self._count(count)
        self._count(count)
        self.position = position + 1
        value = "".join(parts)
        return Text(value, offsets, starts, ends) if value and not value.isspace() else NO_TEXT

    def _escape(self, position: int) -> tuple[str, int]:
        """The character that the escape at `position` encodes, and the byte offset after it."""
        data = self.data
        if position >= len(data):
            raise self._rejected("not well-formed JSON: a string is not closed; the file is truncated", position)
        if data[position] != 0x5C:
            raise self._rejected(
                f"not well-formed JSON: control character 0x{data[position]:02X} in a string", position
            )
        simple = _SIMPLE_ESCAPES.get(data[position + 1 : position + 2])
        if simple:
            return simple, position + 2
        unit = _HEX4.match(data, position)
        if not unit:
            raise self._rejected("not well-formed JSON: unknown escape in a string", position)
        code, end = int(unit[1], 16), unit.end()
        if 0xD800 <= code < 0xDC00 and (low := _HEX4.match(data, end)) and 0xDC00 <= int(low[1], 16) < 0xE000:
            return chr(0x10000 + ((code - 0xD800) << 10) + int(low[1], 16) - 0xDC00), low.end()
        return ("\ufffd" if code == 0 or 0xD800 <= code < 0xE000 else chr(code)), end

    def _count(self, characters: int) -> None:
        self.characters += characters
        if self.characters > self.limits.max_text_chars:
            raise self._over("characters of text", "max_text_chars", self.limits.max_text_chars)

    def _over(self, what: str, setting: str, limit: int) -> PacketRejected:
        return self._rejected(over_limit(what, setting, limit), self.position)

    def _rejected(self, reason: str, position: int) -> PacketRejected:
        return PacketRejected(reason, line_of(self.data, position))
