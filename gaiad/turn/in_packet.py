"""Puts what the making of prompts asks of a model into a Cognition Packet too (GCP 1: the whole stack goes with every
call): a summary (GCP 4.2), the reading of a persona (GCP 3.3).

Such a packet is like a ballot's, without history, and is in the cognition log. Two things are different. Its
persona is the shipped default, for a model must not judge a persona's text under that very persona. And nothing in it
is made shorter, or what is to be summarised would need a summary first: its MTU is the model's whole context.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing

import msgspec

from gaiad.base.clock import Clock, to_iso
from gaiad.base.errors import GaiadError, TokenBudgetError, Unavailable
from gaiad.base.ids import IdMaker
from gaiad.base.ports import RequestContext, Tokenizer
from gaiad.models.pool.pooled import PooledModel
from gaiad.turn.turn_store import TurnStore
from gaiad.wire.generation import Generated, GenerateRequest, TextDelta
from gaiad.wire.status import ModelStatus
from prompts.budget import BuildRequest, Built
from prompts.builder import build
from prompts.load import load_prompt
from prompts.registry import DEFAULT_PERSONA, Registry

_WIDE = 1_000_000  # tokens: no limit of ours where the model's context is not known


class InPacket:
    """The Model port of `model` in a role, under the directive `key`; the request's one message becomes the question.

    `turn_id` and `session_id` say what it is asked for, "" for nobody's.
    """

    def __init__(
        self,
        model: PooledModel,
        *,
        role: str,
        key: str,
        registry: Registry,
        turn_store: TurnStore,
        ids: IdMaker,
        clock: Clock,
        turn_id: str,
        session_id: str,
    ) -> None:
        self._model = model
        self._role = role
        self._key = key
        self._registry = registry
        self._turn_store = turn_store
        self._ids = ids
        self._clock = clock
        self._turn_id = turn_id
        self._session_id = session_id

    @property
    def fingerprint(self) -> str:
        return self._model.fingerprint

    @property
    def tokenizer(self) -> Tokenizer:
        return self._model.tokenizer

    def status(self) -> ModelStatus:
        return self._model.status()

    async def generate(
        self, request: GenerateRequest, call: RequestContext
    ) -> AsyncGenerator[TextDelta | Generated, None]:
        """As Model.generate; raises Unavailable too when packet and reply are more than the model's context."""
        built = await self._built(request, call)
        asked = msgspec.structs.replace(request, messages=built.messages)
        reply: Generated | None = None
        failure = "the call was cut off"
        try:
            async with aclosing(self._model.generate(asked, call)) as pieces:
                async for piece in pieces:
                    if isinstance(piece, Generated):
                        reply, failure = piece, ""
                    yield piece
        except GaiadError as error:
            failure = error.message
            raise
        finally:
            await self._turn_store.keep_aside(self._session_id, built, asked, reply, failure, call)

    async def _built(self, request: GenerateRequest, call: RequestContext) -> Built:
        registry, window = self._registry, self._model.window
        wanted = BuildRequest(
            full_id=self._ids.make("cog"),
            turn_id=self._turn_id,
            timestamp=to_iso(self._clock.now()),
            model=self._model.fingerprint,
            identity=registry.identity_text(),
            persona=registry.persona_text(DEFAULT_PERSONA) if DEFAULT_PERSONA in registry.personas else "",
            role=self._role,
            role_text=load_prompt(f"role_{self._role}").body.rstrip("\n"),
            task_instruction_key=self._key,
            task_instruction=registry.task_instruction(self._key).text,
            user_prompt="\n".join(part.text for message in request.messages for part in message.content),
            mtu=max(1, window - request.max_tokens) if window else _WIDE,
            reserve_tokens=request.max_tokens,
        )
        try:
            return await build(wanted, self._model.tokenizer, None, call)
        except TokenBudgetError as error:
            raise Unavailable(f"{self._model.name} has no room for it: {error.message}") from error
