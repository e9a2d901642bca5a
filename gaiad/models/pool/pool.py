"""All models of a daemon by name and by role: loaded when they fit and are wanted, asleep when others need the room.

What fits is `placement`'s business, how a model is made `making`'s. A role that cannot be served says why, and the
others go on.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager

from gaiad.base.config import ModelConfig
from gaiad.base.errors import BadInput, Conflict, NotFound, Unavailable
from gaiad.base.ports import RequestContext
from gaiad.base.tasks import TaskGroup
from gaiad.models.pool.making import (
    ModelDependencies,
    Need,
    Resident,
    ServedModel,
    make_model,
    make_room,
    place_at_start,
)
from gaiad.models.pool.pooled import Pooled, PooledModel
from gaiad.wire.generation import Generated, GenerateRequest, TextDelta
from gaiad.wire.status import ModelStatus

_IDLE_LOOK_S = 5.0


class ModelPool:
    """`roles` is role -> name. `budget` bytes may be taken by loaded models together."""

    def __init__(
        self, roles: Mapping[str, str], models: Sequence[Pooled], dependencies: ModelDependencies, budget: int
    ) -> None:
        self._roles = dict(roles)
        self._models = {model.name: model for model in models}
        self._dependencies = dependencies
        self._budget = budget
        self._guests: list[Resident] = []
        self.on_reassign: list[Callable[[], None]] = []
        self._placing = asyncio.Lock()
        self._tasks = TaskGroup("models/pool")

    async def start(self) -> None:
        """Begin to load what fits, pinned models first; returns at once."""
        if any(model.config.kind == "gguf" for model in self._models.values()):
            await self._dependencies.tokenizer_process.start()
        await asyncio.gather(*(asyncio.to_thread(model.make, self._dependencies) for model in self._models.values()))
        wanted = [m for m in self._models.values() if m.fit and (m.pinned or m.name in self._roles.values())]
        load, asleep = place_at_start([model.need() for model in wanted], self._budget)
        for name, reason in asleep.items():
            self._models[name].asleep = reason
        for name in load:
            await self._models[name].wake(self._dependencies.clock.monotonic())
        if self._dependencies.settings.sleep_after_s:
            self._tasks.start("idle", self._watch_idle(self._dependencies.settings.sleep_after_s))

    async def reassign(self, roles: Mapping[str, str], models: Mapping[str, ModelConfig]) -> None:
        """Other models, and other roles for them, from the next request on; what is no longer there ends its work.

        A model that is the same as before stays as it is. A new one that cannot be made says why in its status.
        """
        fresh = {
            name: Pooled(name, config)
            for name, config in models.items()
            if name not in self._models or self._models[name].config != config
        }
        if any(model.loads for model in fresh.values()):
            await self._dependencies.tokenizer_process.start()
        await asyncio.gather(*(asyncio.to_thread(model.make, self._dependencies) for model in fresh.values()))
        old = [model for name, model in self._models.items() if name in fresh or name not in models]
        self._models = {name: fresh.get(name) or self._models[name] for name in models}
        self._roles = dict(roles)
        for model in old:
            self._tasks.start(f"retire/{model.name}", self._retire(model))
        for tell in self.on_reassign:
            tell()
        for name in dict.fromkeys(self._roles.values()):
            self._tasks.start(f"wake/{name}", self._wake(self._models[name]))

    @property
    def budget(self) -> int:
        """Bytes that loaded models may take together."""
        return self._budget

    @asynccontextmanager
    async def guest(self, name: str, config: ModelConfig | None) -> AsyncIterator[None]:
        """A model that is to be tried is there for as long as the block lasts; one without `config` is there already.

        Raises BadInput when it cannot be made, NotFound.
        """
        if config is None or (name in self._models and self._models[name].config == config):
            self.name_of(name)
            yield
            return
        model, before = Pooled(name, config), self._models.get(name)
        if model.loads:
            await self._dependencies.tokenizer_process.start()
        await asyncio.to_thread(model.make, self._dependencies)
        if model.served is None:
            raise BadInput(f"{name}: {model.trouble}")
        self._models[name] = model
        try:
            yield
        except BaseException:
            self._models.pop(name, None)
            if before is not None:
                self._models[name] = before
            self._tasks.start(f"retire/{name}", self._retire(model))
            raise

    async def _retire(self, model: Pooled) -> None:
        """End it once it has answered what it was asked."""
        await model.idle.wait()
        if model.served is not None:
            await model.served.close()

    async def _wake(self, model: Pooled) -> None:
        try:
            await self._awake(model, RequestContext())
        except Unavailable as error:
            model.asleep = model.asleep and error.message

    async def close(self) -> None:
        """End every model; requests in flight get WorkerDied."""
        await self._tasks.stop()
        await asyncio.gather(*(model.served.close() for model in self._models.values() if model.served is not None))
        await self._dependencies.tokenizer_process.close()

    # -- asking

    @property
    def roles(self) -> Mapping[str, str]:
        """Role -> the name of the model that serves it."""
        return self._roles

    def kind_of(self, name: str) -> str:
        """gguf, openai, extractive or scripted."""
        return self._models[name].config.kind

    def pooled(self, name: str) -> Pooled:
        """The model called `name` itself. Raises NotFound."""
        return self._models[self.name_of(name)]

    def model(self, name: str) -> PooledModel:
        """The model called `name` behind the port. Raises NotFound."""
        pooled = self.pooled(name)
        return PooledModel(lambda: pooled, self.generate, self.load)

    def serving(self, role: str) -> PooledModel:
        """Whichever model serves the role when it is asked something. Raises NotFound."""
        self.name_of(role=role)
        return PooledModel(lambda: self._models[self._roles[role]], self.generate, self.load)

    def all_models(self) -> dict[str, PooledModel]:
        """All there are at the moment, by name."""
        return {name: self.model(name) for name in self._models}

    def name_of(self, name: str = "", role: str = "") -> str:
        """The model called `name`, or the one that serves `role`. Raises NotFound naming what there is."""
        if role and not name:
            if role not in self._roles:
                raise NotFound(f"no role is called {role!r}; there are {', '.join(self._roles)}")
            name = self._roles[role]
        if name not in self._models:
            raise NotFound(f"no model is called {name!r}; there are {', '.join(self._models)}")
        return name

    def name_with(self, fingerprint: str) -> str:
        """The model that has this fingerprint, whether or not a role has it; "" when none has."""
        made = ((name, model.served) for name, model in self._models.items())
        return next((name for name, served in made if served is not None and served.fingerprint == fingerprint), "")

    @asynccontextmanager
    async def use(self, name: str, call: RequestContext) -> AsyncIterator[ServedModel]:
        """The model, awake; it is not put to sleep meanwhile. Raises NotFound, Unavailable."""
        model = self._models[self.name_of(name)]
        model.begin(self._dependencies.clock.monotonic())
        try:
            await self._awake(model, call)
            assert model.served is not None
            yield model.served
        finally:
            model.end(self._dependencies.clock.monotonic())

    async def generate(
        self, name: str, request: GenerateRequest, call: RequestContext
    ) -> AsyncGenerator[TextDelta | Generated, None]:
        """As Model.generate, on the model called `name`, which is woken when it sleeps."""
        pooled = self._models[self.name_of(name)]
        async with self.use(name, call) as model, aclosing(model.generate(request, call)) as pieces:
            async for piece in pieces:
                pooled.heard_at = self._dependencies.clock.monotonic()
                yield piece

    @asynccontextmanager
    async def fresh(self, name: str) -> AsyncIterator[ServedModel]:
        """The model once more, in a worker of its own, for as long as the block lasts. Raises Unavailable."""
        model = self._models[self.name_of(name)]
        one = await asyncio.to_thread(make_model, name, model.config, self._dependencies)
        async with self._room_for_another(model):
            try:
                await one.start()
                await one.wait_ready(self._dependencies.settings.start_timeout_s)
                yield one
            finally:
                await one.close()

    @asynccontextmanager
    async def _room_for_another(self, model: Pooled) -> AsyncIterator[None]:
        """Memory for one more worker of `model`, taken for as long as the block lasts. Raises Unavailable."""
        if not model.loads:
            yield
            return
        need = model.need()
        another = Resident(name=f"{model.name} once more", bytes=need.bytes, running=1)
        async with self._placing:
            await self._clear(need)
            self._guests.append(another)
        try:
            yield
        finally:
            self._guests.remove(another)

    # -- memory

    async def load(self, name: str, call: RequestContext) -> None:
        """Load it now and wait until it answers; a failed one is tried again. Raises NotFound, Unavailable."""
        model = self._models[self.name_of(name)]
        if model.loads and self._dependencies.tokenizer_process.status().state == "failed":
            await self._dependencies.tokenizer_process.start()
        async with self._placing:
            if model.failed:
                await model.sleep("it failed; trying again")
                await asyncio.to_thread(model.make, self._dependencies)
        async with self.use(name, call) as served:
            await served.wait_ready(self._dependencies.settings.start_timeout_s)

    async def load_words(self) -> None:
        """Start the tokenizers' child, again when it failed, and wait for it. Raises Unavailable."""
        await self._dependencies.tokenizer_process.start()
        await self._dependencies.tokenizer_process.wait_ready(self._dependencies.settings.start_timeout_s)

    async def unload(self, name: str) -> None:
        """Send it to sleep. Raises NotFound; Conflict when it is answering, or has nothing to unload."""
        model = self._models[self.name_of(name)]
        if not model.loads:
            raise Conflict(f"{name}: is {model.config.kind} and uses no memory here; there is nothing to unload")
        async with self._placing:
            if model.running:
                raise Conflict(f"{name}: is answering {model.running} requests; unload it when they are done")
            await model.sleep("unloaded by request; it is loaded when it is asked for")

    def pin(self, name: str, pinned: bool) -> None:
        """Keep it in memory whatever else is wanted, or no longer. Raises as `pins_with`."""
        self.pins_with(name, pinned)
        self._models[name].pinned = pinned

    def resize(self, budget: int) -> None:
        """Another budget, from the next model that is loaded on; nobody is sent to sleep for it now."""
        self._budget = budget

    def pins_with(self, name: str, pinned: bool) -> list[str]:
        """Names of the models pinned by request, as they would be after `pin`; those pinned by the settings are not
        among them. Raises NotFound, Conflict.
        """
        chosen = self._models[self.name_of(name)]
        if pinned and not chosen.loads:
            raise Conflict(f"{name}: is {chosen.config.kind} and uses no memory here; there is nothing to pin")
        if chosen.config.pinned and not pinned:
            raise Conflict(f"{name}: is pinned by models.known.{name}.pinned; set it to false and restart gaiad")
        after = {model.name for model in self._models.values() if model.pinned} - {name} | ({name} if pinned else set())
        return sorted(one for one in after if not self._models[one].config.pinned)

    async def _awake(self, model: Pooled, call: RequestContext) -> None:
        if model.served is None:
            raise Unavailable(f"{model.name}: {model.trouble}", 30.0)
        if not model.asleep:
            return
        async with self._placing:
            if not model.asleep:
                return
            if model.loads:
                await self._clear(model.need())
            await model.wake(self._dependencies.clock.monotonic())
        call.check(self._dependencies.clock.monotonic())

    async def _clear(self, need: Need) -> None:
        """Make room; idle models sleep for it. Raises Unavailable with the numbers."""
        room = make_room(need, self._loaded(), self._budget)
        if room.refusal:
            raise Unavailable(room.refusal, 5.0 if room.busy else 60.0)
        victims = [self._models[name] for name in room.sleep]
        victims = [model for model in victims if model.doze(f"unloaded to make room for {need.name}")]
        try:
            while victims:
                await victims[0].end_worker()
                del victims[0]
        finally:
            for model in victims[1:]:  # the caller went away before their turn: they are as awake as they were
                model.asleep = ""

    def _loaded(self) -> list[Resident]:
        return [*(model.resident() for model in self._models.values() if model.loaded), *self._guests]

    async def _watch_idle(self, after_s: float) -> None:
        while True:
            await asyncio.sleep(min(_IDLE_LOOK_S, after_s))
            before = self._dependencies.clock.monotonic() - after_s
            async with self._placing:
                for model in self._models.values():
                    if model.loaded and not model.pinned and not model.running and model.last_used < before:
                        await model.sleep(f"unloaded after {after_s:g} s without a request")

    # -- looking

    def statuses(self) -> list[ModelStatus]:
        """A row for each role, then one for each model that has none, then the tokenizers' child."""
        rows = [self._models[name].status(role) for role, name in self._roles.items()]
        rows += [model.status("") for name, model in self._models.items() if name not in self._roles.values()]
        words = self._dependencies.tokenizer_process.status()
        return rows if words.state == "inactive" else [*rows, words]

    def degraded(self) -> list[str]:
        """Roles that cannot be served, and tokenizers that failed, in words."""
        reasons = [
            f"role {row.role} ({row.name}) {row.state}: {row.reason}"
            for row in self.statuses()
            if row.role in self._roles and row.state in ("failed", "inactive")
        ]
        words = self._dependencies.tokenizer_process.status()
        if words.state == "failed":
            reasons.append(f"{words.role} failed: {words.reason}; `gaiad models load {words.role}` restarts it")
        return reasons

    def last_words(self) -> dict[str, list[str]]:
        """What each worker last wrote on standard error, by model."""
        words = {name: model.served.stderr_lines() for name, model in self._models.items() if model.served is not None}
        return {
            name: lines
            for name, lines in {**words, "tokenizer": self._dependencies.tokenizer_process.stderr_lines()}.items()
            if lines
        }


def budget_bytes(memory_mib: int, machine_bytes: int) -> int:
    """What models may take together: as set, else six tenths of the machine's memory."""
    return memory_mib * 2**20 if memory_mib else machine_bytes * 6 // 10
