"""Drains the vector queue in the background: what was ingested is soon found by meaning too (decision 20)."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Protocol

from gaiad.errors import Unavailable
from gaiad.events import EventHub
from gaiad.logs import get_logger
from gaiad.ports import Call, Priority
from gaiad.store.database import StorageFailed, StorageFull

_log = get_logger("gaiad.vectors")
_IDLE_LOOK_S = 5.0  # a look at the queue without being woken
_TROUBLE_PAUSE_S = 10.0


class VectorQueue(Protocol):
    """The archive's side."""

    async def drain_vectors(self, call: Call) -> int: ...


async def drain_vectors(archive: VectorQueue, hub: EventHub, note: Callable[[str, str], None]) -> None:
    """Embed what waits, a slice at a time, for ever; any event wakes an idle queue.

    A person's query goes first, by its priority in the embedder. Trouble is noted under `vectors` and tried again.
    """
    call = Call(priority=Priority.BACKGROUND)
    while True:
        seen = hub.last_id
        try:
            done = await archive.drain_vectors(call)
            note("vectors", "")
        except Unavailable as error:  # a worker that restarts shows that in its own state
            if isinstance(error, StorageFull | StorageFailed):
                note("vectors", f"vectors are not being made: {error.message}")
            await asyncio.sleep(max(1.0, error.retry_after_s))
            continue
        except Exception as error:  # noqa: BLE001  (shown in status and logged; the queue stays and is tried again)
            _log.error("vectors_failed", exc_info=error)
            note("vectors", f"vectors are not being made: {error}; trying again")
            await asyncio.sleep(_TROUBLE_PAUSE_S)
            continue
        if not done:
            await _anything_new(hub, seen)


async def _anything_new(hub: EventHub, after_id: int) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_IDLE_LOOK_S):
            async for _ in hub.follow(after_id):
                return
