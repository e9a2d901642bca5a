"""The one child process that knows the vocabularies of all GGUF files (decision 1), and who asks it what.

A request that kills the child must not cost the others more than a restart. Whoever was under way when it died is
asked again, one at a time and with nobody beside it: a second death names the guilty, who is then refused for a while.
A death from outside (SIGKILL, SIGTERM) blames nobody.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from gaiad.clock import Clock
from gaiad.errors import WorkerDied
from gaiad.models.supervision.patience import Patience
from gaiad.models.supervision.pending import look_again_s
from gaiad.models.supervision.protocol import PROTOCOL_VERSION, Load, Ready, Reply, Tokenize, Tokens, Words
from gaiad.models.supervision.supervised import SupervisedModel
from gaiad.models.supervision.supervisor import Supervisor
from gaiad.models.tokens.blame import Blame
from gaiad.models.tokens.gguf_tokenizer import GgufTokenizer
from gaiad.models.tokens.text_count import Remembered
from gaiad.ports import Call

ROLE = "tokenizer"
CACHED_COUNTS = 65_536
CACHED_GRAMMARS = 256
_LOOK_S = 0.05
_FROM_OUTSIDE = ("died of SIGKILL", "died of SIGTERM", "ended with status 0")


class TokenWorker(SupervisedModel):
    """Start it once; `tokenizer` gives a Tokenizer port for any GGUF. `counts` and `grammars` are what it remembers."""

    def __init__(self, clock: Clock, patience: Patience | None = None) -> None:
        load = Load(version=PROTOCOL_VERSION, engine="tokens", path="", threads=1, batch_tokens=0)
        canary = Tokenize(id=0, path="", texts=[], counts_only=True, beginning=False)
        patience = patience or Patience(ping_every_s=5.0, ping_grace_s=15.0, failures=10)
        super().__init__(Supervisor(ROLE, load, canary, _check_canary, clock, patience), "")
        self._gate = Gate(clock)
        self._blame = Blame(clock)
        self.counts: Remembered[int] = Remembered(CACHED_COUNTS)
        self.grammars: Remembered[str] = Remembered(CACHED_GRAMMARS)

    def tokenizer(self, path: Path, template: str = "") -> GgufTokenizer:
        """A Tokenizer for the GGUF at `path`; `template` is Jinja text in place of the file's own chat template.

        Raises BadInput when the file cannot be read.
        """
        return GgufTokenizer(self, path, template)

    async def ask(self, make: Callable[[int], Words], call: Call) -> Reply:
        """The child's answer to `make(id)`.

        Raises BadInput, Unavailable, WorkerDied (twice under this call), DeadlineExceeded, Cancelled.
        """
        self._blame.refuse(make(0))
        try:
            async with self._gate.together(call):
                return await self._once(make, call)
        except WorkerDied:
            async with self._gate.alone(call):
                return await self._again(make, call)

    async def _again(self, make: Callable[[int], Words], call: Call) -> Reply:
        try:
            return await self._once(make, call)
        except WorkerDied as death:
            if any(words in death.message for words in _FROM_OUTSIDE):
                raise
            raise self._blame.put_on(make(0), death.message) from death

    async def _once(self, make: Callable[[int], Words], call: Call) -> Reply:
        return await self._supervisor.result(await self._supervisor.submit(make, call), call)


class Gate:
    """Many may pass together, or one alone; one who wants to be alone stops newcomers and waits for the others."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._changed = asyncio.Event()
        self._inside = 0
        self._wanted_alone = 0
        self._is_alone = False

    @asynccontextmanager
    async def together(self, call: Call) -> AsyncIterator[None]:
        """Raises Cancelled, DeadlineExceeded while waiting, as `alone` does."""
        await self._until(lambda: not self._wanted_alone, call)
        self._inside += 1
        try:
            yield
        finally:
            self._inside -= 1
            self._changed.set()

    @asynccontextmanager
    async def alone(self, call: Call) -> AsyncIterator[None]:
        self._wanted_alone += 1
        try:
            await self._until(lambda: not (self._inside or self._is_alone), call)
            self._is_alone = True
            try:
                yield
            finally:
                self._is_alone = False
        finally:
            self._wanted_alone -= 1
            self._changed.set()

    async def _until(self, condition: Callable[[], bool], call: Call) -> None:
        while not condition():
            call.check(self._clock.monotonic())
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(look_again_s(call, self._clock, _LOOK_S)):
                    await self._changed.wait()


def _check_canary(_ready: Ready, reply: Reply) -> str:
    return "" if isinstance(reply, Tokens) else f"it cannot even count nothing ({getattr(reply, 'reason', reply)})"
