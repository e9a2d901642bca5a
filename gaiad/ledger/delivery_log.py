"""Receipts of what was sent to channels with an outside: one row a message.

A message waits here until it is out, whatever ends first, the connection or the daemon; then its text goes and the
receipt stays.
"""

import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import groupby
from typing import Any, TypeVar

from gaiad.base.clock import Clock, to_iso
from gaiad.base.errors import Unavailable
from gaiad.store.database import Damaged
from gaiad.store.home_databases import HomeDatabases
from gaiad.wire.council import DeliveryState, Open, Parcel, Receipt

T = TypeVar("T")
_KNOWN = 500
_COME_BACK_S = 30.0
_OPEN = "state = 'waiting' AND channel = ?"


class DeliveryLog:
    """The table `deliveries` of every tenant; the Deliveries port."""

    def __init__(self, databases: HomeDatabases, clock: Clock) -> None:
        self._clock = clock
        self._databases = databases

    async def add(self, parcels: Sequence[Parcel], most: int) -> None:
        """All of them or none; see Deliveries. They are of one tenant and channel."""
        if not parcels:
            return
        rows = [_row(parcel, to_iso(self._clock.now())) for parcel in parcels]
        channel = parcels[0].channel

        def insert(connection: sqlite3.Connection) -> None:
            before = connection.total_changes
            connection.executemany(_INSERT, rows)
            (waiting,) = connection.execute(f"SELECT count(*) FROM deliveries WHERE {_OPEN}", (channel,)).fetchone()
            if waiting > most and connection.total_changes > before:
                raise Unavailable(
                    f"{waiting} messages would be queued for {channel}, more than the limit of {most}; nothing of turn "
                    f"{parcels[0].turn_id} is sent there",
                    _COME_BACK_S,
                )

        await self._databases.write(parcels[0].tenant, insert)

    async def places(self, channel: str) -> list[tuple[str, str]]:
        found = []
        for tenant in self._databases.tenants():
            sql = f"SELECT DISTINCT address FROM deliveries WHERE {_OPEN} ORDER BY address"
            with suppress(Damaged):
                found += [(tenant, str(row[0])) for row in await self._rows(tenant, sql, (channel,))]
        return found

    async def waiting(self, channel: str) -> int:
        total = 0
        for tenant in self._databases.tenants():
            with suppress(Damaged):
                rows = await self._rows(tenant, f"SELECT count(*) FROM deliveries WHERE {_OPEN}", (channel,))
                total += int(rows[0][0]) if rows else 0
        return total

    async def next(self, channel: str, tenant: str, address: str) -> Open | None:
        sql = f"SELECT {_PARCEL}, attempts FROM deliveries WHERE {_OPEN} AND address = ? ORDER BY number LIMIT 1"
        rows = await self._rows(tenant, sql, (channel, address))
        return next((Open(parcel=_parcel(tenant, row), tried=row[-1] > 0) for row in rows), None)

    async def begin(self, parcel: Parcel) -> None:
        await self._set(parcel, "attempts = attempts + 1", ())

    async def failed(self, parcel: Parcel, reason: str) -> None:
        await self._set(parcel, "reason = ?", (reason,))

    async def delivered(self, parcel: Parcel, outside_id: str) -> None:
        await self._set(parcel, "state = 'delivered', text = '', reason = '', outside_id = ?", (outside_id,))

    async def refused(self, parcel: Parcel, reason: str) -> None:
        await self._set(parcel, "state = 'refused', text = '', reason = ?", (reason,))

    async def known(self, parcel: Parcel) -> set[str]:
        sql = (
            "SELECT outside_id FROM deliveries WHERE state = 'delivered' AND channel = ? AND address = ?"
            " ORDER BY number DESC LIMIT ?"
        )
        rows = await self._rows(parcel.tenant, sql, (parcel.channel, parcel.address, _KNOWN))
        return {str(row[0]) for row in rows}

    async def receipts(self, tenant: str, turn_id: str) -> list[Receipt]:
        """What became of a turn's blocks, channel by channel, in order; [] when nothing of it was sent anywhere."""
        sql = (
            "SELECT channel, address, block, marker, state, at, attempts, outside_id, reason FROM deliveries"
            " WHERE turn_id = ? ORDER BY channel, block, piece"
        )
        rows = await self._rows(tenant, sql, (turn_id,))
        return [_receipt(pieces) for _, pieces in groupby(rows, key=lambda row: (row[0], row[2]))]

    async def look_first(self) -> None:
        """After a restore: what waits may be out already, so each channel is searched for it before it is sent."""
        sql = "UPDATE deliveries SET attempts = 1 WHERE state = 'waiting' AND attempts = 0"
        for tenant in self._databases.tenants():
            with suppress(Damaged):
                await self._databases.write(tenant, lambda connection: connection.execute(sql).rowcount)

    async def _set(self, parcel: Parcel, fields: str, values: tuple[object, ...]) -> None:
        """Only of one that waits: what is settled stays so."""
        now = to_iso(self._clock.now())

        def update(connection: sqlite3.Connection) -> None:
            sql = f"UPDATE deliveries SET {fields}, at = ? WHERE id = ? AND state = 'waiting'"
            connection.execute(sql, (*values, now, parcel.id))

        await self._databases.write(parcel.tenant, update)

    async def _rows(self, tenant: str, sql: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
        return await self._databases.read(tenant, lambda connection: connection.execute(sql, values).fetchall(), [])


_PARCEL = "id, channel, address, turn_id, block, piece, marker, after, text"
_INSERT = f"INSERT OR IGNORE INTO deliveries VALUES (NULL, {', '.join('?' * 14)})"


def _row(parcel: Parcel, now: str) -> tuple[object, ...]:
    fields = (getattr(parcel, name.strip()) for name in _PARCEL.split(","))
    return (*fields, "waiting", 0, "", "", now)


def _parcel(tenant: str, row: Sequence[Any]) -> Parcel:
    names = [name.strip() for name in _PARCEL.split(",")]
    return Parcel(tenant=tenant, **dict(zip(names, row, strict=False)))


def _receipt(rows: Iterable[tuple[Any, ...]]) -> Receipt:
    pieces = list(rows)
    channel, address, block, marker = pieces[0][:4]
    states = {row[4] for row in pieces}
    state: DeliveryState = "refused" if "refused" in states else "waiting" if "waiting" in states else "delivered"
    return Receipt(
        channel=channel,
        address=address,
        block=block,
        marker=marker,
        pieces=len(pieces),
        state=state,
        at=max(row[5] for row in pieces),
        attempts=sum(row[6] for row in pieces),
        outside_ids=[row[7] for row in pieces if row[7]],
        reason=next((row[8] for row in pieces if row[8]), ""),
    )
