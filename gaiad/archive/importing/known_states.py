"""Which packet a conversation is: by its source's id, and of several conversations under one id by what they say.

Hand-made and merged exports give one id to several conversations. The plain id belongs to the one whose first message
has the least id, every other has an id made of its own first message: it does not depend on which came first.
"""

import hashlib
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from gaiad.archive.importing.conversation_store import Identified, Known
from gaiad.archive.reading.conversation import MEDIA_TYPE, Conversation, message_ids, with_packet_id
from gaiad.archive.reading.reader import ID_MAX_CHARS
from gaiad.archive.storing import arrivals, records
from gaiad.archive.storing.tenant import Tenant
from gaiad.store.database import chunks, marks


class MovedConversation(NamedTuple):
    """A stored conversation whose plain id is another's: it is stored once more, under an id of its own."""

    packet_id: str
    data: bytes
    source: str
    modified_ms: int


class KnownStates:
    """What is stored under the ids of a group, and what the group itself stores.

    `moved` is what has to be stored together with the packet that takes its plain id, by that id.
    """

    def __init__(self, tenant: Tenant) -> None:
        self._tenant = tenant
        self.known: dict[str, Known] = {}
        self.moved: dict[str, MovedConversation] = {}
        self._ids: dict[str, tuple[str, ...]] = {}
        self._begun: dict[str, str] = {}

    def load(self, identified: Sequence[Identified]) -> list[Identified]:
        """The group, each conversation with an id that is not another conversation's."""
        self._read([each.packet_id for each in identified])
        found: dict[int, Identified] = {}
        for number, new in sorted(enumerate(identified), key=lambda each: _ids_of(each[1].conversation)[:1]):
            own = self._apart(self._continued(new))
            if own.packet_id != new.packet_id and own.packet_id not in self.known:
                self._read([own.packet_id])
            self._ids[own.packet_id] = _united(self._ids.get(own.packet_id, ()), _ids_of(own.conversation))
            self._begun |= dict.fromkeys(own.conversation.labels.get("begins", ()), own.packet_id)
            found[number] = own
        return [found[number] for number in range(len(found))]

    def deleted(self, packet_ids: Sequence[str]) -> set[str]:
        """Those that the person deleted."""
        return self._tenant.file.read(lambda connection: arrivals.deleted(connection, packet_ids))

    def _continued(self, new: Identified) -> Identified:
        """The conversation as a state of the one it goes on from, when one of the two holds all of the other.

        A program that starts a file of its own for a resumed session copies what was said before into it.
        """
        first = next(iter(new.conversation.labels.get("begins", ())), "")
        if not first or new.packet_id in self.known:
            return new
        other = self._begun.get(first) or self._tenant.file.read(lambda connection: _begun_as(connection, first))
        if not other or other == new.packet_id:
            return new
        ids, others = set(_ids_of(new.conversation)), set(self._held(other))
        return replace(new, packet_id=other) if ids <= others or others <= ids else new

    def _apart(self, new: Identified) -> Identified:
        """The conversation, with an id of its own when another one has the plain id by right."""
        known = self.known.get(new.packet_id)
        stored = known is not None and known.state and not known.same(new.state)
        ids = _ids_of(new.conversation)
        held = self._held(new.packet_id) if stored else self._ids.get(new.packet_id, ())
        if not ids or not held or not set(held).isdisjoint(ids):
            return new
        own, others = _own_id(new.packet_id, ids[0]), _own_id(new.packet_id, held[0])
        self._read([own])
        if own in self.known or ids[0] >= held[0] or not stored or not self._move(new.packet_id, others):
            return replace(new, packet_id=own)
        return new

    def _move(self, packet_id: str, other: str) -> bool:
        """Free a plain id of the conversation that is stored under it; false when it is one in parts."""
        row = self._tenant.file.read(lambda connection: _stored(connection, packet_id))
        if row is None or self._tenant.file.read(lambda connection: _stored(connection, f"{packet_id}-part-2")):
            return False
        codec, body, source, modified_ms = row
        data = with_packet_id(records.expand(codec, body), other)
        self.moved[packet_id] = MovedConversation(other, data, source, modified_ms)
        self.known[other] = replace(self.known.pop(packet_id), revision=1)
        self._ids[other] = self._ids.pop(packet_id)
        return True

    def _held(self, packet_id: str) -> tuple[str, ...]:
        if packet_id not in self._ids:
            row = self._tenant.file.read(lambda connection: _stored(connection, packet_id))
            self._ids[packet_id] = message_ids(records.expand(*row[:2])) if row else ()
        return self._ids[packet_id]

    def _read(self, ids: Sequence[str]) -> None:
        unread = [each for each in ids if each not in self.known]
        self.known |= self._tenant.file.read(lambda connection: _load_known(connection, unread))


def _own_id(packet_id: str, first_message: str) -> str:
    return f"{packet_id[: ID_MAX_CHARS - 9]}-{hashlib.sha256(first_message.encode()).hexdigest()[:8]}"


def _ids_of(conversation: Conversation) -> tuple[str, ...]:
    """Ids of what was said in it, in order, those of other branches last; instructions have one id in all of them."""
    said = (*conversation.messages, *conversation.alternatives)
    return tuple(each.id for each in said if each.part != "instructions")


def _united(some: Iterable[str], more: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*some, *more)))


def _load_known(connection: sqlite3.Connection, packet_ids: Sequence[str]) -> dict[str, Known]:
    """What is stored under those of `packet_ids` that are known."""
    found: dict[str, Known] = {}
    for chunk in chunks(packet_ids):
        rows = connection.execute(
            "SELECT packet_id, media_type, revision,"
            " (SELECT value FROM metadata INDEXED BY metadata_by_packet WHERE packet = packets.id AND key = 'state'),"
            " (SELECT value FROM metadata INDEXED BY metadata_by_packet WHERE packet = packets.id AND key = 'import')"
            f" FROM packets WHERE current = 1 AND packet_id IN ({marks(chunk)})",
            chunk,
        )
        for packet_id, media_type, revision, state, import_id in rows:
            found[packet_id] = Known(
                str(state or "") if media_type == MEDIA_TYPE else "", str(import_id or ""), revision
            )
    return found


def _stored(connection: sqlite3.Connection, packet_id: str) -> tuple[str, bytes, str, int] | None:
    """(codec, original, source, modified_ms) of a stored conversation."""
    row: tuple[str, bytes, str, int] | None = connection.execute(
        "SELECT o.codec, o.body, p.source, p.modified_ms FROM packets p JOIN originals o ON o.packet = p.id"
        " WHERE p.packet_id = ? AND p.current = 1 AND p.media_type = ?",
        (packet_id, MEDIA_TYPE),
    ).fetchone()
    return row


def _begun_as(connection: sqlite3.Connection, first: str) -> str:
    """The packet whose conversation begins with the message `first`, "" when there is none."""
    row = connection.execute(
        "SELECT p.packet_id FROM metadata m JOIN packets p ON p.id = m.packet"
        " WHERE m.key = 'begins' AND m.value = ? AND p.current = 1",
        (first,),
    ).fetchone()
    return str(row[0]) if row else ""
