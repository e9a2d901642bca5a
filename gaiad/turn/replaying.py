"""Takes a stored Cognition Packet up again: its prompt byte for byte, its reply beside the one it had (decision 9).

The reply is made in a fresh worker, alone: beside other requests a model's numbers move a little, and so may its words.
"""

from collections.abc import Sequence
from contextlib import aclosing
from itertools import zip_longest

import msgspec

from gaiad.base.errors import Conflict
from gaiad.base.ports import RequestContext, Tokenizer
from gaiad.models.pool.making import ServedModel
from gaiad.models.pool.pool import ModelPool
from gaiad.turn.turn_store import Sent
from gaiad.wire.chat import Replay
from gaiad.wire.generation import Generated, GenerateRequest, Segment
from prompts.builder import prompt_sha256
from prompts.load import changed_prompts
from prompts.messages import messages_of


async def replay(sent: Sent, pool: ModelPool, call: RequestContext, *, generate: bool) -> Replay:
    """Rebuild the prompt, and with `generate` the reply. Raises Conflict when that cannot be, Unavailable.

    By the model that it was sent to, whoever has the role now; when that is gone, by the role's.
    """
    known = pool.name_with(sent.manifest.model)
    name = known or pool.name_of(role=sent.packet.role)
    model = pool.model(name)
    rendered = await model.tokenizer.render(messages_of(sent.packet), call)
    digest = prompt_sha256(rendered)
    result = Replay(
        packet_id=sent.packet.full_id,
        same_prompt=digest == sent.manifest.prompt_sha256 or (False if known else None),
        prompt_sha256=digest,
        stored_sha256=sent.manifest.prompt_sha256,
        prompt="".join(segment.text for segment in rendered),
        same_model=bool(known),
        model=name,
        changed_prompts=tuple(changed_prompts(sent.manifest.prompts)),
    )
    if not generate:
        return result
    if not sent.reply:
        raise Conflict(f"{sent.packet.full_id}: has no stored reply to compare with")
    if not known:
        raise Conflict(
            f"{sent.packet.full_id}: was sent to a model that is no longer configured ({sent.manifest.model}); "
            "configure it again under models.known, and the reply can be compared"
        )
    if model.kind == "extractive":
        raise Conflict(f"{sent.packet.full_id}: was answered by quoting the archive; ask again to see what it says now")
    async with pool.fresh(name) as served:
        text = await _reply(served, sent, call)
    return await _compared(result, sent.reply["text"], text, model.tokenizer, call)


async def _reply(model: ServedModel, sent: Sent, call: RequestContext) -> str:
    request = msgspec.convert(sent.request, GenerateRequest)
    request = msgspec.structs.replace(request, messages=messages_of(sent.packet), seed=sent.reply["seed"])
    text = ""
    async with aclosing(model.generate(request, call)) as pieces:
        async for piece in pieces:
            if isinstance(piece, Generated):
                text = piece.text
    return text


async def _compared(result: Replay, before: str, now: str, tokenizer: Tokenizer, call: RequestContext) -> Replay:
    """Where the two replies part, in tokens."""
    old = await tokenizer.encode([Segment(before)], call)
    at = first_difference(old, await tokenizer.encode([Segment(now)], call)) if before != now else -1
    return msgspec.structs.replace(
        result, reply=now, differs_at=at, expected=_around(before, now), found=_around(now, before)
    )


def first_difference(one: Sequence[int], other: Sequence[int]) -> int:
    """The first place where two sequences are not the same; -1 when they are."""
    pairs = enumerate(zip_longest(one, other))
    return next((index for index, (left, right) in pairs if left != right), -1)


def _around(text: str, other: str) -> str:
    """The text from where it parts from `other`; "" when it does not."""
    if text == other:
        return ""
    start = next((i for i, (a, b) in enumerate(zip(text, other, strict=False)) if a != b), min(len(text), len(other)))
    return text[start : start + 40]
