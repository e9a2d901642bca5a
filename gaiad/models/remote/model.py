"""The Model port on an OpenAI-compatible server: how a user outgrows one machine (decision 4).

The only module of the models that opens a connection; what is said over it is in conversation and below. A
server must not end one reply because another is asked for: llama-cpp-python's own does, unless it runs with
`--interrupt_requests False`.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from typing import TypeVar

import aiohttp

from gaiad.base.clock import Clock
from gaiad.base.config import ModelConfig, ModelsConfig
from gaiad.base.errors import BadInput, Unavailable
from gaiad.base.ports import RequestContext, Tokenizer
from gaiad.base.tasks import TaskGroup
from gaiad.models.plain.call_watch import attentive, check_request
from gaiad.models.remote.access import Access, Fault, RetryRule, retry_after_s, verdict_of
from gaiad.models.remote.conversation import Health, RemoteChat, watch
from gaiad.models.remote.reply import ServerEvents
from gaiad.models.remote.wire import MalformedReply, error_words, read_models
from gaiad.models.supervision.queueing import FairLine
from gaiad.models.tokens.word_tokenizer import ByteEstimate
from gaiad.wire.generation import Generated, GenerateRequest, TextDelta
from gaiad.wire.status import ModelStatus

_CONNECT_S = 10.0
_LONGEST_WAIT_S = 10.0
_LINGER_S = 0.2
_LONGEST_BODY = 8 * 1024 * 1024
_LONGEST_REFUSAL = 64 * 1024

T = TypeVar("T")


class RemoteModel:
    """Text from any OpenAI-compatible server. Raises ConfigError at once for an address or key that cannot be used.

    Counts are the server's own where it gives them, else the tokenizer's; times are measured here. A server is told a
    schema where it takes one, and the reply's top level is checked here always. A contract of one JSON block is held to
    that block's schema; other contracts go as the prompt words them.
    """

    def __init__(
        self,
        name: str,
        config: ModelConfig,
        settings: ModelsConfig,
        clock: Clock,
        tokenizer: Tokenizer | None,
        environment: Mapping[str, str],
        *,
        retry: RetryRule | None = None,
    ) -> None:
        self._access = Access(name, config, environment)
        self._context, self._clock = config.context, clock
        self._tokenizer = tokenizer or ByteEstimate(clock)
        self._heartbeat_s = settings.heartbeat_s
        self._slots = config.parallel or settings.parallel
        self._line = FairLine(name, self._slots, settings.queue, clock)
        self._health = Health()
        self._connection = ServerConnection(self._access, settings.remote_timeout_s, clock)
        self._conversation = RemoteChat(
            self._access, self._connection.exchange, self._health, self._tokenizer, clock, retry or RetryRule()
        )
        self._tasks = TaskGroup(f"remote/{name}")
        self._note = ""

    @property
    def tokenizer(self) -> Tokenizer:
        return self._tokenizer

    @property
    def fingerprint(self) -> str:
        """Address and model; a reply adds what the server says of its own build."""
        return self._access.fingerprint

    def status(self) -> ModelStatus:
        notes = (self._health.reason, self._note, self._conversation.dialect.describe())
        return ModelStatus(
            role=self._access.name,
            kind="openai",
            path_or_url=self._access.base_url,
            state=self._health.state,
            pid=0,
            reason="; ".join(filter(None, notes)),
            fingerprint=self.fingerprint,
            slots=self._slots,
            waiting=self._line.waiting,
        )

    def stderr_lines(self) -> list[str]:
        """None: what the server writes stays on its own machine."""
        return []

    async def start(self) -> None:
        """Begin to look for the server in the background; again after `close` looks again."""
        if self._connection.open():
            self._health.set("inactive", "not reached yet")
            looking = watch(self._health, self._probe, self.beat, self._busy, self._heartbeat_s, self._clock)
            self._tasks.start("watch", looking)

    async def wait_ready(self, timeout_s: float) -> None:
        """Raises Unavailable with the reason when the server refuses us or was not reached by then, or in 10 s."""
        if not await self._health.settled(min(timeout_s, _LONGEST_WAIT_S)):
            raise Unavailable(f"{self._access.server}: {self._health.reason}", self._heartbeat_s)

    async def close(self) -> None:
        """Close every connection; calls in flight get Unavailable."""
        await self._tasks.stop()
        await self._connection.close()
        self._health.set("inactive", "closed")

    async def beat(self, call: RequestContext) -> float:
        """A request for one token, past the line; the milliseconds until it was answered. Raises as `generate`."""
        begun = self._clock.monotonic()
        await self._conversation.one_token(call)
        return (self._clock.monotonic() - begun) * 1e3

    async def generate(
        self, request: GenerateRequest, call: RequestContext
    ) -> AsyncGenerator[TextDelta | Generated, None]:
        """Deltas, then one Generated. Closing the iterator early closes the connection.

        A stop string is named when it was met on our side or the server names it; else its reply counts as ended.
        Raises BadInput (ConfigError for settings the server refuses), Unavailable, Cancelled, DeadlineExceeded.
        """
        check_request(request)
        await self._check_length(request, call)
        if request.regex:
            raise BadInput(f"{self._access.server}: does not support regular expressions; give a JSON schema")
        async with (
            self._line.place(call) as waited_s,
            contextlib.aclosing(self._conversation.reply(request, call, waited_s)) as events,
        ):
            async for event in events:
                yield event

    async def _check_length(self, request: GenerateRequest, call: RequestContext) -> None:
        if not (self._context and self._tokenizer.exact):
            return
        texts = [one.content for one in request.messages] or [request.segments]
        tokens = sum(await self._tokenizer.count(texts, call))
        if tokens + request.max_tokens > self._context:
            raise BadInput(
                f"{self._access.name}: the prompt has {tokens} tokens or more and {request.max_tokens} more are asked "
                f"for, its context has room for {self._context}; shorten the prompt or ask for fewer"
            )

    def _busy(self) -> bool:
        return self._line.running > 0

    async def _probe(self, call: RequestContext) -> None:
        try:
            names = await self._connection.models(call)
        except Fault as fault:
            self._health.set(verdict_of(fault).state or "inactive", self._access.excerpt(fault.words))
            return
        listed = not names or self._access.model in names
        known = self._access.excerpt(", ".join(names))
        self._note = "" if listed else f"it does not list {self._access.model}; it lists: {known}"
        self._health.set("ready")


class ServerConnection:
    """HTTP to one server: every wait ends with the call, or when the server was silent for `silence_s`."""

    def __init__(self, access: Access, silence_s: float, clock: Clock) -> None:
        self._access, self._silence_s, self._clock = access, silence_s, clock
        self._session: aiohttp.ClientSession | None = None

    def open(self) -> bool:
        """True when it was closed before."""
        if self._session is not None:
            return False
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=min(_CONNECT_S, self._silence_s / 2)),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers=self._access.headers(),
        )
        return True

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def models(self, call: RequestContext) -> list[str]:
        """The names the server lists; none when it keeps no list. Raises Fault, Cancelled, DeadlineExceeded."""
        try:
            async with self._request("GET", "/models", call) as response:
                return read_models(await self._body(response, call, _LONGEST_BODY))
        except MalformedReply as error:
            raise Fault(f"its list of models cannot be read ({error})", setting=True) from error
        except Fault as fault:
            if fault.status in (404, 405, 501):
                return []
            raise

    async def exchange(self, path: str, body: bytes, call: RequestContext) -> AsyncGenerator[bytes, None]:
        """Send one request; the JSON of each chunk of its reply. Raises Fault, Cancelled, DeadlineExceeded."""
        async with self._request("POST", path, call, body) as response:
            if response.content_type == "application/json":  # a server that does not stream
                yield await self._body(response, call, _LONGEST_BODY)
                return
            events, arrived = ServerEvents(), b"-"
            while arrived:
                arrived = await self._step(response.content.readany, call)
                for event in events.feed(arrived) if arrived else events.finish():
                    if event.strip() == b"[DONE]":
                        await _linger(response)
                        return
                    yield event

    @contextlib.asynccontextmanager
    async def _request(
        self, method: str, path: str, call: RequestContext, body: bytes | None = None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """A response with status 200; whatever happens, its connection is not left half-read."""
        session = self._session
        if session is None:
            raise Fault("it is closed")
        response = await self._step(
            lambda: session.request(
                method,
                self._access.base_url + path,
                data=body,
                headers={"Content-Type": "application/json", "Accept": "text/event-stream, application/json"},
                allow_redirects=False,
            ),
            call,
        )
        try:
            if response.status != 200 or response.content_type == "text/html":
                raise await self._refusal(response, call)
            yield response
        finally:
            response.close()

    async def _refusal(self, response: aiohttp.ClientResponse, call: RequestContext) -> Fault:
        said = error_words(await self._body(response, call, _LONGEST_REFUSAL, cut=True))
        words = f"it answered {response.status}: {self._access.excerpt(said) or response.reason}"
        if 300 <= response.status < 400:
            words = f"it answered {response.status}, go to {self._access.excerpt(response.headers.get('Location', ''))}"
        asked_s = retry_after_s(response.headers.get("Retry-After", ""), self._clock.now())
        if response.status == 200:
            return Fault(words, setting=True)
        return Fault(words, status=response.status, retry_after_s=asked_s, detail=said)

    async def _body(
        self, response: aiohttp.ClientResponse, call: RequestContext, limit: int, *, cut: bool = False
    ) -> bytes:
        data = bytearray()
        while piece := await self._step(response.content.readany, call):
            data += piece
            if len(data) > limit and cut:
                break
            if len(data) > limit:
                raise Fault(f"it answered with more than {limit} bytes", well=True)
        return bytes(data[:limit])

    async def _step(self, work: Callable[[], Awaitable[T]], call: RequestContext) -> T:
        """Wait for one thing from the server."""
        try:
            async with attentive(call, self._clock, self._silence_s, lambda: self._session is None):
                return await work()
        except aiohttp.ClientError as error:
            raise _fault_of(error) from error
        except (TimeoutError, RuntimeError) as error:  # the latter is how aiohttp tells one who reads what we closed
            if self._session is None:
                raise Fault("it was closed meanwhile") from error
            if isinstance(error, RuntimeError):
                raise
            raise Fault(f"it was silent for {self._silence_s:g} s") from error
        except OSError as error:
            raise Fault(f"the connection broke ({error.strerror or error})", again=True) from error


async def _linger(response: aiohttp.ClientResponse) -> None:
    """Let the end of the body come, so that the connection can be used again; it follows [DONE] at once, or never."""
    with contextlib.suppress(TimeoutError, aiohttp.ClientError):
        async with asyncio.timeout(_LINGER_S):
            await response.read()


def _fault_of(error: aiohttp.ClientError) -> Fault:
    """A connection's failure in words; only a certificate does not get better by trying again."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return Fault(f"its TLS certificate is not trusted ({error.certificate_error})")
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return Fault(f"its host name cannot be resolved ({error.os_error.strerror})", again=True)
    if isinstance(error, aiohttp.ClientConnectorSSLError):
        return Fault(f"the TLS handshake failed ({error.os_error})")
    if isinstance(error, aiohttp.ClientConnectorError):
        return Fault(f"no connection ({error.os_error.strerror or error.os_error})", again=True)
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return Fault("no connection in time", again=True)
    if isinstance(error, aiohttp.ClientResponseError):
        return Fault(f"it does not speak HTTP ({error.message})")
    return Fault(f"the connection broke ({str(error) or type(error).__name__})", again=True)
