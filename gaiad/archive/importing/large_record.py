"""Records too long to be decoded whole: they stay in a file, and their large values are decoded a member at a time."""

import mmap
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from gaiad.archive.importing.json_stream import INSIDE, MAX_DEPTH, SpillFile, Unreadable, json_value

_LARGE_BYTES = 1024 * 1024  # a value of a record that is longer is decoded in members
_MEMBER_MAX_BYTES = 32 * 1024 * 1024
_WHOLE_MAX_BYTES = 32 * 1024 * 1024
_MAX_MEMBERS = 100_000
_SCANNED_BYTES = 8 * 1024 * 1024  # after as many the scanned pages are given back to the system
_BETWEEN = re.compile(rb"[\s,:]*+")
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_SCALAR = re.compile(rb"[^\s,\]}\"]++")
_OPEN, _CLOSE = b"{[", b"}]"

_Span = tuple[int, int]


class LargeObject(Mapping[str, Any]):
    """An object whose members are decoded when they are asked for."""

    def __init__(self, file: SpillFile, spans: dict[str, _Span]) -> None:
        self._file = file
        self._spans = spans

    def __getitem__(self, name: str) -> Any:
        return _decoded(self._file, self._spans[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._spans)

    def __len__(self) -> int:
        return len(self._spans)

    def whole(self) -> dict[str, Any]:
        """All members at once. Raises Unreadable when they are too long for it."""
        _check_whole(self._spans.values())
        return dict(self)


class LargeArray:
    """An array whose members are decoded when they are asked for."""

    def __init__(self, file: SpillFile, spans: list[_Span]) -> None:
        self._file = file
        self._spans = spans

    def __getitem__(self, at: int) -> Any:
        return _decoded(self._file, self._spans[at])

    def __len__(self) -> int:
        return len(self._spans)

    def __iter__(self) -> Iterator[Any]:
        return (_decoded(self._file, span) for span in self._spans)

    def whole(self) -> list[Any]:
        """All members at once. Raises Unreadable when they are too long for it."""
        _check_whole(self._spans)
        return list(self)


def _check_whole(spans: Iterable[_Span]) -> None:
    if sum(end - start for start, end in spans) > _WHOLE_MAX_BYTES:
        raise Unreadable(f"has more than {_WHOLE_MAX_BYTES // (1024 * 1024)} MiB in one conversation")


def large_record(file: SpillFile) -> dict[str, Any]:
    """The object that the file holds, its large values as LargeObject and LargeArray. Raises Unreadable."""
    with mmap.mmap(file.fileno, 0, access=mmap.ACCESS_READ) as data:
        return {name: _value(file, data, span) for name, *span in _members(data, 0)}


def _value(file: SpillFile, data: mmap.mmap, span: Sequence[int]) -> Any:
    start, end = span
    if end - start <= _LARGE_BYTES or data[start] not in _OPEN:
        return _decoded(file, (start, end))
    found = [(name, (first, last)) for name, first, last in _members(data, start)]
    if data[start] == _OPEN[0]:
        return LargeObject(file, dict(found))
    return LargeArray(file, [each for _, each in found])


def _decoded(file: SpillFile, span: _Span) -> Any:
    start, end = span
    if end - start > _MEMBER_MAX_BYTES:
        raise Unreadable(f"has more than {_MEMBER_MAX_BYTES // (1024 * 1024)} MiB in one message")
    return json_value(file.read(start, end))


def _members(data: mmap.mmap, start: int) -> Iterator[tuple[str, int, int]]:
    """(name, start, end) of each value of the object or array at `start`; names are "" in an array."""
    named = data[start] == _OPEN[0]
    at, scanned = start + 1, start
    for _ in range(_MAX_MEMBERS):
        at = _end(_BETWEEN, data, at)
        if data[at : at + 1] in (b"}", b"]"):
            return
        name = ""
        if named:
            begin, at = at, _end(_STRING, data, at)
            name, at = json_value(data[begin:at]), _end(_BETWEEN, data, at)
        begin, at = at, _value_end(data, at)
        yield name, begin, at
        if at - scanned > _SCANNED_BYTES:
            data.madvise(mmap.MADV_DONTNEED)
            scanned = at
    raise Unreadable(f"has more than {_MAX_MEMBERS:,} messages")


def _value_end(data: mmap.mmap, at: int) -> int:
    if data[at : at + 1] == b'"':
        return _end(_STRING, data, at)
    if data[at] not in _OPEN:
        return _end(_SCALAR, data, at)
    depth = 1
    at += 1
    while depth:
        at = _end(INSIDE, data, at)
        if at >= len(data):
            raise Unreadable("is not JSON (it ends in the middle)")
        depth += 1 if data[at] in _OPEN else -1
        if depth > MAX_DEPTH:
            raise Unreadable("is nested too deeply")
        at += 1
    return at


def _end(pattern: re.Pattern[bytes], data: mmap.mmap, at: int) -> int:
    found = pattern.match(data, at)
    if found is None or at >= len(data):
        raise Unreadable("is not JSON")
    return found.end()
