"""A model of the pool: its state, and its port that wakes it when it is asked."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import partial

from msgspec import structs

from gaiad.base.config import ModelConfig
from gaiad.base.errors import BadInput, ConfigError, Unavailable
from gaiad.base.journal import journalled_reply
from gaiad.base.logs import get_logger
from gaiad.base.ports import RequestContext, Tokenizer
from gaiad.models.pool.making import ModelDependencies, Need, Resident, ServedModel, make_model, size_of
from gaiad.wire.generation import Generated, GenerateRequest, Sampling, TextDelta
from gaiad.wire.status import ModelStatus

_log = get_logger("gaiad.models")


class Pooled:
    """Asleep until `wake`. `trouble` says why it cannot be made at all; `make` tries again.

    `heard_at` is the monotonic second of the last text it wrote, None before any.
    """

    def __init__(self, name: str, config: ModelConfig, *, pinned: bool = False) -> None:
        self.name = name
        self.config = config
        self.pinned = pinned or config.pinned
        self.served: ServedModel | None = None
        self.asleep = "not asked for yet"
        self.trouble = "not made yet"
        self.running = 0
        self.last_used = 0.0
        self.heard_at: float | None = None
        self.window = 0
        self.idle = asyncio.Event()
        self.idle.set()
        self.sampling = Sampling()
        self._expected = self._largest = 0

    def make(self, dependencies: ModelDependencies) -> None:
        """Look at its files and make it, without loading. Reads files: not for the event loop."""
        try:
            size = size_of(self.config, dependencies.settings)
            self._expected, self.window, self.sampling = size.bytes, size.window, size.sampling
            self.served, self.trouble = make_model(self.name, self.config, dependencies), ""
        except (BadInput, ConfigError) as error:
            self.served, self.trouble = None, error.message
            _log.error("model_unusable", model=self.name, reason=error.message)

    @property
    def fit(self) -> bool:
        """Whether it could be made."""
        return self.served is not None

    @property
    def loads(self) -> bool:
        """Whether it takes memory of this machine."""
        return self.config.kind == "gguf"

    @property
    def loaded(self) -> bool:
        """Whether it is in memory, or on its way there."""
        return self.loads and not self.asleep and not self.failed

    @property
    def failed(self) -> bool:
        return self.served is None or self.served.status().state == "failed"

    def need(self) -> Need:
        """What it takes: as measured once it was loaded, before that as its file promises."""
        return Need(name=self.name, bytes=self._largest or self._expected, pinned=self.pinned)

    def resident(self) -> Resident:
        self._measure()
        size = max(self._largest, self._expected if self._starting() else 0)
        return Resident(
            name=self.name,
            bytes=size or self._expected,
            pinned=self.pinned,
            running=self.running,
            last_used=self.last_used,
        )

    def begin(self, now: float) -> None:
        """A request uses it."""
        self.running += 1
        self.last_used = now
        self.idle.clear()

    def end(self, now: float) -> None:
        self.running -= 1
        self.last_used = now
        if not self.running:
            self.idle.set()

    async def wake(self, now: float) -> None:
        """Begin to load it; requests wait for it."""
        assert self.served is not None
        self.asleep, self.last_used = "", now
        await self.served.start()

    async def sleep(self, reason: str) -> None:
        """Take it out of memory."""
        if self.doze(reason):
            await self.end_worker()

    def doze(self, reason: str) -> bool:
        """From now on requests wait for it to be woken; whether there is a worker to end for that."""
        if self.served is None or self.asleep:
            return False
        self._measure()
        self.asleep = reason
        return True

    async def end_worker(self) -> None:
        """The second half of falling asleep."""
        assert self.served is not None
        _log.info("model_sleeps", model=self.name, reason=self.asleep)
        await self.served.close()

    def status(self, role: str) -> ModelStatus:
        if self.served is None:
            row = ModelStatus(
                role=role,
                kind=self.config.kind,
                path_or_url=self.config.path or self.config.base_url,
                state="failed",
                pid=0,
                reason=self.trouble,
            )
            return structs.replace(row, name=self.name)
        found = self.served.status()
        if self.asleep:
            found = structs.replace(found, state="sleeping", reason=self.asleep, memory_bytes=0)
        running = max(0, self.running - found.waiting)
        return structs.replace(found, role=role, name=self.name, running=running, pinned=self.pinned)

    def _starting(self) -> bool:
        return self.served is not None and self.served.status().state == "starting"

    def _measure(self) -> None:
        """Remember the most it was seen to take while it answered."""
        if self.loaded and self.served is not None:
            found = self.served.status()
            if found.state == "ready":
                self._largest = max(self._largest, found.memory_bytes)


Generate = Callable[[str, GenerateRequest, RequestContext], AsyncGenerator[TextDelta | Generated, None]]
Load = Callable[[str, RequestContext], Awaitable[None]]


class PooledModel:
    """One model by name, or whichever serves a role at the moment: `find` gives it."""

    def __init__(self, find: Callable[[], Pooled], generate: Generate, load: Load) -> None:
        self._find = find
        self._generate = generate
        self._load = load

    @property
    def _pooled(self) -> Pooled:
        return self._find()

    @property
    def name(self) -> str:
        return self._pooled.name

    @property
    def kind(self) -> str:
        """gguf, openai, extractive or scripted."""
        return self._pooled.config.kind

    @property
    def window(self) -> int:
        """How many tokens prompt and reply may have together, 0 when nobody knows."""
        return self._pooled.window

    @property
    def sampling(self) -> Sampling:
        """How it wants its tokens chosen."""
        return self._pooled.sampling

    @property
    def fingerprint(self) -> str:
        return self._served().fingerprint

    @property
    def tokenizer(self) -> Tokenizer:
        """It counts whether or not the model is awake. Raises Unavailable when the model cannot be had at all."""
        return self._served().tokenizer

    def generate(self, request: GenerateRequest, call: RequestContext) -> AsyncGenerator[TextDelta | Generated, None]:
        """As Model.generate; wakes the model first, unless the reply is in the journal of the call."""
        if call.journal is None:
            return self._generate(self.name, request, call)
        return journalled_reply(call.journal, self.name, request, partial(self._generate, self.name, request, call))

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

    async def beat(self, call: RequestContext) -> float:
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

    async def wake(self, call: RequestContext) -> None:
        """Load it when it sleeps, and wait until it answers. Raises Unavailable without room for it."""
        await self._load(self.name, call)

    def _served(self) -> ServedModel:
        pooled = self._pooled
        if pooled.served is None:
            raise Unavailable(f"{pooled.name}: {pooled.trouble}", 30.0)
        return pooled.served
