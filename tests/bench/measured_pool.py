"""A pool whose models of noise keep to the usual course of a turn, and which keeps every call it was asked for.

Noise can neither judge nor end. So replies are cut at a given length, and where a judgement decides about the next
stage it is left one choice.
"""

import secrets
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

import msgspec

from gaiad.base.ports import RequestContext
from gaiad.models.pool.making import ModelDependencies
from gaiad.models.pool.pool import ModelPool
from gaiad.models.pool.pooled import Pooled
from gaiad.wire.generation import Generated, GenerateRequest, TextDelta

_MEMORY = 2**34
_ONLY: dict[str, list[Any]] = {"confidence": [0.8], "interrupt": [False], "outcome": ["success"]}
_STEPS, _STEP_CHARACTERS = 10, 12
_REASON_CHARACTERS = 60  # a look has to end before the text does


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """One call of a turn as the model got it, and what came; `reply` is None when it was broken off."""

    stage: str
    request: GenerateRequest
    reply: Generated | None
    seconds: float


class MeasuredPool(ModelPool):
    """Cuts every reply at `tokens` and keeps the calls of stages and of the observer."""

    tokens = 64

    def __init__(self, roles: dict[str, str], models: Sequence[Pooled], dependencies: ModelDependencies) -> None:
        super().__init__(roles, models, dependencies, _MEMORY)
        self.asked: list[Asked] = []

    async def generate(
        self, name: str, request: GenerateRequest, call: RequestContext
    ) -> AsyncGenerator[TextDelta | Generated, None]:
        """As ModelPool.generate, of a narrowed request."""
        request = narrowed(request, self.tokens)
        reply: Generated | None = None
        started = time.perf_counter()
        try:
            async with aclosing(super().generate(name, request, call)) as pieces:
                async for piece in pieces:
                    reply = piece if isinstance(piece, Generated) else None
                    yield piece
        finally:
            if stage := stage_of(request):
                took = time.perf_counter() - started
                self.asked.append(Asked(stage=stage, request=request, reply=reply, seconds=took))


def narrowed(request: GenerateRequest, tokens: int) -> GenerateRequest:
    """At most `tokens`, with a seed that is known, and one choice for what decides about the next stage."""
    seed = secrets.randbits(32) if request.seed is None else request.seed
    request = msgspec.structs.replace(request, max_tokens=min(tokens, request.max_tokens), seed=seed)
    if request.schema is not None:
        return msgspec.structs.replace(request, schema=_decided(request.schema))
    if request.contract is None:
        return request
    blocks = [
        block if block.schema is None else msgspec.structs.replace(block, schema=_decided(block.schema))
        for block in request.contract.blocks
    ]
    return msgspec.structs.replace(request, contract=msgspec.structs.replace(request.contract, blocks=blocks))


def _decided(schema: dict[str, Any]) -> dict[str, Any]:
    """With the one choice; texts are as long as they may be and lists have many short steps, so that a stage reaches
    its limit and its first step is whole.
    """
    fields: dict[str, Any] = {}
    for name, field in schema["properties"].items():
        if name in _ONLY:
            fields[name] = {"enum": _ONLY[name]}
        elif name == "reason":
            fields[name] = {**field, "maxLength": min(_REASON_CHARACTERS, field["maxLength"])}
        elif field.get("type") == "array":
            items = {**field["items"], "minLength": _STEP_CHARACTERS, "maxLength": _STEP_CHARACTERS}
            fields[name] = {**field, "minItems": _STEPS, "maxItems": _STEPS, "items": items}
        else:
            fields[name] = {**field, "minLength": field["maxLength"]}
    return {**schema, "properties": fields}


def stage_of(request: GenerateRequest) -> str:
    """Which stage a request is of, by its form. Act writes plain text; one token is only read ahead, and no stage."""
    if request.schema is not None:
        return "observe"
    if request.contract is None:
        return "act" if request.max_tokens > 1 else ""
    block = request.contract.blocks[-1]
    if block.marker == "PLAN" and block.schema is not None:
        return "refine" if "confidence" in block.schema["properties"] else "plan"
    return {"RESPONSE": "act", "VERIFY": "verify"}.get(block.marker, "")
