"""The hash chain under the audit (decision 13): what a row's bytes are, how rows follow each other, and the noted head.

A row's SHA-256 covers seven lines: the hash of the row before it (64 zeros before the first), its number, at, kind,
tenant, actor, body. Body is JSON on one line and the other fields hold no line breaks, so the seven lines can be read
in one way only, and `sha256sum` alone can check a row. `audit.py` keeps the rows.

The last row is noted in a file beside the database: hashes alone cannot tell that the end of a chain was cut off. The
note is written after a row is durable, so it may be behind the chain after a crash, never ahead. It helps against a
lost or an older database file; who may write in the home can change both, so note the head yourself now and then
(`gaiad audit verify --expect`).
"""

import hashlib
import os
import re
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from gaiad.base.errors import BadInput, Conflict

NOTHING_BEFORE = "0" * 64
MOST_BODY_BYTES = 1_048_576
_KIND = re.compile(r"[a-z][a-z0-9_]{0,31}(\.[a-z][a-z0-9_]{0,31})?")
_MOST_NAME_CHARS = 200


class ChainHead(msgspec.Struct, frozen=True):
    """The last row of a chain: its number (0 for an empty one) and its SHA-256 in hex."""

    number: int = 0
    sha256: str = NOTHING_BEFORE


class ChainRow(msgspec.Struct, frozen=True):
    """One event. `at` is UTC in ISO 8601, `body` JSON text. Bytes that are not UTF-8 are surrogate escapes."""

    number: int
    at: str
    kind: str
    tenant: str
    actor: str
    body: str
    previous_sha256: str
    sha256: str


class ChainCheck(msgspec.Struct, frozen=True, kw_only=True):
    """What a walk found: `rows` hold, the last with `head_sha256`; the row after them is `first_bad`."""

    ok: bool
    rows: int
    head_sha256: str
    first_bad: int | None = None
    problem: str = ""


def row_sha256(row: ChainRow) -> str:
    """The SHA-256 that belongs to a row's content."""
    lines = (row.previous_sha256, str(row.number), row.at, row.kind, row.tenant, row.actor, row.body)
    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogateescape")).hexdigest()


def next_row(head: ChainHead, at: str, kind: str, tenant: str, actor: str, body: Mapping[str, Any]) -> ChainRow:
    """The row that follows `head`.

    Raises BadInput for a kind, a name or a body that no row can hold.
    """
    if not _KIND.fullmatch(kind):
        raise BadInput(f"audit kind {kind!r}: write lower-case words, at most two with a dot between, as council.vote")
    for name, text in (("tenant", tenant), ("actor", actor)):
        if not text or len(text) > _MOST_NAME_CHARS or not text.isprintable():
            raise BadInput(f"audit {name} {text!r}: give 1 to {_MOST_NAME_CHARS} printable characters")
    unsigned = ChainRow(head.number + 1, at, kind, tenant, actor, _body_text(kind, body), head.sha256, "")
    return msgspec.structs.replace(unsigned, sha256=row_sha256(unsigned))


def _body_text(kind: str, body: Mapping[str, Any]) -> str:
    """JSON with sorted keys: equal bodies have equal bytes."""
    try:
        encoded = msgspec.json.encode(dict(body), order="sorted")
    except (TypeError, ValueError) as error:  # ValueError: a lone surrogate, which UTF-8 cannot write
        raise BadInput(f"audit body of {kind}: {error}; give values that JSON can hold") from error
    if len(encoded) > MOST_BODY_BYTES:
        raise BadInput(f"audit body of {kind}: {len(encoded)} bytes, at most {MOST_BODY_BYTES}; keep a hash of it")
    return encoded.decode("utf-8")


def fault(head: ChainHead, row: ChainRow) -> str:
    """Why `row` cannot be the one after `head`; empty when it is."""
    if row.number != head.number + 1:
        return f"row {head.number + 1} is missing; row {row.number} is in its place"
    if row.sha256 != row_sha256(row):
        return f"row {row.number} was altered: its content has another SHA-256 than was noted with it"
    if row.previous_sha256 != head.sha256:
        return f"row {row.number} does not follow the row before it: rows were inserted or exchanged"
    return ""


def walk(rows: Iterable[ChainRow], noted: ChainHead | None = None, expected_sha256: str = "") -> ChainCheck:
    """Hold each row against the one before it, up to the first that is wrong. Keeps one row in memory.

    `noted` is the head as it was written down elsewhere: a chain that ends before it was cut off, one with another
    hash there was written again. `expected_sha256` is a hash the caller noted: it must be that of some row.
    """
    head, met_noted, met_expected = ChainHead(), noted is None or noted == ChainHead(), not expected_sha256
    for row in rows:
        problem = fault(head, row)
        if not problem and noted is not None and row.number == noted.number and row.sha256 != noted.sha256:
            problem = f"row {row.number} differs from the recorded last row: the chain was rewritten"
        if problem:
            return _bad(head, head.number + 1, problem)
        head = ChainHead(row.number, row.sha256)
        met_noted = met_noted or head == noted
        met_expected = met_expected or row.sha256 == expected_sha256
    if noted is not None and not met_noted:
        return _bad(head, head.number + 1, f"rows {head.number + 1} to {noted.number} are missing at the end")
    if not met_expected:
        return _bad(head, head.number + 1, f"no row has the SHA-256 {expected_sha256}: cut off or rewritten")
    return ChainCheck(ok=True, rows=head.number, head_sha256=head.sha256)


def _bad(head: ChainHead, number: int, problem: str) -> ChainCheck:
    return ChainCheck(ok=False, rows=head.number, head_sha256=head.sha256, first_bad=number, problem=problem)


_LINE = re.compile(r"([0-9]{20}) ([0-9a-f]{64})\n")


def read_noted_head(path: Path) -> ChainHead | None:
    """The head in the file; None without one, or with an empty one, as a kill between making and writing leaves it.

    Raises Conflict when the file holds something else.
    """
    try:
        text = path.read_text(encoding="ascii", errors="replace")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Conflict(f"{path}: cannot be read ({error.strerror}); fix this") from error
    if not text:
        return None
    found = _LINE.fullmatch(text)
    if found is None:
        raise Conflict(f"{path}: does not contain an audit head; move the file away and restart gaiad to recreate it")
    return ChainHead(int(found[1]), found[2])


class NotedHead:
    """The file as its one writer holds it; for any thread. Raises OSError when it cannot be opened or written."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._lock = threading.Lock()
        self._number = -1

    def note(self, head: ChainHead) -> None:
        """Write down `head` unless a later one is noted. One write within a sector: it is whole or not there."""
        with self._lock:
            if head.number > self._number:
                os.pwrite(self._descriptor, f"{head.number:020d} {head.sha256}\n".encode("ascii"), 0)
                self._number = head.number

    def restart(self, head: ChainHead) -> None:
        """Write down `head` also when a later one is noted: another chain was put in the place of the old one."""
        with self._lock:
            self._number = -1
        self.note(head)

    def close(self) -> None:
        with self._lock:
            if self._descriptor >= 0:
                os.close(self._descriptor)
                self._descriptor = -1
