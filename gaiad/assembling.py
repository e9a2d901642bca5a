"""Builds the parts of the daemon in order and ties them together: audit, models, archive, council, turns, service.

The daemon imports this when it starts and not before: what it needs takes long to import. Folders and listeners, by
which the world comes in, are opened by the daemon itself, after all this.
"""

import os
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import NamedTuple

from gaiad.approving import Approving, open_approvals
from gaiad.archive.archive import LocalArchive
from gaiad.clock import SystemClock
from gaiad.condition import Place
from gaiad.config import Config
from gaiad.convening import Convened, open_council
from gaiad.conversing import Conversations
from gaiad.counsel import Counsel
from gaiad.deliberating import Deliberation
from gaiad.discording import open_discord
from gaiad.events import EventHub
from gaiad.generating import Models
from gaiad.home import Home
from gaiad.ids import IdMaker
from gaiad.intake.error_answers import error_body
from gaiad.intake.schedule import Schedule
from gaiad.jobs import JobRunner
from gaiad.ledger.audit import AuditLog
from gaiad.ledger.identity_keys import owner_folder
from gaiad.loading import open_embedder, open_pool
from gaiad.metrics import Metrics
from gaiad.opening import Around, Ready, open_conversations
from gaiad.ports import Embedder
from gaiad.researching import Researching, open_research
from gaiad.restoring import Restorer
from gaiad.service import Service
from gaiad.stopping import Stopping
from gaiad.store.file import DatabaseFile
from gaiad.store.jobs import MIGRATION_1, Jobs
from gaiad.thinking import thinking_with
from gaiad.trusting import open_trust
from gaiad.turn.company import rulebook
from gaiad.turn_runs import TurnRuns

_STATE_APPLICATION_ID = 0x67616973  # "gais"


class Ground(NamedTuple):
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
    request_stop: Callable[[], None]


class _Parts(NamedTuple):
    audit: AuditLog
    runner: JobRunner
    models: Models
    archive: LocalArchive
    research: Researching
    convened: Convened
    approving: Approving
    conversations: Conversations
    deliberation: Deliberation


async def assemble(ground: Ground) -> tuple[Service, LocalArchive]:
    """The service, begun, and its archive. An identity that is not trusted ends the start. Raises ConfigError."""
    parts, embedder_trouble = await _open(ground)
    service = _service(ground, parts)
    _tie(ground, service, parts)
    service.note("embedder", embedder_trouble)
    service.note("audit", parts.audit.trouble)
    await _begin(ground, service, parts)
    return service, parts.archive


async def _open(ground: Ground) -> tuple[_Parts, str]:
    """Each part in its order, and what is wrong with the embedder in words."""
    stack, root, config, clock, hub = ground.stack, ground.home.root, ground.config, ground.clock, ground.hub
    audit, identity = open_trust(stack, root, clock, os.environ)
    runner = JobRunner(_open_jobs(ground), clock, hub)
    embedder, trouble = await open_embedder(stack, config.embedder, clock, os.environ)
    pool = await open_pool(stack, root, config, clock, os.environ)
    archive = await _open_archive(ground, embedder)
    research = open_research(stack, root, config.research, clock, archive, thinking_with(pool, clock))
    convened = await open_council(stack, root, config, clock, pool, hub, audit, rulebook(config.council).roles)
    approving = await open_approvals(stack, root, config.shell, audit, hub, clock, os.environ)
    around = Around(root, config, clock, ground.metrics, hub, ground.schedule, os.environ)
    ready = Ready(archive, research.researcher, pool, embedder, identity, convened, approving)
    conversations, deliberation = await open_conversations(stack, around, ready)
    models = Models(root, pool, embedder, ground.metrics)
    return _Parts(audit, runner, models, archive, research, convened, approving, conversations, deliberation), trouble


def _open_jobs(ground: Ground) -> Jobs:
    file = DatabaseFile.open(ground.home.state_database, [MIGRATION_1], _STATE_APPLICATION_ID)
    ground.stack.callback(file.close)
    return Jobs(file, ground.clock, IdMaker(ground.clock))


async def _open_archive(ground: Ground, embedder: Embedder | None) -> LocalArchive:
    archive = LocalArchive(ground.home.root, ground.config, ground.clock, embedder, ground.metrics)
    ground.stack.push_async_callback(archive.close)
    await archive.start()
    return archive


def _service(ground: Ground, parts: _Parts) -> Service:
    return Service(
        place=Place(home=ground.home.root, socket=ground.home.socket),
        load_config=ground.load_config,
        config=ground.config,
        clock=ground.clock,
        archive=parts.archive,
        conversations=parts.conversations,
        models=parts.models,
        runner=parts.runner,
        hub=ground.hub,
        metrics=ground.metrics,
        request_stop=ground.request_stop,
    )


def _tie(ground: Ground, service: Service, parts: _Parts) -> None:
    """Who is asked through the service, what a backup holds too, and who hears of changed settings."""
    convened, approving, deliberation = parts.convened, parts.approving, parts.deliberation
    research, conversations = parts.research, parts.conversations
    service.governance = deliberation.governing
    service.counsel = Counsel(convened, ground.hub, deliberation.initiative.status)
    service.initiative = deliberation.initiative
    service.restorer = Restorer(
        ground.home.root,
        owner_folder(os.environ),
        parts.archive,
        parts.runner,
        convened,
        deliberation,
        conversations.file,
        approving,
        research.file,
    )
    service.research_runs = research
    service.condition.research = research.ids_under_way
    service.approving = approving
    service.condition.also += [lambda _: conversations.problems(), service.counsel.degraded]
    service.condition.also.append(lambda _: _without_sandbox(parts.models, approving))
    service.turn_runs = TurnRuns(conversations, ground.clock, error_body)
    service.also_backed_up += [conversations.files, lambda: {"audit.db": parts.audit.file}]
    service.also_backed_up += [convened.files, deliberation.files, approving.files, research.files]
    service.on_reload += [deliberation.use_config, lambda config: approving.use_config(config.shell)]
    service.on_reload.append(lambda config: research.use_config(config.research))


def _without_sandbox(models: Models, approving: Approving) -> list[str]:
    """Why commands are refused, where a role could propose one."""
    writes = any(status.role and status.kind != "extractive" for status in models.statuses())
    return [f"commands are refused: {approving.trouble}"] if writes and approving.trouble else []


async def _begin(ground: Ground, service: Service, parts: _Parts) -> None:
    """What is left of an earlier life is gone on with; the bot comes in; what is old is forgotten day by day."""
    stack, config, conversations = ground.stack, ground.config, parts.conversations
    stack.push_async_callback(service.stop)
    await service.start()
    stack.push_async_callback(parts.approving.stop)
    await parts.approving.start(conversations.verify)
    service.receipts = await open_discord(
        stack,
        ground.home.root,
        config.discord,
        ground.stopping,
        os.environ,
        ground.clock,
        conversations,
        service.note,
    )
    ground.stopping.end_beside(stack, "turns", service.turn_runs.stop)
    forget = parts.convened.forgetting(lambda: service.config.council.keep_heartbeats_days)
    at, zone = config.schedule.sweep_at, config.user.timezone
    ground.schedule.daily("heartbeats", at, zone, forget, at_start=True)
    ground.schedule.daily("research runs", at, zone, parts.research.prune, at_start=True)
