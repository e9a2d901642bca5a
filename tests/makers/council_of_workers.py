"""Roles of the council on real workers, each on its own, for houses in one process."""

import asyncio
import re
from contextlib import aclosing, asynccontextmanager

import msgspec

from gaiad.base.config import ModelConfig, load_config
from gaiad.base.ports import RequestContext
from gaiad.models.pool.making import ModelDependencies
from gaiad.models.pool.pool import ModelPool
from gaiad.models.pool.pooled import Pooled
from gaiad.models.tokens.token_worker import TokenWorker
from gaiad.models.tokens.word_tokenizer import joined, role_lines
from gaiad.wire.generation import Generated
from tests.makers.council_house import RoleModel


@asynccontextmanager
async def workers(clock, paths):
    """A pool with a worker for each role, all loaded; `paths` is role -> GGUF."""
    settings = msgspec.structs.replace(load_config(environment={}).models, threads=1, flash_attention="off")
    dependencies = ModelDependencies(
        settings=settings, clock=clock, tokenizer_process=TokenWorker(clock), environment={}
    )
    known = [Pooled(role, ModelConfig(kind="gguf", path=str(path))) for role, path in paths.items()]
    pool = ModelPool({role: role for role in paths}, known, dependencies, 2**32)
    await pool.start()
    try:
        await asyncio.gather(*(pool.load(role, RequestContext()) for role in paths))
        yield pool
    finally:
        await pool.close()


class StruckRole(RoleModel):
    """A role that says what its script has, but where `match` stands in the prompt its real worker writes.

    `strike` is done with the worker's pid, once for each: when it is asked, or when it has written so many `pieces`,
    or all it had to say when those are fewer.
    """

    kind = "gguf"

    def __init__(self, name, replies, clock, worker, match, strike, pieces=0):
        super().__init__(name, replies, clock)
        self.clock, self.worker, self._match, self._strike, self._pieces = clock, worker, match, strike, pieces
        self.pids = []

    @property
    def state(self):
        return self.worker.state

    @property
    def has_room(self):
        return self.worker.has_room

    @property
    def heard_at(self):
        return self.worker.heard_at

    async def beat(self, call):
        return await self.worker.beat(call)

    async def wake(self, call):
        await self.worker.wake(call)

    async def generate(self, request, call):
        if not re.search(self._match, joined(role_lines(request.messages))):
            async with aclosing(super().generate(request, call)) as pieces:
                async for piece in pieces:
                    yield piece
            return
        await self.worker.tokenizer.compile(request, call)  # or it would be struck before the request is with it
        self._struck(0)
        async with aclosing(self.worker.generate(request, call)) as pieces:
            number = 0
            async for piece in pieces:
                number += 1
                if self._struck(self._pieces if isinstance(piece, Generated) else number):
                    break  # what was on its way already is not heard
                yield piece
            else:
                return
            async for _ in pieces:
                pass
        while True:  # it was done before the signal came to it
            call.check(self.clock.monotonic())
            await asyncio.sleep(0.01)

    def _struck(self, number):
        pid = self.worker.status().pid
        strikes = pid and number == self._pieces and pid not in self.pids  # 0 while it restarts
        if strikes:
            self.pids.append(pid)
            self._strike(pid)
        return strikes
