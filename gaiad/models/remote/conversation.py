"""One reply from a remote server, asked for again where that helps, and whether the server can be reached.

No connection of its own: it is given a way to send a body and to hear the chunks of the answer. A server that is ready
is asked for its list of models from time to time, which costs nothing; a token may cost money.
"""

import asyncio
import contextlib
import random
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Protocol

from gaiad.base.clock import Clock
from gaiad.base.errors import DeadlineExceeded, GaiadError
from gaiad.base.ports import RequestContext, Tokenizer
from gaiad.models.plain.call_watch import pause
from gaiad.models.remote.access import Access, Fault, RetryRule, error_of, verdict_of, wait_s
from gaiad.models.remote.reply import RemoteReply
from gaiad.models.remote.wire import (
    Chunk,
    MalformedReply,
    ServerDialect,
    learn,
    marked_schema,
    read_chunk,
    request_body,
)
from gaiad.wire.generation import ChatMessage, Generated, GenerateRequest, Sampling, Segment, TextDelta

_PROBE_S = 10.0
_FIRST_PAUSE_S = 0.25

Try = Callable[[RequestContext], Awaitable[object]]


class Health:
    """`state` is ready, inactive (not reached) or failed (reached, and the settings do not fit it)."""

    def __init__(self) -> None:
        self.state = "inactive"
        self.reason = "not started"
        self._settled = asyncio.Event()
        self._lost = asyncio.Event()
        self._lost.set()

    def set(self, state: str, reason: str = "") -> None:
        """Take note of what an exchange showed."""
        self.state, self.reason = state, reason
        for event, holds in ((self._settled, state != "inactive"), (self._lost, state != "ready")):
            if holds:
                event.set()
            else:
                event.clear()

    async def settled(self, timeout_s: float) -> bool:
        """Wait until it is ready or failed; True when it is ready by then."""
        try:
            async with asyncio.timeout(timeout_s):  # wait_for would lose a cancel that comes with the event
                await self._settled.wait()
        except TimeoutError:
            return False
        return self.state == "ready"

    async def lost(self, timeout_s: float) -> bool:
        """Wait until it is not ready; False when it still is by then."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._lost.wait()
        except TimeoutError:
            return False
        return True


async def watch(health: Health, probe: Try, beat: Try, busy: Callable[[], bool], every_s: float, clock: Clock) -> None:
    """Look for the server as long as it is lost, ever less often; one that refused us is asked for a real token.

    One that is ready is looked at every `every_s` seconds, unless it is `busy` with replies, which say more.
    """
    failures = 0
    while True:
        if not await health.lost(every_s):
            if busy():
                continue
        elif failures:
            await asyncio.sleep(min(every_s, _FIRST_PAUSE_S * 2.0 ** min(failures - 1, 16)))
        was_ready = health.state == "ready"
        call = RequestContext(deadline=clock.monotonic() + _PROBE_S)
        try:
            await (beat(call) if health.state == "failed" else probe(call))
        except GaiadError as error:
            late = isinstance(error, DeadlineExceeded)
            reason = f"it did not answer in {_PROBE_S:g} s" if late else error.message
            if health.state != "ready":  # as of now, for a caller's reply may have come meanwhile
                health.set(health.state, reason)
            elif was_ready and not busy():
                health.set("inactive", reason)
        failures = 1 if health.state == "ready" else failures + 1


_SEED_BITS = 32
_HELLO = [ChatMessage(role="user", content=[Segment("Hello")])]
_STEADY = Sampling(temperature=0.0)


class StreamingPost(Protocol):
    """Send one body to a path; the JSON of each chunk of the reply. Raises Fault, Cancelled, DeadlineExceeded."""

    def __call__(self, path: str, body: bytes, call: RequestContext) -> AsyncGenerator[bytes, None]: ...


class RemoteChat:
    """Asks one server for replies, and remembers in `dialect` what it does not take."""

    def __init__(
        self,
        access: Access,
        exchange: StreamingPost,
        health: Health,
        tokenizer: Tokenizer,
        clock: Clock,
        retry: RetryRule,
    ) -> None:
        self._access = access
        self._exchange = exchange
        self._health = health
        self._tokenizer = tokenizer
        self._clock = clock
        self._retry = retry
        self.dialect = ServerDialect()

    async def reply(
        self, request: GenerateRequest, call: RequestContext, waited_s: float = 0.0
    ) -> AsyncGenerator[TextDelta | Generated, None]:
        """Deltas, then one Generated; waits between tries count as waiting for a place."""
        arrived, failures, dialect = self._clock.monotonic(), 0, self.dialect
        seed = secrets.randbits(_SEED_BITS) if request.seed is None else request.seed
        formed = marked_schema(request)[0] is not None
        while True:
            reply, sent = RemoteReply(request), self._clock.monotonic()
            body = request_body(self._access.model, request, seed, dialect)
            try:
                async with contextlib.aclosing(self._deltas(request, body, reply, call)) as deltas:
                    async for delta in deltas:
                        yield delta
                break
            except Fault as fault:
                learned = None if reply.begun else learn(dialect, fault.status, fault.detail, formed)
                if learned is None:
                    failures += 1
                    await self._pause(fault, failures, reply.begun, call)
                dialect = learned or dialect
        self.dialect = dialect
        self._health.set("ready")
        yield await self._generated(request, reply, seed, sent, waited_s + sent - arrived, call)

    async def one_token(self, call: RequestContext) -> None:
        """The shortest reply there is."""
        request = GenerateRequest(messages=_HELLO, max_tokens=1, sampling=_STEADY)
        async with contextlib.aclosing(self.reply(request, call)) as events:
            async for _ in events:
                pass

    async def _deltas(
        self, request: GenerateRequest, body: bytes, reply: RemoteReply, call: RequestContext
    ) -> AsyncGenerator[TextDelta, None]:
        path = "/chat/completions" if request.messages else "/completions"
        async with contextlib.aclosing(self._exchange(path, body, call)) as events:
            async for event in events:
                for delta in reply.take(self._chunk(event), self._clock.monotonic()):
                    yield delta
                if reply.ended:
                    break
        for delta in reply.finish():
            yield delta

    def _chunk(self, event: bytes) -> Chunk:
        try:
            return read_chunk(event)
        except MalformedReply as error:
            said = self._access.excerpt(event.decode("utf-8", "replace"))
            raise Fault(f"it sent something that is not part of a reply ({error}): {said}") from error

    async def _pause(self, fault: Fault, failures: int, begun: bool, call: RequestContext) -> None:
        """Wait until the next try; raises what the fault is for the caller when there is none."""
        verdict = verdict_of(fault)
        if verdict.state:
            self._health.set(verdict.state, self._access.excerpt(verdict.reason))
        may = fault.again and not begun
        pause_s = wait_s(self._retry, failures, fault.retry_after_s, random.random) if may else None
        if pause_s is None or (call.deadline is not None and self._clock.monotonic() + pause_s > call.deadline):
            raise error_of(fault, self._access) from fault
        await pause(pause_s, call, self._clock)

    async def _generated(
        self, request: GenerateRequest, reply: RemoteReply, seed: int, sent: float, queue_s: float, call: RequestContext
    ) -> Generated:
        now, usage = self._clock.monotonic(), reply.usage
        first = now if reply.first_at is None else reply.first_at
        prompt_tokens, tokens = (usage.prompt_tokens, usage.completion_tokens) if usage else (0, 0)
        if not prompt_tokens:
            segments = request.segments or await self._tokenizer.render(request.messages, call)
            prompt_tokens = (await self._tokenizer.count([segments], call))[0]
        if not tokens and self._tokenizer.exact:
            tokens = (await self._tokenizer.count([[Segment(reply.text)]], call))[0]
        build = f"@{reply.system_fingerprint}" if reply.system_fingerprint else ""
        return Generated(
            text=reply.text,
            reason=reply.reason,
            stop=reply.stop,
            prompt_tokens=prompt_tokens,
            cached_tokens=usage.cached_tokens if usage else 0,
            tokens=tokens or reply.pieces,
            seed=seed,
            fingerprint=self._access.fingerprint + build,
            queue_ms=queue_s * 1e3,
            prefill_ms=(first - sent) * 1e3,
            decode_ms=(now - first) * 1e3,
        )
