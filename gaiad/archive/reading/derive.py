"""What the tables hold of a packet, as plain values: pure, so that ingest, reindex and verify derive the same rows.

Everything here follows from the original bytes, the name they came under and the file's time.
"""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo

import msgspec

from gaiad.archive.reading.packet import Packet, PageDraft
from gaiad.archive.reading.pages import cut_pages
from gaiad.archive.reading.reader import read_packet
from gaiad.base.clock import from_epoch_ms, to_epoch_ms
from gaiad.base.config import ArchiveConfig, PacketLimits
from gaiad.base.errors import PacketRejected
from gaiad.base.text import words_joined

DERIVED_VERSION = 3  # raise it when reader or page rule change: `gaiad reindex` then brings old rows up to date
FIELD_WORDS_MAX_CHARS = 300
"""Of the names of fields that a page is found by."""
_ID_HEX = 16
_MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Packet).decode

MetadataRow = tuple[str, str, float | None]


@dataclass(frozen=True, slots=True)
class Derived:
    """A packet read, cut and ready to be stored. `canonical` is the packet without its sections, as msgpack."""

    packet: Packet
    pages: tuple[PageDraft, ...]
    canonical: bytes
    metadata: tuple[MetadataRow, ...]


def derive(
    data: bytes, name: str, modified_ms: int, limits: PacketLimits, archive: ArchiveConfig, zone: tzinfo
) -> Derived:
    """Everything derived from one original. Raises PacketRejected."""
    packet = read_packet(data, name, from_epoch_ms(modified_ms), limits)
    pages = cut_pages(packet, archive.page_max_chars, archive.page_overlap_chars, limits.max_pages)
    derived = Derived(
        packet=packet,
        pages=tuple(_headed(packet, pages, zone)),
        canonical=_encode(msgspec.structs.replace(packet, sections=())),
        metadata=tuple(metadata_rows(packet)),
    )
    _refuse_surrogates(derived)
    return derived


def _headed(packet: Packet, pages: Sequence[PageDraft], zone: tzinfo) -> list[PageDraft]:
    """The pages with time and heading: a message's own, the packet's for the rest; of fields, their names in words."""
    packet_ms, headings = to_epoch_ms(packet.timestamp), dict[int, str]()
    headed = []
    for page in pages:
        moment = packet_ms if page.timestamp_ms is None else page.timestamp_ms
        if moment not in headings:
            headings[moment] = heading(packet.topic, from_epoch_ms(moment), zone)
        above = headings[moment]
        if not page.speaker and (names := words_joined(page.path, page.text)):
            above = f"{above}, {names[:FIELD_WORDS_MAX_CHARS]}"
        headed.append(msgspec.structs.replace(page, timestamp_ms=moment, heading=above))
    return headed


def _refuse_surrogates(derived: Derived) -> None:
    """Half a surrogate pair cannot be stored; found here, one such text costs nothing but its own packet."""
    for page in derived.pages:
        for text in (page.text, page.speaker, page.path):
            try:
                text.encode()
            except UnicodeEncodeError as error:
                raise PacketRejected(f"{page.path!r} holds text that is not Unicode ({error.reason})") from error


def decode_canonical(blob: bytes) -> Packet:
    """The packet as stored, without sections."""
    return _decode(blob)


def sha256_hex(data: bytes) -> str:
    """SHA-256 as 64 hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def page_id(sha256: str, sequence: int) -> str:
    """The page's name: 16 hex digits of the original's hash and its number, such as `0123456789abcdef-0004`."""
    return f"{sha256[:_ID_HEX]}-{sequence:04d}"


def heading(topic: str, moment: datetime, zone: tzinfo) -> str:
    """Topic and date in words: `Lantern project, 27 November 2025`; a search for the month finds it."""
    try:
        local = moment.astimezone(zone)
    except OverflowError:  # the first or last day of the calendar
        local = moment
    date = f"{local.day} {_MONTHS[local.month - 1]} {local.year}"
    return f"{topic}, {date}" if topic else date


def metadata_rows(packet: Packet) -> list[MetadataRow]:
    """(key, value, number) for each tag, phrase, person, artifact and metric, each once, in the packet's order."""
    people = (packet.researcher, *(section.speaker for section in packet.sections))
    rows: list[MetadataRow] = [
        *(("tag", tag, None) for tag in packet.tags),
        *(("phrase", phrase, None) for phrase in packet.challenge_phrases),
        *(("person", person, None) for person in people),
        *((key, value, None) for key, values in packet.labels.items() for value in values),
        *(("artifact", artifact.name, None) for artifact in packet.artifacts),
        *((f"metric:{name}", f"{value:g}", value) for name, value in packet.metrics.items() if math.isfinite(value)),
    ]
    return [row for row in dict.fromkeys(rows) if row[1]]


def same_pages(stored: Sequence[tuple[str, str, int, int]], cut: Sequence[PageDraft]) -> list[int]:
    """The sequence numbers where stored (section, text, start, end) and freshly cut pages differ."""
    longest = max(len(stored), len(cut))
    return [
        number
        for number in range(longest)
        if number >= len(stored) or number >= len(cut) or stored[number] != _page_key(cut[number])
    ]


def _page_key(page: PageDraft) -> tuple[str, str, int, int]:
    return (page.section, page.text, page.start, page.end)
