"""Opens what the council does in its room: votes, reviews of commands, governance, the initiative, turns."""

from collections.abc import Callable, Coroutine, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from council.balloting import Balloting
from council.envelope import read_envelope
from council.execute_review import ExecuteReview
from council.governance.workflow import Fits
from council.initiative.initiative import Initiative, open_initiative
from council.limits import CouncilLimits, council_limits
from council.ports import Speaker
from council.pulse import Member
from council.quorum import council_rules
from council.roles import CouncilStage, Role, RoleTable
from council.room import Room
from gaiad.base.clock import Clock
from gaiad.base.config import Config, CouncilConfig
from gaiad.base.events import EventHub
from gaiad.base.logs import get_logger
from gaiad.base.ports import Approvals, Archive, RequestContext, Scheduler
from gaiad.ledger.audit import AuditLog
from gaiad.ledger.council_log import CouncilLog
from gaiad.ledger.turn_log import TurnLog
from gaiad.models.pool.pool import ModelPool
from gaiad.service.council import CouncilParts
from gaiad.service.governance import GovernanceService, open_governance
from gaiad.store.home_databases import HomeDatabases
from gaiad.turn.prompt_factory import RoleSpeaker
from gaiad.turn.services import TurnServices
from gaiad.turn.stage_call import ModelRates, read_rates, write_rates

_log = get_logger("gaiad.council")


async def open_council(
    stack: AsyncExitStack,
    databases: HomeDatabases,
    config: Config,
    clock: Clock,
    pool: ModelPool,
    hub: EventHub,
    audit: AuditLog,
    table: RoleTable,
    duties: Callable[[str], frozenset[str] | None] = lambda model: None,
) -> CouncilParts:
    """The room with its pulse beating, closed by `stack`; `table` has the user's stages, `duties` what models can do.

    Turns that an earlier daemon left running are marked as cut off. Raises Conflict.
    """
    log, turn_log = CouncilLog(databases, clock), TurnLog(databases, clock)
    cut_off = await turn_log.end_cut_off()
    if cut_off:
        _log.warning("turns_cut_off", turns=cut_off, reason="gaiad ended while they were taken")
    members: dict[Role, Member] = {role: pool.serving(role) for role in table.roles}
    room = Room(
        members,
        log,
        hub,
        clock,
        table=table,
        rules=council_rules(),
        limits=with_settings(council_limits(), config.council),
        depth=config.council.depth,
        duties=duties,
    )
    stack.push_async_callback(room.close)
    await _withdraw_unended(log, room, audit)
    await room.start()
    return CouncilParts(room=room, log=log, turn_log=turn_log, audit=audit, clock=clock, cut_off=cut_off)


async def _withdraw_unended(log: CouncilLog, room: Room, audit: AuditLog) -> None:
    """PROPOSALs of an earlier life that nobody waits for any longer. Raises Unavailable."""
    for tenant, message in await log.unended_proposals():
        paper = read_envelope(message.body)
        await room.post(
            tenant,
            sender="gaiad",
            role="council",
            type="INFO",
            content="withdrawn: gaiad ended; what was decided by then is in the audit",
            turn_id=message.turn_id,
            parent=paper,
        )
        if not audit.names(("council.decision", "council.withdrawn"), paper.full_id):
            body = {"proposal_id": paper.full_id, "why": "gaiad ended"}
            await audit.append("council.withdrawn", "gaiad", body, RequestContext(tenant))
        _log.warning("proposal_withdrawn", tenant=tenant, proposal=paper.full_id, reason="gaiad ended")


def with_settings(limits: CouncilLimits, config: CouncilConfig) -> CouncilLimits:
    """The shipped numbers with the user's: how long a vote is open."""
    voting = msgspec.structs.replace(limits.voting, deadline_s=config.vote_s)
    return msgspec.structs.replace(limits, voting=voting)


@dataclass(frozen=True)
class Deliberation:
    """What turns, intake and backups need of it."""

    services: TurnServices
    governing: GovernanceService
    initiative: Initiative
    ballotings: list[Balloting]
    speaker: RoleSpeaker

    def use_config(self, config: Config) -> None:
        """Other stages, samplings, times, and the initiative's switch. Raises ConfigError and keeps the old ones."""
        self.services.use_config(config.council)
        roles = self.services.rules.roles
        self.speaker.roles = roles
        self.services.room.use(roles, config.council.depth)
        for balloting in self.ballotings:
            balloting.use(config.council.vote_s)
        self.initiative.apply(config.initiative)


async def open_deliberation(
    stack: AsyncExitStack,
    databases: HomeDatabases,
    environment: Mapping[str, str],
    config: Config,
    clock: Clock,
    parts: CouncilParts,
    hub: EventHub,
    speaker: RoleSpeaker,
    archive: Archive,
    scheduler: Scheduler,
    protected: tuple[str, ...],
    fits: Fits,
    approvals: Approvals,
) -> Deliberation:
    """Everything closed by `stack`. `protected` are texts of the prompt that no proposal may show; `fits` says whether
    an identity fits the MTU. Raises Conflict.
    """
    limits = with_settings(council_limits(), config.council)
    balloting = _balloting(parts, speaker, limits, clock)
    stack.push_async_callback(balloting.close)
    governing = await open_governance(
        stack,
        databases,
        clock,
        environment,
        audit=parts.audit,
        floor=parts.room,
        speaker=speaker,
        votes=balloting,
        hub=hub,
        initiative_every_s=config.initiative.every_s,
        rouse=parts.room.rouse,
        fits=fits,
    )
    ballotings = [balloting]

    def deciding_with(metered: Speaker) -> Balloting:
        ballotings.append(_balloting(parts, metered, limits, clock))
        return ballotings[-1]

    initiative = await open_initiative(
        stack,
        databases=databases,
        floor=parts.room,
        speaker=speaker,
        deciding_with=deciding_with,
        audit=parts.audit,
        remember=archive.remember_turn,
        clock=clock,
        scheduler=scheduler,
        settings=config.initiative,
        protected=protected,
        looked=governing.reflections.initiative_looked,
    )
    rates = _rates(stack, databases.home / "model_rates.json")
    services = _services(config, clock, parts, speaker, balloting, limits, governing, initiative, approvals, rates)
    return Deliberation(services, governing, initiative, ballotings, speaker)


def _rates(stack: AsyncExitStack, path: Path) -> ModelRates:
    """How fast the models are, as measured so far; written back when the daemon ends."""
    rates = read_rates(path)
    stack.callback(write_rates, path, rates)
    return rates


def _balloting(parts: CouncilParts, speaker: Speaker, limits: CouncilLimits, clock: Clock) -> Balloting:
    room = parts.room
    return Balloting(room, speaker, room.voting, parts.audit, clock, limits.voting, rouse=room.rouse)


def _services(
    config: Config,
    clock: Clock,
    parts: CouncilParts,
    speaker: Speaker,
    balloting: Balloting,
    limits: CouncilLimits,
    governing: GovernanceService,
    initiative: Initiative,
    approvals: Approvals,
    rates: ModelRates,
) -> TurnServices:
    def reflect(stage: CouncilStage, outcome: str, confidence: float | None) -> Coroutine[Any, Any, None]:
        return governing.reflections.record(stage, outcome, confidence)

    def add_seed(tenant: str, text: str, turn_id: str) -> Coroutine[Any, Any, Any]:
        return initiative.add(tenant, text, turn_id)

    def review(roles: RoleTable) -> ExecuteReview:
        return ExecuteReview(parts.room, speaker, balloting, parts.audit, clock, roles, limits.execute)

    return TurnServices(
        room=parts.room,
        turn_log=parts.turn_log,
        audit=parts.audit,
        speaker=speaker,
        review_with=review,
        person=initiative.person,
        add_seed=add_seed,
        reflect=reflect,
        config=config.council,
        approvals=approvals,
        rates=rates,
    )
