"""Opens the models at the daemon's start: the embedder and the pool. Both go on loading in their children.

Each is closed by the stack it is opened on. A model that is missing is no reason not to start.
"""

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from gaiad.clock import Clock
from gaiad.config import Config, EmbedderConfig
from gaiad.errors import BadInput
from gaiad.generating import machine_bytes, read_pins
from gaiad.logs import get_logger
from gaiad.models.pool.making import Workshop
from gaiad.models.pool.pool import ModelPool, budget_bytes
from gaiad.models.pool.pooled import Pooled
from gaiad.models.tokens.token_worker import TokenWorker
from gaiad.roles import assign

if TYPE_CHECKING:
    from gaiad.models.embedder import WorkerEmbedder

_log = get_logger("gaiad.daemon")


async def open_embedder(
    stack: AsyncExitStack, settings: EmbedderConfig, clock: Clock, environment: Mapping[str, str]
) -> "tuple[WorkerEmbedder | None, str]":
    """The embedder; or None and what is wrong with its model."""
    if settings.kind == "none":
        return None, ""
    from gaiad.models.embedder import WorkerEmbedder
    from gaiad.models.provision import default_model_path

    def make() -> WorkerEmbedder:
        own = Path(settings.path).expanduser()
        path = own if settings.kind == "gguf" else default_model_path(environment)
        return WorkerEmbedder(path, settings, clock)

    try:
        embedder = await asyncio.to_thread(make)
    except BadInput as error:
        remedy = "mend embedder.path" if settings.kind == "gguf" else "`make` provisions the default model"
        _log.error("embedder_missing", error=error.message, remedy=remedy)
        return None, f"embedder: {error.message}; {remedy}. Search is lexical"
    stack.push_async_callback(embedder.close)
    await embedder.start()
    return embedder, ""


async def open_pool(
    stack: AsyncExitStack, home: Path, config: Config, clock: Clock, environment: Mapping[str, str]
) -> ModelPool:
    """The generating models, which go on loading; one that cannot be used says so. Raises ConfigError, BadInput."""
    roles, models = assign(config.roles, config.models.known)
    pins = read_pins(home)
    shop = Workshop(settings=config.models, clock=clock, words=TokenWorker(clock), environment=environment)
    pooled = [Pooled(name, model, pinned=name in pins) for name, model in models.items()]
    pool = ModelPool(roles, pooled, shop, budget_bytes(config.models.memory_mib, machine_bytes()))
    stack.push_async_callback(pool.close)
    await pool.start()
    return pool
