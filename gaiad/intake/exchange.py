"""What a route is, and what its handler is given: the checked body, the caller, its calls, and what it may read.

An answer that holds stored words leaves through `shown_reply`: without what the caller's channel may not see, and
scrubbed where it is (decision 16). The archive itself leaves out packets that a reader may not see (`memory.exclude`);
runs, cognition packets, turns and the council's messages are kept beside it and repeat what they were given, so of
these whole records are withheld, for nobody can take a thought out of a text. How an error looks on the wire is here
too. Everything around a handler, its time and its errors, is the application's.
"""

import asyncio
import json
import re
import secrets
from collections.abc import Awaitable, Callable, Collection, Iterator
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

import msgspec
from aiohttp import web

from gaiad.base.errors import BadInput, Forbidden, GaiadError, NotFound, Unavailable
from gaiad.base.logs import get_logger
from gaiad.base.ports import Priority, RequestContext
from gaiad.intake.auth import Caller
from gaiad.wire.chat import ChatRequest, RedactionCount
from gaiad.wire.council import HOUSE
from gaiad.wire.schemas import DEFAULT_TENANT, ErrorBody, Input

if TYPE_CHECKING:
    from gaiad.service.service import Service


_CITED = re.compile(r"\[Packet: ([^\[\]]+)\]")
_LONGEST_ID = 200


class Withheld(NotFound):
    """The record names what its reader may not see; it is to him as if it were not there."""


def names_in(value: Any) -> Iterator[str]:
    """Everything in a JSON value that can be the id of a packet or page: short strings, and citations in long ones."""
    if isinstance(value, str):
        if len(value) <= _LONGEST_ID:
            yield value
        yield from _CITED.findall(value)
    elif isinstance(value, dict):
        for each in value.values():
            yield from names_in(each)
    elif isinstance(value, list):
        for each in value:
            yield from names_in(each)


def without(record: Any, hidden: Collection[str]) -> Any:
    """The record without those entries of its lists that name something hidden. Raises Withheld when it does itself."""
    if not isinstance(record, dict):
        return _shown(record, hidden)
    return {
        name: [each for each in value if not _tells(each, hidden)] if _is_table(value) else _shown(value, hidden)
        for name, value in record.items()
    }


def _is_table(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, dict) for each in value)


def _shown(value: Any, hidden: Collection[str]) -> Any:
    if _tells(value, hidden):
        raise Withheld("nothing has that name; see the list")
    return value


def _tells(value: Any, hidden: Collection[str]) -> bool:
    return any(name in hidden for name in names_in(value))


_log = get_logger("gaiad.http")
BODY_S = 60.0
"""How long a body may take to come, and each piece of a file that is sent in."""
JSON = "application/json"


def error_body(error: Exception, where: str) -> tuple[int, ErrorBody]:
    """HTTP status and body for any error; one that is not ours is logged under an id the body names."""
    if isinstance(error, GaiadError):
        retry_after_s = error.retry_after_s if isinstance(error, Unavailable) else None
        return error.http_status, ErrorBody(code=error.code, message=error.message, retry_after_s=retry_after_s)
    error_id = secrets.token_hex(4)
    _log.error("unexpected_error", error_id=error_id, path=where, exc_info=error)
    message = f"{where}: unexpected {type(error).__name__}; the daemon's log has it under {error_id}"
    return 500, ErrorBody(code="internal", message=message)


def error_response(error: Exception, where: str) -> web.Response:
    """The error as an answer."""
    status, body = error_body(error, where)
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
    if body.retry_after_s is not None:
        headers["Retry-After"] = str(max(1, round(body.retry_after_s)))
    shaped = openai_error(status, body) if where.startswith("/v1/") else body
    return web.Response(body=msgspec.json.encode(shaped), status=status, content_type=JSON, headers=headers)


_WHERE = re.compile(r"at `\$\.?([^`]+)`")
_OPENAI_TYPES = {401: "authentication_error", 403: "permission_error", 404: "not_found_error"}


def openai_error(status: int, body: ErrorBody) -> dict[str, object]:
    """The error as OpenAI's API shapes it; `param` is the field that does not fit."""
    kind = _OPENAI_TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")
    where = _WHERE.search(body.message)
    return {"error": {"message": body.message, "type": kind, "param": where[1] if where else None, "code": body.code}}


T = TypeVar("T")


class BodyTooLarge(BadInput):
    """The request body is above http.max_body_bytes."""

    http_status = 413
    code = "too_large"


class TenantBody(Input, frozen=True, kw_only=True):
    tenant: str = DEFAULT_TENANT


class ReplyWithStatus(NamedTuple):
    """A body to encode, with a status other than 200."""

    status: int
    body: object


Reply = object  # a struct or plain value to encode, an Answer, or a finished response


class Exchange:
    """One request under way: its checked body, its caller, and the calls made for it."""

    __slots__ = ("_beside", "_calls", "_deadline", "_max_body_bytes", "caller", "request", "service")

    def __init__(
        self,
        service: "Service",
        request: web.Request,
        caller: Caller,
        deadline: float | None,
        max_body_bytes: int,
        *,
        beside: bool,
    ) -> None:
        self.service = service
        self._beside = beside
        self.request = request
        self.caller = caller
        self._deadline = deadline
        self._max_body_bytes = max_body_bytes
        self._calls: list[RequestContext] = []

    async def content(self) -> bytes:
        """The body as it came. Raises BodyTooLarge, BadInput."""
        try:
            if (self.request.content_length or 0) > self._max_body_bytes:
                raise _too_large(self._max_body_bytes)
            async with asyncio.timeout(BODY_S) as timer:
                return await self.request.read()
        except web.HTTPRequestEntityTooLarge as error:
            raise _too_large(self._max_body_bytes) from error
        except web.RequestPayloadError as error:
            raise BadInput(f"{self.request.path}: the body cannot be read: {error}") from error
        except TimeoutError as error:
            if not timer.expired():
                raise
            raise BadInput(f"{self.request.path}: the body did not arrive within {BODY_S:g} s") from error

    async def body(self, kind: type[T]) -> T:
        """The JSON body as `kind`. Raises BodyTooLarge, BadInput naming the path of what is wrong."""
        content = await self.content()
        try:
            body = msgspec.json.decode(content or b"{}", type=kind)
            json.loads(content or b"{}", object_pairs_hook=_refuse_duplicates, parse_int=str)
            return self._said(body)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            raise BadInput(f"{self.request.path}: the body does not fit: {error}") from error

    def _said(self, body: T) -> T:
        """`body`, a turn's with the channel of the caller: what the page says was said there, whatever it claims."""
        if self.channel is None or not isinstance(body, ChatRequest):
            return body
        return msgspec.structs.replace(body, channel=self.channel)

    @property
    def channel(self) -> Literal["web_chat"] | None:
        """Where what comes with this request was said, when the credential decides it: the page's does."""
        return self.caller.channel or None

    @property
    def scrubbed(self) -> bool:
        """Whether this caller reads what is stored scrubbed only: the page does, unless [redaction] says otherwise."""
        return self.channel is not None and self.service.conversations.scrubs(self.channel)

    async def shown(self, stored: object) -> object:
        """What is stored as this caller may read it (decision 16). Raises Withheld for what he may not see at all."""
        stored = await self._seen(stored)
        return stored if not self.scrubbed else (await self._shown(stored))[0]

    async def shown_reply(self, reply: Reply) -> Reply:
        """An answer that may hold stored words; `redactions` in it tells how many of which kind were taken out."""
        if isinstance(reply, web.StreamResponse):
            return reply
        status, body = reply if isinstance(reply, ReplyWithStatus) else (200, reply)
        body = await self._seen(body)
        if not self.scrubbed:
            return ReplyWithStatus(status, body)
        value, redactions = await self._shown(body)
        return ReplyWithStatus(status, {**value, "redactions": redactions} if redactions else value)

    async def _seen(self, stored: object) -> object:
        """What is stored beside the archive without what this caller's channel may not see. Raises Withheld."""
        if not self._hidden or not self._beside:
            return stored
        record = msgspec.json.decode(msgspec.json.encode(stored))
        names, hidden = set(names_in(record)), set[str]()
        for tenant in self._told_of(record):
            if self.caller.may_use(tenant):
                hidden |= await self.service.hidden(names, self._call(tenant))
        return without(record, hidden)

    def _told_of(self, record: object) -> set[str]:
        """The tenants whose packets a record can name: its own, and those that were asked. The house has no packets."""
        of_record = record.get("tenant") if isinstance(record, dict) else None
        asked = (self.request.query.get("tenant"), *(call.tenant for call in self._calls))
        return {tenant for tenant in (of_record, *asked) if tenant and tenant != HOUSE} or {DEFAULT_TENANT}

    @property
    def sees_all(self) -> bool:
        """Whether nothing is kept from this caller's channel (`memory.exclude`)."""
        return not self._hidden

    @property
    def _hidden(self) -> Collection[str]:
        """The labels of packets that this caller does not see."""
        return self._reads[0]

    @property
    def _reads(self) -> tuple[Collection[str], Collection[str]]:
        """What this caller's channel does not see, and what any does not."""
        return self.service.config.memory.hidden_from(self.channel or "cli_chat")

    async def _shown(self, stored: object) -> tuple[Any, list[RedactionCount]]:
        assert self.channel is not None
        tenant = self._calls[-1].tenant if self._calls else DEFAULT_TENANT
        return await self.service.conversations.shown(stored, self.channel, tenant)

    def require_unscrubbed(self, what: str) -> None:
        """Raise Forbidden for a caller that may not read what is stored as it is."""
        if self.scrubbed:
            raise Forbidden(f"{what}; the page reads scrubbed what is stored (redaction.channels.web_chat)")

    def call(self, tenant: str) -> RequestContext:
        """A call for `tenant`, cancelled when the client departs. Raises Forbidden when the caller may not use it."""
        self.caller.require_tenant(tenant)
        call = self._call(tenant)
        self._calls.append(call)
        return call

    def _call(self, tenant: str) -> RequestContext:
        call = RequestContext(tenant=tenant, deadline=self._deadline, priority=Priority.PERSON)
        return call.without(*self._reads)

    async def tenants(self) -> list[str]:
        """The tenants that it is about: `?tenant=`, without it all that the caller may use."""
        if asked := self.request.query.get("tenant", ""):
            return [asked]
        if not self.caller.owner:
            return sorted(self.caller.tenants)
        return (await self.service.status(self.call(DEFAULT_TENANT))).tenants or [DEFAULT_TENANT]

    def cancel(self) -> None:
        """Nobody waits for the answer any longer."""
        for call in self._calls:
            call.cancel()


def _refuse_duplicates(pairs: list[tuple[str, object]]) -> None:
    """Raise ValueError for a key that an object has twice: msgspec takes the last one, other readers the first."""
    if len(dict(pairs)) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"the key {twice[:80]!r} appears twice in one object")


def _too_large(limit: int) -> BodyTooLarge:
    return BodyTooLarge(f"the request body is larger than {limit} bytes; split it or raise http.max_body_bytes")


Handler = Callable[[Exchange], Awaitable[Reply]]


def asks(kind: type[T], ask: "Callable[[Service, T, RequestContext], Awaitable[Reply]]", key: str = "") -> Handler:
    """A handler for a body of `kind` that answers with what `ask` gives, under `key` unless that is ""."""

    async def handler(exchange: Exchange) -> Reply:
        body = await exchange.body(kind)
        answer = await ask(exchange.service, body, exchange.call(getattr(body, "tenant", DEFAULT_TENANT)))
        return {key: answer} if key else answer

    return handler


class Route(NamedTuple):
    """`public` needs no credential; `owner` names what only the owner may do; `timed` false has no time limit.

    A caller whose channel is scrubbed gets every answer scrubbed that is not `plain`: routed by its handler already, or
    without words of packets, sessions, turns or the council. One that streams sees to it itself (`Exchange.shown`).

    What a route tells that is kept `beside` the archive, and repeats what that holds, is withheld where it names
    what the caller does not see; of the archive's own the archive leaves that out.
    """

    method: str
    path: str
    handler: Handler
    owner: str = ""
    public: bool = False
    timed: bool = True
    plain: bool = False
    beside: bool = False
