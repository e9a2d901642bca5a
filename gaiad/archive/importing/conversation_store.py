"""Stores conversations: identity by the source's id, and of two states of one conversation the newer is kept.

Which state that is does not depend on the order they come in, so the parts of an export may be shuffled.
"""

import hashlib
import re
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo

import msgspec

from gaiad.archive.reading.conversation import (
    Conversation,
    Message,
    shown_title,
    write_conversation,
)
from gaiad.archive.reading.derive import Derived, derive
from gaiad.archive.storing import arrivals, records
from gaiad.archive.storing.records import WriteResult
from gaiad.base.config import Config
from gaiad.wire.ingest import ImportOutcomeKind

_BEGIN = re.compile(r"<<(?:memory|work|summary) ([0-9a-f]{6})\b[^\n]{0,400}>>\n")


def said_by_others(conversation: Conversation) -> Conversation:
    """The conversation without what gaiad put into its messages."""
    if not any(_BEGIN.search(each.text) for each in conversation.messages):
        return conversation
    cleaned = [
        msgspec.structs.replace(each, text=without_injected(each.text).strip()) for each in conversation.messages
    ]
    return msgspec.structs.replace(conversation, messages=[each for each in cleaned if each.text])


def without_injected(text: str) -> str:
    """The text without the blocks that gaiad's prompts fence: from `<<memory WORD ...>>` to `<<end WORD>>`."""
    kept: list[str] = []
    at = 0
    while (found := _BEGIN.search(text, at)) is not None:
        mark = f"\n<<end {found[1]}>>"
        end = text.find(mark, found.end() - 1)
        kept.append(text[at : found.start()] if end >= 0 else text[at : found.end()])
        at = end + len(mark) if end >= 0 else found.end()
    kept.append(text[at:])
    return "".join(kept)


READER_VERSION = 5  # raise it when a kind reads more out of the same record: a new import then revises
_PLAIN_ID = re.compile(r"[\w.:@+-]{1,150}", re.ASCII)
_WORDS = re.compile(r"\w+")
_ID_WORDS_CHARS = 60
_OLDER = "older than the stored version; skipped"
_PART_CHARS = 8 * 1024 * 1024
_TAKEN = "a packet that is not this conversation has its id; it stays as it is"


@dataclass(frozen=True, slots=True)
class Known:
    """The stored state of a packet id: `state` is "" when that packet is not an imported conversation."""

    state: str
    import_id: str
    revision: int

    def same(self, state: str) -> bool:
        """Whether `state` has the same words, whenever it was exported."""
        return self.state.rpartition(" ")[2] == state.rpartition(" ")[2]


@dataclass(frozen=True, slots=True)
class Identified:
    """A conversation with its packet id and its state, which sorts older before newer.

    `first_part` is the packet id of the first part, "" for the first itself.
    """

    conversation: Conversation
    packet_id: str
    state: str
    first_part: str = ""


@dataclass(frozen=True, slots=True)
class ImportDecision:
    outcome: ImportOutcomeKind
    reason: str = ""


EMPTY = ImportDecision("ignored", "nothing in it that a person sees")
DELETED = ImportDecision("ignored", "deleted here before; `gaiad import --again` takes such conversations too")


@dataclass(frozen=True, slots=True)
class PreparedConversation:
    """Everything to be written for one conversation."""

    derived: Derived
    body: bytes
    source: str
    modified_ms: int


def with_id(conversation: Conversation) -> Conversation:
    """The conversation; a source that gives it no id gets one made of when it began and what was said first."""
    if conversation.id.strip():
        return conversation
    first = next(iter(conversation.messages), None)
    told = (conversation.title, conversation.created, first.text[:1000] if first else "")
    made = hashlib.sha256(msgspec.json.encode(told)).hexdigest()[:24]
    return msgspec.structs.replace(conversation, id=made)


def in_parts(conversation: Conversation) -> Iterator[Conversation]:
    """The conversation, one with very many words cut between messages: what is added later leaves the cuts in place."""
    others = _filled(conversation.alternatives)
    title = shown_title(conversation.title, (each.text for each in conversation.messages))
    for number, messages in enumerate(_filled(conversation.messages) or [[]], start=1):
        if number == 1:
            first = {"messages": messages, "alternatives": others[0] if others else ()}
            yield msgspec.structs.replace(conversation, **first)
            continue
        yield msgspec.structs.replace(
            conversation,
            title=f"{title} (part {number})",
            messages=messages,
            raw=b"",
            labels={name: value for name, value in conversation.labels.items() if name != "begins"},
            alternatives=others[number - 1] if number <= len(others) else (),
            left_out={},
            part=number,
        )


def _filled(messages: Sequence[Message]) -> list[list[Message]]:
    """The messages in runs of at most `_PART_CHARS`, or of one message."""
    runs: list[list[Message]] = []
    size = _PART_CHARS
    for each in messages:
        size += len(each.text)
        if size > _PART_CHARS:
            runs.append([])
            size = len(each.text)
        runs[-1].append(each)
    return runs


def identify(conversation: Conversation) -> Identified:
    """The packet id follows from the source's own id; the state from its time, its length and its words."""
    packet_id = f"{conversation.kind}-{conversation.id}"
    if not _PLAIN_ID.fullmatch(packet_id):
        words = "-".join(_WORDS.findall(conversation.id.rpartition("/")[2]))[:_ID_WORDS_CHARS]
        packet_id = f"{conversation.kind}-{words}-{hashlib.sha256(packet_id.encode()).hexdigest()[:12]}"
    first_part = ""
    if conversation.part > 1:
        first_part, packet_id = packet_id, f"{packet_id}-part-{conversation.part}"
    messages = conversation.messages
    content = (
        conversation.title,
        conversation.tags,
        [(each.id, each.speaker, each.text, each.time) for each in (*messages, *conversation.alternatives)],
    )
    updated = max((conversation.updated, *(each.time for each in messages)), key=lambda time: time.rstrip("Z"))
    digest = hashlib.sha256(msgspec.json.encode(content)).hexdigest()[:16]
    size = f"{len(messages):07d} {sum(len(each.text) for each in messages):010d}"
    state = f"{READER_VERSION:03d} {updated.rstrip('Z') or '-'} {size} {digest}"
    return Identified(conversation, packet_id, state, first_part)


def judge(new: Identified, known: Known | None, untold: str) -> ImportDecision:
    """Whether a conversation is new, a newer state, or nothing new.

    `untold` is the import that was killed before it could tell what its last step stored, "" when there is none.
    """
    if known is None:
        return ImportDecision("accepted")
    if not known.state:
        return ImportDecision("failed", _TAKEN)
    same = known.same(new.state)
    if untold and known.import_id == untold and same:
        return ImportDecision("accepted" if known.revision == 1 else "revised")
    if same:
        return ImportDecision("duplicate")
    return ImportDecision("revised") if new.state > known.state else ImportDecision("duplicate", _OLDER)


def prepare(
    new: Identified, import_id: str, source: str, modified_ms: int, config: Config, zone: tzinfo
) -> PreparedConversation:
    """Read and cut like any packet. Raises PacketRejected."""
    data = write_conversation(new.conversation, new.packet_id, new.state, {"import": (import_id,)}, new.first_part)
    return prepare_bytes(data, source, modified_ms, config, zone)


def prepare_bytes(data: bytes, source: str, modified_ms: int, config: Config, zone: tzinfo) -> PreparedConversation:
    """The same for a conversation as it is stored. Raises PacketRejected."""
    body = records.compress(data)
    derived = derive(data, source, modified_ms, config.packets, config.archive, zone)
    derived = replace(derived, packet=msgspec.structs.replace(derived.packet, sections=()))  # the pages have the words
    return PreparedConversation(derived, body, source, modified_ms)


def store(
    connection: sqlite3.Connection, ready: Sequence[PreparedConversation], deleted: set[str], received_ms: int
) -> WriteResult:
    """Write them; the text index is written once for all. A state that is there byte for byte is left as it is.

    Those of them that are `deleted` are here again.
    """
    arrivals.forget_deleted(connection, deleted & {each.derived.packet.packet_id for each in ready})
    change = WriteResult()
    for each in ready:
        if records.find_by_hash(connection, each.derived.packet.sha256) is None:
            _, made = records.insert(connection, each.derived, each.body, each.source, each.modified_ms, received_ms)
            change.add(made)
    return change
