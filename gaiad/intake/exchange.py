"""What a route is, and what its handler is given: the checked body, the caller, his calls, and what he may read.

An answer that holds stored words leaves through `shown_reply`: without what the caller's channel does not see, and
scrubbed where it is (decision 16). Everything around a handler, its time and its errors, is the application's.
"""

from collections.abc import Awaitable, Callable, Collection
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

import msgspec
from aiohttp import web

from gaiad.chat_schemas import ChatRequest, RedactionCount
from gaiad.council_schemas import HOUSE
from gaiad.errors import BadInput, Forbidden
from gaiad.intake.auth import Caller
from gaiad.intake.withheld import names_in, without
from gaiad.ports import Call, Priority
from gaiad.schemas import DEFAULT_TENANT

if TYPE_CHECKING:
    from gaiad.service import Service

T = TypeVar("T")


class TooLarge(BadInput):
    """The request body is above http.max_body_bytes."""

    http_status = 413
    code = "too_large"


class Answer(NamedTuple):
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
        self._calls: list[Call] = []

    async def body(self, kind: type[T]) -> T:
        """The JSON body as `kind`. Raises TooLarge, BadInput naming the path of what is wrong."""
        try:
            if (self.request.content_length or 0) > self._max_body_bytes:
                raise _too_large(self._max_body_bytes)
            content = await self.request.read()
        except web.HTTPRequestEntityTooLarge as error:
            raise _too_large(self._max_body_bytes) from error
        except web.RequestPayloadError as error:
            raise BadInput(f"{self.request.path}: the body cannot be unpacked: {error}; send it plain") from error
        try:
            return self._said(msgspec.json.decode(content or b"{}", type=kind))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
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
        status, body = reply if isinstance(reply, Answer) else (200, reply)
        body = await self._seen(body)
        if not self.scrubbed:
            return Answer(status, body)
        value, redactions = await self._shown(body)
        return Answer(status, {**value, "redactions": redactions} if redactions else value)

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

    def call(self, tenant: str) -> Call:
        """A call for `tenant`, cancelled when the client departs. Raises Forbidden when the caller may not use it."""
        self.caller.require_tenant(tenant)
        call = self._call(tenant)
        self._calls.append(call)
        return call

    def _call(self, tenant: str) -> Call:
        call = Call(tenant=tenant, deadline=self._deadline, priority=Priority.PERSON)
        return call.without(*self._reads)

    async def tenants(self) -> list[str]:
        """The tenants that it is about: `?tenant=`, without it all that the caller may use."""
        if asked := self.request.query.get("tenant", ""):
            return [asked]
        if not self.caller.owner:
            return sorted(self.caller.tenants)
        return (await self.service.status(self.call(DEFAULT_TENANT))).tenants or [DEFAULT_TENANT]

    def cancel(self) -> None:
        """Nobody waits for the answer any more."""
        for call in self._calls:
            call.cancel()


def _too_large(limit: int) -> TooLarge:
    return TooLarge(f"the request body is larger than {limit} bytes; split it or raise http.max_body_bytes")


Handler = Callable[[Exchange], Awaitable[Reply]]


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
