"""Makes a model of any kind from its settings, and says beforehand what it will take in memory."""

from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from gaiad.clock import Clock
from gaiad.config import ModelConfig, ModelsConfig
from gaiad.errors import BadInput
from gaiad.models.gguf_info import read_footprint
from gaiad.models.patience import Patience
from gaiad.models.protocol import DEFAULT_CONTEXT
from gaiad.models.roles import file_of
from gaiad.models.served import ServedModel
from gaiad.models.token_worker import TokenWorker

PROCESS_BYTES = 48 * 2**20  # an interpreter with llama.cpp and numpy


class Workshop(msgspec.Struct, frozen=True, kw_only=True):
    """What every model is made from besides its own settings."""

    settings: ModelsConfig
    clock: Clock
    words: TokenWorker
    environment: Mapping[str, str]


def make_model(name: str, config: ModelConfig, shop: Workshop) -> ServedModel:
    """A model that has not begun to load. Reads files: not for the event loop. Raises BadInput."""
    return _KINDS[config.kind](name, config, shop)


def memory_need(config: ModelConfig, settings: ModelsConfig) -> int:
    """Bytes a loaded model will take, from the file's head: its process, weights, cells, the logits of one batch.

    0 for one without weights of its own. Raises BadInput.
    """
    if config.kind != "gguf":
        return 0
    size = read_footprint(file_of(config))
    window = config.context or settings.context or min(size.context, DEFAULT_CONTEXT)
    cells = max(config.cells or settings.cells, window)
    outputs = settings.batch_tokens + (config.parallel or settings.parallel)
    return PROCESS_BYTES + size.weights + cells * size.per_cell + outputs * size.per_output


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
    from gaiad.models.json_tokenizer import JsonTokenizer
    from gaiad.models.remote import RemoteModel

    own = JsonTokenizer(Path(config.tokenizer).expanduser()) if config.tokenizer else None
    return RemoteModel(name, config, shop.settings, shop.clock, own, shop.environment)


def _extractive(name: str, _config: ModelConfig, shop: Workshop) -> ServedModel:
    from gaiad.models.extractive import ExtractiveModel

    return ExtractiveModel(name, shop.clock)


def _scripted(name: str, config: ModelConfig, shop: Workshop) -> ServedModel:
    from gaiad.models.scripted import ScriptedModel

    return ScriptedModel.from_file(name, file_of(config), shop.clock)


_KINDS: dict[str, Callable[[str, ModelConfig, Workshop], ServedModel]] = {
    "gguf": _gguf,
    "openai": _openai,
    "extractive": _extractive,
    "scripted": _scripted,
}
