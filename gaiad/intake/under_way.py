"""The requests of a listener that are being answered: a stop waits for them up to its deadline, then breaks them off.

aiohttp waits as well, but twice its time-out, and what it calls a cancel does not reach a handler.
"""

import asyncio
from typing import Any

from aiohttp import web

from gaiad.logs import get_logger

ENDING_S = 2.0
"""How long one that was broken off may take to end in order."""
_log = get_logger("gaiad.http")


class Requests:
    """One for a listener. `patience_s` is how long `end` waits for them; a stop says what is left of its time."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self.patience_s = 0.0

    def add(self) -> None:
        """The request that the current task answers; it counts until its answer is written."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def end(self) -> None:
        """Wait for those under way; cancel those that are still there then."""
        if not self._tasks:
            return
        _, late = await asyncio.wait(self._tasks, timeout=self.patience_s)
        for task in late:
            task.cancel()
        if late:
            _log.info("requests_broken_off", requests=len(late), waited_s=round(self.patience_s, 1))
            await asyncio.wait(late, timeout=ENDING_S)


REQUESTS = web.AppKey("requests", Requests)
