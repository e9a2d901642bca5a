"""Feedback on packets from the person, useful or not; search takes it into account from then on."""

import sqlite3
from collections.abc import Sequence

from gaiad.archive.finding.filters import hidden_ids
from gaiad.archive.storing import feedback
from gaiad.archive.tenants import Tenants
from gaiad.base.clock import Clock, from_epoch_ms, to_epoch_ms, to_iso
from gaiad.base.errors import BadInput, NotFound
from gaiad.base.ports import RequestContext
from gaiad.wire.memory import FeedbackQuery, FeedbackRow, Rating

MAX_QUERY_CHARS = 4000


class FeedbackStore:
    """Over the open tenants; every call stays inside `call.tenant`."""

    def __init__(self, tenants: Tenants, clock: Clock) -> None:
        self._tenants = tenants
        self._clock = clock

    async def give(self, packet_id: str, verdict: Rating, query: str, call: RequestContext) -> FeedbackRow:
        """Store a verdict, durable when this returns; an earlier one for the same question gives way.

        Raises NotFound for an unknown packet, BadInput for a question that is too long.
        """
        asked = _one_line(query)
        if len(asked) > MAX_QUERY_CHARS:
            raise BadInput(f"the query has {len(asked)} characters; give at most {MAX_QUERY_CHARS}")
        call.check(self._clock.monotonic())
        file = self._tenants.get(call.tenant).tenant.file
        known = await file.aread(
            lambda connection: (
                feedback.knows(connection, packet_id)
                and not (call.hidden and hidden_ids(connection, call.hidden, [packet_id]))
            )
        )
        if not known:
            raise NotFound(f"no packet is called {packet_id!r} in this tenant; `gaiad packets list` shows them")
        at_ms = to_epoch_ms(self._clock.now())
        useful = verdict == "useful"
        await self._tenants.run(
            file.write, lambda connection: feedback.give(connection, packet_id, asked, at_ms, useful=useful)
        )
        return FeedbackRow(packet_id=packet_id, verdict=verdict, query=asked, at=to_iso(from_epoch_ms(at_ms)))

    async def newest(self, limit: int, call: RequestContext) -> list[FeedbackRow]:
        """Those of the last `limit` verdicts that are on packets the call may see, newest first."""
        call.check(self._clock.monotonic())

        def read(connection: sqlite3.Connection) -> list[FeedbackRow]:
            rows = feedback.newest(connection, limit)
            hidden = hidden_ids(connection, call.hidden, {row.packet_id for row in rows}) if call.hidden else ()
            return [row for row in rows if row.packet_id not in hidden]

        return await self._tenants.get(call.tenant).tenant.file.aread(read)

    async def given(self, judged: Sequence[FeedbackQuery], call: RequestContext) -> list[dict[str, Rating]]:
        """What was said of packets for each of these questions, in their order: verdicts by the packet's id.

        Packets without one, and those that the call may not see, are not in it.
        """
        call.check(self._clock.monotonic())

        def read(connection: sqlite3.Connection) -> list[dict[str, Rating]]:
            found = [feedback.given(connection, _one_line(one.query), one.packet_ids) for one in judged]
            names = {packet_id for verdicts in found for packet_id in verdicts}
            hidden = hidden_ids(connection, call.hidden, names) if call.hidden and names else ()
            return [{name: said for name, said in verdicts.items() if name not in hidden} for verdicts in found]

        return await self._tenants.get(call.tenant).tenant.file.aread(read)

    async def reset(self, packet_id: str, call: RequestContext, query: str | None = None) -> int:
        """Forget the verdicts on a packet, with "" on all; with `query` only those for that question. How many.

        Those on packets that the call may not see stay.
        """
        call.check(self._clock.monotonic())
        asked = None if query is None else _one_line(query)
        file = self._tenants.get(call.tenant).tenant.file

        def forget(connection: sqlite3.Connection) -> int:
            judged = feedback.judged(connection) if call.hidden else ()
            kept = hidden_ids(connection, call.hidden, judged) if judged else ()
            return feedback.reset(connection, packet_id, asked, kept)

        return await self._tenants.run(file.write, forget)


def _one_line(query: str) -> str:
    """A question as verdicts keep it."""
    return " ".join(query.split())
