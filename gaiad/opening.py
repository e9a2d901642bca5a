"""Opens what a conversation stands on at the daemon's start, and checks that identity fits (decision 7; GCP 5.1)."""

import contextlib
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import NamedTuple

import msgspec

from gaiad.clock import Clock
from gaiad.config import Config
from gaiad.convening import Convened
from gaiad.conversing import Conversations
from gaiad.council_ports import Approvals
from gaiad.deliberating import Deliberation, open_deliberation
from gaiad.errors import Unavailable
from gaiad.events import EventHub
from gaiad.fitting import Fitting
from gaiad.governing import fitting
from gaiad.ids import IdMaker
from gaiad.ledger.cognition_log import CognitionLog
from gaiad.logs import get_logger
from gaiad.metrics import Metrics
from gaiad.models.pool.pool import ModelPool
from gaiad.models.pool.pooled_model import PooledModel
from gaiad.ports import Archive, Embedder, Scheduler, Tokenizer
from gaiad.readying import Readying
from gaiad.research.loop import Researcher
from gaiad.roles import assign
from gaiad.routing import routing_of
from gaiad.turn.cognition import Assembler
from gaiad.turn.company import rulebook
from gaiad.turn.reading_ahead import ReadAhead
from gaiad.turn.remembering import Keeper
from gaiad.turn.speaking import RoleSpeaker
from gaiad.turn.taker import TurnTaker
from prompts.compress import BudgetOverrun
from prompts.identity import Identity
from prompts.load import check_all
from prompts.registry import RegistryWatch

_FOLDER = "cognition"
_log = get_logger("gaiad.cognition")


class Around(NamedTuple):
    """Where conversations are opened, by which settings, and what runs beside them."""

    home: Path
    config: Config
    clock: Clock
    metrics: Metrics
    hub: EventHub
    scheduler: Scheduler
    environment: Mapping[str, str]


class Ready(NamedTuple):
    """What they stand on, opened before."""

    archive: Archive
    researcher: Researcher
    pool: ModelPool
    embedder: Embedder | None
    identity: Identity
    convened: Convened
    approvals: Approvals


async def open_conversations(stack: AsyncExitStack, around: Around, ready: Ready) -> tuple[Conversations, Deliberation]:
    """Registry, cognition log, assembler, council and turns. Raises ConfigError when the stack fits no packet."""
    check_all()
    config, clock, pool = around.config, around.clock, ready.pool
    routing = routing_of(config)
    registry = _registry(around.home, ready.identity)
    models = {name: pool.model(name) for name in assign(config.roles, config.models.known)[1]}
    measured = Fitting(registry, models, pool.roles.values(), config.cognition)
    stack.push_async_callback(measured.stop)
    await measured.start()
    log = CognitionLog(around.home / _FOLDER, clock)
    stack.push_async_callback(log.close)
    keeper = Keeper(ready.archive, log, clock)
    stack.push_async_callback(keeper.close)
    assembler, ids = _assembler(around, ready, registry, keeper), IdMaker(clock)
    speaker = RoleSpeaker(assembler, keeper, ids, rulebook(config.council).roles)
    deliberation = await _deliberation(stack, around, ready, speaker, registry, models)
    rules = deliberation.company.rules
    readying = Readying(models.values(), rules, config.cognition.reserve_tokens)
    stack.push_async_callback(readying.stop)
    readying.start()
    ahead = ReadAhead()
    stack.push_async_callback(ahead.stop)
    history_turns = config.cognition.history_turns
    taker = TurnTaker(assembler, ready.archive, keeper, deliberation.company, ids, clock, history_turns, ahead)
    conversations = Conversations(
        taker, assembler, ready.archive, log, pool, around.metrics, measured, routing, config.memory
    )
    return conversations, deliberation


def _registry(home: Path, identity: Identity) -> RegistryWatch:
    registry = RegistryWatch(home, identity)
    for problem in registry.problems:
        _log.warning("registry file not used", file=problem.file, line=problem.line, problem=problem.message)
    return registry


def _assembler(around: Around, ready: Ready, registry: RegistryWatch, keeper: Keeper) -> Assembler:
    return Assembler(
        config=around.config.cognition,
        archive=ready.archive,
        researcher=ready.researcher,
        registry=registry,
        pool=ready.pool,
        embedder=ready.embedder,
        clock=around.clock,
        keeper=keeper,
        report=lambda overrun: _report(overrun, around.metrics),
    )


async def _deliberation(
    stack: AsyncExitStack,
    around: Around,
    ready: Ready,
    speaker: RoleSpeaker,
    registry: RegistryWatch,
    models: dict[str, PooledModel],
) -> Deliberation:
    return await open_deliberation(
        stack,
        around.home,
        around.environment,
        around.config,
        around.clock,
        ready.convened,
        around.hub,
        speaker,
        ready.archive,
        around.scheduler,
        (registry.registry.identity_text(),),
        fitting(_tokenizers(models), lambda: around.config.cognition.mtu),
        ready.approvals,
    )


def _tokenizers(models: dict[str, PooledModel]) -> dict[str, Tokenizer]:
    """Those that there are: a model that cannot be made has none."""
    found: dict[str, Tokenizer] = {}
    for name, model in models.items():
        with contextlib.suppress(Unavailable):  # `models ls` and the notes of `Fitting` say why
            found[name] = model.tokenizer
    return found


def _report(overrun: BudgetOverrun, metrics: Metrics) -> None:
    """GCP 4.2: a structured TOKEN_BUDGET_OVERRUN for each compression."""
    metrics.count("token_budget_overruns")
    _log.warning("TOKEN_BUDGET_OVERRUN", **msgspec.structs.asdict(overrun))
