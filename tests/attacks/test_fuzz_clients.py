"""Malformed requests to the routes of other clients, `/v1` and `/mcp`: no 500, the daemon lives, its memory is flat."""

import http.client
import json
import random
from pathlib import Path
from typing import Any

from gaiad.intake.routes import table
from tests.makers.attacked import Attacked, Row, tries

_GROWTH_BYTES = 48 * 1024 * 1024  # of the heap's arenas; a leak of 1 KiB a request would be 100 MiB
_SAID = [{"role": "user", "content": "What is noun bias?"}]
_BODIES: dict[str, list[dict[str, Any]]] = {
    "/v1/chat/completions": [
        {"model": "gaiad", "messages": _SAID, "stream": True, "stream_options": {"include_usage": True}},
        {"model": "prime", "messages": _SAID, "max_tokens": 4, "stop": ["x"], "temperature": 0.5, "seed": 1},
        {
            "model": "gaiad-fast",
            "messages": [{"role": "system", "content": "Be kind."}, *_SAID, {"role": "assistant", "content": [{}]}],
            "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
            "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object"}}},
            "user": "u",
        },
    ],
    "/v1/responses": [
        {"model": "gaiad", "input": "What is noun bias?", "previous_response_id": "resp_1", "stream": True},
        {"model": "lite", "input": [{"role": "user", "content": [{"type": "input_text", "text": "x"}]}]},
    ],
    "/v1/embeddings": [{"model": "embedder", "input": ["a", "b"], "encoding_format": "base64", "dimensions": 8}],
    "/mcp": [
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "search", "arguments": {"query": "x"}}},
        {
            "jsonrpc": "2.0",
            "id": 4,
            "method": "tools/call",
            "params": {"name": "context_state", "arguments": {"request_type": "partial", "component": "system_state"}},
        },
        {"jsonrpc": "2.0", "id": "a", "method": "resources/read", "params": {"uri": "packet://tp-1"}},
        {"jsonrpc": "2.0", "id": 2, "method": "prompts/get", "params": {"name": "what_did_we_decide", "arguments": {}}},
        {
            "jsonrpc": "2.0",
            "id": 3,
            "method": "initialize",
            "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x"}},
        },
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
    ],
    "/mcp/call": [
        {"kind": "tool", "name": "briefing", "arguments": {"request": "x"}, "write": True},
        {
            "kind": "tool",
            "name": "context_output",
            "arguments": {
                "agent_type": "a",
                "task_id": "t",
                "timestamp": "2026-11-20T10:00:00Z",
                "results": {"primary_output": {}, "confidence_score": 0.5, "resource_consumed": 1.0},
            },
            "write": True,
        },
    ],
}
_VALUES = (
    None,
    True,
    -1,
    2**63,
    1e308,
    "",
    "x",
    "\0",
    "\u202e",
    "../..",
    "x" * 5000,
    [],
    [[]],
    {},
    {"a": 1},
    "packet://",
)
_RAW = (b"", b"[", b"nul", b"\xff\xfe", b"[" * 9000, b'{"a":1,"a":2}', b"[{}]", b"1e999", b'"\\ud800"', b"{}" * 2)


def _mutated(value: Any, choice: random.Random) -> Any:
    """The value with one place in it replaced, left out, added or nested."""
    if isinstance(value, (dict, list)) and value and choice.random() < 0.8:
        copy = value.copy()
        place = choice.choice(list(value) if isinstance(value, dict) else range(len(value)))
        match choice.randrange(6):
            case 0:
                del copy[place]
            case 1 if isinstance(copy, dict):
                copy[choice.choice(("extra", "model", "id", "n", "", "\0"))] = choice.choice(_VALUES)
            case _:
                copy[place] = _mutated(copy[place], choice)
        return copy
    return choice.choice(_VALUES)


def _content(path: str, choice: random.Random) -> bytes:
    if choice.random() < 0.1 or path not in _BODIES:
        return choice.choice(_RAW)
    body: Any = choice.choice(_BODIES[path])
    for _ in range(choice.randint(1, 3)):
        body = _mutated(body, choice)
    return json.dumps(body).encode()


def _headers(attacked: Attacked, choice: random.Random) -> dict[str, str]:
    headers = {
        "Authorization": f"Bearer {attacked.token}",
        "Host": f"127.0.0.1:{attacked.port}",
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
    }
    if choice.random() < 0.1:
        name = choice.choice(
            ("Accept", "Content-Type", "Mcp-Protocol-Version", "Mcp-Session-Id", "X-Gaiad-Session", "X-Gaiad-Tenant")
        )
        headers[name] = choice.choice(("", "x", "\x7f", "1999-01-01", "text/html", "a" * 4000, "local, local"))
    return headers


def _resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


def test_clients_routes_fed_with_anything(attacked: Attacked, row: Row) -> None:
    choice = random.Random(3)
    paths = [route.path for route in table() if route.path.startswith(("/v1/", "/mcp"))]
    assert set(_BODIES) < set(paths)
    connection = http.client.HTTPConnection("127.0.0.1", attacked.port, timeout=60)
    total, before = tries(600, 100_000), 0
    for number in range(total):
        if number == total // 2:  # all that is loaded once is loaded by now
            before = _resident(attacked.process.pid)
        path = choice.choice(paths)
        method = "GET" if path.startswith("/v1/models") else "POST"
        method = choice.choice(("GET", "DELETE", "PUT")) if choice.random() < 0.05 else method
        content = _content(path, choice)
        try:
            connection.request(method, path.replace("{model}", "prime"), content, _headers(attacked, choice))
            response = connection.getresponse()
            answer = response.read()
            row.check(response.status not in (500, 502), f"{method} {path} {content[:300]!r}: {answer[:300]!r}")
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            row.check(attacked.client.get("/healthz")["ok"], f"{method} {path} {content[:300]!r}: {error!r}")
    connection.close()
    grown = _resident(attacked.process.pid) - before
    row.check(grown < _GROWTH_BYTES, f"the daemon grew by {grown:,} bytes in {total // 2:,} requests")
    row.check("unexpected_error" not in attacked.log.read_text(errors="replace"), "an unexpected error is in the log")
