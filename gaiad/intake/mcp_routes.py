"""`/mcp`, the streamable HTTP of MCP, and `/mcp/call`, through which `gaiad mcp` asks for a client on stdio.

Each POST is answered whole, with JSON, and no session is kept: the SDK negotiates the version by request. A stream for
GET is not offered, as the specification allows. What an agent is answered is here; the protocol is `mcp_server`'s.
"""

import asyncio
from importlib import import_module
from typing import Any

import msgspec
from aiohttp import web

from gaiad.base.errors import BadInput, Forbidden, NotFound
from gaiad.intake.exchange import Exchange, Reply, Route
from gaiad.intake.mcp_tools import (
    DATA,
    MEMORY_TOOLS,
    PACKET,
    Asking,
    Tool,
    ask,
    detail_of,
    fenced,
    source_of,
    told,
    within,
)
from gaiad.intake.openai_routes import tenant_of
from gaiad.wire.agents import (
    AgentCall,
    AskArguments,
    ContextCheckpointArguments,
    ContextFeedbackArguments,
    ContextOutputArguments,
    ContextRecoveryArguments,
    ContextStateArguments,
    ContinueArguments,
    DecidedArguments,
)
from gaiad.wire.context import AgentOutput, StateQuery
from gaiad.wire.context_reviews import ReviewQuery
from gaiad.wire.schemas import PacketFilter


def _stored(value: Any, source: str) -> dict[str, Any]:
    """What agents stored, fenced and as structured content."""
    text = msgspec.json.encode(value)
    return {**told(DATA, fenced(text.decode(), source)), "structured": msgspec.json.decode(text)}


def _same(given: msgspec.Struct) -> dict[str, Any]:
    return {name: getattr(given, name) for name in given.__struct_fields__}


async def _state(asking: Asking, given: ContextStateArguments) -> dict[str, Any]:
    query = StateQuery(tenant=asking.call.tenant, **_same(given))
    return _stored(await asking.exchange.service.context.state(query, asking.call), "state from Context Memory")


async def _feedback(asking: Asking, given: ContextFeedbackArguments) -> dict[str, Any]:
    query = ReviewQuery(tenant=asking.call.tenant, **_same(given))
    return _stored(await asking.exchange.service.context.feedback(query, asking.call), "reviews from Context Memory")


async def _recovery(asking: Asking, given: ContextRecoveryArguments) -> dict[str, Any]:
    found = await asking.exchange.service.context.store.recovery(given.checkpoint_id, asking.call)
    return _stored(found, "checkpoint from Context Memory")


async def _output(asking: Asking, given: ContextOutputArguments) -> dict[str, Any]:
    kept = await asking.exchange.service.context.add(AgentOutput(**_same(given)), asking.call)
    again = " before" if kept.duplicate else ""
    words = f"Stored{again} as {kept.id} in iteration {kept.iteration}."
    return {**told(words), "structured": msgspec.to_builtins(kept)}


async def _checkpoint(asking: Asking, given: ContextCheckpointArguments) -> dict[str, Any]:
    made = await asking.exchange.service.context.checkpoint(given.reason, asking.call)
    return {**told(f"Made checkpoint {made.checkpoint_id}."), "structured": msgspec.to_builtins(made)}


CONTEXT_TOOLS = {
    "context_state": Tool(
        ContextStateArguments,
        _state,
        "For agents that work in iterations: the state they stored, as a summary, in full, or only some sections.",
    ),
    "context_feedback": Tool(
        ContextFeedbackArguments,
        _feedback,
        "For agents that work in iterations: what the review of an iteration says to an agent, and recurring patterns.",
    ),
    "context_recovery": Tool(
        ContextRecoveryArguments,
        _recovery,
        "For agents that work in iterations: the newest whole checkpoint, with the tasks that were under way.",
    ),
    "context_output": Tool(
        ContextOutputArguments,
        _output,
        "For agents that work in iterations: store what an agent produced for a task. The same again is stored once.",
        writes=True,
    ),
    "context_checkpoint": Tool(
        ContextCheckpointArguments,
        _checkpoint,
        "For agents that work in iterations: make a verified recovery point of all states as they are now.",
        writes=True,
    ),
}


TOOLS = {**MEMORY_TOOLS, **CONTEXT_TOOLS}
WRITE = "write"
"""The grant of a token that may use the tools that store."""
SESSION = "session://"
_LISTED = 20
_RESOURCE_TOKENS = 20_000
_SESSION_TURNS = 50


async def answer(exchange: Exchange, asked: AgentCall) -> Any:
    """What an agent is answered. Raises BadInput for arguments that do not fit, NotFound, Forbidden, as the service."""
    if exchange.channel is not None:
        raise Forbidden("MCP is for programs; use the daemon's token or socket")
    may_write = asked.write and (exchange.caller.in_person or WRITE in exchange.caller.grants)
    hidden = exchange.service.config.memory.hidden_from("memory_api")
    asking = Asking(exchange, exchange.call(asked.tenant).without(*hidden))
    if asked.kind == "tools":
        return [described(name, tool) for name, tool in TOOLS.items() if may_write or not tool.writes]
    if asked.kind == "resources":
        packets = await exchange.service.archive.list_packets(PacketFilter(limit=_LISTED), asking.call)
        return [{"uri": f"{PACKET}{one.packet_id}", "name": one.topic or one.packet_id} for one in packets]
    if asked.kind == "resource":
        return await _resource(asking, asked.name)
    if asked.kind == "prompt":
        return await _prompt(asking, asked)
    tool = TOOLS.get(asked.name)
    if tool is None or (tool.writes and not may_write):
        known = ", ".join(name for name, one in TOOLS.items() if may_write or not one.writes)
        raise NotFound(f"no tool is called {asked.name[:100]!r}; the tools are {known}")
    return await tool.run(asking, _checked(tool.arguments, asked.arguments, asked.name))


def described(name: str, tool: Tool) -> dict[str, Any]:
    """The tool as MCP lists it."""
    schema = msgspec.json.schema(tool.arguments)
    definitions = schema["$defs"]
    own = definitions.pop(tool.arguments.__name__)
    own.pop("title", None)
    if definitions:
        own["$defs"] = definitions
    return {"name": name, "description": tool.description, "schema": own, "writes": tool.writes}


def _checked(kind: type[msgspec.Struct], arguments: dict[str, Any], name: str) -> Any:
    try:
        return msgspec.convert(arguments, kind)
    except msgspec.ValidationError as error:
        raise BadInput(f"the arguments of {name} do not fit: {error}") from error


# --------------------------------------------------------------------------------------------- resources and prompts


async def _resource(asking: Asking, uri: str) -> dict[str, Any]:
    if uri.startswith(PACKET):
        detail = await detail_of(asking, uri.removeprefix(PACKET))
        texts, _ = await within(asking, [page.text for page in detail.pages], _RESOURCE_TOKENS)
        return told(DATA, fenced("\n\n".join(texts), source_of(detail.packet, detail.packet.packet_id)))
    if uri.startswith(SESSION):
        return told(DATA, await _conversation(asking, uri.removeprefix(SESSION)))
    raise NotFound(f"no resource {uri[:100]!r}; a resource is {PACKET}ID or {SESSION}ID")


async def _conversation(asking: Asking, session_id: str) -> str:
    turns = await asking.exchange.service.conversations.turns(session_id, asking.call, _SESSION_TURNS)
    if not turns:
        raise NotFound(f"no session is called {session_id[:100]!r}")
    texts = [f"{one.role}: {one.content}" for turn in turns for one in turn.messages]
    newest, _ = await within(asking, texts[::-1], _RESOURCE_TOKENS)
    return fenced("\n\n".join(newest[::-1]), f"session {session_id} {turns[-1].started_at[:10]}")


async def _prompt(asking: Asking, asked: AgentCall) -> dict[str, Any]:
    if asked.name == "continue_conversation":
        given = _checked(ContinueArguments, asked.arguments, asked.name)
        session_id = given.session_id or await _last_session(asking)
        said = await _conversation(asking, session_id)
        return told("Continue this earlier conversation with me. First say in one line where we were.", DATA, said)
    if asked.name == "what_did_we_decide":
        given = _checked(DecidedArguments, asked.arguments, asked.name)
        question = f"What did we decide about {given.topic}?"
        found = await ask(asking, AskArguments(question=question))
        return told(f"{question} Answer from the records below and cite their packet ids.", found["text"])
    raise NotFound(f"no prompt is called {asked.name[:100]!r}")


async def _last_session(asking: Asking) -> str:
    sessions = await asking.exchange.service.conversations.sessions(asking.call, 1)
    if not sessions:
        raise NotFound("nothing was said in any session yet")
    session_id: str = sessions[0].session_id
    return session_id


async def call(exchange: Exchange) -> Reply:
    return await answer(exchange, await exchange.body(AgentCall))


async def mcp(exchange: Exchange) -> Reply:
    """One message of a client, answered by the SDK."""
    content, tenant = await exchange.content(), tenant_of(exchange)
    await asyncio.to_thread(import_module, "gaiad.intake.mcp_server")  # a second, once
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    from gaiad.intake.mcp_server import build_server

    async def asked(given: AgentCall) -> Any:
        told = await answer(exchange, msgspec.structs.replace(given, write=True, tenant=tenant))
        return msgspec.to_builtins(told)

    manager = StreamableHTTPSessionManager(build_server(asked), json_response=True, stateless=True)
    sent = _Sent(content)
    async with manager.run():
        await manager.handle_request(_scope(exchange.request), sent.receive, sent.send)
    return sent.response()


def _scope(request: web.Request) -> dict[str, Any]:
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": "http",
        "path": "/mcp",
        "raw_path": b"/mcp",
        "root_path": "",
        "query_string": b"",
        "headers": [(name.lower(), value) for name, value in request.raw_headers],
        "client": None,
        "server": None,
    }


class _Sent:
    """The two ends of an ASGI application that is called once."""

    def __init__(self, content: bytes) -> None:
        self._content: bytes | None = content
        self._status = 500
        self._headers: list[tuple[str, str]] = []
        self._body = b""

    async def receive(self) -> dict[str, Any]:
        if self._content is None:
            await asyncio.Event().wait()  # the client's departure cancels the handler
        content, self._content = self._content, None
        return {"type": "http.request", "body": content, "more_body": False}

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            self._headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in message["headers"]]
        else:
            self._body += message.get("body", b"")

    def response(self) -> web.Response:
        kept = {name: value for name, value in self._headers if name.lower() != "content-length"}
        return web.Response(status=self._status, headers=kept, body=self._body)


def table() -> list[Route]:
    return [
        Route("POST", "/mcp", mcp, plain=True),
        Route("POST", "/mcp/call", call, plain=True),
    ]
