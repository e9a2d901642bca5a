"""What the archive is asked about conversations: remember turns, and read sessions back (JIT; decisions 18 and 20).

The half of `LocalArchive` that deals in sessions; every call stays inside `call.tenant`.
"""

from collections.abc import Sequence
from functools import partial

from gaiad.archive.finding import sessions
from gaiad.archive.open_tenants import OpenTenants
from gaiad.archive.tenant_archive import TenantArchive
from gaiad.clock import Clock
from gaiad.memory_schemas import Memo, MemoryPage, PageHeader, SessionSummary, SessionTurn
from gaiad.ports import Call


class SessionCalls:
    """Over the open tenants."""

    def __init__(self, tenants: OpenTenants, clock: Clock) -> None:
        self._tenants = tenants
        self._clock = clock

    async def remember_turn(self, turn: SessionTurn, call: Call) -> str:
        """Store a turn, durable and searchable by its words at once; returns its packet id, which is its turn id.

        The same turn again changes nothing. Raises BadInput, Conflict for an id or number that is taken.
        """
        return (await self.remember_turns([turn], call))[0]

    async def remember_turns(self, turns: Sequence[SessionTurn], call: Call, *, as_session: bool = False) -> list[str]:
        """Many at once, of one session or several (JIT's ingest_session); see `Memorizer.remember`."""
        opened = await self._tenants.get_or_make(call.tenant)
        return await self._tenants.run(partial(opened.memorizer.remember, as_session=as_session), turns, call)

    async def session_turns(
        self, session_id: str, call: Call, after: int = -1, limit: int = 200, *, latest: bool = False
    ) -> list[SessionTurn]:
        """At most `limit` turns numbered above `after`, in order, exactly as remembered; [] for an unknown session.

        `latest` takes the last ones instead of the first. Raises Conflict when an original is damaged.
        """
        opened = self._tenant(call)
        return await opened.tenant.file.aread(
            lambda connection: opened.turns.turns(connection, session_id, after, limit, call.hidden, latest=latest)
        )

    async def sessions(self, call: Call, limit: int = 50, offset: int = 0) -> list[SessionSummary]:
        """Sessions, the one spoken in last first."""
        return await self._tenant(call).tenant.file.aread(
            lambda connection: sessions.sessions(connection, call.tenant, limit, offset, call.hidden)
        )

    async def session(self, session_id: str, call: Call) -> SessionSummary:
        """One session. Raises NotFound."""
        return await self._tenant(call).tenant.file.aread(
            lambda connection: sessions.session(connection, call.tenant, session_id, call.hidden)
        )

    async def session_memos(self, session_id: str, call: Call) -> list[Memo]:
        """What each page added to the session, in order; pages that added nothing are left out."""
        return await self._tenant(call).tenant.file.aread(
            lambda connection: sessions.session_memos(connection, session_id, call.hidden)
        )

    async def packet_memos(self, packet_id: str, call: Call) -> list[Memo]:
        """The same for one turn; [] for a packet that is none."""
        return await self._tenant(call).tenant.file.aread(
            lambda connection: sessions.packet_memos(connection, packet_id, call.hidden)
        )

    async def session_memo(self, session_id: str, call: Call) -> str:
        """The memos of a session merged into one line of the same size; "" when there is nothing in them."""
        return await self._tenant(call).tenant.file.aread(
            lambda connection: sessions.session_memo(connection, session_id, call.hidden)
        )

    async def session_pages(self, session_id: str, call: Call, after: int = -1, limit: int = 200) -> list[MemoryPage]:
        """JIT's pages: exact text, decorated header, memo; those numbered above `after`, in order."""
        return await self._tenant(call).tenant.file.aread(
            lambda connection: sessions.session_pages(connection, call.tenant, session_id, after, limit, call.hidden)
        )

    async def page_headers(self, page_ids: Sequence[str], call: Call) -> list[PageHeader]:
        """JIT's header of any pages, in the order asked for. Raises NotFound for an unknown or foreign id."""
        return await self._tenant(call).tenant.file.aread(
            lambda connection: sessions.page_headers(connection, call.tenant, page_ids, call.hidden)
        )

    def _tenant(self, call: Call) -> TenantArchive:
        call.check(self._clock.monotonic())
        return self._tenants.get(call.tenant)
