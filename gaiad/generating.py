"""What intake may ask of the models: text, and which of them are in memory. A part of the one door, `service`."""

import contextlib
import os
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

import msgspec

from gaiad.config import Config
from gaiad.errors import BadInput, Conflict
from gaiad.generation import ChatMessage, Generated, GenerateRequest, Sampling, Segment, TextDelta
from gaiad.metrics import Metrics
from gaiad.model_schemas import GenerateBody, GenerateReply
from gaiad.models.pool.pool import ModelPool, budget_bytes
from gaiad.models.tokens.token_worker import ROLE as TOKENIZER
from gaiad.ports import Call, Embedder, Tokenizer
from gaiad.status_schemas import ModelStatus

_PINS = "pins.json"


class Models:
    """The pool, the embedder beside it, and the pins, which outlive the daemon in a file of the home."""

    def __init__(self, home: Path, pool: ModelPool, embedder: Embedder | None, metrics: Metrics) -> None:
        self._pins = home / _PINS
        self._pool = pool
        self._embedder = embedder
        self._metrics = metrics

    async def generate(self, body: GenerateBody, call: Call) -> AsyncGenerator[TextDelta | GenerateReply, None]:
        """Text as it comes, then the whole with its times.

        Raises BadInput, NotFound, Unavailable (with when to come back), WorkerDied, DeadlineExceeded, Cancelled.
        """
        name = self._pool.name_of(body.model, _role(body))
        request = as_request(body)
        async with aclosing(self._pool.generate(name, request, call)) as pieces:
            async for piece in pieces:
                if isinstance(piece, TextDelta):
                    yield piece
                    continue
                self._observe(piece)
                yield _reply(piece, name, self._pool.kind_of(name))

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

    async def load(self, name: str, call: Call) -> list[ModelStatus]:
        """Bring a model, or a role's, into memory and wait for it; the rows as they are then.

        The tokenizers' child has a name of its own, so that it can be started anew when it failed.
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

    def pin(self, name: str, pinned: bool) -> list[ModelStatus]:
        """Keep a model in memory, or no longer; remembered over restarts. Raises NotFound, Conflict."""
        name = self._named(name)
        write_pins(self._pins, self._pool.pins_with(name, pinned))
        self._pool.pin(name, pinned)
        return self.statuses()

    def use_config(self, config: Config) -> None:
        """Another memory budget, from the next model that is loaded on."""
        self._pool.resize(budget_bytes(config.models.memory_mib, machine_bytes()))

    def _named(self, name: str) -> str:
        """A role's name stands for its model."""
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
        grammar=body.grammar,
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
        raise BadInput(f"{path}: the pins cannot be read ({error}); mend or remove the file") from error


def write_pins(path: Path, names: list[str]) -> None:
    """Replace the file at once, never in part. Raises Conflict naming the file when it cannot be written."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        temporary.write_bytes(msgspec.json.encode(sorted(names)))
        temporary.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise Conflict(f"{path}: the pins cannot be written ({error.strerror}); mend that and pin again") from error
