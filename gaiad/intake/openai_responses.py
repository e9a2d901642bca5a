"""`POST /v1/responses`: one reply of OpenAI's newer API, whole or as its whole sequence of events."""

import secrets
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing
from typing import Any

import msgspec
from aiohttp import web

from gaiad.base.errors import BadInput, GaiadError, NotFound
from gaiad.intake.exchange import Exchange, Reply, Route, error_body, openai_error
from gaiad.intake.openai_routes import (
    chat_completions,
    check_remembering,
    check_tools,
    citation,
    embeddings,
    is_side_task,
    last,
    model,
    models,
    schema_of,
    session_header,
    session_of,
    tenant_of,
    text_of,
)
from gaiad.intake.streams import EventStream, encode_event
from gaiad.wire.openai import Asked, Begun, Finished, Responses, Said

_PREFIX = "resp_"
_UNSPOKEN = ("function_call", "reasoning", "item_reference")


def _said(body: Responses) -> Iterator[Said]:
    """What was said, in order. Raises BadInput for items that cannot be read."""
    if body.instructions:
        yield Said("system", body.instructions)
    if isinstance(body.input, str):
        yield Said("user", body.input)
        return
    for number, item in enumerate(body.input):
        where = f"input[{number}]"
        kind = item.get("type", "message")
        if kind in _UNSPOKEN:
            continue
        if kind == "function_call_output":
            yield Said("user", text_of(item.get("output"), f"{where}.output"))
            continue
        role: Any = "system" if item.get("role") == "developer" else item.get("role")
        if kind != "message" or role not in ("system", "user", "assistant"):
            raise BadInput(f"{where}: give a message with role system, developer, user or assistant")
        content = item.get("content")
        if not isinstance(content, str | list):
            raise BadInput(f"{where}.content: give text or a list of parts")
        yield Said(role, text_of(content, f"{where}.content"))


async def _asked(exchange: Exchange, body: Responses) -> Asked:
    check_tools(body)
    messages, tenant = list(_said(body)), tenant_of(exchange)
    temporary = is_side_task(messages)
    check_remembering(body, temporary=temporary)
    session_id = session_of(exchange, body.user)
    if body.previous_response_id and (temporary or not body.model.startswith("gaiad")):
        raise BadInput(f"previous_response_id: {body.model} remembers nothing here; send the conversation as input")
    if body.previous_response_id:
        session_id = await _continued(exchange, body.previous_response_id, tenant)
    return Asked(
        model=body.model,
        messages=messages,
        session_id=session_id,
        temporary=temporary,
        max_tokens=body.max_output_tokens or 0,
        temperature=body.temperature,
        top_p=body.top_p,
        schema=schema_of((body.text or {}).get("format"), "text.format"),
        tenant=tenant,
    )


async def _continued(exchange: Exchange, response_id: str, tenant: str) -> str:
    """The session of an earlier response. Raises BadInput for one that is not remembered."""
    try:
        if not response_id.startswith(_PREFIX):
            raise NotFound("not an id of ours")
        turn = response_id.removeprefix(_PREFIX)
        return await exchange.service.openai.session_of_turn(turn, exchange.call(tenant))
    except NotFound as error:
        what = "is not a response that gaiad remembers; send the conversation as input"
        raise BadInput(f"previous_response_id {response_id[:100]!r} {what}") from error


class _Response:
    """The response object and its events, numbered."""

    def __init__(self, exchange: Exchange, body: Responses, begun: Begun) -> None:
        self._exchange = exchange
        self._number = 0
        name = begun.turn_id or secrets.token_hex(12)
        self._item_id = f"msg_{name}"
        self._head = {
            "id": f"{_PREFIX}{name}",
            "object": "response",
            "created_at": int(exchange.service.clock.now().timestamp()),
            "model": body.model,
            "instructions": body.instructions,
            "max_output_tokens": body.max_output_tokens,
            "previous_response_id": body.previous_response_id,
            "temperature": body.temperature,
            "top_p": body.top_p,
            "tools": body.tools or [],
            "tool_choice": body.tool_choice or "auto",
            "parallel_tool_calls": False,
            "text": body.text or {"format": {"type": "text"}},
            "store": bool(begun.turn_id),  # only a turn is remembered
            "metadata": {},
        }

    def event(self, kind: str, **fields: object) -> bytes:
        number, self._number = self._number, self._number + 1
        return encode_event(kind, {"type": kind, "sequence_number": number, **fields})

    def whole(self, finished: Finished) -> dict[str, Any]:
        full = finished.reason == "length"
        usage = {
            "input_tokens": finished.prompt_tokens,
            "input_tokens_details": {"cached_tokens": finished.cached_tokens},
            "output_tokens": finished.tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": finished.prompt_tokens + finished.tokens,
        }
        state: dict[str, Any] = {
            "status": "incomplete" if full else "completed",
            "error": None,
            "incomplete_details": {"reason": "max_output_tokens"} if full else None,
        }
        return {**self._head, **state, "output": [self._item(finished)], "usage": usage}

    def _unfinished(self, status: str, error: object = None) -> dict[str, Any]:
        state = {"status": status, "error": error, "incomplete_details": None}
        return {**self._head, **state, "output": [], "usage": None}

    def _part(self, finished: Finished | None) -> dict[str, Any]:
        found = [] if finished is None else finished.sources
        notes = [{"type": "url_citation", **citation(self._exchange, source)} for source in found]
        return {"type": "output_text", "text": finished.text if finished else "", "annotations": notes}

    def _item(self, finished: Finished | None) -> dict[str, Any]:
        item = {"id": self._item_id, "type": "message", "role": "assistant"}
        if finished is None:
            return {**item, "status": "in_progress", "content": []}
        status = "incomplete" if finished.reason == "length" else "completed"
        return {**item, "status": status, "content": [self._part(finished)]}

    def begin(self) -> Iterator[bytes]:
        for kind in ("response.created", "response.in_progress"):
            yield self.event(kind, response=self._unfinished("in_progress"))
        yield self.event("response.output_item.added", output_index=0, item=self._item(None))
        yield self.event("response.content_part.added", **self._place(), part=self._part(None))

    def delta(self, text: str) -> bytes:
        return self.event("response.output_text.delta", **self._place(), delta=text, logprobs=[])

    def end(self, finished: Finished) -> Iterator[bytes]:
        part = self._part(finished)
        for number, note in enumerate(part["annotations"]):
            added = {"annotation_index": number, "annotation": note}
            yield self.event("response.output_text.annotation.added", **self._place(), **added)
        yield self.event("response.output_text.done", **self._place(), text=finished.text, logprobs=[])
        yield self.event("response.content_part.done", **self._place(), part=part)
        yield self.event("response.output_item.done", output_index=0, item=self._item(finished))
        whole = self.whole(finished)
        yield self.event(f"response.{whole['status']}", response=whole)

    def failed(self, error: Mapping[str, Any]) -> bytes:
        told = {"code": "server_error", "message": error["message"]}
        return self.event("response.failed", response=self._unfinished("failed", told))

    def _place(self) -> dict[str, Any]:
        return {"item_id": self._item_id, "output_index": 0, "content_index": 0}


async def responses(exchange: Exchange) -> Reply:
    """The response whole, or with `stream` its events, `response.completed` last."""
    body = await exchange.body(Responses)
    asked = await _asked(exchange, body)
    async with aclosing(exchange.service.openai.reply(asked, exchange.call(asked.tenant))) as pieces:
        begun = await anext(pieces)  # a refusal comes before it, and then the answer has its own status
        assert isinstance(begun, Begun)
        response = _Response(exchange, body, begun)
        if body.stream:
            return await _stream(exchange, response, begun, pieces)
        whole = response.whole(await last(pieces))
    return web.Response(body=msgspec.json.encode(whole), content_type="application/json", headers=session_header(begun))


async def _stream(exchange: Exchange, response: _Response, begun: Begun, pieces: AsyncGenerator[Any, None]) -> Reply:
    stream = EventStream(exchange.request)
    stream.response.headers.update(session_header(begun))
    async with stream:
        for event in response.begin():
            await stream.write(event)
        try:
            async for piece in pieces:
                for event in [response.delta(piece)] if isinstance(piece, str) else response.end(piece):
                    await stream.write(event)
        except GaiadError as error:
            shaped: Any = openai_error(*error_body(error, exchange.request.path))["error"]
            await stream.write(response.failed(shaped))
    return stream.response


def table() -> list[Route]:
    return [
        Route("GET", "/v1/models", models, plain=True),
        Route("GET", "/v1/models/{model}", model, plain=True),
        Route("POST", "/v1/chat/completions", chat_completions, timed=False, plain=True),
        Route("POST", "/v1/embeddings", embeddings, plain=True),
        Route("POST", "/v1/responses", responses, timed=False, plain=True),
    ]
