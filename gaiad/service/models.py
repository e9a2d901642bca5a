"""What intake may ask of the models: text, and which of them are in memory. A part of the one door, `service`."""

import asyncio
import os
import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

import msgspec

from council.roles import Role
from gaiad.base.config import EXTRACTIVE, Config, ModelConfig, assign, is_model_file
from gaiad.base.errors import BadInput, Conflict, Unavailable
from gaiad.base.home import replace_file
from gaiad.base.metrics import Metrics
from gaiad.base.ports import RequestContext, Tokenizer
from gaiad.models.catalogue import OLLAMA, listed, local_servers, models_of, rows
from gaiad.models.embedder import WorkerEmbedder
from gaiad.models.gguf.gguf_header import read_header
from gaiad.models.pool.pool import ModelPool, budget_bytes
from gaiad.models.probe import Duty
from gaiad.models.tokens.token_worker import ROLE as TOKENIZER
from gaiad.service.probes import Probes
from gaiad.turn.turn_store import CallLog
from gaiad.wire.generation import (
    ChatMessage,
    GenerateBody,
    Generated,
    GenerateReply,
    GenerateRequest,
    Sampling,
    Segment,
    TextDelta,
)
from gaiad.wire.status import ModelChoices, ModelStatus, ProbeReport

_PINS = "pins.json"
_QUESTION = "What is the capital of France? Answer with one word."


class Models:
    """The pool, the embedder beside it, and the pins, which outlive the daemon in a file of the home."""

    def __init__(
        self,
        home: Path,
        pool: ModelPool,
        embedder: WorkerEmbedder | None,
        metrics: Metrics,
        probes: Probes,
        calls: CallLog,
    ) -> None:
        self._pins = home / _PINS
        self._pool = pool
        self._embedder = embedder
        self._metrics = metrics
        self._probes = probes
        self._calls = calls

    async def generate(
        self, body: GenerateBody, call: RequestContext
    ) -> AsyncGenerator[TextDelta | GenerateReply, None]:
        """Text as it comes, then the whole with its times.

        Raises BadInput, NotFound, Unavailable (with when to come back), WorkerDied, DeadlineExceeded, Cancelled.
        """
        role = _role(body)
        name = self._pool.name_of(body.model, role)
        generate = self._calls.generate_as("" if body.model else role, "generate")
        async with aclosing(generate(name, as_request(body), call)) as pieces:
            async for piece in pieces:
                if isinstance(piece, TextDelta):
                    yield piece
                    continue
                self._observe(piece)
                yield _reply(piece, name, self._pool.kind_of(name))

    @property
    def embeds(self) -> bool:
        """Whether there is an embedder."""
        return self._embedder is not None

    async def embed(self, texts: Sequence[str], call: RequestContext) -> tuple[list[bytes], int]:
        """Vectors as little-endian 32-bit floats, and what the texts cost in tokens of the model of role prime.

        Raises Unavailable, also without an embedder, BadInput, WorkerDied, DeadlineExceeded, Cancelled.
        """
        if self._embedder is None:
            raise Unavailable("there is no embedding model; set embedder.kind and restart gaiad", 60.0)
        counts = await self.tokenizer("prime").count([[Segment(text)] for text in texts], call)
        vectors = await self._embedder.embed(texts, call)
        return [row.astype("<f4").tobytes() for row in vectors], sum(counts)

    def able(self, role: Role, duty: Duty) -> bool:
        """Whether the role's model writes, and has shown that it can do the duty."""
        return self._probes.able(role, duty)

    def tokenizer(self, role: str) -> Tokenizer:
        """What the role's model counts tokens with. Raises Unavailable when the model cannot be had."""
        return self._pool.model(self._named(role)).tokenizer

    def statuses(self) -> list[ModelStatus]:
        """A row for each role, for each model without one, and for the embedder."""
        return [*self._pool.statuses(), *([] if self._embedder is None else [self._embedder.status()])]

    def degraded(self) -> list[str]:
        """What cannot be used, in words."""
        reasons = self._pool.degraded()
        if self._embedder is not None:
            model = self._embedder.status()
            if model.state not in ("ready", "starting", "sleeping"):
                reasons.append(f"embedder {model.state}: {model.reason}; search is lexical")
        return reasons

    def last_words(self) -> dict[str, list[str]]:
        """What the workers last wrote on standard error, by model."""
        return self._pool.last_words()

    async def load(self, name: str, call: RequestContext) -> list[ModelStatus]:
        """Bring a model, or a role's, into memory and wait for it; the rows as they are then.

        The tokenizers' child has a name of its own, so that it can be started again when it failed.
        """
        if name == TOKENIZER:
            await self._pool.load_words()
        else:
            await self._pool.load(self._named(name), call)
        return self.statuses()

    async def unload(self, name: str) -> list[ModelStatus]:
        """Send a model to sleep."""
        await self._pool.unload(self._named(name))
        return self.statuses()

    async def probe(self, name: str, again: bool, call: RequestContext) -> ProbeReport:
        """What a model can do, measured now when it is not known. Raises NotFound, BadInput, Unavailable."""
        return await self._probes.probe(self._named(name), call, again)

    async def choices(self) -> ModelChoices:
        """Well-known models by what fits here, and servers on this machine."""
        servers = await asyncio.to_thread(local_servers)
        return ModelChoices(models=rows(self._pool.budget), servers=servers)

    async def try_out(self, name: str, model: ModelConfig | None, call: RequestContext) -> str:
        """One question to a model, known or not, beside the others. Raises as `generate`; BadInput for no answer."""
        if name == EXTRACTIVE:
            return ""
        async with self._pool.guest(name, model):
            asked = GenerateRequest(messages=[ChatMessage(role="user", content=[Segment(_QUESTION)])], max_tokens=32)
            text = ""
            async with aclosing(self._pool.generate(name, asked, call)) as pieces:
                async for piece in pieces:
                    text = piece.text if isinstance(piece, Generated) else text
        if not text.strip():
            raise BadInput(f"{name}: gave an empty answer to a test question; choose an instruct model")
        return " ".join(text.split())

    def pin(self, name: str, pinned: bool) -> list[ModelStatus]:
        """Keep a model in memory, or no longer; remembered over restarts. Raises NotFound, Conflict."""
        name = self._named(name)
        write(self._pins, msgspec.json.encode(self._pool.pins_with(name, pinned)).decode())
        self._pool.pin(name, pinned)
        return self.statuses()

    async def reassign(self, config: Config) -> None:
        """The models and roles of these settings, from the next request on. Raises ConfigError."""
        await self._pool.reassign(*assign(config.roles, config.models.known))
        self._probes.begin()

    async def begin(self, config: Config) -> None:
        """Start what waited for llama.cpp to be built. Raises ConfigError."""
        await self.reassign(config)
        if self._embedder is not None:
            await self._embedder.start()

    def use_config(self, config: Config) -> None:
        """Another memory budget, from the next model that is loaded on."""
        self._pool.resize(budget_bytes(config.models.memory_mib, machine_bytes()))

    def _named(self, name: str) -> str:
        """A role's name means its model."""
        return self._pool.name_of(role=name) if name in self._pool.roles else self._pool.name_of(name)

    def _observe(self, done: Generated) -> None:
        self._metrics.count("tokens_read", done.prompt_tokens - done.cached_tokens)
        self._metrics.count("tokens_reused", done.cached_tokens)
        self._metrics.count("tokens_written", done.tokens)
        self._metrics.observe_ms("generate_queue", done.queue_ms)
        self._metrics.observe_ms("generate_first_token", done.queue_ms + done.prefill_ms)
        self._metrics.observe_ms("generate", done.queue_ms + done.prefill_ms + done.decode_ms)


def machine_bytes() -> int:
    """Memory of this machine."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def as_request(body: GenerateBody) -> GenerateRequest:
    """The request as a model takes it. What the caller wrote is data: only the model's own template is trusted."""
    return GenerateRequest(
        max_tokens=body.max_tokens,
        segments=[Segment(body.prompt)] if body.prompt else [],
        messages=[ChatMessage(role=turn.role, content=[Segment(turn.content)]) for turn in body.messages],
        seed=body.seed,
        sampling=Sampling(
            temperature=body.temperature,
            top_k=body.top_k,
            top_p=body.top_p,
            min_p=body.min_p,
            repeat_penalty=body.repeat_penalty,
            frequency_penalty=body.frequency_penalty,
            presence_penalty=body.presence_penalty,
        ),
        stop=[body.stop] if isinstance(body.stop, str) else body.stop,
        regex=body.regex,
        schema=body.schema,
    )


def _role(body: GenerateBody) -> str:
    if body.model and body.role:
        raise BadInput(f"model = {body.model!r} and role = {body.role!r} are both given; keep one of them")
    return body.role or "prime"


def _reply(done: Generated, name: str, kind: str) -> GenerateReply:
    fields = msgspec.structs.asdict(done)
    times = {field: round(value, 3) for field, value in fields.items() if field.endswith("_ms")}
    return GenerateReply(model=name, kind=kind, **{**fields, **times})


def read_pins(home: Path) -> frozenset[str]:
    """Names of the pinned models. Raises BadInput naming the file when it cannot be read."""
    path = home / _PINS
    try:
        return frozenset(msgspec.json.decode(path.read_bytes(), type=list[str]))
    except FileNotFoundError:
        return frozenset()
    except (OSError, msgspec.DecodeError) as error:
        raise BadInput(f"{path}: cannot be read ({error}); correct or delete the file") from error


ROLES: tuple[Role, ...] = ("prime", "lite", "codemind")
_OLLAMA = "ollama:"
_ODD = re.compile(r"[^A-Za-z0-9._-]+")


def find(what: str, config: Config) -> tuple[str, ModelConfig | None]:
    """The model's name here, and its settings when it is a new one. Reads files and asks servers.

    Raises BadInput, Unavailable with the remedy.
    """
    if what == EXTRACTIVE or what in config.models.known:
        return what, None
    if what.startswith(_OLLAMA):
        return _served(OLLAMA, what.removeprefix(_OLLAMA))
    if what.startswith(("http://", "https://")):
        return _served(what.rstrip("/"), "")
    if is_model_file(what):
        path = Path(what).expanduser()
        if not path.is_absolute():
            raise BadInput(f"{what}: give the full path of the file")
        read_header(path)
        return _plain_name(path.name.removesuffix(".gguf")), ModelConfig(kind="gguf", path=str(path))
    if model := listed(what):
        raise BadInput(f"{model.name}: not fetched yet; run `gaiad models pull {model.hub} --as {model.name}`")
    raise BadInput(
        f"{what!r} is not a model; give the path of a GGUF, a name from `gaiad models catalogue`, ollama:NAME, or the "
        "base URL of a server"
    )


def _served(base_url: str, name: str) -> tuple[str, ModelConfig]:
    there = models_of(base_url)
    chosen = next((one for one in there if one in (name, f"{name}:latest")), "") if name else "".join(there[:1])
    if not chosen:
        has = ", ".join(there) or "none"
        raise BadInput(f"{base_url}: has no model {name!r}; it has {has}" if name else f"{base_url}: has no model yet")
    return _plain_name(chosen), ModelConfig(kind="openai", base_url=base_url, model=chosen)


def _plain_name(text: str) -> str:
    name = _ODD.sub("-", text).strip("-.") or "model"
    return f"{name}-model" if name.lower() in (*ROLES, "tokenizer", "embedder", EXTRACTIVE) else name


def written(text: str, name: str, model: ModelConfig | None, roles: Sequence[str]) -> str:
    """A config.toml with the model known and in these roles; comments and all else stay. Raises BadInput."""
    import tomlkit  # a tenth of a second, needed here only
    from tomlkit.exceptions import TOMLKitError

    try:
        document: Any = tomlkit.parse(text)
        if model is not None:
            fields = {"kind": model.kind, "path": model.path, "base_url": model.base_url, "model": model.model}
            known = document.setdefault("models", tomlkit.table(is_super_table=True)).setdefault(
                "known", tomlkit.table(is_super_table=True)
            )
            known[name] = {key: value for key, value in fields.items() if value}
        table = document.setdefault("roles", tomlkit.table())
        for role in roles:
            table[role] = name
        return tomlkit.dumps(document)
    except (TOMLKitError, AttributeError, TypeError) as error:
        raise BadInput(f"the home's config.toml cannot be changed ({error}); correct it, then try again") from error


def write(path: Path, text: str) -> None:
    """Replace the file at once, never in part. Raises Conflict."""
    try:
        replace_file(path, text.encode())
    except OSError as error:
        raise Conflict(f"cannot write {path}: {error.strerror}; correct this and try again") from error
