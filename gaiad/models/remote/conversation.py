"""One reply from a remote server, asked for again where that helps, and in the words this server understands.

No connection of its own: it is given a way to send a body and to hear the chunks of the answer.
"""

import contextlib
import random
import secrets
from collections.abc import AsyncGenerator
from typing import Protocol

from gaiad.clock import Clock
from gaiad.errors import BadInput
from gaiad.generation import ChatMessage, Generated, GenerateRequest, Sampling, Segment, TextDelta
from gaiad.models.plain.call_watch import pause
from gaiad.models.remote.access import Access
from gaiad.models.remote.dialect import Dialect, learn
from gaiad.models.remote.fault import Fault, error_of, verdict_of
from gaiad.models.remote.health import Health
from gaiad.models.remote.reply import RemoteReply
from gaiad.models.remote.retry import RetryRule, wait_s
from gaiad.models.remote.wire import Chunk, Unreadable, marked_schema, read_chunk, request_body
from gaiad.ports import Call, Tokenizer

_SEED_BITS = 32
_HELLO = [ChatMessage(role="user", content=[Segment("Hello")])]
_STEADY = Sampling(temperature=0.0)
_PASSWORD = "qzxj"  # no model says this by itself
_GRAMMAR = f'root ::= "{_PASSWORD}"'


class Exchange(Protocol):
    """Send one body to a path; the JSON of each chunk of the reply. Raises Fault, Cancelled, DeadlineExceeded."""

    def __call__(self, path: str, body: bytes, call: Call) -> AsyncGenerator[bytes, None]: ...


class Conversation:
    """Asks one server for replies, and remembers in `dialect` what it does not take."""

    def __init__(
        self, access: Access, exchange: Exchange, health: Health, tokenizer: Tokenizer, clock: Clock, retry: RetryRule
    ) -> None:
        self._access = access
        self._exchange = exchange
        self._health = health
        self._tokenizer = tokenizer
        self._clock = clock
        self._retry = retry
        self._takes_grammar: bool | None = None
        self.dialect = Dialect()

    async def reply(
        self, request: GenerateRequest, call: Call, waited_s: float = 0.0
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

    async def one_token(self, call: Call) -> None:
        """The shortest reply there is."""
        await self._whole(GenerateRequest(messages=_HELLO, max_tokens=1, sampling=_STEADY), call)

    async def writes_by_grammar(self, call: Call) -> bool:
        """Whether the server heeds a GBNF grammar; tried once, with one that no reply fulfils by chance."""
        if self._takes_grammar is None:
            probe = GenerateRequest(messages=_HELLO, max_tokens=16, sampling=_STEADY, grammar=_GRAMMAR)
            try:
                self._takes_grammar = (await self._whole(probe, call)).strip() == _PASSWORD
            except BadInput:
                self._takes_grammar = False
        return self._takes_grammar

    async def _whole(self, request: GenerateRequest, call: Call) -> str:
        text = ""
        async with contextlib.aclosing(self.reply(request, call)) as events:
            async for event in events:
                text = event.text
        return text

    async def _deltas(
        self, request: GenerateRequest, body: bytes, reply: RemoteReply, call: Call
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
        except Unreadable as error:
            said = self._access.excerpt(event.decode("utf-8", "replace"))
            raise Fault(f"it sent what is no part of a reply ({error}): {said}") from error

    async def _pause(self, fault: Fault, failures: int, begun: bool, call: Call) -> None:
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
        self, request: GenerateRequest, reply: RemoteReply, seed: int, sent: float, queue_s: float, call: Call
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
