"""What is looked at before expat sees a file: its encoding, the size of its tags; and expat's errors in words."""

import codecs
import re
from xml.parsers import expat

from gaiad.archive.reading.document import line_of, over_limit
from gaiad.errors import PacketRejected

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
