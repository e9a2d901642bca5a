"""Builds the parts of the daemon in order and ties them together: audit, models, archive, council, turns, service.

The daemon imports this when it starts and not before: what it needs takes long to import. Folders and listeners, by
which the world comes in, are opened by the daemon itself, after all this.
"""

import asyncio
import os
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gaiad.archive.archive import LocalArchive
from gaiad.base.clock import Clock, SystemClock
from gaiad.base.config import Config, EmbedderConfig, assign
from gaiad.base.errors import BadInput
from gaiad.base.events import EventHub
from gaiad.base.home import Home
from gaiad.base.ids import IdMaker
from gaiad.base.logs import get_logger
from gaiad.base.metrics import Metrics
from gaiad.base.tasks import Stopping, WorkUnderWay
from gaiad.context.forgetting import forget_quoting
from gaiad.context.store import ContextStore
from gaiad.context.upkeep import ContextUpkeep
from gaiad.daemon.conversations import (
    Deliberation,
    Infrastructure,
    StartedParts,
    open_conversations,
    open_council,
    open_registry,
)
from gaiad.daemon.set_up import SetUp, without_llama
from gaiad.identity.keys import owner_folder
from gaiad.identity.trust import open_trust
from gaiad.intake.exchange import error_body
from gaiad.intake.schedule import Schedule
from gaiad.ledger.audit import AuditLog
from gaiad.ledger.turn_log import CognitionLog
from gaiad.models.pool.making import ModelDependencies
from gaiad.models.pool.pool import ModelPool, budget_bytes
from gaiad.models.pool.pooled import Pooled
from gaiad.models.provision import models_folder
from gaiad.models.tokens.token_worker import TokenWorker
from gaiad.service.approvals import ApprovalService, open_approvals
from gaiad.service.backups import BackupService
from gaiad.service.chat_channels import Receipts, open_chat_channels
from gaiad.service.context import ContextService
from gaiad.service.conversations import Conversations
from gaiad.service.council import CouncilParts, CouncilService
from gaiad.service.health import Condition, Place
from gaiad.service.jobs import JobRunner
from gaiad.service.memory import ForgetService
from gaiad.service.models import Models, machine_bytes, read_pins
from gaiad.service.probes import Probes
from gaiad.service.research import ResearchService, thinking_with
from gaiad.service.service import Service
from gaiad.service.turn_runs import TurnRuns
from gaiad.store.backup import finish_interrupted
from gaiad.store.home_databases import HomeDatabases
from gaiad.store.jobs import Jobs
from gaiad.turn.services import rulebook
from gaiad.turn.turn_store import CallLog, TurnStore

if TYPE_CHECKING:
    from gaiad.models.embedder import WorkerEmbedder


_log = get_logger("gaiad.daemon")


async def open_embedder(
    stack: AsyncExitStack, settings: EmbedderConfig, clock: Clock, environment: Mapping[str, str], waits: str = ""
) -> "tuple[WorkerEmbedder | None, str]":
    """The embedder; or None and what is wrong with its model. With `waits`, a reason, it is left to be started."""
    if settings.kind == "none":
        return None, ""
    from gaiad.models.embedder import WorkerEmbedder
    from gaiad.models.provision import MINILM_HEAD, default_model_path

    def make() -> WorkerEmbedder:
        if settings.kind == "gguf":
            return WorkerEmbedder(Path(settings.path).expanduser(), settings, clock)
        head = MINILM_HEAD if waits else None  # its file may be fetched yet
        return WorkerEmbedder(default_model_path(environment), settings, clock, head=head)

    try:
        embedder = await asyncio.to_thread(make)
    except BadInput as error:
        remedy = "correct embedder.path" if settings.kind == "gguf" else "`make` provisions the default model"
        _log.error("embedder_missing", error=error.message, remedy=remedy)
        return None, f"embedder: {error.message}; {remedy}. Search is lexical"
    stack.push_async_callback(embedder.close)
    if waits:
        embedder.wait(waits)
    else:
        await embedder.start()
    return embedder, ""


async def open_pool(
    stack: AsyncExitStack, home: Path, config: Config, clock: Clock, environment: Mapping[str, str]
) -> ModelPool:
    """The generating models, which go on loading; one that cannot be used says so. Raises ConfigError, BadInput."""
    roles, models = assign(config.roles, config.models.known)
    pins = read_pins(home)
    dependencies = ModelDependencies(
        settings=config.models, clock=clock, tokenizer_process=TokenWorker(clock), environment=environment
    )
    pooled = [Pooled(name, model, pinned=name in pins) for name, model in models.items()]
    pool = ModelPool(roles, pooled, dependencies, budget_bytes(config.models.memory_mib, machine_bytes()))
    stack.push_async_callback(pool.close)
    await pool.start()
    return pool


class StartContext(NamedTuple):
    """What there is before anything is opened; `stack` closes in reverse what is opened."""

    stack: AsyncExitStack
    home: Home
    config: Config
    load_config: Callable[[], Config]
    clock: SystemClock
    hub: EventHub
    metrics: Metrics
    schedule: Schedule
    stopping: Stopping
    set_up: SetUp
    request_stop: Callable[[], None]


class _Parts(NamedTuple):
    databases: HomeDatabases
    audit: AuditLog
    runner: JobRunner
    models: Models
    archive: LocalArchive
    research: ResearchService
    context: ContextService
    convened: CouncilParts
    approving: ApprovalService
    conversations: Conversations
    deliberation: Deliberation
    probes: Probes


async def assemble(ground: StartContext) -> tuple[Service, LocalArchive]:
    """The service, begun, and its archive. An identity that is not trusted ends the start. Raises ConfigError."""
    parts, embedder_trouble = await _open(ground)
    condition = _condition(ground, parts)
    condition.note("embedder", embedder_trouble)
    condition.note("audit", parts.audit.trouble)
    receipts = await open_chat_channels(
        ground.stack,
        parts.databases,
        ground.config,
        ground.stopping,
        os.environ,
        ground.clock,
        parts.conversations,
        condition.note,
    )
    service = _service(ground, parts, condition, receipts)
    await _begin(ground, service, parts)
    return service, parts.archive


async def _open(ground: StartContext) -> tuple[_Parts, str]:
    """Each part in its order, and what is wrong with the embedder in words."""
    stack, root, config, clock, hub = ground.stack, ground.home.root, ground.config, ground.clock, ground.hub
    finish_interrupted(root)
    second = Path(config.context.secondary) if config.context.secondary else None
    databases = HomeDatabases(root, config.archive.readers, second)
    stack.callback(databases.close)
    audit, identity = open_trust(stack, databases, clock, os.environ)
    waits = ground.set_up.waits
    runner = JobRunner(Jobs(databases, clock), clock, hub)
    embedder, trouble = await open_embedder(stack, config.embedder, clock, os.environ, waits)
    pool = await open_pool(stack, root, without_llama(config) if waits else config, clock, os.environ)
    also_forget = [partial(forget_quoting, databases.body_folders)]
    archive = LocalArchive(databases, config, clock, embedder, ground.metrics, also_forget)
    stack.push_async_callback(archive.close)
    await archive.start()
    under_way = WorkUnderWay()
    turn_store = TurnStore(archive, CognitionLog(databases, clock), clock, under_way)
    stack.push_async_callback(turn_store.close)
    registry, roles, enabled = open_registry(root, identity), rulebook(config.council).roles, config.models.probe
    calls = CallLog(pool, turn_store, clock, registry.identity_text)
    folder = models_folder(os.environ) / "probes"
    probes = Probes(pool, lambda: registry.registry, roles, clock, folder, enabled=enabled)
    stack.push_async_callback(probes.stop)
    thinker_of = thinking_with(calls, probes.duties, registry.identity_text, clock)
    metrics, limit_s = ground.metrics, config.http.request_timeout_s
    research = ResearchService(
        databases, config.research, clock, archive, thinker_of, runner, metrics, limit_s, under_way
    )
    stack.push_async_callback(research.close)
    store, upkeep = ContextStore(databases, clock, embedder), ContextUpkeep(databases, clock)
    context = ContextService(store, upkeep, metrics, runner, databases.tenants, config)
    stack.push_async_callback(context.close)
    convened = await open_council(stack, databases, config, clock, pool, hub, audit, roles, probes.duties)
    before = context.checkpoint_before
    approving = await open_approvals(stack, databases, config.shell, audit, hub, clock, os.environ, before)
    around = Infrastructure(databases, config, clock, ground.metrics, hub, ground.schedule, os.environ)
    ready = StartedParts(
        archive, research.researcher, pool, embedder, convened, approving, context, turn_store, registry, probes
    )
    conversations, deliberation = await open_conversations(stack, around, ready)
    models = Models(root, pool, embedder, ground.metrics, probes, calls)
    opened = archive, research, context, convened, approving, conversations, deliberation, probes
    return _Parts(databases, audit, runner, models, *opened), trouble


def _condition(ground: StartContext, parts: _Parts) -> Condition:
    return Condition(
        Place(home=ground.home.root, socket=ground.home.socket),
        ground.clock,
        parts.archive,
        parts.runner,
        parts.models,
        ground.metrics,
        tenants=parts.databases.tenants,
        also=[
            lambda _: parts.conversations.problems(),
            lambda tenants: parts.convened.degraded(tenants),
            lambda tenants: parts.context.problems(tenants),
            lambda _: _without_sandbox(parts.models, parts.approving),
        ],
        research=parts.research.ids_under_way,
    )


def _service(ground: StartContext, parts: _Parts, condition: Condition, receipts: Receipts) -> Service:
    deliberation, approving, research = parts.deliberation, parts.approving, parts.research
    turn_runs = TurnRuns(parts.conversations, ground.clock, error_body)
    return Service(
        load_config=ground.load_config,
        config=ground.config,
        clock=ground.clock,
        databases=parts.databases,
        archive=parts.archive,
        models=parts.models,
        conversations=parts.conversations,
        runner=parts.runner,
        research=research,
        context=parts.context,
        governance=deliberation.governing,
        council=CouncilService(parts.convened, ground.hub, deliberation.initiative.status, parts.probes.notes),
        initiative=deliberation.initiative,
        approvals=approving,
        backups=_backups(ground, parts, condition, receipts),
        deletion=ForgetService(
            parts.archive,
            parts.audit,
            IdMaker(ground.clock),
            ground.home.inbox,
            [parts.context.forgotten, research.let_go, turn_runs.let_go],
            research.work,
        ),
        receipts=receipts,
        turn_runs=turn_runs,
        condition=condition,
        hub=ground.hub,
        metrics=ground.metrics,
        request_stop=ground.request_stop,
        on_reload=[
            parts.archive.use_config,
            parts.models.use_config,
            parts.conversations.use_config,
            deliberation.use_config,
            lambda config: approving.use_config(config.shell),
            lambda config: research.use_config(config.research),
            parts.context.use_config,
        ],
    )


def _backups(ground: StartContext, parts: _Parts, condition: Condition, receipts: Receipts) -> BackupService:
    async def turns() -> None:
        await parts.convened.turn_log.end_cut_off()

    async def jobs() -> None:
        await parts.runner.resume(parts.databases.tenants())

    async def audit() -> None:
        condition.note("audit", parts.audit.trouble)

    room, approving, initiative = parts.convened.room, parts.approving, parts.deliberation.initiative
    return BackupService(
        parts.databases,
        owner_folder(os.environ),
        parts.archive,
        parts.audit,
        ground.clock,
        busy=lambda: _busy(parts),
        quiet=initiative.person,
        look_again=[
            audit,
            turns,
            room.look_again,
            approving.settle,
            initiative.start,
            receipts.look_again,
            parts.context.look_again,
            jobs,
        ],
    )


def _busy(parts: _Parts) -> str:
    """Why nothing can be restored now; "" when it can."""
    if jobs := parts.runner.running:
        return f"job {jobs[0].job_id} is running; restore when it has ended, or `gaiad jobs cancel` it"
    if turns := list(parts.convened.room.running):
        return f"turn {turns[0]} is being taken; restore when it has ended"
    return "a command that was approved is running; restore when it is verified" if parts.approving.busy else ""


def _without_sandbox(models: Models, approving: ApprovalService) -> list[str]:
    """Why commands are refused, where a role could propose one."""
    writes = any(status.role and status.kind != "extractive" for status in models.statuses())
    return [f"commands are refused: {approving.trouble}"] if writes and approving.trouble else []


async def _begin(ground: StartContext, service: Service, parts: _Parts) -> None:
    """What an earlier life left is continued; what is old is deleted day by day."""
    stack, config = ground.stack, ground.config
    stack.push_async_callback(service.deletion.close)
    stack.push_async_callback(service.stop)
    await service.start()
    stack.push_async_callback(parts.approving.stop)
    await parts.approving.start(parts.conversations.verify)
    ground.stopping.end_beside(stack, "turns", service.turn_runs.stop)
    forget = parts.convened.forgetting(lambda: service.config.council.keep_heartbeats_days)
    at, zone = config.schedule.sweep_at, config.user.timezone
    ground.schedule.daily("heartbeats", at, zone, forget, at_start=True)
    if config.context.checkpoint_s:
        ground.schedule.every("checkpoints", config.context.checkpoint_s, parts.context.checkpoint_all)
    await parts.context.look_again()
    ground.schedule.daily("context cleanup", at, zone, parts.context.clean_up_all)
    ground.schedule.daily("retention", at, zone, lambda: service.deletion.expire(service.config.memory.ttl_days))
    ground.schedule.daily("research runs", at, zone, parts.research.prune, at_start=True)
