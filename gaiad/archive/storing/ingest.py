"""The storing half of ingest: arrivals become rows in groups, and each gets its outcome once its commit is durable.

Reading the next files goes on while the writer commits the last group. A packet, its pages, its place in the text index
and the row of its file are one commit: a crash leaves all of them or none.
"""

import sqlite3
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import cast

import msgspec

from gaiad.archive.reading.derive import Derived
from gaiad.archive.reading.disk import path_text, stamp_of
from gaiad.archive.storing import arrivals, quarantine, records
from gaiad.archive.storing.arrivals import Arrival, ArrivalReader, KnownFile, finder
from gaiad.archive.storing.records import WriteResult
from gaiad.archive.storing.tenant import Tenant
from gaiad.base.clock import Clock, to_epoch_ms
from gaiad.base.config import Config
from gaiad.base.errors import GaiadError
from gaiad.base.metrics import Metrics
from gaiad.base.ports import RequestContext
from gaiad.store.writer import Hurry, Steps
from gaiad.wire.ingest import IngestOutcome
from gaiad.wire.schemas import IntegrityVerdict

_GROUPS_IN_FLIGHT = 2
_GROUP_BYTES = 8 * 1024 * 1024
_EAGER_PACKETS = 32  # a group this large does not wait for more while the writer is idle

_Stored = tuple[list[IngestOutcome], WriteResult]


class Ingest:
    """One tenant's way in. Calls block; run them on a thread. `changed` hears of every commit."""

    def __init__(
        self, tenant: Tenant, config: Config, clock: Clock, metrics: Metrics, changed: Callable[[WriteResult], None]
    ) -> None:
        self._tenant = tenant
        self._config = config
        self._clock = clock
        self._metrics = metrics
        self._changed = changed
        self._reader = ArrivalReader(config, clock.zone, finder(tenant.file.read))

    def files(self, paths: Sequence[Path], call: RequestContext, root: Path | None = None) -> list[IngestOutcome]:
        """Outcomes in the order of `paths`, all durable. Raises Cancelled or DeadlineExceeded between files.

        A file that looks as it did when it was last judged is not read again, except one that a person names alone: the
        same bytes given again are a new arrival.
        """
        names = [path_text(path) for path in paths]
        named = root is None and len(paths) == 1
        known = {} if named else self._tenant.file.read(lambda connection: arrivals.load(connection, names))
        return self._run((self._arrive(path, name, known, root) for path, name in zip(paths, names, strict=True)), call)

    def documents(self, documents: Sequence[tuple[str, bytes]], call: RequestContext) -> list[IngestOutcome]:
        """The same for (name, bytes) pairs; the present stands in for the file's time."""
        now_ms = to_epoch_ms(self._clock.now())
        return self._run((self._reader.document(name, data, now_ms) for name, data in documents), call)

    def _arrive(self, path: Path, name: str, known: dict[str, KnownFile], root: Path | None) -> Arrival | IngestOutcome:
        row = known.get(name)
        if row is not None and row.outcome != "ignored":  # judging by name or link is cheap, and depends on the root
            stamp = stamp_of(path)
            if stamp is not None and row.holds(stamp):
                return self._unchanged(name, row)
        return self._reader.file(path, root)

    def _unchanged(self, name: str, row: KnownFile) -> IngestOutcome:
        if row.outcome == "quarantined":
            return IngestOutcome(path=name, outcome="quarantined", reason=row.reason)
        found = self._tenant.file.read(lambda connection: records.find_by_hash(connection, row.sha256))
        return _duplicate(name, found)

    def _run(self, arrivals: Iterable[Arrival | IngestOutcome], call: RequestContext) -> list[IngestOutcome]:
        outcomes: dict[int, IngestOutcome] = {}
        groups = _Groups(self._tenant, self._store, self._changed, outcomes)
        limit = max(1, self._config.archive.commit_max_packets)
        try:
            for number, arrival in enumerate(arrivals):
                call.check(self._clock.monotonic())
                if isinstance(arrival, IngestOutcome):
                    outcomes[number] = arrival
                elif arrival.judgement == "failed":
                    outcomes[number] = IngestOutcome(path=arrival.name, outcome="failed", reason=arrival.reason)
                else:
                    groups.add(number, arrival, limit)
        finally:
            groups.finish()
        for outcome in outcomes.values():
            self._metrics.count(f"ingest_{outcome.outcome}")
        return [outcomes[number] for number in sorted(outcomes)]

    def _store(self, connection: sqlite3.Connection, hurry: Hurry, group: Sequence[Arrival]) -> Steps[_Stored]:
        """One commit, or several when others wait for the writer, each whole: packets with the rows of their files."""
        received_ms, change = to_epoch_ms(self._clock.now()), WriteResult()
        outcomes: list[IngestOutcome] = []
        remembered = 0
        for arrival in group:
            outcomes.append(_store_one(connection, arrival, received_ms, change))
            if hurry():
                _remember_files(connection, group[remembered : len(outcomes)], outcomes[remembered:])
                remembered = len(outcomes)
                yield
        _remember_files(connection, group[remembered:], outcomes[remembered:])
        return outcomes, change


class _Groups:
    """Arrivals on their way to the writer: one group fills while at most two are being committed."""

    def __init__(
        self,
        tenant: Tenant,
        store: Callable[[sqlite3.Connection, Hurry, Sequence[Arrival]], Steps[_Stored]],
        changed: Callable[[WriteResult], None],
        outcomes: dict[int, IngestOutcome],
    ) -> None:
        self._tenant = tenant
        self._store = store
        self._changed = changed
        self._outcomes = outcomes
        self._waiting: list[tuple[int, Arrival]] = []
        self._bytes = 0
        self._flying: deque[tuple[list[tuple[int, Arrival]], Future[_Stored]]] = deque()

    def add(self, number: int, arrival: Arrival, limit: int) -> None:
        """Take one in; commit the group when it is full, or large enough while the writer is idle."""
        self._waiting.append((number, arrival))
        self._bytes += arrival.size
        self._collect(all_of_them=False)
        full = len(self._waiting) >= limit or self._bytes >= _GROUP_BYTES
        if full or (not self._flying and len(self._waiting) >= _EAGER_PACKETS):
            self._send()

    def finish(self) -> None:
        """Commit what waits and wait for every commit."""
        if self._waiting:
            self._send()
        self._collect(all_of_them=True)

    def _send(self) -> None:
        while len(self._flying) >= _GROUPS_IN_FLIGHT:
            self._land()
        group, self._waiting, self._bytes = self._waiting, [], 0
        arrivals = [arrival for _, arrival in group]
        try:
            future = self._tenant.file.submit_steps(lambda connection, hurry: self._store(connection, hurry, arrivals))
        except GaiadError as error:
            self._fail(group, error)
        else:
            self._flying.append((group, future))

    def _collect(self, *, all_of_them: bool) -> None:
        while self._flying and (all_of_them or self._flying[0][1].done()):
            self._land()

    def _land(self) -> None:
        group, future = self._flying.popleft()
        try:
            outcomes, change = future.result()
        except GaiadError as error:
            self._fail(group, error)
            return
        self._outcomes.update(zip((number for number, _ in group), outcomes, strict=True))
        self._changed(change)

    def _fail(self, group: list[tuple[int, Arrival]], error: GaiadError) -> None:
        for number, arrival in group:
            self._outcomes[number] = IngestOutcome(path=arrival.name, outcome="failed", reason=error.message)


def _remember_files(
    connection: sqlite3.Connection, group: Sequence[Arrival], outcomes: Sequence[IngestOutcome]
) -> None:
    """Last in a commit, and together: FTS5 writes out what it has in memory when a statement like these begins."""
    arrivals.remember(
        connection,
        [
            (arrival.name, arrival.stamp, arrival.sha256, outcome.outcome, outcome.packet_id, outcome.reason)
            for arrival, outcome in zip(group, outcomes, strict=True)
            if arrival.stamp is not None
        ],
    )


def _store_one(
    connection: sqlite3.Connection, arrival: Arrival, received_ms: int, change: WriteResult
) -> IngestOutcome:
    if arrival.judgement == "readable":
        outcome = _store_packet(connection, arrival, received_ms, change)
    elif arrival.judgement == "known":
        outcome = _store_again(connection, arrival, received_ms, change)
    elif arrival.judgement == "rejected":
        outcome = _reject(connection, arrival, arrival.reason, received_ms, change)
    else:
        outcome = IngestOutcome(path=arrival.name, outcome="ignored", reason=arrival.reason)
    if outcome.outcome in ("accepted", "revised", "duplicate"):
        change.quarantined -= quarantine.resolve(connection, arrival.name, arrival.sha256)
    return outcome


def _store_packet(
    connection: sqlite3.Connection, arrival: Arrival, received_ms: int, change: WriteResult
) -> IngestOutcome:
    if records.find_by_hash(connection, arrival.sha256) is not None:
        return _store_again(connection, arrival, received_ms, change)
    derived, body = cast("Derived", arrival.derived), arrival.body or b""
    if held := records.holder(connection, derived.packet, arrival.name):
        return _reject(connection, arrival, f"id is held by {held}: {derived.packet.packet_id}", received_ms, change)
    revised, made = records.insert(connection, derived, body, arrival.name, arrival.modified_ms, received_ms)
    change.add(made)
    packet = derived.packet
    return IngestOutcome(
        path=arrival.name,
        outcome="revised" if revised else "accepted",
        packet_id=packet.packet_id,
        dialect=packet.dialect,
        integrity=packet.verdict,
        reason="other bytes under a known id: both are kept, this one is searched" if revised else "",
    )


def _store_again(
    connection: sqlite3.Connection, arrival: Arrival, received_ms: int, change: WriteResult
) -> IngestOutcome:
    """Known bytes: those of a superseded revision, arriving again, are the newest word."""
    revision, made = records.renew(connection, arrival.sha256, received_ms)
    change.add(made)
    outcome = _duplicate(arrival.name, records.find_by_hash(connection, arrival.sha256))
    if not revision:
        return outcome
    reason = f"the bytes of an earlier revision came again: they are revision {revision}, and searched"
    return msgspec.structs.replace(outcome, outcome="revised", reason=reason)


def _reject(
    connection: sqlite3.Connection, arrival: Arrival, why: str, received_ms: int, change: WriteResult
) -> IngestOutcome:
    fresh = quarantine.put(
        connection,
        arrival.name,
        arrival.sha256,
        arrival.body,
        arrival.size,
        why,
        arrival.line,
        received_ms,
    )
    change.quarantined += fresh
    reason = f"line {arrival.line}: {why}" if arrival.line else why
    return IngestOutcome(path=arrival.name, outcome="quarantined", reason=reason)


def _duplicate(name: str, found: tuple[str, str, str] | None) -> IngestOutcome:
    packet_id, dialect, verdict = found or ("", "", "")
    return IngestOutcome(
        path=name,
        outcome="duplicate",
        packet_id=packet_id,
        dialect=dialect,
        integrity=cast("IntegrityVerdict", verdict),
        reason="the same bytes are already in the archive",
    )
