"""What a source looks like from outside: its form and its first records, which the kinds recognise it by."""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, tzinfo
from functools import cached_property
from typing import Any, Literal, overload

from gaiad.archive.importing.json_stream import (
    LARGE_MAX_BYTES,
    RECORD_MAX_BYTES,
    Element,
    Unreadable,
    elements,
    json_value,
    lenient_text,
)
from gaiad.archive.importing.large_record import large_record
from gaiad.archive.importing.source import Source
from gaiad.archive.reading.reader import SCHEMA_SUFFIXES

Form = Literal["array", "object", "lines", "sqlite", "html", "xml", "text", "binary", "empty"]
_HEAD_BYTES = 64 * 1024
_FIRST_RECORDS = 3
_FIRST_LINES = 200  # a session may begin with many lines of the program's own
_FIRST_BYTES = 8 * 1024 * 1024
_EMPTY = (b"{}", b"[]")
_NUMBERS_OR_WORDS = re.compile(rb"(?:-?\d[\d.eE+-]*|null|true|false)\s*[,\]]")
_TITLE = re.compile(rb'"(?:title|name)"\s*:\s*"((?:[^"\\]|\\.){1,100})')
LINE_MAX_BYTES = 24 * 1024 * 1024
LINES_MAX = 100_000


@dataclass(frozen=True, slots=True)
class ExportRecord:
    """A decoded record with its bytes; `where` names it for people. `value` is a dict, list or plain value.

    One that is too long to be decoded whole has no bytes, and LargeObject and LargeArray among its values.
    """

    where: str
    key: str
    raw: bytes
    value: Any


@dataclass(frozen=True, slots=True)
class Problem:
    """Something in a source that cannot be read; the rest is read on. `loses` when a conversation is lost with it.

    `line` is its number when it is a line of a session's file.
    """

    where: str
    reason: str
    loses: bool = True
    line: int = 0


class Sample:
    """A source and what its first bytes say; `zone` is that of times which name none.

    Raises Unreadable from `form` on when it cannot be opened.
    """

    def __init__(self, source: Source, zone: tzinfo = UTC) -> None:
        self.source = source
        self.zone = zone
        self.skip = 0
        """How many records were dealt with before: `records` with keys gives None for each, unread."""

    @cached_property
    def head(self) -> bytes:
        return self.source.head(_HEAD_BYTES)

    @cached_property
    def form(self) -> Form:
        start = self.head.lstrip()
        if not start:
            return "empty"
        if self.head.startswith(b"SQLite format 3\0"):
            return "sqlite"
        if start[:1] == b"[" and _is_json_array(start):
            return "array"
        if start[:1] == b"{":
            return self._object_or_lines(start)
        if start[:1] == b"<":
            return "html" if b"<html" in start[:4096].lower() or b"<!doctype html" in start[:200].lower() else "xml"
        if b"\0" in start:
            return "binary"
        return "lines" if self._any_line_is_json(start) and self.source.suffix == ".jsonl" else "text"

    def _object_or_lines(self, start: bytes) -> Form:
        lines = [line for line in start.splitlines()[:6] if line.strip()]
        whole = len(self.head) < _HEAD_BYTES
        if self.source.suffix in (".jsonl", ".ndjson"):
            return "lines"
        if len(lines) > 1 and all(line.startswith(b"{") for line in lines[: 2 if whole else 1]):
            return "lines" if any(_is_json_object(line) for line in lines) else "object"
        return "object"

    def _any_line_is_json(self, start: bytes) -> bool:
        return any(_is_json_object(line) for line in start.splitlines()[:6])

    @cached_property
    def text(self) -> str:
        """The head as text."""
        return lenient_text(self.head)

    @cached_property
    def first(self) -> list[ExportRecord]:
        """The first records that can be read: of an array or an object's arrays, or lines."""
        if self.form not in ("array", "object", "lines"):
            return []
        most = _FIRST_LINES if self.form == "lines" else _FIRST_RECORDS
        found: list[ExportRecord] = []
        size = 0
        try:
            for each in self.records():
                if isinstance(each, ExportRecord):
                    found.append(each)
                    size += len(each.raw)
                    size += RECORD_MAX_BYTES if not each.raw else 0
                if len(found) == most or size > _FIRST_BYTES:
                    break
        except Unreadable:
            return found  # told when it is read
        return found

    @cached_property
    def whole(self) -> ExportRecord | None:
        """An object file as one record, when it is small enough and well-formed."""
        if self.form != "object" or self.source.size > LARGE_MAX_BYTES:
            return None
        try:
            if self.source.size > RECORD_MAX_BYTES:
                return ExportRecord("the file", "", b"", large_record(self.source.copy()))
            raw = self.source.text_bytes(RECORD_MAX_BYTES)
            return ExportRecord("the file", "", raw, json_value(raw))
        except Unreadable:
            return None

    def take_whole(self) -> Iterator[ExportRecord]:
        """`whole`, not kept here."""
        taken = [self.whole] if self.whole is not None else []
        self._forget_records()
        while taken:
            yield taken.pop()

    def _forget_records(self) -> None:
        """Let go of what was decoded to recognise the source: a record may be large."""
        for name in ("first", "whole"):
            self.__dict__.pop(name, None)

    @overload
    def records(self) -> Iterator[ExportRecord | Problem]: ...

    @overload
    def records(self, keys: Collection[str]) -> Iterator[ExportRecord | Problem | None]: ...

    def records(self, keys: Collection[str] | None = None) -> Iterator[ExportRecord | Problem | None]:
        """All records, or those below `keys`, decoded one at a time. Raises Unreadable when the file breaks off."""
        if self.form == "lines":
            yield from self._lines()
            return
        if keys is not None:
            self._forget_records()
        left = self.skip if keys is not None else 0
        for number, element in enumerate(elements(self.source.chunks()), start=1):
            if keys is not None and (element.key not in keys or element.raw in _EMPTY):
                continue
            left -= 1
            yield None if left >= 0 else _decoded(element, f"record {number:,}")

    def _lines(self) -> Iterator[ExportRecord | Problem]:
        for number, line in enumerate(self.source.lines(LINE_MAX_BYTES), start=1):
            if number > LINES_MAX:
                raise Unreadable(f"has more than {LINES_MAX:,} lines; one session may have that many")
            if line is None:
                reason = f"is longer than {LINE_MAX_BYTES // (1024 * 1024)} MiB"
                yield Problem(f"line {number:,}", reason, loses=False, line=number)
            elif line.strip():
                found = _decoded(Element("", line, len(line)), f"line {number:,}")
                yield replace(found, loses=False, line=number) if isinstance(found, Problem) else found


def _decoded(element: Element, where: str) -> ExportRecord | Problem:
    try:
        if element.raw is not None:
            return ExportRecord(where, element.key, element.raw, json_value(element.raw))
        if element.file is not None:
            return ExportRecord(_titled(where, element.start), element.key, b"", large_record(element.file))
        limit = LARGE_MAX_BYTES // (1024 * 1024)
        raise Unreadable(f"has {element.size:,} bytes; one conversation may have {limit} MiB")
    except Unreadable as error:
        return Problem(_titled(where, element.start or (element.raw or b"")[:1024]), str(error))


def _titled(where: str, start: bytes) -> str:
    title = _TITLE.search(start)
    return f'{where} ("{lenient_text(title[1])}")' if title else where


def _is_json_object(line: bytes) -> bool:
    try:
        return isinstance(json_value(line), dict)
    except Unreadable:
        return False


def _is_json_array(start: bytes) -> bool:
    """`[` begins a JSON array, and not a line of text such as `[10:31] Anna: hello`."""
    rest = start[1:].lstrip()
    return rest[:1] in (b"{", b"[", b'"', b"]", b"") or _NUMBERS_OR_WORDS.match(rest) is not None


_ASK = "see `gaiad import --help` for the kinds it reads"
_COMPANIONS = frozenset(
    (
        "user.json",
        "users.json",
        "group_chats.json",
        "light_metadata.json",
        "login_history.json",
        "prod-mc-auth-mgmt-api.json",
        "prod-mc-billing.json",
        "user_settings.json",
        "message_feedback.json",
        "model_comparisons.json",
        "shared_conversations.json",
        "shopping.json",
        "sora.json",
        "chat.html",
        "export_manifest.json",
    )
)


_PACKED = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"7z\xbc\xaf", b"Rar!", b"\x28\xb5\x2f\xfd")


def is_companion(name: str) -> bool:
    """Whether a file of this name lies beside the conversations of a known export and holds none itself."""
    return name.lower().rpartition("/")[2] in _COMPANIONS


def _sessions_of_prompts(line: Any) -> str:
    """Where the sessions lie whose prompts a `history.jsonl` repeats; "" for any other line."""
    keys = line.keys() if isinstance(line, dict) else set()
    if {"display", "timestamp"} <= keys:
        return "~/.claude/projects"
    return "~/.codex/sessions" if {"session_id", "ts", "text"} == keys else ""


def advice(sample: Sample) -> str:
    """One sentence for a file nobody recognised."""
    form = sample.form
    if form == "empty":
        return "is empty"
    if form == "lines" and not sample.first:
        return "is not JSON that can be read; export it again"
    if form == "lines" and (sessions := _sessions_of_prompts(sample.first[0].value)):
        return f"has your prompts without the answers; import the sessions: gaiad import {sessions}"
    if sample.source.suffix in SCHEMA_SUFFIXES:
        return "is a schema, not a conversation or packet"
    if form in ("object", "array", "xml"):
        return "is neither a known export nor a Transmission Packet; take it as one document with --as document"
    if form == "sqlite":
        return f"is a database of no kind gaiad knows; {_ASK}"
    if form == "binary" and sample.head.startswith(b"PK"):
        return "is an archive inside an archive; unpack it and import the file"
    if sample.head.startswith(_PACKED):
        return "is an archive other than zip; unpack it and import the folder"
    if form == "binary":
        return "is not text; gaiad imports conversations and notes"
    return f"is of no kind gaiad knows; {_ASK}"
