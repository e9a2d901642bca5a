"""What a Transmission Packet is once read, whatever its dialect: canonical fields (GAM 1 to 3) and exact text.

Pure values. The document tree (`document.py`) knows bytes; a dialect (`dialects/`) maps a tree to a Packet; the page
rule (`pages.py`) cuts its sections into pages.
"""

from datetime import datetime
from typing import Literal

import msgspec

from gaiad.schemas import IntegrityVerdict

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
    """Decoded text and where each piece of it stands in the original bytes.

    `segments` are (character offset, byte offset) in rising order: characters from
    one segment's offset up to the next stand literally at its byte offset, in the document's encoding; a segment of one
    character may stand for an escape such as `&amp;`. `end` is the byte offset after the last character.
    """

    value: str
    segments: tuple[tuple[int, int], ...]
    end: int


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """A run of text in the packet, in document order. `path` is its element path, such as body/content."""

    kind: SectionKind
    path: str
    text: Text
    speaker: str = ""


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


class Finding(msgspec.Struct, frozen=True, kw_only=True):
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
    media_type: Literal["application/xml", "application/json"]
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
    findings: tuple[Finding, ...] = ()
    sections: tuple[Section, ...] = ()


class PageDraft(msgspec.Struct, frozen=True, kw_only=True):
    """A page before it has an id: exact text of one section, with its byte span in the original."""

    sequence: int
    section: SectionKind
    path: str
    speaker: str
    text: str
    start: int
    end: int
