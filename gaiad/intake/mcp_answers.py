"""What an agent is answered in the daemon: tools, resources and prompts. The protocol itself is `mcp_server`'s."""

from typing import Any

import msgspec

from gaiad.base.errors import BadInput, Forbidden, NotFound
from gaiad.intake.exchange import Exchange
from gaiad.intake.mcp_context import CONTEXT_TOOLS
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
from gaiad.wire.agents import AgentCall, AskArguments, ContinueArguments, DecidedArguments
from gaiad.wire.schemas import PacketFilter

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
