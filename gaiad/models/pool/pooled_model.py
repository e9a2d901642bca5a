"""A pooled model as the rest of the house sees it: the Model port, which wakes what sleeps when it is asked.

And what the council must know of it: whether it is there, has room for one more, and when it last showed that it lives.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable

from gaiad.errors import Unavailable
from gaiad.generation import Generated, GenerateRequest, TextDelta
from gaiad.models.pool.pooled import Pooled
from gaiad.models.pool.served import ServedModel
from gaiad.models.tokens.gguf_tokenizer import GgufTokenizer
from gaiad.ports import Call, Tokenizer
from gaiad.status_schemas import ModelStatus

Generate = Callable[[str, GenerateRequest, Call], AsyncGenerator[TextDelta | Generated, None]]
Load = Callable[[str, Call], Awaitable[None]]


class PooledModel:
    """One model by name; `window` is how many tokens prompt and reply may have together, 0 when nobody knows."""

    def __init__(self, pooled: Pooled, generate: Generate, load: Load) -> None:
        self._pooled = pooled
        self._generate = generate
        self._load = load
        self.name = pooled.name
        self.kind = pooled.config.kind
        self.window = pooled.window

    @property
    def fingerprint(self) -> str:
        return self._served().fingerprint

    @property
    def tokenizer(self) -> Tokenizer:
        """It counts whether or not the model is awake. Raises Unavailable when the model cannot be had at all."""
        return self._served().tokenizer

    def generate(self, request: GenerateRequest, call: Call) -> AsyncGenerator[TextDelta | Generated, None]:
        """As Model.generate; wakes the model first."""
        return self._generate(self.name, request, call)

    async def compile(self, request: GenerateRequest, call: Call) -> None:
        """Have the form of a reply ready before it is asked for; only a GGUF is held to one. Raises BadInput for one
        that its vocabulary cannot spell, Unavailable.
        """
        if isinstance(tokenizer := self.tokenizer, GgufTokenizer):
            await tokenizer.compile(request, call)

    def status(self) -> ModelStatus:
        return self._pooled.status("")

    # -- for the council

    @property
    def state(self) -> str:
        """ready, sleeping, starting, inactive or failed."""
        return self.status().state

    @property
    def has_room(self) -> bool:
        """Awake, with a place for one more request, and nobody waiting for one."""
        found = self.status()
        free = not found.slots or found.running < found.slots
        return found.state == "ready" and free and not found.waiting

    @property
    def heard_at(self) -> float | None:
        """The monotonic second of the last text it wrote; None before any."""
        return self._pooled.heard_at

    async def beat(self, call: Call) -> float:
        """Milliseconds of one real token, past whoever waits (GCP 8.2). A sleeper is not woken, it raises Unavailable.

        A remote server, whose tokens cost, is as its last look at the list of models found it, every
        `models.heartbeat_s` seconds, and 0 ms then. Raises Unavailable, WorkerDied, DeadlineExceeded, Cancelled.
        """
        found = self.status()
        if found.state == "sleeping":
            raise Unavailable(f"{self.name}: sleeps ({found.reason})", 30.0)
        if self.kind != "openai":
            return await self._served().beat(call)
        if found.state != "ready":
            raise Unavailable(f"{self.name}: {found.reason}", 30.0)
        return 0.0

    async def wake(self, call: Call) -> None:
        """Load it when it sleeps, and wait until it answers. Raises Unavailable when there is no room for it."""
        await self._load(self.name, call)

    def _served(self) -> ServedModel:
        if self._pooled.served is None:
            raise Unavailable(f"{self._pooled.name}: {self._pooled.trouble}", 30.0)
        return self._pooled.served
