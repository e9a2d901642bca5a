"""The Model port on top of a supervised worker: a fair line before it, its text as it comes, its times at the end.

The daemon's side only: it imports no model library. What a request's tokens are, and whether they fit, the child knows;
messages and forms of a reply the tokenizer child turns into segments and a grammar first.
"""

import contextlib
import secrets
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Literal

import msgspec

from gaiad.base.clock import Clock
from gaiad.base.errors import BadInput, Unavailable
from gaiad.base.ports import Priority, RequestContext
from gaiad.models.gguf.gguf_header import read_header
from gaiad.models.supervision.process import RestartPolicy
from gaiad.models.supervision.protocol import PROTOCOL_VERSION, Finished, Generate, Load, Ready, Reply
from gaiad.models.supervision.queueing import FairLine, Pending
from gaiad.models.supervision.supervisor import SupervisedModel, Supervisor
from gaiad.models.tokens.token_worker import GgufTokenizer
from gaiad.models.tokens.word_tokenizer import clean_segments, encodable
from gaiad.wire.generation import Generated, GenerateRequest, Sampling, Segment, TextDelta, one_form
from gaiad.wire.status import ModelStatus

_CANARY_TOKENS = 4
_SEED_BITS = 32


class GeneratorSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a generating worker runs. `context` tokens at most per request (0: as trained, 8192 at most), `cells` for all
    requests and the prefix cache together (0: one context), `parallel` requests at once, `queue` more waiting. `flash`
    attention is measured at the first load when it is auto.
    """

    threads: int = 0
    batch_tokens: int = 256
    context: int = 0
    cells: int = 0
    parallel: int = 4
    queue: int = 64
    flash: Literal["auto", "on", "off"] = "auto"
    start_timeout_s: float = 120.0


class WorkerGenerator(SupervisedModel):
    """Text from a GGUF in a child process. Raises BadInput at once when the file is missing or is not a model."""

    def __init__(
        self,
        path: Path,
        settings: GeneratorSettings,
        clock: Clock,
        *,
        role: str,
        tokenizer: GgufTokenizer,
        restart_policy: RestartPolicy | None = None,
    ) -> None:
        self._path = path.absolute()
        read_header(self._path)
        self._tokenizer = tokenizer
        self._slots = settings.parallel
        self._line = FairLine(role, settings.parallel, settings.queue, clock)
        supervisor = Supervisor(
            role,
            _load(self._path, settings),
            _canary(),
            _check_canary,
            clock,
            restart_policy or RestartPolicy(start_s=settings.start_timeout_s),
        )
        super().__init__(supervisor, tokenizer.file_sha256)

    @property
    def tokenizer(self) -> GgufTokenizer:
        """Counts in this model's tokens; it answers whether or not the worker is up."""
        return self._tokenizer

    def status(self) -> ModelStatus:
        """With its places, and how many wait for one."""
        return msgspec.structs.replace(super().status(), slots=self._slots, waiting=self._line.waiting)

    @property
    def flash(self) -> str:
        """Which attention the worker uses: on or off once it was measured, auto before."""
        return self._supervisor.load.flash

    async def beat(self, call: RequestContext) -> float:
        """One token decoded on the worker's reserved sequence (GCP 8.2); the milliseconds until it answered."""
        return await self._supervisor.beat(call)

    async def generate(
        self, request: GenerateRequest, call: RequestContext
    ) -> AsyncGenerator[TextDelta | Generated, None]:
        """Deltas, then one Generated. Closing the iterator early cancels the work.

        Raises BadInput (prompt too long, settings, a form that cannot be had), Unavailable (line full, worker failed),
        WorkerDied, Cancelled, DeadlineExceeded.
        """
        if problem := one_form(request):
            raise BadInput(problem)
        segments = await self._tokenizer.render(request.messages, call) if request.messages else request.segments
        grammar = await self._tokenizer.compile(request, call)
        seed = secrets.randbits(_SEED_BITS) if request.seed is None else request.seed
        async with self._line.place(call) as waited_s:
            pending = await self._supervisor.submit(
                lambda number: _message(request, number, segments, grammar, seed, call), call
            )
            texts: list[str] = []
            async with contextlib.aclosing(self._supervisor.pieces(pending, call)) as pieces:
                async for piece in pieces:
                    texts.append(piece.text)
                    yield TextDelta(text=piece.text, tokens=piece.tokens)
            last = self._finished(pending)
            if last.text:
                texts.append(last.text)
                yield TextDelta(text=last.text, tokens=last.tokens)
            yield self._generated(last, "".join(texts), waited_s)

    def _finished(self, pending: Pending) -> Finished:
        reply = pending.answer.result()
        if not isinstance(reply, Finished):
            raise Unavailable(f"{self._path}: the worker answered {type(reply).__name__} to a request for text")
        return reply

    def _generated(self, last: Finished, text: str, waited_s: float) -> Generated:
        return Generated(
            text=text,
            reason=last.reason,
            stop=last.stop,
            prompt_tokens=last.prompt_tokens,
            cached_tokens=last.cached_tokens,
            tokens=last.tokens,
            seed=last.seed,
            fingerprint=self._fingerprint,
            queue_ms=last.queue_ms + waited_s * 1e3,
            prefill_ms=last.prefill_ms,
            decode_ms=last.decode_ms,
        )


def _load(path: Path, settings: GeneratorSettings) -> Load:
    return Load(
        version=PROTOCOL_VERSION,
        engine="generate",
        path=str(path),
        threads=settings.threads,
        batch_tokens=settings.batch_tokens,
        context=settings.context,
        cells=settings.cells,
        sequences=settings.parallel,
        flash=settings.flash,
    )


def _message(
    request: GenerateRequest, number: int, segments: list[Segment], grammar: str, seed: int, call: RequestContext
) -> Generate:
    return Generate(
        id=number,
        segments=clean_segments(segments),
        grammar=grammar,
        max_tokens=request.max_tokens,
        priority=int(call.priority),
        seed=seed,
        sampling=request.sampling,
        stop=[encodable(text) for text in request.stop],
    )


def _canary() -> Generate:
    return Generate(
        id=0,
        segments=[Segment("Hello")],
        max_tokens=_CANARY_TOKENS,
        priority=int(Priority.PERSON),
        seed=1,
        sampling=Sampling(),
    )


def _check_canary(_ready: Ready, reply: Reply) -> str:
    if isinstance(reply, Finished):
        return ""
    return f"it cannot continue a plain word ({getattr(reply, 'reason', reply)}); choose another model"
