"""The hash chain under the audit (decision 13): what a row's bytes are, how rows follow each other.

Pure; `audit.py` keeps the rows. A row's SHA-256 covers seven lines: the hash of the row before it (64 zeros before the
first), its number, at, kind, tenant, actor, body. Body is JSON on one line and the other fields hold no line breaks, so
the seven lines can be read in one way only, and `sha256sum` alone can check a row.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from gaiad.errors import BadInput

NOTHING_BEFORE = "0" * 64
MOST_BODY_BYTES = 1_048_576
_KIND = re.compile(r"[a-z][a-z0-9_]{0,31}(\.[a-z][a-z0-9_]{0,31})?")
_MOST_NAME_CHARS = 200


class Head(msgspec.Struct, frozen=True):
    """The last row of a chain: its number (0 for an empty one) and its SHA-256 in hex."""

    number: int = 0
    sha256: str = NOTHING_BEFORE


class Row(msgspec.Struct, frozen=True):
    """One event. `at` is UTC in ISO 8601, `body` JSON text. Bytes that are no UTF-8 stand as surrogate escapes."""

    number: int
    at: str
    kind: str
    tenant: str
    actor: str
    body: str
    previous_sha256: str
    sha256: str


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What a walk found: `rows` hold, the last with `head_sha256`; the row after them is `first_bad`."""

    ok: bool
    rows: int
    head_sha256: str
    first_bad: int | None = None
    problem: str = ""


def row_sha256(row: Row) -> str:
    """The SHA-256 that belongs to a row's content."""
    lines = (row.previous_sha256, str(row.number), row.at, row.kind, row.tenant, row.actor, row.body)
    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogateescape")).hexdigest()


def next_row(head: Head, at: str, kind: str, tenant: str, actor: str, body: Mapping[str, Any]) -> Row:
    """The row that follows `head`.

    Raises BadInput for a kind, a name or a body that no row can hold.
    """
    if not _KIND.fullmatch(kind):
        raise BadInput(f"audit kind {kind!r}: write lower-case words, at most two with a dot between, as council.vote")
    for name, text in (("tenant", tenant), ("actor", actor)):
        if not text or len(text) > _MOST_NAME_CHARS or not text.isprintable():
            raise BadInput(f"audit {name} {text!r}: give 1 to {_MOST_NAME_CHARS} printable characters")
    unsigned = Row(head.number + 1, at, kind, tenant, actor, _body_text(kind, body), head.sha256, "")
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


def fault(head: Head, row: Row) -> str:
    """Why `row` cannot be the one after `head`; empty when it is."""
    if row.number != head.number + 1:
        return f"row {head.number + 1} is missing; row {row.number} stands in its place"
    if row.sha256 != row_sha256(row):
        return f"row {row.number} was altered: its content has another SHA-256 than was noted with it"
    if row.previous_sha256 != head.sha256:
        return f"row {row.number} does not follow what stands before it: rows were put in or exchanged"
    return ""


def walk(rows: Iterable[Row], noted: Head | None = None, expected_sha256: str = "") -> Verdict:
    """Hold each row against the one before it, up to the first that is wrong. Keeps one row in memory.

    `noted` is the head as it was written down elsewhere: a chain that ends before it was cut off, one with another
    hash there was written anew. `expected_sha256` is a hash the caller noted: it must be that of some row.
    """
    head, met_noted, met_expected = Head(), noted is None or noted == Head(), not expected_sha256
    for row in rows:
        problem = fault(head, row)
        if not problem and noted is not None and row.number == noted.number and row.sha256 != noted.sha256:
            problem = f"row {row.number} is not the one that was noted as the last: the chain was written anew"
        if problem:
            return _bad(head, head.number + 1, problem)
        head = Head(row.number, row.sha256)
        met_noted = met_noted or head == noted
        met_expected = met_expected or row.sha256 == expected_sha256
    if noted is not None and not met_noted:
        return _bad(head, head.number + 1, f"rows {head.number + 1} to {noted.number} are missing at the end")
    if not met_expected:
        return _bad(head, head.number + 1, f"no row has the SHA-256 {expected_sha256}: cut off or written anew")
    return Verdict(ok=True, rows=head.number, head_sha256=head.sha256)


def _bad(head: Head, number: int, problem: str) -> Verdict:
    return Verdict(ok=False, rows=head.number, head_sha256=head.sha256, first_bad=number, problem=problem)
