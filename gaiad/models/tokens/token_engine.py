"""Counting, rendering and compiling the forms of replies inside the tokenizer child, for many GGUF files at once.

It loads vocabularies only, never weights. Each request is a task of one event loop, so that a text of megabytes, a
file never seen or a form that takes seconds keeps nobody else waiting: what may take long or crash runs in a sandbox.
"""

import asyncio
import os
import sys
import traceback
from array import array
from collections.abc import Callable, Coroutine
from typing import Any

from gaiad.base.tasks import TaskGroup
from gaiad.models.child import reply_form
from gaiad.models.child.vocabulary import Untokenizable, Vocabulary
from gaiad.models.supervision.protocol import (
    PROTOCOL_VERSION,
    Compiled,
    CompileForm,
    Failed,
    Ping,
    Pong,
    ProtocolError,
    Ready,
    Render,
    Rendered,
    Reply,
    Tokenize,
    TokenizerRequest,
    Tokens,
)
from gaiad.models.tokens.caches import RequestRefused, TemplateCache, VocabularyCache
from gaiad.models.tokens.disposable_process import Died, ProcessLimits, Sandbox
from gaiad.wire.generation import Segment

SLICE_CHARS = 20_000
LONG_CHARS = 20_000  # llama.cpp takes milliseconds for these, for some texts the square of their length
_LONG_TEXT = ProcessLimits(cpu_s=60, wall_s=120.0)
_FORM = ProcessLimits(cpu_s=10, wall_s=30.0, memory_bytes=1 << 30)


class TokenEngine:
    """Serves the requests that the reader thread leaves here; holds no file that it was not asked about."""

    def __init__(self) -> None:
        self._sandbox = Sandbox()
        self._vocabularies = VocabularyCache(self._sandbox)
        self._templates = TemplateCache(self._sandbox)

    def describe(self) -> Ready:
        return Ready(version=PROTOCOL_VERSION, pid=os.getpid(), dimension=0, window=0)

    def open_line(self, reply: Callable[[Reply], None]) -> "TokenLine":
        """Where the reader thread puts requests; `reply` is how they are answered."""
        self._runner = asyncio.Runner()
        self._line = TokenLine(self._runner.get_loop(), RequestTasks(self._answer, reply), reply)
        return self._line

    def serve(self) -> None:
        """Work until the line closes."""
        self._runner.run(self._line.until_closed())

    def close(self) -> None:
        """End all tasks, and with them their disposable processes."""
        self._runner.close()

    async def _answer(self, request: TokenizerRequest) -> Reply:
        match request:
            case Tokenize():
                return await self._tokenize(request)
            case Render():
                return await self._render(request)
            case CompileForm():
                return await self._compile(request)

    async def _tokenize(self, request: Tokenize) -> Tokens:
        if not request.texts:
            return Tokens(id=request.id, counts=[])
        cached = await self._vocabularies.open(request.path)
        vocabulary = cached.vocabulary  # both are held until the end: the last reference frees llama.cpp's own
        counts: list[int] = []
        ids: list[list[int]] = []
        done = 0
        for text in request.texts:
            size = sum(len(segment.text) for segment in text)
            if size > LONG_CHARS:
                tokens = await self._tokenize_long(request, vocabulary, text, size)
            else:
                tokens = _numbers(request, vocabulary, text)
            counts.append(len(tokens))
            if not request.counts_only:
                ids.append(tokens)
            done += size + 20
            if done > SLICE_CHARS:
                done = 0
                await asyncio.sleep(0)  # the others' turn
        return Tokens(id=request.id, counts=counts, ids=ids)

    async def _tokenize_long(
        self, request: Tokenize, vocabulary: Vocabulary, text: list[Segment], size: int
    ) -> list[int]:
        """The tokens of a long text, made in a disposable process while others have their turns."""
        try:
            packed = await self._sandbox.in_process(
                lambda: array("i", _numbers(request, vocabulary, text)).tobytes(), _LONG_TEXT
            )
        except Died as death:
            raise RequestRefused(
                f"{request.path}: tokenising a text of {size} characters {death}; shorten it"
            ) from death
        return array("i", packed).tolist()

    async def _render(self, request: Render) -> Rendered:
        cached = await self._vocabularies.open(request.path)
        template = await self._templates.open(request.path, request.template, cached)
        return Rendered(id=request.id, segments=template.write(request.messages))

    async def _compile(self, request: CompileForm) -> Compiled:
        try:
            packed = await self._sandbox.in_process(
                lambda: reply_form.compile_form(request.regex, request.schema, request.contract), _FORM
            )
        except Died as death:
            raise RequestRefused(f"the form {death}; make it simpler") from death
        grammar, problem = reply_form.outcome(packed)
        if problem:
            raise RequestRefused(problem)
        return Compiled(id=request.id, grammar=grammar)


def _numbers(request: Tokenize, vocabulary: Vocabulary, text: list[Segment]) -> list[int]:
    try:
        return vocabulary.encode(text) if request.beginning else vocabulary.tokens(text)
    except Untokenizable as error:
        raise RequestRefused(f"{request.path}: {error}") from error


class RequestTasks:
    """A task for each request; `reply` gets exactly one answer for each."""

    def __init__(
        self, answer: Callable[[TokenizerRequest], Coroutine[Any, Any, Reply]], reply: Callable[[Reply], None]
    ) -> None:
        self._answer = answer
        self._reply = reply
        self._group = TaskGroup("requests")
        self._tasks: dict[int, asyncio.Task[None]] = {}

    def begin(self, request: TokenizerRequest) -> None:
        self._tasks[request.id] = self._group.start(str(request.id), self._run(request))

    def cancel(self, request_id: int) -> None:
        """Drop a request; one that is gone has its answer on its way."""
        task = self._tasks.pop(request_id, None)
        if task is not None:
            task.cancel()
            self._reply(Failed(id=request_id, code="cancelled", reason="cancelled"))

    async def _run(self, request: TokenizerRequest) -> None:
        try:
            reply = await self._answer(request)
        except RequestRefused as problem:
            reply = Failed(id=request.id, code="bad_input", reason=str(problem))
        except Exception as fault:  # noqa: BLE001  (the caller gets it, standard error too; others go on)
            traceback.print_exc(file=sys.stderr)
            reply = Failed(id=request.id, code="engine", reason=f"{type(fault).__name__}: {fault}")
        del self._tasks[request.id]
        try:
            self._reply(reply)
        except ProtocolError as error:
            self._reply(Failed(id=request.id, code="bad_input", reason=str(error)))


class TokenLine:
    """The reader thread's side of the engine: each call is handed to the event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, requests: RequestTasks, reply: Callable[[Reply], None]) -> None:
        self._loop = loop
        self._requests = requests
        self._reply = reply
        self._closed = asyncio.Event()

    def put(self, request: TokenizerRequest) -> None:
        self._loop.call_soon_threadsafe(self._requests.begin, request)

    def cancel(self, request_id: int) -> None:
        self._loop.call_soon_threadsafe(self._requests.cancel, request_id)

    def ping(self, ping: Ping) -> None:
        self._loop.call_soon_threadsafe(self._reply, Pong(id=ping.id))

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._closed.set)

    async def until_closed(self) -> None:
        await self._closed.wait()
