"""The bare generation loop as a child process that waits between its turns and then costs nothing."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from gaiad.errors import Unavailable
from gaiad.models.child.raw_tasks import Figure, Setting, Task
from gaiad.models.supervision.process import worker_environment


class BareLoop:
    """Give it one task at a time."""

    def __init__(self, child: asyncio.subprocess.Process) -> None:
        self._child = child

    async def run(self, task: Task) -> Figure:
        """What the loop reached. Raises Unavailable when it died."""
        return msgspec.json.decode(await self.exchange(task), type=Figure)

    async def exchange(self, message: msgspec.Struct) -> bytes:
        """Send one line, return the line that answers it."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.write(msgspec.json.encode(message) + b"\n")
        answer = await self._child.stdout.readline()
        if not answer:
            raise Unavailable(f"the bare llama.cpp loop ended with status {await self._child.wait()}; run `make` again")
        return answer


@asynccontextmanager
async def bare_loop(model: Path, setting: Setting) -> AsyncIterator[BareLoop]:
    """The loop with its model loaded, for the length of the block."""
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "gaiad.models.child.raw_generation", str(model)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=worker_environment(os.environ),
    )
    loop = BareLoop(child)
    try:
        await loop.exchange(setting)
        yield loop
    finally:
        if child.returncode is None:
            child.kill()
        await child.wait()
