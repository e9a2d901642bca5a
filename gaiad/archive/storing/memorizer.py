"""The Memorizer (JIT): a turn of a session becomes a stored packet, its pages and their memos, in one commit.

No model is asked (decision 20). A turn that is already there under its id is not stored again, so a caller that never
saw the answer may simply ask once more.
"""

import sqlite3
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec

from gaiad.archive.reading.derive import Derived, derive
from gaiad.archive.reading.fields import clean
from gaiad.archive.reading.memo import MemoItems
from gaiad.archive.reading.reader import ID_MAX_CHARS
from gaiad.archive.storing import records, sessions
from gaiad.archive.storing.records import WriteResult
from gaiad.archive.storing.tenant import Tenant
from gaiad.base.clock import Clock, to_epoch_ms, to_iso
from gaiad.base.config import Config
from gaiad.base.errors import BadInput, Conflict
from gaiad.base.logs import Counts, span
from gaiad.base.metrics import Metrics
from gaiad.base.ports import RequestContext
from gaiad.base.text import first_invisible
from gaiad.wire.memory import SessionTurn


@dataclass(frozen=True, slots=True)
class _Ready:
    """A turn that is not stored yet, read and cut like any packet."""

    turn: SessionTurn
    derived: Derived
    body: bytes
    started_ms: int
    items: list[MemoItems]


class Memorizer:
    """One tenant's. `remember` blocks; run it on a thread. `changed` hears of every commit."""

    def __init__(
        self, tenant: Tenant, config: Config, clock: Clock, metrics: Metrics, changed: Callable[[WriteResult], None]
    ) -> None:
        self._tenant = tenant
        self._config = config
        self._clock = clock
        self._metrics = metrics
        self._changed = changed
        self._numbering = threading.Lock()

    def remember(self, turns: Sequence[SessionTurn], call: RequestContext, *, as_session: bool = False) -> list[str]:
        """The turns' packet ids, in order; all durable and searchable by their words. Turns are numbered in order.

        `as_session`: new turns take over the labels that their session has.

        Raises BadInput for a turn that cannot be stored as it is, Conflict when an id or number is taken by something
        else; no turn is stored then. Commits are groups: Cancelled or DeadlineExceeded between them keep those done.
        """
        with span("memorizer.memorize", turns=len(turns)) as counts:
            return self._remember(turns, call, counts, as_session)

    def _remember(
        self, turns: Sequence[SessionTurn], call: RequestContext, counts: Counts, as_session: bool
    ) -> list[str]:
        began = self._clock.monotonic()
        now = self._clock.now()
        checked = [_checked(turn, self._tenant.name, now) for turn in turns]
        with self._numbering:  # one at a time: the next number is read here and taken by the commit below
            ready = [self._ready(turn) for turn in self._numbered(checked, as_session)]
            limit = max(1, self._config.archive.commit_max_packets)
            for start in range(0, len(ready), limit):
                call.check(self._clock.monotonic())
                group = ready[start : start + limit]
                self._changed(self._tenant.file.write(lambda connection, group=group: self._store(connection, group)))  # type: ignore[misc]
        counts["remembered"] = len(ready)
        self._metrics.count("turns_remembered", len(ready))
        self._metrics.observe_ms("remember", (self._clock.monotonic() - began) * 1000)
        return [turn.turn_id for turn in checked]

    def _numbered(self, turns: Sequence[SessionTurn], as_session: bool) -> list[SessionTurn]:
        """Those of `turns` that are new, each with its number, lowest number first; `as_session` with its labels."""

        def read(connection: sqlite3.Connection) -> list[SessionTurn]:
            numbers = _TurnNumbering(connection)
            fresh: dict[str, SessionTurn] = {}
            for turn in turns:
                known = fresh.get(turn.turn_id) or _stored(connection, turn.turn_id)
                if known is None:
                    numbered = msgspec.structs.replace(turn, sequence=numbers.take(turn))
                    fresh[turn.turn_id] = sessions.labelled(connection, numbered) if as_session else numbered
                else:
                    _must_match(turn, known)
            return sorted(fresh.values(), key=lambda turn: turn.sequence)

        return self._tenant.file.read(read)

    def _ready(self, turn: SessionTurn) -> _Ready:
        try:
            data = msgspec.json.encode(turn)
        except (UnicodeEncodeError, TypeError, ValueError) as error:
            raise BadInput(f"turn {turn.turn_id!r} cannot be written as JSON ({error}); correct that text") from error
        started_ms = to_epoch_ms(datetime.fromisoformat(turn.started_at))
        with span("memorizer.page") as counts:
            derived = derive(
                data, sessions.SOURCE, started_ms, self._config.packets, self._config.archive, self._clock.zone
            )
            said = [(page.text, page.speaker) for page in derived.pages]
            items = sessions.read_items(said, turn, to_epoch_ms(derived.packet.timestamp), self._clock.zone)
            counts["pages"] = len(derived.pages)
        return _Ready(turn, derived, records.compress(data), started_ms, items)

    def _store(self, connection: sqlite3.Connection, group: Sequence[_Ready]) -> WriteResult:
        received_ms, change = to_epoch_ms(self._clock.now()), WriteResult()
        for each in group:
            _, made = records.insert(connection, each.derived, each.body, sessions.SOURCE, each.started_ms, received_ms)
            change.add(made)
            (packet,) = connection.execute(
                "SELECT id FROM packets WHERE sha256 = ?", (each.derived.packet.sha256,)
            ).fetchone()
            sessions.add_turn(connection, packet, each.turn, each.items, self._clock.zone)
        return change


class _TurnNumbering:
    """Gives turns of one batch their numbers."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._next: dict[str, int] = {}
        self._taken: dict[tuple[str, int], str] = {}

    def take(self, turn: SessionTurn) -> int:
        """The number the turn asks for, or the next of its session. Raises Conflict for one that is taken."""
        session_id = turn.session_id
        if session_id not in self._next:
            self._next[session_id] = sessions.next_sequence(self._connection, session_id)
        number = turn.sequence if turn.sequence >= 0 else self._next[session_id]
        holder = self._taken.get((session_id, number)) or sessions.turn_at(self._connection, session_id, number)
        if holder:
            raise Conflict(
                f"turn {turn.turn_id!r}: number {number} of session {session_id!r} is turn {holder!r};"
                " leave the sequence out to take the next number"
            )
        self._taken[session_id, number] = turn.turn_id
        self._next[session_id] = max(self._next[session_id], number + 1)
        return number


def _stored(connection: sqlite3.Connection, turn_id: str) -> SessionTurn | None:
    try:
        known = sessions.find_turn(connection, turn_id)
    except ValueError as error:
        raise Conflict(f"turn {turn_id!r}: {error}; restore the last backup (gaiad restore DIR)") from error
    if known is None and sessions.is_other_packet(connection, turn_id):
        raise Conflict(f"turn {turn_id!r}: a packet that is not a turn has this id; give the turn another one")
    return known.turn if known else None


def _must_match(turn: SessionTurn, known: SessionTurn) -> None:
    """A turn id always means the same words; times and findings may differ when a caller tries again."""
    same = turn.session_id == known.session_id and [(each.role, each.content) for each in turn.messages] == [
        (each.role, each.content) for each in known.messages
    ]
    if not same:
        raise Conflict(
            f"turn {turn.turn_id!r} is already remembered in session {known.session_id!r} with other words;"
            " give a new turn a new id"
        )


def _checked(turn: SessionTurn, tenant: str, now: datetime) -> SessionTurn:
    """The turn with tenant and times filled in, in UTC. Raises BadInput."""
    for name in ("session_id", "turn_id"):
        value: str = getattr(turn, name)
        if not value or len(value) > ID_MAX_CHARS or clean(value, ID_MAX_CHARS) != value or first_invisible(value):
            raise BadInput(
                f"{name} = {value[:80]!r}: use 1 to {ID_MAX_CHARS} printable characters, no space at the ends and"
                " single ones between"
            )
    if turn.tenant_id not in ("", tenant):
        raise BadInput(f"turn {turn.turn_id!r} is of tenant {turn.tenant_id!r}, the call is for {tenant!r}")
    if not any(message.content.strip() for message in turn.messages):
        raise BadInput(f"turn {turn.turn_id!r} is empty: give at least one message with content")
    started = _moment(turn, "started_at") or now.astimezone(UTC)
    ended = _moment(turn, "ended_at")
    return msgspec.structs.replace(
        turn, tenant_id=tenant, started_at=to_iso(started), ended_at=to_iso(ended) if ended else ""
    )


def _moment(turn: SessionTurn, name: str) -> datetime | None:
    value: str = getattr(turn, name)
    if not value:
        return None
    try:
        moment = datetime.fromisoformat(value)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise BadInput(f"{name} = {value!r} of turn {turn.turn_id!r}: write a time as 2025-11-30T15:45:00Z") from error
