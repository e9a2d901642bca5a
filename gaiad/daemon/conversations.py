"""Opens the council, what it does in its room (votes, reviews of commands, governance, the initiative), and what a
conversation needs; checks that identity fits (decision 7; GCP 5.1).
"""

import contextlib
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from council.balloting import Balloting
from council.envelope import read_envelope
from council.execute_review import ExecuteReview
from council.governance.workflow import Fits
from council.initiative.initiative import Initiative
from council.limits import CouncilLimits, council_limits
from council.ports import Speaker
from council.pulse import Member
from council.quorum import council_rules
from council.roles import CouncilStage, Role, RoleTable
from council.room import Room
from gaiad.base.clock import Clock
from gaiad.base.config import Config, CouncilConfig
from gaiad.base.errors import Unavailable
from gaiad.base.events import EventHub
from gaiad.base.ids import IdMaker
from gaiad.base.logs import get_logger
from gaiad.base.metrics import Metrics
from gaiad.base.ports import Approvals, Archive, Embedder, RequestContext, Scheduler, Tokenizer
from gaiad.ledger.audit import AuditLog
from gaiad.ledger.council_log import CouncilLog
from gaiad.ledger.turn_log import CognitionLog, TurnLog
from gaiad.models.pool.pool import ModelPool
from gaiad.research.loop import Researcher
from gaiad.service.context import ContextService
from gaiad.service.context_reflection import AdviceWriter, ContextReflection
from gaiad.service.conversations import Conversations
from gaiad.service.council import CouncilParts
from gaiad.service.governance import GovernanceService, fitting, open_governance
from gaiad.service.identity_fit import Fitting
from gaiad.service.probes import Probes
from gaiad.store.home_databases import HomeDatabases
from gaiad.store.jobs import RunJournal
from gaiad.turn.beside import PrefixWarmup
from gaiad.turn.cognition import Assembler
from gaiad.turn.prompt_factory import RoleSpeaker
from gaiad.turn.services import TurnServices, rulebook
from gaiad.turn.stage_call import ModelRates, read_rates, write_rates
from gaiad.turn.taker import TurnTaker
from gaiad.turn.turn_store import TurnStore
from prompts.compress import BudgetOverrun
from prompts.identity import Identity
from prompts.load import check_all
from prompts.registry import RegistryWatch
from router.routing import routing_of

_log = get_logger("gaiad.cognition")
_council_log = get_logger("gaiad.council")


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
    if cut_off := await turn_log.end_cut_off():
        _council_log.warning("turns_cut_off", turns=cut_off, reason="gaiad ended while they were taken")
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
    return CouncilParts(room=room, log=log, turn_log=turn_log, audit=audit, clock=clock)


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
        _council_log.warning("proposal_withdrawn", tenant=tenant, proposal=paper.full_id, reason="gaiad ended")


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

    initiative = Initiative(
        databases=databases,
        floor=parts.room,
        speaker=speaker,
        deciding_with=deciding_with,
        audit=parts.audit,
        remember=archive.remember_turn,
        clock=clock,
        settings=config.initiative,
        protected=protected,
        looked=governing.reflections.initiative_looked,
    )
    await initiative.open(stack, scheduler)
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


class Infrastructure(NamedTuple):
    """Where conversations are opened, by which settings, and what runs beside them."""

    databases: HomeDatabases
    config: Config
    clock: Clock
    metrics: Metrics
    hub: EventHub
    scheduler: Scheduler
    environment: Mapping[str, str]


class StartedParts(NamedTuple):
    """What they stand on, opened before."""

    archive: Archive
    researcher: Researcher
    pool: ModelPool
    embedder: Embedder | None
    convened: CouncilParts
    approvals: Approvals
    context: ContextService
    turn_store: TurnStore
    registry: RegistryWatch
    probes: Probes


async def open_conversations(
    stack: AsyncExitStack, around: Infrastructure, ready: StartedParts
) -> tuple[Conversations, Deliberation]:
    """Cognition log, assembler, council and turns. Raises ConfigError when the stack fits no packet."""
    check_all()
    config, clock, pool = around.config, around.clock, ready.pool
    routing = routing_of(config)
    measured = Fitting(ready.registry, pool.all_models, lambda: pool.roles.values(), config.cognition)
    stack.push_async_callback(measured.stop)
    await measured.start()
    assembler, ids = _assembler(around, ready), IdMaker(clock)
    speaker = RoleSpeaker(assembler.factory, rulebook(config.council).roles)
    deliberation = await _deliberation(stack, around, ready, speaker)
    writer = AdviceWriter(speaker, ready.probes.able)
    reflection = ContextReflection(ready.context, ready.convened.turn_log, clock, writer)
    stack.push_async_callback(reflection.stop)
    ahead = PrefixWarmup()
    stack.push_async_callback(ahead.stop)
    history_turns = config.cognition.history_turns
    taker = TurnTaker(
        assembler,
        ready.archive,
        ready.turn_store,
        deliberation.services,
        ids,
        clock,
        history_turns,
        ahead,
        partial(RunJournal, around.databases, clock),
    )
    ready.probes.begin()
    log, turn_ended = CognitionLog(around.databases, clock), reflection.turn_ended
    conversations = Conversations(
        taker, assembler, ready.archive, log, pool, around.metrics, measured, routing, config.memory, turn_ended
    )
    return conversations, deliberation


def open_registry(home: Path, identity: Identity) -> RegistryWatch:
    """Personas and instructions; what is wrong with them is in the log."""
    registry = RegistryWatch(home, identity)
    for problem in registry.problems:
        _log.warning("registry file not used", file=problem.file, line=problem.line, problem=problem.message)
    return registry


def _assembler(around: Infrastructure, ready: StartedParts) -> Assembler:
    return Assembler(
        config=around.config.cognition,
        archive=ready.archive,
        researcher=ready.researcher,
        registry=ready.registry,
        pool=ready.pool,
        embedder=ready.embedder,
        clock=around.clock,
        turn_store=ready.turn_store,
        feedback_of=ready.context.advice_for,
        report=lambda overrun: _report(overrun, around.metrics),
    )


async def _deliberation(
    stack: AsyncExitStack, around: Infrastructure, ready: StartedParts, speaker: RoleSpeaker
) -> Deliberation:
    return await open_deliberation(
        stack,
        around.databases,
        around.environment,
        around.config,
        around.clock,
        ready.convened,
        around.hub,
        speaker,
        ready.archive,
        around.scheduler,
        (ready.registry.registry.identity_text(),),
        fitting(lambda: _tokenizers(ready.pool), lambda: around.config.cognition.mtu),
        ready.approvals,
    )


def _tokenizers(pool: ModelPool) -> dict[str, Tokenizer]:
    """Those that there are: a model that cannot be made has none."""
    found: dict[str, Tokenizer] = {}
    for name, model in pool.all_models().items():
        with contextlib.suppress(Unavailable):  # `models ls` and the notes of `Fitting` say why
            found[name] = model.tokenizer
    return found


def _report(overrun: BudgetOverrun, metrics: Metrics) -> None:
    """GCP 4.2: a structured TOKEN_BUDGET_OVERRUN for each compression."""
    metrics.count("token_budget_overruns")
    _log.warning("TOKEN_BUDGET_OVERRUN", **msgspec.structs.asdict(overrun))
