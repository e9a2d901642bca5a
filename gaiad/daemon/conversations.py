"""Opens what a conversation needs at the daemon's start, and checks that identity fits (decision 7; GCP 5.1)."""

import contextlib
from collections.abc import Mapping
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec

from gaiad.base.clock import Clock
from gaiad.base.config import Config
from gaiad.base.errors import Unavailable
from gaiad.base.events import EventHub
from gaiad.base.ids import IdMaker
from gaiad.base.logs import get_logger
from gaiad.base.metrics import Metrics
from gaiad.base.ports import Approvals, Archive, Embedder, Scheduler, Tokenizer
from gaiad.daemon.deliberation import Deliberation, open_deliberation
from gaiad.ledger.turn_log import CognitionLog
from gaiad.models.pool.pool import ModelPool
from gaiad.research.loop import Researcher
from gaiad.service.context import ContextService
from gaiad.service.context_reflection import AdviceWriter, ContextReflection
from gaiad.service.conversations import Conversations
from gaiad.service.council import CouncilParts
from gaiad.service.governance import fitting
from gaiad.service.identity_fit import Fitting
from gaiad.service.probes import Probes
from gaiad.store.home_databases import HomeDatabases
from gaiad.store.journal import RunJournal
from gaiad.turn.beside import PrefixWarmup
from gaiad.turn.cognition import Assembler
from gaiad.turn.prompt_factory import RoleSpeaker
from gaiad.turn.services import rulebook
from gaiad.turn.taker import TurnTaker
from gaiad.turn.turn_store import TurnStore
from prompts.compress import BudgetOverrun
from prompts.identity import Identity
from prompts.load import check_all
from prompts.registry import RegistryWatch
from router.routing import routing_of

_log = get_logger("gaiad.cognition")


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
