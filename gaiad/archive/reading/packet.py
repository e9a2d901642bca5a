"""What a Transmission Packet is once read, whatever its dialect: canonical fields (GAM 1 to 3) and exact text.

Pure values. The document tree (`document.py`) knows bytes; a dialect (`dialects/`) maps a tree to a Packet; the page
rule (`pages.py`) cuts its sections into pages.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

import msgspec

from gaiad.wire.schemas import IntegrityVerdict

SectionKind = Literal[
    "header",
    "behavior",
    "summary",
    "content",
    "transcript",
    "artifact",
    "closure",
    "instructions",
    "integrity",
    "other",
]


class Text(msgspec.Struct, frozen=True):
    """Decoded text and where each piece of it is in the original bytes.

    Three rows of equal length describe its segments: segment i begins at character `offsets[i]` and covers the
    original bytes from `starts[i]` up to the absolute value of `ends[i]`. A positive end: the characters are there
    literally, in the document's encoding. A negative end: they represent those bytes as a whole (an escape such as
    `&amp;`, a CRLF, or a label made from a start tag or a key). Offsets and starts rise.
    """

    value: str
    offsets: Sequence[int]
    starts: Sequence[int]
    ends: Sequence[int]

    @property
    def start(self) -> int:
        """Byte offset of the first character; 0 for no text."""
        return self.starts[0] if self.starts else 0

    @property
    def end(self) -> int:
        """Byte offset after the last character; 0 for no text."""
        return abs(self.ends[-1]) if self.ends else 0


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """A run of text in the packet, in document order. `path` is its element path, such as body/content.

    `composed`: several small elements as `name: value` lines; otherwise the text of one element. `timestamp_ms` is when
    it was said, None when only the packet's time is known.
    """

    kind: SectionKind
    path: str
    text: Text
    speaker: str = ""
    composed: bool = False
    timestamp_ms: int | None = None


class IntegrityEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One link of the packet's integrity chain as written there."""

    index: int
    hash: str
    previous_hash: str = ""
    timestamp: str = ""
    signer: str = ""
    note: str = ""


class HashClaim(msgspec.Struct, frozen=True, kw_only=True):
    """A hash the packet states together with the path of the text it says was hashed."""

    path: str
    algorithm: str
    hash: str


class Artifact(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    kind: str = ""
    state: str = ""


class IntegrityFinding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing the integrity check looked at, and its verdict."""

    what: str
    verdict: IntegrityVerdict
    detail: str


class Packet(msgspec.Struct, frozen=True, kw_only=True):
    """Canonical fields. What a dialect does not map stays as sections of kind `other` under its element path."""

    packet_id: str
    id_derived: bool
    timestamp: datetime
    timestamp_derived: bool
    zone_missing: bool
    dialect: str
    media_type: Literal["application/xml", "application/json", "application/vnd.gaiad.conversation"]
    encoding: str
    sha256: str
    size: int
    schema_version: str = ""
    session_id: str = ""
    topic: str = ""
    original_model: str = ""
    current_model: str = ""
    researcher: str = ""
    summary: str = ""
    notes: str = ""
    challenge_phrases: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    metrics: dict[str, float] = {}
    artifacts: tuple[Artifact, ...] = ()
    loop_closure: dict[str, str] = {}
    instructions: dict[str, str] = {}
    integrity: tuple[IntegrityEntry, ...] = ()
    claims: tuple[HashClaim, ...] = ()
    verdict: IntegrityVerdict = "unverifiable"
    findings: tuple[IntegrityFinding, ...] = ()
    sections: tuple[Section, ...] = ()
    labels: dict[str, tuple[str, ...]] = {}


class PageDraft(msgspec.Struct, frozen=True, kw_only=True):
    """A page before it has an id: exact text of one section, with its byte span in the original.

    `heading` is topic and date in words; `timestamp_ms` is when it was said, None when that is the packet's time.
    """

    sequence: int
    section: SectionKind
    path: str
    speaker: str
    text: str
    start: int
    end: int
    heading: str = ""
    timestamp_ms: int | None = None
