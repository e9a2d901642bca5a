"""`/mcp`, the streamable HTTP of MCP, and `/mcp/call`, through which `gaiad mcp` asks for a client on stdio.

Each POST is answered whole, with JSON, and no session is kept: the SDK negotiates the version by request. A stream for
GET is not offered, as the specification allows.
"""

import asyncio
from importlib import import_module
from typing import Any

import msgspec
from aiohttp import web

from gaiad.intake.exchange import Exchange, Reply, Route
from gaiad.intake.mcp_answers import answer
from gaiad.intake.openai_routes import tenant_of
from gaiad.wire.agents import AgentCall


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
