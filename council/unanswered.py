"""What went up to the person and nobody answered yet (GCP 8.4, decision 11): kept in the log, shown in the status."""

import msgspec

from gaiad.council_ports import CouncilMessages
from gaiad.council_schemas import HOUSE, EscalationRecord, OpenEscalation

MOST_SHOWN = 20
"""Of a tenant's open escalations the last so many are shown; the log has all of them."""


class Unanswered:
    """Written through: what stands here stands in the log already. Call `load` once."""

    def __init__(self, log: CouncilMessages) -> None:
        self._log = log
        self._open: list[OpenEscalation] = []

    async def load(self) -> None:
        """Remember what an earlier life left open. Raises Unavailable."""
        self._open = await self._log.open_escalations(MOST_SHOWN)

    async def add(self, tenant: str, session_id: str, record: EscalationRecord) -> None:
        """Open until the person speaks in that session. Raises Unavailable."""
        await self._log.add_escalation(tenant, session_id, record)
        self._open.append(OpenEscalation(tenant=tenant, session_id=session_id, record=record))
        own = [one for one in self._open if one.tenant == tenant]
        for one in own[:-MOST_SHOWN]:
            self._open.remove(one)

    async def answer(self, tenant: str, session_id: str) -> None:
        """The person speaks in that session. Raises Unavailable."""
        answered = [one for one in self._open if (one.tenant, one.session_id) == (tenant, session_id)]
        if answered:
            await self._log.answer_escalations(tenant, session_id)
            self._open = [one for one in self._open if one not in answered]

    def of(self, tenant: str) -> list[EscalationRecord]:
        """The tenant's and the house's, in the order they came, each with the session it is answered in."""
        return [
            msgspec.structs.replace(one.record, session_id=one.session_id)
            for one in self._open
            if one.tenant in (tenant, HOUSE)
        ]
