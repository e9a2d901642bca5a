"""One model in the pool: its settings, whether it sleeps and why, who uses it, what it takes."""

from msgspec import structs

from gaiad.config import ModelConfig
from gaiad.errors import BadInput, ConfigError
from gaiad.logs import get_logger
from gaiad.models.pool.making import Workshop, make_model, size_of
from gaiad.models.pool.placement import Need, Resident
from gaiad.models.pool.served import ServedModel
from gaiad.status_schemas import ModelStatus

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
        self._expected = self._largest = 0

    def make(self, shop: Workshop) -> None:
        """Look at its files and make it, without loading. Reads files: not for the event loop."""
        try:
            size = size_of(self.config, shop.settings)
            self._expected, self.window = size.bytes, size.window
            self.served, self.trouble = make_model(self.name, self.config, shop), ""
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

    def end(self, now: float) -> None:
        self.running -= 1
        self.last_used = now

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
