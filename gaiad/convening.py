"""Opens the room of the council at the daemon's start: its logs, who sits in it, their heartbeats.

It is opened after the models and closed before them. What is done in the room (turns, votes, governance) is opened
elsewhere, with these parts.
"""

from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import msgspec

from council.envelope import read_envelope
from council.limits import CouncilLimits, council_limits
from council.pulse import Member
from council.quorum import council_rules
from council.roles import Role, RoleTable
from council.room import ID_PREFIX, Room
from gaiad.clock import Clock
from gaiad.config import Config, CouncilConfig
from gaiad.events import EventHub
from gaiad.ids import lowest
from gaiad.ledger.audit import AuditLog
from gaiad.ledger.council_log import CouncilLog
from gaiad.ledger.turn_log import TurnLog
from gaiad.logs import get_logger
from gaiad.models.pool.pool import ModelPool
from gaiad.ports import Call, Work
from gaiad.store.file import DatabaseFile

_MESSAGES = "council"
_TURNS = "turns"
_log = get_logger("gaiad.council")


@dataclass(frozen=True)
class Convened:
    """What the council sits on. `cut_off` is how many turns an earlier life left unended."""

    room: Room
    log: CouncilLog
    turn_log: TurnLog
    audit: AuditLog
    clock: Clock
    cut_off: int = 0

    def files(self) -> dict[str, DatabaseFile]:
        """What a backup copies: messages and turns of every tenant."""
        return self.log.files() | self.turn_log.files()

    async def forget_heartbeats(self, keep_days: int) -> int:
        """Delete heartbeats older than `keep_days`; how many. Raises Unavailable."""
        before = lowest(self.clock.now() - timedelta(days=keep_days), ID_PREFIX)
        return await self.log.prune_heartbeats(before)

    def forgetting(self, keep_days: Callable[[], int]) -> Work:
        """`forget_heartbeats` for a schedule, by the setting of the moment it runs."""

        async def forget() -> None:
            if forgotten := await self.forget_heartbeats(keep_days()):
                _log.info("heartbeats_forgotten", heartbeats=forgotten)

        return forget


async def open_council(
    stack: AsyncExitStack,
    home: Path,
    config: Config,
    clock: Clock,
    pool: ModelPool,
    hub: EventHub,
    audit: AuditLog,
    table: RoleTable,
) -> Convened:
    """The room with its pulse beating, closed by `stack`; `table` has the user's stages.

    Turns that an earlier life left running are told as cut off. Raises Conflict for a newer or foreign database.
    """
    log = CouncilLog(home / _MESSAGES, clock)
    stack.push_async_callback(log.close)
    turn_log = TurnLog(home / _TURNS, clock)
    stack.push_async_callback(turn_log.close)
    cut_off = await turn_log.end_cut_off()
    if cut_off:
        _log.warning("turns_cut_off", turns=cut_off, reason="gaiad ended while they were taken")
    members: dict[Role, Member] = {role: pool.model(pool.name_of(role=role)) for role in table.roles}
    room = Room(
        members,
        log,
        hub,
        clock,
        table=table,
        rules=council_rules(),
        limits=with_settings(council_limits(), config.council),
        depth=config.council.depth,
    )
    stack.push_async_callback(room.close)
    await _withdraw_unended(log, room, audit)
    await room.start()
    return Convened(room=room, log=log, turn_log=turn_log, audit=audit, clock=clock, cut_off=cut_off)


async def _withdraw_unended(log: CouncilLog, room: Room, audit: AuditLog) -> None:
    """PROPOSALs of an earlier life that nobody waits for any more. Raises Unavailable."""
    for tenant, message in await log.unended_proposals():
        paper = read_envelope(message.body)
        await room.post(
            tenant,
            sender="gaiad",
            role="council",
            type="INFO",
            content="withdrawn: gaiad ended; what was decided by then stands in the audit",
            turn_id=message.turn_id,
            parent=paper,
        )
        if not audit.names(("council.decision", "council.withdrawn"), paper.full_id):
            body = {"proposal_id": paper.full_id, "why": "gaiad ended"}
            await audit.append("council.withdrawn", "gaiad", body, Call(tenant))
        _log.warning("proposal_withdrawn", tenant=tenant, proposal=paper.full_id, reason="gaiad ended")


def with_settings(limits: CouncilLimits, config: CouncilConfig) -> CouncilLimits:
    """The shipped numbers with the user's: how long a vote is open."""
    voting = msgspec.structs.replace(limits.voting, deadline_s=config.vote_s)
    return msgspec.structs.replace(limits, voting=voting)
