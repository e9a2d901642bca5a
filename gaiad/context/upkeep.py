"""The upkeep of a tenant's context: packing, and the tree of folders that it is exported to and imported from."""

import asyncio
import re
import sqlite3
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

from gaiad.base.clock import Clock, to_epoch_ms, to_iso
from gaiad.base.errors import NotFound
from gaiad.base.ids import IdMaker
from gaiad.base.ports import RequestContext
from gaiad.context import aggregates, export, records, retention
from gaiad.context.bodies import Pack, store_file
from gaiad.context.store import PREFIX
from gaiad.store.home_databases import HomeDatabases
from gaiad.wire.context import RecordKind
from gaiad.wire.context_keeping import CleanupReport, TreeReport

_AT_ONCE = 200
"""Records of an import in one commit."""
_ID = re.compile(r"(?:sta|out|rev)_[0-9A-HJKMNP-TV-Z]{26}")


class ContextUpkeep:
    """Over the same databases as the store."""

    def __init__(self, databases: HomeDatabases, clock: Clock) -> None:
        self._databases = databases
        self._clock = clock
        self._ids = IdMaker(clock)
        self.quota_bytes = 0
        """What a tenant may take; 0 is no limit."""

    async def clean_up(self, active_days: int, call: RequestContext, *, dry_run: bool) -> CleanupReport:
        """Pack the bodies of iterations older than `active_days`, a pack a commit, behind what others write.

        Raises Cancelled between two packs when the call is; what is packed stays.
        """
        before_ms = to_epoch_ms(self._clock.now() - timedelta(days=active_days))
        nothing = retention.Old(0, [])
        old = await self._databases.read(call.tenant, lambda c: retention.find_old(c, before_ms), nothing)
        bodies = size = stored = 0
        damaged: list[str] = []
        for batch in [] if dry_run else retention.batches(old.bodies):
            call.check(self._clock.monotonic())
            done = await self._pack(batch, call)
            damaged += done.damaged
            bodies, stored = bodies + len(done.pack.bodies), stored + len(done.pack.content)
            size += sum(length for _, length in done.pack.bodies)
        if dry_run:
            bodies, size = len(old.bodies), sum(body.size for body in old.bodies)
        return CleanupReport(
            dry_run=dry_run, iterations=old.iterations, bodies=bodies, json_bytes=size, stored_bytes=stored,
            damaged=damaged,
        )  # fmt: skip

    async def _pack(self, batch: Sequence[retention.OldBody], call: RequestContext) -> retention.Batch:
        """Compressed by a reader, so that the writer only stores it."""
        folders, file = self._databases.body_folders(call.tenant), self._databases.file(call.tenant)
        made = await file.aread(lambda c: retention.read_batch(c, folders, batch))
        step = partial(file.write, partial(retention.store_pack, pack=made.pack), background=True)
        if not await asyncio.to_thread(step):
            return made._replace(pack=Pack([], b""), files=[])
        await asyncio.to_thread(_remove, made.files)
        return made

    async def write_tree(self, directory: Path, configuration: Mapping[str, Any], call: RequestContext) -> TreeReport:
        """Export everything to a new folder. Raises Conflict, BadInput, DamagedBody, NotFound for an empty tenant."""
        folders, at = self._databases.body_folders(call.tenant), to_iso(self._clock.now())
        work = partial(export.write_tree, folders=folders, directory=directory, at=at, configuration=configuration)
        report = await self._databases.read(call.tenant, work, None)
        if report is None:
            raise NotFound(f"tenant {call.tenant!r} holds nothing to export")
        return report

    async def read_tree(self, directory: Path, call: RequestContext) -> TreeReport:
        """Import a tree: its records in their order, then its current states. What is known already is left.

        Raises BadInput before anything is stored; QuotaReached, and what was stored until then stays.
        """
        found, heads = await asyncio.to_thread(export.read_tree, directory)
        new: list[RecordKind] = []
        for start in range(0, len(found), _AT_ONCE):
            new += await self._store(found[start : start + _AT_ONCE], call)
        now_ms = to_epoch_ms(self._clock.now())
        await self._databases.write(call.tenant, partial(_set_heads, heads=heads, now_ms=now_ms))
        return export.report(directory, new, len(found) - len(new))

    async def _store(self, found: Sequence[export.TreeRecord], call: RequestContext) -> list[RecordKind]:
        """The kinds of those that were not known."""
        described = [records.describe(one.record)._replace(iteration=one.iteration) for one in found]
        counted = [aggregates.counted(one.record) for one in found]
        now_ms = to_epoch_ms(self._clock.now())
        for body in {new.body for new in described if new.body.place == "file"}:
            await store_file(self._databases, call.tenant, body)

        def insert(connection: sqlite3.Connection) -> list[RecordKind]:
            used = retention.usage(connection, self.quota_bytes)
            retention.check_quota(used, sum(len(new.body.stored) for new in described), optional=False)
            kinds = []
            for one, new, what in zip(found, described, counted, strict=True):
                name = one.record_id if _free(connection, one.record_id) else self._ids.make(PREFIX[new.kind])
                number, made = records.insert_record(connection, new, name, now_ms)
                if not made.duplicate:
                    aggregates.count(connection, new, what, number, made.iteration)
                    kinds.append(new.kind)
            return kinds

        return await self._databases.write(call.tenant, insert)


def _free(connection: sqlite3.Connection, record_id: str) -> bool:
    query = "SELECT 1 FROM context_records WHERE id = ?"
    return bool(_ID.fullmatch(record_id)) and connection.execute(query, (record_id,)).fetchone() is None


def _set_heads(connection: sqlite3.Connection, heads: Mapping[str, str], now_ms: int) -> None:
    """Where the current state of a component is not the tree's, bring the tree's version back."""
    for component, sha256 in heads.items():
        found = connection.execute(
            "SELECT version, sha256, record FROM context_versions WHERE component = ? ORDER BY version DESC",
            (component,),
        ).fetchall()
        if found and found[0][1] != sha256 and (same := next((row for row in found if row[1] == sha256), None)):
            records.add_version(connection, component, now_ms, same[2], sha256, same[0])


def _remove(files: Sequence[Path]) -> None:
    for path in files:
        path.unlink(missing_ok=True)
