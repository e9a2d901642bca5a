"""Makes a model of any kind from its settings, and says beforehand what it will take in memory."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from gaiad.clock import Clock
from gaiad.config import ModelConfig, ModelsConfig
from gaiad.errors import BadInput
from gaiad.models.gguf.gguf_info import Footprint, read_footprint
from gaiad.models.pool.served import ServedModel
from gaiad.models.supervision.patience import Patience
from gaiad.models.supervision.protocol import DEFAULT_CONTEXT
from gaiad.models.tokens.token_worker import TokenWorker
from gaiad.roles import file_of

PROCESS_BYTES = 48 * 2**20  # an interpreter with llama.cpp and numpy
_PART = re.compile(r"(.+)-(00001)-of-(\d{5})\.gguf", re.IGNORECASE)


class Workshop(msgspec.Struct, frozen=True, kw_only=True):
    """What every model is made from besides its own settings."""

    settings: ModelsConfig
    clock: Clock
    words: TokenWorker
    environment: Mapping[str, str]


def make_model(name: str, config: ModelConfig, shop: Workshop) -> ServedModel:
    """A model that has not begun to load. Reads files: not for the event loop. Raises BadInput."""
    return _KINDS[config.kind](name, config, shop)


class Size(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes a loaded model will take: its process, weights, cells, the logits of one batch; 0 for one without weights.

    `window` is how many tokens prompt and reply may have together; 0 when nobody says (a remote one without `context`).
    """

    bytes: int
    window: int


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
    return Size(bytes=taken, window=window)


def _weights(path: Path, size: Footprint) -> int:
    """Of all the parts, for a model in several files."""
    part = _PART.fullmatch(path.name)
    if part is None:
        return size.weights
    others = (path.with_name(f"{part[1]}-{number:05}-of-{part[3]}.gguf") for number in range(2, int(part[3]) + 1))
    return size.weights + sum(other.stat().st_size for other in others if other.is_file())


def _gguf(name: str, config: ModelConfig, shop: Workshop) -> ServedModel:
    from gaiad.models.generator import GeneratorSettings, WorkerGenerator

    path, settings = file_of(config), shop.settings
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
        shop.clock,
        role=name,
        tokenizer=shop.words.tokenizer(path, _template(config)),
        patience=Patience(start_s=settings.start_timeout_s, idle_ping_every_s=settings.heartbeat_s),
    )


def _template(config: ModelConfig) -> str:
    if not config.template:
        return ""
    path = Path(config.template).expanduser()
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: the chat template cannot be read ({error}); give a text file in Jinja") from error


def _openai(name: str, config: ModelConfig, shop: Workshop) -> ServedModel:
    from gaiad.models.remote.model import RemoteModel
    from gaiad.models.tokens.json_tokenizer import JsonTokenizer

    own = JsonTokenizer(Path(config.tokenizer).expanduser()) if config.tokenizer else None
    return RemoteModel(name, config, shop.settings, shop.clock, own, shop.environment)


def _extractive(name: str, _config: ModelConfig, shop: Workshop) -> ServedModel:
    from gaiad.models.plain.extractive import ExtractiveModel

    return ExtractiveModel(name, shop.clock)


def _scripted(name: str, config: ModelConfig, shop: Workshop) -> ServedModel:
    from gaiad.models.plain.scripted import ScriptedModel

    return ScriptedModel.from_file(name, file_of(config), shop.clock)


_KINDS: dict[str, Callable[[str, ModelConfig, Workshop], ServedModel]] = {
    "gguf": _gguf,
    "openai": _openai,
    "extractive": _extractive,
    "scripted": _scripted,
}
