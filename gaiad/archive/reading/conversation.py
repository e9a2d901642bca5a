"""An imported conversation as the archive keeps it: a header, the words, and the source's own record, byte for byte.

An export holds thousands of conversations, so the file cannot be the original of any one of them. Each is stored as
one line of JSON (who spoke when, and where the words are), then the words as plain UTF-8, then the record as it stood
in the source. Pages cite the words; spans are literal bytes, with no escapes between.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec

from gaiad.archive.reading.packet import Packet, Section, Text
from gaiad.base.clock import to_epoch_ms, to_iso
from gaiad.base.errors import PacketRejected

MEDIA_TYPE: Literal["application/vnd.gaiad.conversation"] = "application/vnd.gaiad.conversation"
MAGIC = b'{"gaiad_conversation":1,'
_TITLE_WORDS = 12
_TITLE_CHARS = 200
_SUMMARY_CHARS = 240

Part = Literal["transcript", "artifact", "instructions", "content"]


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """One thing said. `time` is UTC ISO 8601 or ""; `speaker` is user, assistant, tool or a name, "" in a note.

    `part` transcript is what was said; artifact is code that ran, a tool call or an attachment's text; instructions is
    what the person said to every conversation; content is a note.
    """

    id: str
    speaker: str
    text: str
    time: str = ""
    model: str = ""
    part: Part = "transcript"
    parent: str = ""


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation or note of a source, read. `raw` is its record there; `alternatives` are its other branches.

    `left_out` counts what was not taken over, by reason. `part` numbers what a very long one is stored in.
    """

    kind: str
    id: str
    title: str
    messages: Sequence[Message]
    raw: bytes
    created: str = ""
    updated: str = ""
    model: str = ""
    tags: tuple[str, ...] = ()
    labels: dict[str, tuple[str, ...]] = {}
    alternatives: Sequence[Message] = ()
    left_out: dict[str, int] = {}
    part: int = 1


class _MessageEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """A message in the header; `start` and `end` count bytes from the end of the header line."""

    id: str
    speaker: str
    start: int
    end: int
    time: str = ""
    model: str = ""
    part: Part = "transcript"
    parent: str = ""


class _Header(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="gaiad_conversation", tag=1):
    kind: str
    packet_id: str
    conversation_id: str
    state: str
    title: str = ""
    created: str = ""
    updated: str = ""
    model: str = ""
    tags: tuple[str, ...] = ()
    labels: dict[str, tuple[str, ...]] = {}
    messages: tuple[_MessageEntry, ...] = ()
    alternatives: tuple[_MessageEntry, ...] = ()
    left_out: dict[str, int] = {}
    record_bytes: int = 0
    session_id: str = ""


_decode = msgspec.json.Decoder(_Header).decode


def write_conversation(
    given: Conversation, packet_id: str, state: str, labels: dict[str, tuple[str, ...]], session_id: str = ""
) -> bytes:
    """The bytes that are stored. `state` tells two states of the same conversation apart; `labels` are added.

    `session_id` is the packet that a later part of a long conversation belongs to.
    """
    body = bytearray()
    entries, others = (_written(messages, body) for messages in (given.messages, given.alternatives))
    header = _Header(
        kind=given.kind,
        packet_id=packet_id,
        conversation_id=given.id,
        state=state,
        title=given.title,
        created=given.created,
        updated=given.updated,
        model=given.model,
        tags=given.tags,
        labels={**given.labels, **labels},
        messages=entries,
        alternatives=others,
        left_out=given.left_out,
        record_bytes=len(given.raw),
        session_id=session_id,
    )
    return b"".join((msgspec.json.encode(header), b"\n", body, given.raw))


def _written(messages: Sequence[Message], body: bytearray) -> tuple[_MessageEntry, ...]:
    """Append the words to `body`, a line's end behind each; where they are."""
    entries = []
    for each in messages:
        start = len(body)
        body += each.text.encode()
        entries.append(
            _MessageEntry(each.id, each.speaker, start, len(body), each.time, each.model, each.part, each.parent)
        )
        body += b"\n"
    return tuple(entries)


def is_conversation(data: bytes) -> bool:
    """Whether `data` begins as `write_conversation` begins it."""
    return data.startswith(MAGIC)


def message_ids(data: bytes) -> tuple[str, ...]:
    """The source's ids of what was said in a stored conversation, in order, those of other branches last."""
    header = _decode(_header_line(data))
    return tuple(each.id for each in (*header.messages, *header.alternatives) if each.part != "instructions")


def with_packet_id(data: bytes, packet_id: str) -> bytes:
    """A stored conversation under another packet id."""
    line = _header_line(data)
    header = msgspec.structs.replace(_decode(line), packet_id=packet_id)
    return msgspec.json.encode(header) + data[len(line) :]


def _header_line(data: bytes) -> bytes:
    """The first line without its end, and without a copy of the rest, which may be large; all when it has no end."""
    end = data.find(b"\n")
    return data[:end] if end >= 0 else data


def read_conversation(data: bytes, digest: str, modified: datetime) -> Packet:
    """The packet of a stored conversation; `modified` is its time when it states none. Raises PacketRejected."""
    line = _header_line(data)
    try:
        header = _decode(line)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise PacketRejected(f"not a conversation gaiad wrote: {error}", 1) from error
    if not header.packet_id or len(header.packet_id) > 200 or len(line) == len(data):
        raise PacketRejected("not a conversation gaiad wrote: its packet id or its words are missing", 1)
    sections = tuple(_sections(data, len(line) + 1, header))
    times = [each.timestamp_ms for each in sections if each.timestamp_ms is not None]
    first = min(times) if times else None
    moment = moment_of_text(header.created) if first is None else _of_ms(first)
    return Packet(
        packet_id=header.packet_id,
        id_derived=False,
        timestamp=moment or modified.astimezone(UTC),
        timestamp_derived=moment is None,
        zone_missing=False,
        dialect=header.kind,
        media_type=MEDIA_TYPE,
        encoding="utf-8",
        sha256=digest,
        size=len(data),
        schema_version="1",
        session_id=header.session_id or header.packet_id,
        topic=shown_title(header.title, (section.text.value for section in sections)),
        original_model=header.model,
        summary=_summary(sections),
        tags=header.tags,
        sections=sections,
        labels={**header.labels, "source": (header.kind,), "state": (header.state,)},
    )


def shown_title(title: str, texts: Iterable[str]) -> str:
    """The title, or the first words said when the source gave none."""
    own = " ".join(title.split())[:_TITLE_CHARS]
    if own:
        return own
    for text in texts:
        words = text[:2000].split()
        if words:
            cut = " ".join(words[:_TITLE_WORDS])[:_TITLE_CHARS]
            return f"{cut}…" if len(words) > _TITLE_WORDS else cut
    return ""


def moment_of_text(text: str) -> datetime | None:
    """A stored time; None for "" and for what is not one."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _sections(data: bytes, base: int, header: _Header) -> Iterable[Section]:
    """A section a message, in order; one without a time has that of the message before it, the first the next one's."""
    moments = [moment_of_text(each.time) for each in header.messages]
    last = next((moment for moment in moments if moment), moment_of_text(header.created))
    for entry, moment in zip(header.messages, moments, strict=True):
        last = moment or last
        start, end = base + entry.start, base + entry.end
        if not base <= start <= end <= len(data):
            raise PacketRejected(f"message {entry.id!r} lies outside the file", 1)
        try:
            text = data[start:end].decode()
        except UnicodeDecodeError as error:
            raise PacketRejected(f"message {entry.id!r} is not UTF-8 ({error.reason})", 1) from error
        if text.strip():
            yield Section(
                kind=entry.part,
                path=f"messages/{entry.id}" if entry.part != "content" else entry.id,
                text=Text(text, (0,), (start,), (end,)),
                speaker=entry.speaker,
                timestamp_ms=to_epoch_ms(last) if last else None,
            )


def _summary(sections: Sequence[Section]) -> str:
    text = next((" ".join(section.text.value[:2000].split()) for section in sections if section.speaker == "user"), "")
    return text if len(text) <= _SUMMARY_CHARS else text[: _SUMMARY_CHARS - 1].rsplit(" ", 1)[0] + "…"


def _of_ms(value: int) -> datetime:
    return datetime.fromtimestamp(value / 1000, UTC)


def iso_time(value: Any) -> str:
    """A time of a source as UTC ISO 8601: seconds since 1970 or parts of them, or text; "" for what is not a time.

    Years before 1990 and after 2100 are taken for garbage: no chat program is older.
    """
    moment: datetime | None = None
    if isinstance(value, bool) or value is None:
        return ""
    if isinstance(value, int | float):
        seconds = next((value / parts for parts in (1, 1e3, 1e6, 1e9) if abs(value / parts) < 1e11), 0)
        if 631152000 <= seconds < 4102444800:
            moment = datetime.fromtimestamp(seconds, UTC)
    elif isinstance(value, str):
        text = value.strip()
        try:
            return iso_time(float(text))
        except ValueError:
            moment = moment_of_text(text[:40])
    if moment is None:
        return ""
    try:
        utc = moment.astimezone(UTC)
    except OverflowError:
        return ""
    return to_iso(utc) if 1990 <= utc.year < 2100 else ""
