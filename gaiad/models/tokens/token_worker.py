"""The one child process that knows the vocabularies of all GGUF files (decision 1), and the Tokenizer port on it.

A request that kills the child must not cost the others more than a restart. Whoever was under way when it died is
asked again, one at a time and with nobody beside it: a second death names the guilty, who is then refused for a while.
A death from outside (SIGKILL, SIGTERM) blames nobody. Counts are cached by content, forms by what was asked for.
"""

import asyncio
import contextlib
import hashlib
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from gaiad.base.clock import Clock
from gaiad.base.errors import BadInput, Unavailable, WorkerDied
from gaiad.base.ports import RequestContext
from gaiad.models.gguf.gguf_header import file_sha256
from gaiad.models.supervision.process import RestartPolicy
from gaiad.models.supervision.protocol import (
    PROTOCOL_VERSION,
    Compiled,
    CompileForm,
    Load,
    Ready,
    Render,
    Rendered,
    Reply,
    Tokenize,
    TokenizerRequest,
    Tokens,
)
from gaiad.models.supervision.queueing import look_again_s
from gaiad.models.supervision.supervisor import SupervisedModel, Supervisor
from gaiad.models.tokens.word_tokenizer import Remembered, chunk_texts, clean_segments, content_key, encodable
from gaiad.wire.generation import ChatMessage, GenerateRequest, Segment

BLAME_S = 300.0
REQUESTS_OF_A_FILE = 3
_REMEMBERED = 64
_encoder = msgspec.msgpack.Encoder()


class CrashRecord:
    """What is remembered: the newest _REMEMBERED requests, each for BLAME_S seconds."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._guilty: dict[bytes, tuple[float, str, str]] = {}

    def record(self, request: TokenizerRequest, reason: str) -> BadInput:
        """Remember the request; the error its caller gets."""
        while len(self._guilty) >= _REMEMBERED:
            del self._guilty[next(iter(self._guilty))]
        self._guilty[_key(request)] = (self._clock.monotonic() + BLAME_S, request.path, reason)
        return BadInput(f"{request.path}: the tokenizer crashed twice on this request ({reason}); change the request")

    def refuse(self, request: TokenizerRequest) -> None:
        """Raises BadInput when this request or others on its file are to blame. Costs nothing while nobody is."""
        if not self._guilty:
            return
        now = self._clock.monotonic()
        self._guilty = {key: found for key, found in self._guilty.items() if now < found[0]}
        if known := self._guilty.get(_key(request)):
            raise BadInput(
                f"{request.path}: the tokenizer crashed twice on this request ({known[2]}); change the request"
            )
        if Counter(path for _, path, _ in self._guilty.values())[request.path] >= REQUESTS_OF_A_FILE:
            raise BadInput(f"{request.path}: the tokenizer crashed on this file repeatedly; replace it or try later")


def _key(request: TokenizerRequest) -> bytes:
    """The request but for its number."""
    return hashlib.blake2b(_encoder.encode(msgspec.structs.replace(request, id=0)), digest_size=16).digest()


MAX_NESTING = 200
_form_encoder = msgspec.msgpack.Encoder()


class GgufTokenizer:
    """`template` is a Jinja chat template in place of the file's own, "" for that. Raises BadInput without a file."""

    def __init__(self, worker: "TokenWorker", path: Path, template: str = "") -> None:
        self._worker = worker
        self._path = path.absolute()
        self._template = encodable(template)
        self._file = file_sha256(self._path)
        digest = hashlib.sha256(self._template.encode()).hexdigest()[:16]
        self._fingerprint = f"{self._file}:{digest}" if template else self._file

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the file, and of the template where one replaces the file's own."""
        return self._fingerprint

    @property
    def file_sha256(self) -> str:
        """SHA-256 of the file alone, so that nobody need hash it again."""
        return self._file

    @property
    def exact(self) -> bool:
        return True

    async def count(self, texts: Sequence[Sequence[Segment]], call: RequestContext) -> list[int]:
        """Tokens of each text by itself, without the model's own beginning; a text counted before costs no round trip.

        Raises BadInput (the file's vocabulary cannot be used), Unavailable, WorkerDied, DeadlineExceeded, Cancelled.
        """
        clean = [clean_segments(segments) for segments in texts]
        keys = [content_key(self._file, segments) for segments in clean]
        counts = self._worker.counts
        found = {key: count for key in keys if (count := counts.get(key)) is not None}
        missing = {key: segments for key, segments in zip(keys, clean, strict=True) if key not in found}
        for chunk in chunk_texts(list(missing.items())):
            counted = await self._tokens([segments for _, segments in chunk], call, counts_only=True, beginning=False)
            for (key, _), count in zip(chunk, counted.counts, strict=True):
                found[key] = count
                counts.put(key, count)
        return [found[key] for key in keys]

    async def encode(self, segments: Sequence[Segment], call: RequestContext) -> list[int]:
        """The tokens of a prompt as the model reads it, its own beginning included. Raises as `count`."""
        reply = await self._tokens([clean_segments(segments)], call, counts_only=False, beginning=True)
        if len(reply.ids) != 1:
            raise Unavailable(f"{self._path}: the tokenizer answered with {len(reply.ids)} prompts instead of one")
        return reply.ids[0]

    async def render(self, messages: Sequence[ChatMessage], call: RequestContext) -> list[Segment]:
        """The conversation in the template's trusted parts, up to where the model's reply begins.

        Raises BadInput when the template refuses it, and as `count`.
        """
        clean = [ChatMessage(role=message.role, content=clean_segments(message.content)) for message in messages]
        path, template = str(self._path), self._template
        reply = await self._worker.ask(
            lambda number: Render(id=number, path=path, template=template, messages=clean), call
        )
        if not isinstance(reply, Rendered):
            raise self._unexpected(reply)
        return reply.segments

    async def compile(self, request: GenerateRequest, call: RequestContext) -> str:
        """The form the reply must have as a worker reads it (decision 3); "" when it may have any.

        Raises BadInput saying what is wrong with the regular expression, schema or contract, and as `count`.
        """
        form = (encodable(request.regex), request.schema, request.contract)
        if form == ("", None, None):
            return ""
        key = content_key(self._file, [Segment(_form_text(form))])
        known = self._worker.grammars.get(key)
        if known is not None:
            return known
        path, (regex, schema, contract) = str(self._path), form
        reply = await self._worker.ask(
            lambda number: CompileForm(id=number, path=path, regex=regex, schema=schema, contract=contract),
            call,
        )
        if not isinstance(reply, Compiled):
            raise self._unexpected(reply)
        self._worker.grammars.put(key, reply.grammar)
        return reply.grammar

    async def _tokens(
        self, texts: list[list[Segment]], call: RequestContext, *, counts_only: bool, beginning: bool
    ) -> Tokens:
        path = str(self._path)
        reply = await self._worker.ask(
            lambda number: Tokenize(id=number, path=path, texts=texts, counts_only=counts_only, beginning=beginning),
            call,
        )
        if not isinstance(reply, Tokens) or len(reply.counts) != len(texts):
            raise self._unexpected(reply)
        return reply

    def _unexpected(self, reply: Reply) -> Unavailable:
        return Unavailable(f"{self._path}: the tokenizer answered with an unexpected {type(reply).__name__}")


def _form_text(form: tuple[str, Any, Any]) -> str:
    """What was asked for, as a key. Raises BadInput for a schema that cannot travel to the child."""
    regex, schema, contract = form
    schemas = [schema] if contract is None else [block.schema for block in contract.blocks]
    if any(_nesting(one) > MAX_NESTING for one in schemas):
        raise BadInput(f"the schema is nested more than {MAX_NESTING} deep; make it flatter")
    try:
        return _form_encoder.encode((regex, schema, contract)).hex()
    except (OverflowError, TypeError, ValueError) as error:
        raise BadInput(f"the schema contains a value that is not plain JSON ({error})") from error


def _nesting(value: Any) -> int:
    """How deeply dictionaries and lists are nested; stops counting above the limit."""
    depth, layer = 0, [value]
    while layer and depth <= MAX_NESTING:
        inner = [part for part in layer if isinstance(part, dict | list)]
        layer = [item for part in inner for item in (part.values() if isinstance(part, dict) else part)]
        depth += bool(inner)
    return depth


ROLE = "tokenizer"
CACHED_COUNTS = 65_536
CACHED_GRAMMARS = 256
_LOOK_S = 0.05
_FROM_OUTSIDE = ("died of SIGKILL", "died of SIGTERM", "ended with status 0")


class TokenWorker(SupervisedModel):
    """Start it once; `tokenizer` gives a Tokenizer port for any GGUF. `counts` and `grammars` are what it remembers."""

    def __init__(self, clock: Clock, restart_policy: RestartPolicy | None = None) -> None:
        load = Load(version=PROTOCOL_VERSION, engine="tokens", path="", threads=1, batch_tokens=0)
        canary = Tokenize(id=0, path="", texts=[], counts_only=True, beginning=False)
        restart_policy = restart_policy or RestartPolicy(ping_every_s=5.0, ping_grace_s=15.0, failures=10)
        super().__init__(Supervisor(ROLE, load, canary, _check_canary, clock, restart_policy), "")
        self._gate = Gate(clock)
        self._crashes = CrashRecord(clock)
        self.counts: Remembered[int] = Remembered(CACHED_COUNTS)
        self.grammars: Remembered[str] = Remembered(CACHED_GRAMMARS)

    def tokenizer(self, path: Path, template: str = "") -> GgufTokenizer:
        """A Tokenizer for the GGUF at `path`; `template` is Jinja text in place of the file's own chat template.

        Raises BadInput when the file cannot be read.
        """
        return GgufTokenizer(self, path, template)

    async def ask(self, make: Callable[[int], TokenizerRequest], call: RequestContext) -> Reply:
        """The child's answer to `make(id)`.

        Raises BadInput, Unavailable, WorkerDied (twice under this call), DeadlineExceeded, Cancelled.
        """
        self._crashes.refuse(make(0))
        try:
            async with self._gate.together(call):
                return await self._once(make, call)
        except WorkerDied:
            async with self._gate.alone(call):
                return await self._again(make, call)

    async def _again(self, make: Callable[[int], TokenizerRequest], call: RequestContext) -> Reply:
        try:
            return await self._once(make, call)
        except WorkerDied as death:
            if any(words in death.message for words in _FROM_OUTSIDE):
                raise
            raise self._crashes.record(make(0), death.message) from death

    async def _once(self, make: Callable[[int], TokenizerRequest], call: RequestContext) -> Reply:
        return await self._supervisor.result(await self._supervisor.submit(make, call), call)


class Gate:
    """Many may pass together, or one alone; one who wants to be alone stops newcomers and waits for the others."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._changed = asyncio.Event()
        self._inside = 0
        self._wanted_alone = 0
        self._is_alone = False

    @asynccontextmanager
    async def together(self, call: RequestContext) -> AsyncIterator[None]:
        """Raises Cancelled, DeadlineExceeded while waiting, as `alone` does."""
        await self._until(lambda: not self._wanted_alone, call)
        self._inside += 1
        try:
            yield
        finally:
            self._inside -= 1
            self._changed.set()

    @asynccontextmanager
    async def alone(self, call: RequestContext) -> AsyncIterator[None]:
        self._wanted_alone += 1
        try:
            await self._until(lambda: not (self._inside or self._is_alone), call)
            self._is_alone = True
            try:
                yield
            finally:
                self._is_alone = False
        finally:
            self._wanted_alone -= 1
            self._changed.set()

    async def _until(self, condition: Callable[[], bool], call: RequestContext) -> None:
        while not condition():
            call.check(self._clock.monotonic())
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(look_again_s(call, self._clock, _LOOK_S)):
                    await self._changed.wait()


def _check_canary(_ready: Ready, reply: Reply) -> str:
    return "" if isinstance(reply, Tokens) else f"it cannot count an empty text ({getattr(reply, 'reason', reply)})"
