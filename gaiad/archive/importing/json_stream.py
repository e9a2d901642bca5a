"""Cuts JSON of any size into its records, byte for byte, without reading it whole.

A record is an object in the array at the top, or in an array right below an object at the top. Only brackets and
strings are looked at here; whether a record is JSON, `json_value` finds out.
"""

import codecs
import json
import os
import re
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

RECORD_MAX_BYTES = 16 * 1024 * 1024
"""A longer record is not decoded whole."""
LARGE_MAX_BYTES = 256 * 1024 * 1024
MAX_DEPTH = 20_000  # an export has a few dozen
_MAX_CONTAINERS = 300_000
_MAX_COMMAS = 2_000_000
_KEPT_BYTES = 1024  # before the place looked at: a key may stand there
_KEPT_BUFFER_BYTES = 2 * 1024 * 1024  # a longer record leaves the buffer at once, and is not there twice
_OUTSIDE = re.compile(rb'(?:[^"{}\[\]]++|"(?:[^"\\]++|\\.)*+")*+', re.DOTALL)
INSIDE = re.compile(  # as _OUTSIDE, and over whole objects and arrays that hold no others
    rb'(?:[^"{}\[\]]++|"(?:[^"\\]++|\\.)*+"|[{\[](?:[^"{}\[\]]++|"(?:[^"\\]++|\\.)*+")*+[}\]])*+', re.DOTALL
)
_STRING_REST = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)
_KEY_BEFORE = re.compile(rb'"((?:[^"\\]|\\.)*)"\s*:\s*\Z', re.DOTALL)
_QUOTE, _OPEN = b'"', b"{["


class Unreadable(ValueError):
    """A record or file that cannot be read; the text is one clear line."""


class SpillFile:
    """Bytes too many for memory, in a file without a name that lasts as long as this object."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - closed with this object
        self.fileno = self._file.fileno()

    def __del__(self) -> None:
        self._file.close()

    def write(self, data: bytes | memoryview) -> None:
        while data:
            data = memoryview(data)[os.write(self.fileno, data) :]

    def read(self, start: int, end: int) -> bytes:
        return os.pread(self.fileno, end - start, start)


@dataclass(frozen=True, slots=True)
class Element:
    """A record: `key` names its array below the top object, "" for one at the top.

    `raw` is None when it is too long; `file` holds such a record, None when it is beyond all bounds, and `start` is how
    it begins.
    """

    key: str
    raw: bytes | None
    size: int
    start: bytes = b""
    file: SpillFile | None = None


class _Splitter:
    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.buffer = b""
        self.at = self.depth = self.level = self.size = self.unwritten = 0
        self.start = -1  # of a record, -1 outside one, -2 inside one that is written to `file`
        self.file: SpillFile | None = None
        self.in_string = False
        self.key = ""
        self.opening = b""

    def feed(self, chunk: bytes) -> Iterator[Element]:
        cut = self.start if self.start >= 0 else max(0, self.at - _KEPT_BYTES)
        self.buffer, self.at = self.buffer[cut:] + chunk, self.at - cut
        self.start -= cut if self.start >= 0 else 0
        self.unwritten = self.at
        while True:
            if self.in_string:
                self.at = self._end(_STRING_REST)
                if self.buffer[self.at : self.at + 1] != _QUOTE:
                    break
                self.in_string = False
                self.at += 1
            self.at = self._end(INSIDE if self.depth > self.level > 0 else _OUTSIDE)
            if self.at >= len(self.buffer):
                break
            character = self.buffer[self.at]
            self.at += 1
            if character == 0x22:
                self.in_string = True
            elif character in _OPEN:
                self._opened(character)
            elif (done := self._closed()) is not None:
                yield done
        if self.start == -2:
            self._write(self.unwritten)
        elif self.start >= 0 and len(self.buffer) - self.start > self.limit:
            self._begin_file()

    def _begin_file(self) -> None:
        self.opening, self.size = self.buffer[self.start : self.start + _KEPT_BYTES], 0
        self.file = SpillFile()
        self._write(self.start)
        self.start = -2

    def _write(self, begin: int) -> None:
        self.size += self.at - begin
        if self.size > LARGE_MAX_BYTES:
            self.file = None
        if self.file is not None:
            self.file.write(memoryview(self.buffer)[begin : self.at])

    def _end(self, pattern: re.Pattern[bytes]) -> int:
        found = pattern.match(self.buffer, self.at)
        return found.end() if found else self.at

    def _opened(self, character: int) -> None:
        if self.depth == 0:
            self.level = 1 if character == 0x5B else 2
        elif self.depth == 1 and self.level == 2:
            before = _KEY_BEFORE.search(self.buffer, max(0, self.at - 1 - _KEPT_BYTES), self.at - 1)
            is_array = character == 0x5B
            self.key = before[1].decode("utf-8", "replace") if before and is_array else ""
        if self.depth == self.level and self.level and (self.level == 1 or self.key):
            self.start = self.at - 1
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise Unreadable("is nested too deeply")

    def _closed(self) -> Element | None:
        self.depth -= 1
        if self.depth < 0:
            raise Unreadable("not JSON: a closing bracket too many")
        if self.depth != self.level or self.start == -1:
            return None
        if self.start >= 0 and self.at - self.start > self.limit:
            self._begin_file()
        elif self.start == -2:
            self._write(self.unwritten)
        start, self.start = self.start, -1
        if start == -2:
            file, self.file = self.file, None
            return Element(self.key, None, self.size, self.opening, file)
        raw = self.buffer[start : self.at]
        if len(raw) > _KEPT_BUFFER_BYTES:
            self.buffer, self.at = self.buffer[self.at :], 0
        return Element(self.key, raw, len(raw))


def elements(chunks: Iterable[bytes], limit: int = RECORD_MAX_BYTES) -> Iterator[Element]:
    """The records in order; memory holds one of at most `limit` bytes. Raises Unreadable when the text breaks off."""
    splitter = _Splitter(limit)
    for chunk in chunks:
        yield from splitter.feed(chunk)
    if splitter.depth or splitter.in_string:
        raise Unreadable("the file ends in the middle; it was cut off, export or copy it again")


def lenient_text(raw: bytes) -> str:
    """UTF-8 text; a byte that is not UTF-8 is read as Windows-1252, which is what such files are written in."""
    return raw.decode("utf-8", "windows-1252-bytes")


def _windows_1252(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return error.object[error.start : error.end].decode("cp1252", "replace"), error.end


codecs.register_error("windows-1252-bytes", _windows_1252)


def json_value(raw: bytes) -> Any:
    """The value of a JSON text; NaN, half surrogates and bytes that are not UTF-8 are put up with.

    Raises Unreadable with the reason for anything else.
    """
    if raw.count(b"{") + raw.count(b"[") > _MAX_CONTAINERS or raw.count(b",") > _MAX_COMMAS:
        raise Unreadable(f"has more than {_MAX_CONTAINERS:,} objects or {_MAX_COMMAS:,} values in one record")
    try:
        return msgspec.json.decode(raw)
    except RecursionError:
        raise Unreadable("is nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _tolerant_value(raw)


def _tolerant_value(raw: bytes) -> Any:
    try:
        value = json.loads(lenient_text(raw), strict=False)
    except RecursionError:
        raise Unreadable("is nested too deeply") from None
    except ValueError as error:
        raise Unreadable(f"is not JSON ({error})") from None
    return _without_surrogates(value)


def _without_surrogates(value: Any) -> Any:
    """The value with U+FFFD for every half of a surrogate pair: such text cannot be stored."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, list):
        return [_without_surrogates(each) for each in value]
    if isinstance(value, dict):
        return {_without_surrogates(name): _without_surrogates(each) for name, each in value.items()}
    return value
