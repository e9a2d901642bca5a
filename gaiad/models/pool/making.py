"""Makes the models of the pool from their settings, and decides which of them are in memory at the same time.

Each model is one of a few kinds behind one port (decision 4). A model that is wanted and does not fit sends idle ones
to sleep, the least recently used first. Pinned models and those that are answering stay. When that is not enough it is
refused, with the numbers: a machine that swaps is worse. The decision is pure; the pool carries it out.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from gaiad.base.clock import Clock
from gaiad.base.config import ModelConfig, ModelsConfig, file_of
from gaiad.base.errors import BadInput
from gaiad.base.ports import Model, RequestContext
from gaiad.models.gguf.gguf_info import Footprint, read_footprint
from gaiad.models.supervision.process import RestartPolicy
from gaiad.models.supervision.protocol import DEFAULT_CONTEXT
from gaiad.models.tokens.token_worker import TokenWorker
from gaiad.wire.generation import Sampling

_MIB = 2**20
_TOO_LARGE = "raise models.memory_mib, lower its context, or choose a smaller model"


class Need(msgspec.Struct, frozen=True, kw_only=True):
    """A model and the bytes it takes or will take: weights, context, buffers."""

    name: str
    bytes: int
    pinned: bool = False


class Resident(Need, frozen=True, kw_only=True):
    """One that is loaded: requests it is answering, and when it was last asked (monotonic seconds)."""

    running: int = 0
    last_used: float = 0.0


class EvictionPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Who has to sleep so that the wanted one fits; or why it cannot have a place. `busy`: it could, a little later."""

    sleep: list[str] = []
    refusal: str = ""
    busy: bool = False


def make_room(wanted: Need, loaded: Sequence[Resident], budget: int) -> EvictionPlan:
    """A place for `wanted` among `loaded` within `budget` bytes."""
    missing = sum(model.bytes for model in loaded) + wanted.bytes - budget
    if missing <= 0:
        return EvictionPlan()
    idle = sorted((m for m in loaded if not m.pinned and not m.running), key=lambda model: model.last_used)
    chosen: list[Resident] = []
    for model in idle:
        if sum(one.bytes for one in chosen) < missing:
            chosen.append(model)
    spare = sum(one.bytes for one in chosen) - missing
    if spare < 0:
        return _refuse(wanted, loaded, budget)
    for model in chosen[:-1]:  # an early small one need not sleep when a later one alone gives enough
        if model.bytes <= spare:
            chosen.remove(model)
            spare -= model.bytes
    return EvictionPlan(sleep=[model.name for model in chosen])


def place_at_start(needs: Sequence[Need], budget: int) -> tuple[list[str], dict[str, str]]:
    """Who is loaded at start, pinned first, then in the order given; and for the others why they sleep."""
    loaded: list[Resident] = []
    asleep: dict[str, str] = {}
    for need in sorted(needs, key=lambda need: not need.pinned):
        used = sum(model.bytes for model in loaded)
        if used + need.bytes <= budget:
            loaded.append(Resident(name=need.name, bytes=need.bytes, pinned=need.pinned))
        elif need.bytes > budget:
            asleep[need.name] = (
                f"needs about {_mib(need.bytes)} and the budget is {_mib(budget)}: it can never be loaded; {_TOO_LARGE}"
            )
        else:
            asleep[need.name] = (
                f"needs about {_mib(need.bytes)} and {_mib(max(0, budget - used))} of {_mib(budget)} are left; "
                "it is loaded when it is asked for"
            )
    return [model.name for model in loaded], asleep


def _refuse(wanted: Need, loaded: Sequence[Resident], budget: int) -> EvictionPlan:
    kept = [model for model in loaded if model.pinned or model.running]
    taken = sum(model.bytes for model in kept)
    busy = any(not model.pinned for model in kept) and (
        wanted.bytes + sum(model.bytes for model in kept if model.pinned) <= budget
    )
    if wanted.bytes > budget:
        why, remedy = "", _TOO_LARGE
    else:
        parts = ", ".join(
            f"{model.name} ({'pinned' if model.pinned else 'answering'}, {_mib(model.bytes)})" for model in kept
        )
        why = f", of which {_mib(taken)} cannot be freed now: {parts}"
        remedy = (
            "try again when it has finished" if busy else "unpin one, raise models.memory_mib, or take a smaller model"
        )
    text = f"{wanted.name} needs about {_mib(wanted.bytes)} and the budget is {_mib(budget)}{why}; {remedy}"
    return EvictionPlan(refusal=text, busy=busy)


def _mib(count: int) -> str:
    return f"{count / _MIB:,.0f} MiB"


class ServedModel(Model, Protocol):
    """Start, readiness, heartbeat, end; the same for a worker, a remote server and a model without weights."""

    async def start(self) -> None:
        """Begin in the background; again after `close` or a failure tries again."""
        ...

    async def wait_ready(self, timeout_s: float) -> None:
        """Raises Unavailable with the reason when it is not ready by then."""
        ...

    async def beat(self, call: RequestContext) -> float:
        """One real token (GCP 8.2); the milliseconds it took. Raises as `generate`."""
        ...

    async def close(self) -> None: ...

    def stderr_lines(self) -> list[str]:
        """A worker's last words on standard error, for `gaiad doctor`; none for what has no process."""
        ...


PROCESS_BYTES = 48 * 2**20  # an interpreter with llama.cpp and numpy
_PART = re.compile(r"(.+)-(00001)-of-(\d{5})\.gguf", re.IGNORECASE)


class ModelDependencies(msgspec.Struct, frozen=True, kw_only=True):
    """What every model is made from besides its own settings."""

    settings: ModelsConfig
    clock: Clock
    tokenizer_process: TokenWorker
    environment: Mapping[str, str]


def make_model(name: str, config: ModelConfig, dependencies: ModelDependencies) -> ServedModel:
    """A model that has not begun to load. Reads files: not for the event loop. Raises BadInput."""
    return _KINDS[config.kind](name, config, dependencies)


class Size(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes a loaded model will take: its process, weights, cells, the logits of one batch; 0 for one without weights.

    `window` is how many tokens prompt and reply may have together; 0 when nobody says (a remote one without `context`).
    `sampling` is how its file wants tokens chosen.
    """

    bytes: int
    window: int
    sampling: Sampling = Sampling(min_p=0.05)


def size_of(config: ModelConfig, settings: ModelsConfig) -> Size:
    """As its file's head promises, which is read once. Raises BadInput."""
    if config.kind != "gguf":
        return Size(bytes=0, window=config.context)
    path = file_of(config)
    found = read_footprint(path)
    window = config.context or settings.context or min(found.context, DEFAULT_CONTEXT)
    cells = max(config.cells or settings.cells, window)
    outputs = settings.batch_tokens + (config.parallel or settings.parallel)
    taken = PROCESS_BYTES + _weights(path, found) + cells * found.per_cell + outputs * found.per_output
    return Size(bytes=taken, window=window, sampling=found.sampling)


def _weights(path: Path, size: Footprint) -> int:
    """Of all the parts, for a model in several files."""
    part = _PART.fullmatch(path.name)
    if part is None:
        return size.weights
    others = (path.with_name(f"{part[1]}-{number:05}-of-{part[3]}.gguf") for number in range(2, int(part[3]) + 1))
    return size.weights + sum(other.stat().st_size for other in others if other.is_file())


def _gguf(name: str, config: ModelConfig, dependencies: ModelDependencies) -> ServedModel:
    from gaiad.models.generator import GeneratorSettings, WorkerGenerator

    path, settings = file_of(config), dependencies.settings
    return WorkerGenerator(
        path,
        GeneratorSettings(
            threads=settings.threads,
            batch_tokens=settings.batch_tokens,
            context=config.context or settings.context,
            cells=config.cells or settings.cells,
            parallel=config.parallel or settings.parallel,
            queue=settings.queue,
            flash=settings.flash_attention,
            start_timeout_s=settings.start_timeout_s,
        ),
        dependencies.clock,
        role=name,
        tokenizer=dependencies.tokenizer_process.tokenizer(path, _template(config)),
        restart_policy=RestartPolicy(start_s=settings.start_timeout_s, idle_ping_every_s=settings.heartbeat_s),
    )


def _template(config: ModelConfig) -> str:
    if not config.template:
        return ""
    path = Path(config.template).expanduser()
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: the chat template cannot be read ({error}); give a text file in Jinja") from error


def _openai(name: str, config: ModelConfig, dependencies: ModelDependencies) -> ServedModel:
    from gaiad.models.remote.model import RemoteModel
    from gaiad.models.tokens.json_tokenizer import JsonTokenizer

    own = JsonTokenizer(Path(config.tokenizer).expanduser()) if config.tokenizer else None
    return RemoteModel(name, config, dependencies.settings, dependencies.clock, own, dependencies.environment)


def _extractive(name: str, _config: ModelConfig, dependencies: ModelDependencies) -> ServedModel:
    from gaiad.models.plain.extractive import ExtractiveModel

    return ExtractiveModel(name, dependencies.clock)


def _scripted(name: str, config: ModelConfig, dependencies: ModelDependencies) -> ServedModel:
    from gaiad.models.plain.scripted import ScriptedModel

    return ScriptedModel.from_file(name, file_of(config), dependencies.clock)


_KINDS: dict[str, Callable[[str, ModelConfig, ModelDependencies], ServedModel]] = {
    "gguf": _gguf,
    "openai": _openai,
    "extractive": _extractive,
    "scripted": _scripted,
}
