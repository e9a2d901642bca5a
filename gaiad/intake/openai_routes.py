"""The routes of OpenAI's API: models, chat/completions and embeddings; `responses` has a module of its own.

The bodies are OpenAI's; errors leave in OpenAI's shape (`exchange.openai_error`). Who asks is known as on every route.
"""

import base64
import secrets
import struct
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

import msgspec
from aiohttp import web

from gaiad.base.errors import BadInput, Forbidden
from gaiad.base.ports import RequestContext
from gaiad.intake.exchange import Exchange, Reply, error_body, openai_error
from gaiad.intake.streams import EventStream
from gaiad.wire.openai import Asked, Begun, ChatCompletion, Embeddings, Finished, Said, Sampled, Source
from gaiad.wire.schemas import DEFAULT_TENANT

OPEN_WEBUI = "X-OpenWebUI-Chat-Id"
SESSION_HEADERS = ("X-Gaiad-Session", OPEN_WEBUI)
TENANT_HEADER = "X-Gaiad-Tenant"
_ROLES = {"developer": "system", "tool": "user", "function": "user"}
_SIDE_TASK = ("### Task:", "<chat_history>")
"""How a front end's request for a title, tags or questions to follow begins, and what it encloses."""
_MOST_TEXTS = 2048


def text_of(content: str | Sequence[Mapping[str, Any]] | None, where: str) -> str:
    """The text of a message: itself, or its parts joined. Raises BadInput for parts that are no text."""
    if content is None or isinstance(content, str):
        return content or ""
    texts = []
    for part in content:
        text = part.get("text", part.get("refusal")) if isinstance(part, dict) else None
        if not isinstance(text, str):
            kind = part.get("type") if isinstance(part, dict) else part
            raise BadInput(f"{where}: a part of type {str(kind)[:80]!r} cannot be read; send text")
        texts.append(text)
    return "\n".join(texts)


def check_tools(body: Sampled) -> None:
    """Tools may be offered, and are not called. Raises BadInput when a call is required."""
    if body.tool_choice not in (None, "auto", "none"):
        raise BadInput("tool_choice: gaiad does not call tools; use auto or none")


def schema_of(form: Mapping[str, Any] | None, where: str) -> dict[str, Any] | None:
    """The JSON Schema that a reply must fit: of response_format, or of text.format. Raises BadInput."""
    kind = None if form is None else form.get("type", "text")
    if form is None or kind == "text":
        return None
    if kind == "json_object":
        return {"type": "object"}
    holder = form.get("json_schema", form)
    schema = holder.get("schema") if isinstance(holder, dict) else None
    if kind != "json_schema" or not isinstance(schema, dict):
        raise BadInput(f"{where}: give type text, json_object, or json_schema with a schema")
    return schema


def is_side_task(messages: Sequence[Said]) -> bool:
    """Whether a front end asks for itself, not for the person."""
    begins, encloses = _SIDE_TASK
    last = messages[-1].text if messages else ""
    return last.lstrip().startswith(begins) and encloses in last


def session_of(exchange: Exchange, user: str | None) -> str:
    """The session that a header or the field `user` names, "" for none."""
    named = (exchange.request.headers.get(name, "").strip() for name in SESSION_HEADERS)
    return next(filter(None, named), "") or (user or "").strip()


def tenant_of(exchange: Exchange) -> str:
    """The tenant the header names, else the only one of the token, else the default."""
    if exchange.channel is not None:
        raise Forbidden(f"{exchange.request.path} is for programs; use the daemon's token or socket")
    only = next(iter(exchange.caller.tenants)) if len(exchange.caller.tenants) == 1 else DEFAULT_TENANT
    return exchange.request.headers.get(TENANT_HEADER, "").strip() or only


def check_remembering(body: Sampled, *, temporary: bool) -> None:
    """Raise BadInput where the council would remember what must not be stored."""
    if body.store is False and not temporary and body.model.startswith("gaiad"):
        raise BadInput(f"store: {body.model} remembers its conversations; ask prime, lite or codemind, or leave it out")


async def models(exchange: Exchange) -> Reply:
    tenant_of(exchange)
    return {"object": "list", "data": [_model(name) for name in exchange.service.openai.model_ids()]}


async def model(exchange: Exchange) -> Reply:
    name = exchange.request.match_info["model"]
    exchange.service.openai.check_model(name, embeds=True)
    return _model(name)


def _model(name: str) -> dict[str, object]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "gaiad"}


# -------------------------------------------------------------------------------------------------- chat/completions


def _asked(exchange: Exchange, body: ChatCompletion) -> Asked:
    if body.n not in (None, 1) or body.logprobs:
        raise BadInput("n and logprobs: gaiad gives one reply, without log probabilities; leave them out")
    check_tools(body)
    messages = [
        Said(_ROLES.get(one.role, one.role), text_of(one.content, f"messages[{number}].content"))  # type: ignore[arg-type]
        for number, one in enumerate(body.messages)
        if one.content is not None or not one.tool_calls
    ]
    temporary = is_side_task(messages)
    check_remembering(body, temporary=temporary)
    return Asked(
        model=body.model,
        messages=messages,
        session_id=session_of(exchange, body.user),
        temporary=temporary,
        max_tokens=body.max_completion_tokens or body.max_tokens or 0,
        temperature=body.temperature,
        top_p=body.top_p,
        frequency_penalty=body.frequency_penalty,
        presence_penalty=body.presence_penalty,
        seed=body.seed,
        stop=[body.stop] if isinstance(body.stop, str) else body.stop or [],
        schema=schema_of(body.response_format, "response_format"),
        tenant=tenant_of(exchange),
    )


async def chat_completions(exchange: Exchange) -> Reply:
    """The reply whole, or with `stream` as chunks, `[DONE]` last."""
    body = await exchange.body(ChatCompletion)
    asked = _asked(exchange, body)
    call: RequestContext = exchange.call(asked.tenant)
    async with aclosing(exchange.service.openai.reply(asked, call)) as pieces:
        begun = await anext(pieces)  # a refusal comes before it, and then the answer has its own status
        assert isinstance(begun, Begun)
        head = {
            "id": f"chatcmpl-{begun.turn_id or secrets.token_hex(12)}",
            "created": int(exchange.service.clock.now().timestamp()),
            "model": body.model,
        }
        if body.stream:
            options = body.stream_options
            usage = bool(options is not None and options.include_usage)
            return await _stream(exchange, head, begun, pieces, usage=usage)
        finished = await last(pieces)
    message: dict[str, Any] = {"role": "assistant", "content": finished.text, "refusal": None}
    choice = {"index": 0, "message": message, "finish_reason": finished.reason, "logprobs": None}
    if finished.sources:
        message["annotations"] = annotations(exchange, finished.sources)
    completion = {**head, "object": "chat.completion", "choices": [choice], "usage": _usage(finished)}
    return web.Response(
        body=msgspec.json.encode(completion), content_type="application/json", headers=session_header(begun)
    )


async def _stream(
    exchange: Exchange, head: dict[str, Any], begun: Begun, pieces: AsyncGenerator[Any, None], *, usage: bool
) -> Reply:
    head = {**head, "object": "chat.completion.chunk"}
    stream = EventStream(exchange.request)
    stream.response.headers.update(session_header(begun))

    async def send(delta: Mapping[str, Any], reason: str | None = None) -> None:
        choice = {"index": 0, "delta": delta, "finish_reason": reason, "logprobs": None}
        await stream.write(_data({**head, "choices": [choice], **({"usage": None} if usage else {})}))

    async with stream:
        await send({"role": "assistant", "content": ""})
        try:
            async for piece in pieces:
                if isinstance(piece, str):
                    await send({"content": piece})
                else:
                    to_open_webui = OPEN_WEBUI in exchange.request.headers
                    for event in open_webui_sources(exchange, piece.sources) if to_open_webui else ():
                        await stream.write(_data({**head, "choices": [], "event": event}))
                    noted = {} if to_open_webui else {"annotations": annotations(exchange, piece.sources)}
                    await send(noted if piece.sources else {}, piece.reason)
                    if usage:
                        await stream.write(_data({**head, "choices": [], "usage": _usage(piece)}))
        except ConnectionResetError:
            raise
        except Exception as error:  # noqa: BLE001  (sent to the reader; an unexpected one is logged with its id)
            await stream.write(_data(openai_error(*error_body(error, exchange.request.path))))
        await stream.write(b"data: [DONE]\n\n")
    return stream.response


def _data(value: object) -> bytes:
    return b"data: " + msgspec.json.encode(value) + b"\n\n"


async def last(pieces: AsyncGenerator[Any, None]) -> Finished:
    """The end of a reply, its text passed over."""
    finished: Finished | None = None
    async for piece in pieces:
        finished = piece if isinstance(piece, Finished) else finished
    assert finished is not None
    return finished


def session_header(begun: Begun) -> dict[str, str]:
    """The session in which it was said, for clients that go on in it by name."""
    return {SESSION_HEADERS[0]: begun.session_id} if begun.session_id.isascii() and begun.session_id else {}


def annotations(exchange: Exchange, sources: Sequence[Source]) -> list[dict[str, Any]]:
    return [{"type": "url_citation", "url_citation": citation(exchange, source)} for source in sources]


def citation(exchange: Exchange, source: Source) -> dict[str, Any]:
    """A citation with the address of its packet on the daemon's page."""
    url = _address(exchange, source)
    return {"start_index": source.start, "end_index": source.end, "url": url, "title": source.title}


def open_webui_sources(exchange: Exchange, sources: Sequence[Source]) -> Iterator[dict[str, Any]]:
    """Events of Open WebUI, one a packet: where it makes a source of an annotation, it shows the address as its name.

    It names a source by `metadata.source` where that is an address, and else by `name`.
    """
    for packet, source in {source.packet_id: source for source in sources}.items():
        url = _address(exchange, source)
        metadata = {"source": packet, "name": source.title, "source_url": url}
        named = {"id": packet, "name": source.title, "url": url}
        data = {"source": named, "document": [source.quote or source.title], "metadata": [metadata]}
        yield {"type": "source", "data": data}


def _address(exchange: Exchange, source: Source) -> str:
    return f"http://{exchange.request.host}/#/packet/{source.packet_id}"


def _usage(finished: Finished) -> dict[str, Any]:
    return {
        "prompt_tokens": finished.prompt_tokens,
        "completion_tokens": finished.tokens,
        "total_tokens": finished.prompt_tokens + finished.tokens,
        "prompt_tokens_details": {"cached_tokens": finished.cached_tokens},
    }


# -------------------------------------------------------------------------------------------------------- embeddings


async def embeddings(exchange: Exchange) -> Reply:
    body = await exchange.body(Embeddings)
    exchange.service.openai.check_model(body.model, chats=False, embeds=True)
    texts = [body.input] if isinstance(body.input, str) else body.input
    if not 0 < len(texts) <= _MOST_TEXTS or not all(isinstance(text, str) and text for text in texts):
        raise BadInput(f"input: give a text or a list of 1 to {_MOST_TEXTS} texts, none empty; tokens are not taken")
    vectors, tokens = await exchange.service.openai.embed(texts, exchange.call(tenant_of(exchange)))
    width = len(vectors[0]) // 4
    if body.dimensions not in (None, width):
        raise BadInput(f"dimensions: the embedding model makes {width} numbers; leave it out")
    data = [
        {"object": "embedding", "index": number, "embedding": _encoded(vector, body.encoding_format)}
        for number, vector in enumerate(vectors)
    ]
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "data": data, "model": body.model, "usage": usage}


def _encoded(vector: bytes, form: str | None) -> object:
    if form == "base64":
        return base64.b64encode(vector).decode()
    return struct.unpack(f"<{len(vector) // 4}f", vector)
