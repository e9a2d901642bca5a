"""Bytes to Packet, whatever the dialect: the one entrance to reading (GAM Schema Integration, Appendix B)."""

import hashlib
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import PurePath
from typing import Any

from gaiad.archive.reading import fields
from gaiad.archive.reading.conversation import is_conversation, read_conversation
from gaiad.archive.reading.dialect import Dialect, SpeechRule
from gaiad.archive.reading.document import Document, Node, holds_conversations, plain
from gaiad.archive.reading.fields import LONG_MAX_CHARS, SHORT_MAX_CHARS, Index
from gaiad.archive.reading.integrity import assess, read_integrity
from gaiad.archive.reading.known_dialects import SESSION_TURN, choose_dialect
from gaiad.archive.reading.packet import Packet, Section
from gaiad.archive.reading.read_json import read_json
from gaiad.archive.reading.read_xml import read_xml
from gaiad.archive.reading.sections import make_sections
from gaiad.base.clock import to_epoch_ms
from gaiad.base.config import PacketLimits
from gaiad.base.errors import PacketRejected
from gaiad.base.text import first_invisible

_SPEAKER_MAX_CHARS = 80


def spoken_sections(document: Document, said: Sequence[SpeechRule]) -> tuple[Section, ...]:
    """The words of every item at the paths of `said`, path by path and in document order within one."""
    sections: list[Section] = []
    for rule in said:
        for node in _at(document.root, rule.path):
            children = {child.key: child for child in node.children}
            marker = children.get("marker")
            if rule.markers and (marker is None or marker.text.value not in rule.markers):
                continue
            if marker is not None and marker.text.value in rule.without:
                continue
            words, speaker = children.get(plain(rule.text)), children.get(plain(rule.speaker))
            if words is None or not words.text.value:
                continue
            name = " ".join(speaker.text.value.split())[:_SPEAKER_MAX_CHARS] if speaker else ""
            path = f"{rule.path}/{marker.text.value}" if rule.markers and marker else rule.path
            said_at = children.get("timestamp")
            moment = parse_time(said_at.text.value) if said_at else None
            when = to_epoch_ms(moment[0]) if moment else None
            sections.append(Section(kind=rule.kind, path=path, text=words.text, speaker=name, timestamp_ms=when))
    return tuple(sections)


def _at(root: Node, path: str) -> list[Node]:
    nodes = [root]
    for step in path.split("/"):
        nodes = [child for node in nodes for child in node.children if child.key == plain(step)]
    return nodes


_EPOCH = re.compile(r"\d{10}(?:\d{3})?(?:\.\d+)?$")
_FRACTION = re.compile(r"(\.\d{6})\d+")
_ZONE_NAME = re.compile(r"\s*(?:UTC|GMT|Z)$", re.IGNORECASE)


def parse_time(text: str) -> tuple[datetime, bool] | None:
    """The moment in UTC and whether its zone was missing (then read as UTC); None when it cannot be read."""
    text = text.strip()
    if _EPOCH.match(text):
        seconds = float(text) if len(text.partition(".")[0]) == 10 else float(text) / 1000
        return datetime.fromtimestamp(seconds, UTC), False
    if len(text) < 8 or len(text) > 40:
        return None
    text = _ZONE_NAME.sub("+00:00", _FRACTION.sub(r"\1", text))
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            return moment.replace(tzinfo=UTC), True
        return moment.astimezone(UTC), False
    except (ValueError, OverflowError):
        return None


ID_MAX_CHARS = 200
TOPIC_MAX_WORDS = 12
MANY = "holds many conversations, not one packet"
_READ = frozenset((".xml", ".json"))
SCHEMA_SUFFIXES = frozenset((".xsd", ".dtd", ".rng", ".rnc", ".xsl", ".xslt"))
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
    if suffix in SCHEMA_SUFFIXES:
        return f"{suffix} is a schema, not a packet"
    if suffix not in _READ:
        return f"{suffix or 'no'} extension; packets are .xml or .json"
    return ""


def read_packet(data: bytes, name: str, modified: datetime, limits: PacketLimits) -> Packet:
    """Read a packet. `name` is for messages, and tells the turns that gaiad wrote from files that claim to be one;
    `modified` (with zone) stands in for a missing time.

    Raises PacketRejected with reason and line: malformed, hostile, or above a limit.
    """
    digest = hashlib.sha256(data).hexdigest()
    if is_conversation(data):
        return read_conversation(data, digest, modified)
    document = parse(data, name, limits)
    dialect = choose_dialect(document)
    if dialect.name == "generic" and holds_conversations(document.root):
        raise PacketRejected(f"{MANY}; `gaiad import --help` names the kinds it reads")
    if dialect is SESSION_TURN and name != SESSION_TURN.name:
        raise PacketRejected(
            "claims to be a turn of a chat, and only gaiad writes those; import conversations with `gaiad import`"
        )
    index = Index(document)
    entries, claims = read_integrity(index, dialect)
    verdict, findings = assess(document, entries, claims)
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
    raise PacketRejected(f"{name} is neither XML nor JSON", 1)


def _identity(index: Index, dialect: Dialect, digest: str, modified: datetime) -> dict[str, Any]:
    """Id, time and session; what is missing or unreadable is derived and marked."""
    stated = _stated(index, dialect, "id")
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
        "session_id": fields.clean(_stated(index, dialect, "session_id"), ID_MAX_CHARS) or packet_id,
    }


def _stated(index: Index, dialect: Dialect, field: str) -> str:
    """An id as the packet states it. Raises PacketRejected where it would pass for another one."""
    stated = next(index.texts(dialect.fields[field]), "")
    if sign := first_invisible(stated.strip()):
        raise PacketRejected(f"its {field} holds the invisible character {sign}; remove it")
    return stated


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
