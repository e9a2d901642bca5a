"""Reads sources into the archive, step by step: each step is durable before the next begins, and can be resumed from.

A generator that blocks; whoever drives it does so on a thread and records the cursor of each step.
"""

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from gaiad.archive.importing import conversation_store
from gaiad.archive.importing.conversation_store import (
    Identified,
    Known,
    PreparedConversation,
    identify,
    in_parts,
    said_by_others,
    with_id,
)
from gaiad.archive.importing.json_stream import Unreadable
from gaiad.archive.importing.kind import Item
from gaiad.archive.importing.kinds import KINDS
from gaiad.archive.importing.known_states import KnownStates, MovedConversation
from gaiad.archive.importing.sample import Problem, Sample, advice, is_companion
from gaiad.archive.importing.source import RefusedPath, Source, sources
from gaiad.archive.reading.conversation import Conversation, Message, shown_title
from gaiad.archive.reading.disk import path_text, stamp_of
from gaiad.archive.reading.reader import MANY, SCHEMA_SUFFIXES, read_packet
from gaiad.archive.storing import arrivals, quarantine
from gaiad.archive.storing.ingest import Ingest
from gaiad.archive.storing.records import WriteResult
from gaiad.archive.storing.tenant import Tenant
from gaiad.base.clock import Clock, from_epoch_ms, to_epoch_ms
from gaiad.base.config import Config
from gaiad.base.errors import PacketRejected
from gaiad.base.ports import RequestContext
from gaiad.wire.ingest import ImportOutcome, ImportOutcomeKind, IngestOutcome

_STEP_CONVERSATIONS = 64
_STEP_BYTES = 4 * 1024 * 1024
EXPORT_SUFFIXES = frozenset(
    (".zip", ".json", ".jsonl", ".ndjson", ".html", ".htm", ".db", ".sqlite", ".md", ".markdown", ".txt")
)
_OTHERS_SUFFIXES = EXPORT_SUFFIXES - {".zip", ".jsonl", ".ndjson"}  # where another program's files are no surprise
_PACKET_OUTCOMES: dict[str, ImportOutcomeKind] = {"quarantined": "refused"}


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """`import_id` marks what this import stored; `dry_run` stores nothing; `upload` is what the one path was called.
    `again` also takes what the person deleted one by one.

    `resumed` when an earlier run was broken off: its last step may be stored and not told.
    """

    import_id: str
    as_document: bool = False
    dry_run: bool = False
    upload: str = ""
    again: bool = False
    resumed: bool = False


@dataclass(frozen=True, slots=True)
class ImportStep:
    """What one step did: `done` and `total` are bytes of input; `cursor` resumes behind it."""

    outcomes: list[ImportOutcome]
    done: int
    total: int
    cursor: dict[str, Any]


_Entry = tuple[Conversation, Source] | ImportOutcome


@dataclass(slots=True)
class _Group:
    """What is written in one commit, in the order it was read, and where reading stood behind it."""

    entries: list[_Entry] = field(default_factory=list)
    bytes: int = 0

    def take(self, entry: _Entry) -> bool:
        """Add one; true when the group is large enough."""
        self.entries.append(entry)
        if isinstance(entry, tuple):
            self.bytes += max(len(entry[0].raw), sum(len(each.text) for each in entry[0].messages))
        return len(self.entries) >= _STEP_CONVERSATIONS or self.bytes >= _STEP_BYTES


@dataclass(frozen=True, slots=True)
class _Writing:
    """A group on its way to the disk; the next is read meanwhile."""

    step: ImportStep
    commit: "Future[WriteResult] | None"


class Importer:
    """One tenant's. `changed` hears of every commit."""

    def __init__(
        self, tenant: Tenant, config: Config, clock: Clock, ingest: Ingest, changed: Callable[[WriteResult], None]
    ) -> None:
        self._tenant = tenant
        self._config = config
        self._clock = clock
        self._ingest = ingest
        self._changed = changed

    def run(
        self, paths: Sequence[Path], options: ImportOptions, call: RequestContext, cursor: dict[str, Any]
    ) -> Iterator[ImportStep]:
        """Steps in the order of the sources. Raises Cancelled between them."""
        found = [(each, path) for path in paths for each in sources(path, options.upload)]
        total = sum(each.weight for each, _ in found if isinstance(each, Source))
        first, skip = int(cursor.get("source", 0)), (int(cursor.get("items", 0)), int(cursor.get("part", 1)))
        done = sum(each.weight for each, _ in found[:first] if isinstance(each, Source))
        group, writing, untold = _Group(), None, options.import_id if options.resumed else ""
        for number, (source, given) in enumerate(found[first:], start=first):
            alone = isinstance(source, Source) and source.path == given
            items, read = 0, int(cursor.get("read", 0)) if skip[0] else 0
            for entry in self._entries(source, options, call, max(0, skip[0] - 1), alone=alone):
                part = entry[0].part if isinstance(entry, tuple) else 1
                items += part == 1
                if entry is None or (items, part) <= skip:
                    continue
                read += len(entry[0].raw) if isinstance(entry, tuple) else 0
                if not group.take(entry):
                    continue
                call.check(self._clock.monotonic())
                if writing is not None:
                    yield self._settled(writing)
                reached = (
                    done + int(source.weight * min(1.0, read / (source.size or 1)))
                    if isinstance(source, Source)
                    else done
                )
                behind = {"source": number, "items": items, "part": part, "read": read}
                writing = self._write(group, options, untold, reached, total, behind)
                group, untold = _Group(), ""
            skip = (0, 1)
            done += source.weight if isinstance(source, Source) else 0
        if writing is not None:
            yield self._settled(writing)
        yield self._settled(self._write(group, options, untold, total, total, {"source": len(found), "items": 0}))

    def exports_among(self, paths: Sequence[Path]) -> dict[Path, str]:
        """Those of `paths` that an import reads (""), and archives and logs that nobody reads (the reason).

        What the reading of packets takes, or passes over, is not among them.
        """
        found: dict[Path, str] = {}
        for path in paths:
            if path.suffix.lower() not in EXPORT_SUFFIXES or path.is_symlink() or not path.is_file():
                continue
            refusals: list[str] = []
            for source in sources(path):
                reason = source.reason if isinstance(source, RefusedPath) else self._refusal(source)
                if not reason:
                    found[path] = ""
                    break
                refusals.append(reason)
            else:
                if path.suffix.lower() not in _OTHERS_SUFFIXES:
                    found[path] = refusals[0] if refusals else "holds nothing"
        return found

    def _refusal(self, source: Source) -> str:
        try:
            sample = Sample(source, self._clock.zone)
            return "" if any(kind.recognises(sample) for kind in KINDS) else advice(sample)
        except Unreadable as error:
            return str(error)

    def remember(self, paths: Sequence[Path], import_id: str) -> None:
        """Note files as handed to an import: the next scan passes over them, and they are no longer in quarantine."""
        rows = [
            (path_text(path), stamp, "", "ignored", "", f"brought in by {import_id}")
            for path in paths
            if (stamp := stamp_of(path)) is not None
        ]

        def write(connection: sqlite3.Connection) -> WriteResult:
            arrivals.remember(connection, rows)
            return WriteResult(quarantined=-sum(quarantine.resolve(connection, row[0], "") for row in rows))

        self._changed(self._tenant.file.write(write))

    def refuse(self, refused: Mapping[Path, str]) -> list[IngestOutcome]:
        """Put files that nobody reads in quarantine, without their bytes, and note them."""
        at_ms = to_epoch_ms(self._clock.now())

        def write(connection: sqlite3.Connection) -> WriteResult:
            change = WriteResult()
            for path, reason in refused.items():
                stamp = stamp_of(path)
                size = stamp.size if stamp else 0
                change.quarantined += quarantine.put(connection, path_text(path), "", None, size, reason, 0, at_ms)
                if stamp:
                    row = (path_text(path), stamp, "", "quarantined", "", reason)
                    arrivals.remember(connection, [row])
            return change

        self._changed(self._tenant.file.write(write))
        return [IngestOutcome(path=path_text(path), outcome="quarantined", reason=why) for path, why in refused.items()]

    # ------------------------------------------------------------------------------------------------- one source

    def _entries(
        self, source: Source | RefusedPath, options: ImportOptions, call: RequestContext, skip: int, *, alone: bool
    ) -> Iterator[_Entry | None]:
        """The conversations of a source, and an outcome for whatever else is to be told of it; None for one skipped."""
        if isinstance(source, RefusedPath):
            yield _file_outcome(source.label, "refused", source.reason)
            return
        try:
            sample = Sample(source, self._clock.zone)
            sample.skip = skip
            kind = next((kind for kind in KINDS if kind.recognises(sample)), None)
            if kind is None:
                yield self._other(sample, options, call, alone=alone)
                return
            item: Item | None = None
            empty = True
            for item in kind.read(sample):
                empty = False
                if item is None:
                    yield None
                elif isinstance(item, Problem):
                    outcome: ImportOutcomeKind = "failed" if item.loses else "ignored"
                    yield _file_outcome(source.label, outcome, f"{item.where} {item.reason}", kind.name, item.line)
                else:
                    for part in in_parts(with_id(said_by_others(item))):
                        yield part, source
            if empty:
                yield _file_outcome(source.label, "ignored", "has no conversations in it", kind.name)
        except Unreadable as error:
            yield _file_outcome(source.label, "failed", str(error))

    # ---------------------------------------------------------------------------------------------------- storing

    def _write(
        self, group: _Group, options: ImportOptions, untold: str, done: int, total: int, cursor: dict[str, Any]
    ) -> _Writing:
        """Judge and read a group, and hand it to the writer; what the import `untold` stored is told as it was then."""
        states = KnownStates(self._tenant)
        identified = states.load([identify(entry[0]) for entry in group.entries if isinstance(entry, tuple)])
        deleted = states.deleted([each.first_part or each.packet_id for each in identified])
        outcomes: list[ImportOutcome] = []
        ready: dict[str, PreparedConversation] = {}
        for entry in group.entries:
            if isinstance(entry, ImportOutcome):
                outcomes.append(entry)
                continue
            new, source = identified.pop(0), entry[1]
            verdict = conversation_store.EMPTY
            if any(each.text.strip() for each in new.conversation.messages):
                verdict = conversation_store.judge(new, states.known.get(new.packet_id), untold)
            if verdict.outcome == "accepted" and (new.first_part or new.packet_id) in deleted and not options.again:
                verdict = conversation_store.DELETED
            if verdict.outcome in ("accepted", "revised"):
                try:
                    ready[new.packet_id] = self._prepare(new, source, options)
                except PacketRejected as error:
                    verdict = conversation_store.ImportDecision("failed", error.reason)
                else:
                    revision = 1 if verdict.outcome == "accepted" else 2
                    states.known[new.packet_id] = Known(new.state, "", revision)
            outcomes.append(_outcome(new, verdict, source))
        for packet_id in states.moved.keys() & ready.keys():
            ready.setdefault(states.moved[packet_id].packet_id, self._prepare_moved(states.moved[packet_id]))
        commit = None
        if ready and not options.dry_run:
            received_ms, writes = to_epoch_ms(self._clock.now()), list(ready.values())
            commit = self._tenant.file.submit(
                lambda connection: conversation_store.store(connection, writes, deleted, received_ms), background=True
            )
        return _Writing(ImportStep(outcomes, done, total, cursor), commit)

    def _settled(self, writing: _Writing) -> ImportStep:
        """The step, once it is durable."""
        if writing.commit is not None:
            self._changed(writing.commit.result())
        return writing.step

    def _prepare(self, new: Identified, source: Source, options: ImportOptions) -> PreparedConversation:
        return conversation_store.prepare(
            new, options.import_id, source.label, source.modified_ms, self._config, self._clock.zone
        )

    def _prepare_moved(self, moved: MovedConversation) -> PreparedConversation:
        data, source, modified_ms = moved[1:]
        return conversation_store.prepare_bytes(data, source, modified_ms, self._config, self._clock.zone)

    # ------------------------------------------------------------------------------------------------ other files

    def _other(self, sample: Sample, options: ImportOptions, call: RequestContext, *, alone: bool) -> ImportOutcome:
        """A file of no kind: a packet, a document that was asked for, or refused with advice.

        Beside others in a folder or archive, what cannot be an export is passed over; given by itself it is refused.
        """
        source = sample.source
        if is_companion(source.name):
            return _file_outcome(source.label, "ignored", "belongs to the export but has no conversations")
        if sample.form == "array" and not sample.first:
            problem = next((each for each in sample.records() if isinstance(each, Problem)), None)
            if problem is not None:
                return _file_outcome(source.label, "failed", f"{problem.where} {problem.reason}")
        if sample.form in ("xml", "object", "array") and source.suffix not in SCHEMA_SUFFIXES:
            outcome = self._document(sample, options, call)
            strange = outcome.outcome == "refused" and sample.form != "xml" and MANY not in outcome.reason
            return msgspec.structs.replace(outcome, outcome="ignored") if strange and not alone else outcome
        return _file_outcome(source.label, "refused" if alone else "ignored", advice(sample))

    def _document(self, sample: Sample, options: ImportOptions, call: RequestContext) -> ImportOutcome:
        """A packet of a known dialect, or anything well-formed when it is asked for as a document."""
        source = sample.source
        data = source.text_bytes(self._config.packets.max_bytes)
        try:
            packet = read_packet(data, source.label, from_epoch_ms(source.modified_ms), self._config.packets)
        except PacketRejected as error:
            return _file_outcome(source.label, "refused", error.message)
        if packet.dialect == "generic" and not options.as_document:
            return _file_outcome(source.label, "refused", advice(sample))
        outcome = IngestOutcome(path=source.label, outcome="accepted", packet_id=packet.packet_id)
        if not options.dry_run:
            (outcome,) = (
                self._ingest.files([source.path], call)
                if source.path
                else self._ingest.documents([(source.label, data)], call)
            )
        time = from_epoch_ms(to_epoch_ms(packet.timestamp)).isoformat().replace("+00:00", "Z")
        return ImportOutcome(
            kind="packet",
            conversation_id=packet.packet_id,
            title=packet.topic,
            first_message=time,
            last_message=time,
            user_messages=0,
            assistant_messages=0,
            packet_id=outcome.packet_id,
            outcome=_PACKET_OUTCOMES.get(outcome.outcome, outcome.outcome),  # type: ignore[arg-type]
            path=source.label,
            reason=outcome.reason,
        )


def _outcome(new: Identified, verdict: conversation_store.ImportDecision, source: Source) -> ImportOutcome:
    conversation = new.conversation
    seen = [each for each in conversation.messages if each.part == "transcript"]
    said = [each.speaker for each in seen]
    times = _times(seen) or _times(conversation.messages)
    first, last = (
        (times[0], times[-1]) if times else (conversation.created, conversation.updated or conversation.created)
    )
    return ImportOutcome(
        kind=conversation.kind,
        conversation_id=conversation.id,
        title=""
        if verdict == conversation_store.DELETED
        else shown_title(conversation.title, (each.text for each in conversation.messages)),
        first_message=first,
        last_message=last,
        user_messages=said.count("user"),
        assistant_messages=said.count("assistant"),
        packet_id="" if verdict.outcome in ("ignored", "failed") else new.packet_id,
        outcome=verdict.outcome,
        path=source.label,
        reason=verdict.reason,
        left_out=conversation.left_out,
        part=conversation.part,
    )


def _times(messages: Sequence[Message]) -> list[str]:
    return sorted((each.time for each in messages if each.time), key=lambda time: time.rstrip("Z"))


def _file_outcome(label: str, outcome: ImportOutcomeKind, reason: str, kind: str = "", line: int = 0) -> ImportOutcome:
    return ImportOutcome(
        kind=kind,
        conversation_id="",
        title="",
        first_message="",
        last_message="",
        user_messages=0,
        assistant_messages=0,
        packet_id="",
        outcome=outcome,
        path=label,
        reason=reason,
        line=line,
    )
