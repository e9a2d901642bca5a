"""Bytes to Packet, whatever the dialect: the one entrance to reading (GAM Schema Integration, Appendix B)."""

import hashlib
from datetime import UTC, datetime
from pathlib import PurePath
from typing import Any

from gaiad.archive.reading import fields
from gaiad.archive.reading.dialects import choose_dialect
from gaiad.archive.reading.dialects.table import Dialect
from gaiad.archive.reading.document import Document
from gaiad.archive.reading.fields import LONG_MAX_CHARS, SHORT_MAX_CHARS, Index
from gaiad.archive.reading.integrity import assess, read_integrity
from gaiad.archive.reading.packet import Packet
from gaiad.archive.reading.read_json import read_json
from gaiad.archive.reading.read_xml import read_xml
from gaiad.archive.reading.sections import make_sections
from gaiad.archive.reading.spoken import spoken_sections
from gaiad.archive.reading.times import parse_time
from gaiad.config import PacketLimits
from gaiad.errors import PacketRejected

ID_MAX_CHARS = 200
TOPIC_MAX_WORDS = 12
_READ = frozenset((".xml", ".json"))
_SCHEMA = frozenset((".xsd", ".dtd", ".rng", ".rnc", ".xsl", ".xslt"))
_UNFINISHED = frozenset(
    (".part", ".tmp", ".temp", ".crdownload", ".download", ".partial", ".swp", ".swo", ".bak", ".orig")
)
_MARKUP = " \t#>*-=_`"


def ignored_reason(name: str) -> str:
    """Why a file of this name is not read; "" when it is. Names alone decide, the file is not opened."""
    base = PurePath(name).name
    suffix = PurePath(base.lower()).suffix
    if base.startswith("."):
        return "hidden file"
    if base.endswith("~") or base.startswith("#") or suffix in _UNFINISHED:
        return "backup or unfinished file of another program"
    if suffix in _SCHEMA:
        return f"{suffix} is a schema, not a packet"
    if suffix not in _READ:
        return f"{suffix or 'no'} extension; packets are .xml or .json"
    return ""


def read_packet(data: bytes, name: str, modified: datetime, limits: PacketLimits) -> Packet:
    """Read a packet. `name` is for messages only; `modified` (with zone) stands in for a missing time.

    Raises PacketRejected with reason and line: malformed, hostile, or above a limit.
    """
    document = parse(data, name, limits)
    dialect = choose_dialect(document)
    index = Index(document)
    entries, claims = read_integrity(index, dialect)
    verdict, findings = assess(document, entries, claims)
    digest = hashlib.sha256(data).hexdigest()
    identity = _identity(index, dialect, digest, modified)
    return Packet(
        **identity,
        **_described(index, dialect),
        dialect=dialect.name,
        media_type=document.media_type,
        encoding=document.encoding,
        sha256=digest,
        size=len(data),
        challenge_phrases=fields.phrases(index, dialect.fields["challenge_phrases"]),
        tags=fields.tags(index, dialect.fields["tags"]),
        metrics=fields.metrics(index, dialect),
        artifacts=fields.artifacts(index, dialect.fields["artifacts"]),
        loop_closure=fields.flattened(index, dialect, "closure"),
        instructions=fields.flattened(index, dialect, "instructions"),
        integrity=entries,
        claims=claims,
        verdict=verdict,
        findings=findings,
        sections=spoken_sections(document, dialect.said) if dialect.said else make_sections(document, dialect),
        labels=fields.labels(index, dialect),
    )


def parse(data: bytes, name: str, limits: PacketLimits) -> Document:
    """The document tree of `data`, XML or JSON by its first character. Raises PacketRejected."""
    if len(data) > limits.max_bytes:
        raise PacketRejected(
            f"{name} has {len(data)} bytes, more than packets.max_bytes = {limits.max_bytes} allows; "
            "split the packet or raise the setting"
        )
    head = data[:1024].replace(b"\0", b"").lstrip(b"\xef\xbb\xbf\xff\xfe \t\r\n")
    if not head and not data.strip(b"\xef\xbb\xbf\xff\xfe \t\r\n\0"):
        raise PacketRejected(f"{name} is empty" if not data.strip() else f"{name} holds no text")
    if head[:1] in (b"{", b"["):
        return read_json(data, limits)
    if head[:1] == b"<" or not head:
        return read_xml(data, limits)
    shown = head[:20].decode("utf-8", "replace")
    raise PacketRejected(f"{name} is neither XML nor JSON: it begins with {shown!r}", 1)


def _identity(index: Index, dialect: Dialect, digest: str, modified: datetime) -> dict[str, Any]:
    """Id, time and session; what is missing or unreadable is derived and marked."""
    stated = next((text for text in index.texts(dialect.fields["id"])), "")
    packet_id = fields.clean(stated, ID_MAX_CHARS + 1)
    derived = not packet_id or len(packet_id) > ID_MAX_CHARS
    packet_id = f"sha256-{digest[:16]}" if derived else packet_id
    times = (parse_time(text) for text in index.texts(dialect.fields["timestamp"]))
    found = next((time for time in times if time), None)
    moment, zone_missing = found or (modified.astimezone(UTC), False)
    return {
        "packet_id": packet_id,
        "id_derived": derived,
        "timestamp": moment,
        "timestamp_derived": found is None,
        "zone_missing": zone_missing,
        "session_id": index.first(dialect.fields["session_id"], ID_MAX_CHARS) or packet_id,
    }


def _described(index: Index, dialect: Dialect) -> dict[str, Any]:
    summary = index.first(dialect.fields["summary"], LONG_MAX_CHARS)
    short = {
        name: index.first(dialect.fields[name], SHORT_MAX_CHARS)
        for name in ("schema_version", "original_model", "current_model", "researcher", "topic")
    }
    content = next(index.texts(dialect.fields["content"]), "")
    return {
        **short,
        "topic": short["topic"] or ("" if dialect.said else _first_words(summary) or _first_words(content)),
        "summary": summary,
        "notes": index.first(dialect.fields["notes"], LONG_MAX_CHARS),
    }


def _first_words(text: str) -> str:
    """The first line with words in it, without markup, at most twelve words."""
    for line in text[:4000].splitlines():
        words = line.strip(_MARKUP).split()
        if words:
            cut = " ".join(words[:TOPIC_MAX_WORDS])
            return fields.clean(f"{cut}…" if len(words) > TOPIC_MAX_WORDS else cut, SHORT_MAX_CHARS)
    return ""
