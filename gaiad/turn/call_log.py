"""Calls of models outside a turn (`ask`, `/generate`, a bare role under /v1), each kept with its Cognition Packet.

The packet says what was sent, word for word, and can be replayed. What gaiad asks of itself begins with its identity; a
role that a person asks bare is sent the person's words and nothing else, so its packet has no identity. None has a
persona. A turn's stages and what a role is asked beside it keep their own (`TurnStore`). Heartbeats, probes and the
warm-up of a prefix say nothing to anybody and are not kept.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

import msgspec

from gaiad.base.clock import Clock, to_iso
from gaiad.base.errors import BadInput, GaiadError
from gaiad.base.ids import IdMaker, short
from gaiad.base.ports import RequestContext
from gaiad.models.pool.pool import ModelPool
from gaiad.models.pool.pooled import PooledModel
from gaiad.turn.turn_store import Sent, TurnStore, logged
from gaiad.wire.generation import ChatMessage, Generated, GenerateRequest, Segment, TextDelta
from prompts.builder import prompt_sha256
from prompts.messages import messages_of
from prompts.packet import CognitionPacket, FieldReport, HistoryEntry, PromptManifest

_CUT_OFF = "the call was cut off"


class CallLog:
    """One for the daemon."""

    def __init__(self, pool: ModelPool, store: TurnStore, clock: Clock, identity: Callable[[], str]) -> None:
        self._identity = identity
        self._pool = pool
        self._store = store
        self._ids = IdMaker(clock)
        self._clock = clock

    def model(self, role: str, key: str) -> PooledModel:
        """The role's model, whose calls are kept under the instruction `key`. Raises NotFound."""
        pooled = self._pool.pooled(self._pool.name_of(role=role))
        return PooledModel(lambda: pooled, self.generate_as(role, key), self._pool.load)

    def generate_as(
        self, role: str, key: str
    ) -> Callable[[str, GenerateRequest, RequestContext], AsyncGenerator[TextDelta | Generated, None]]:
        """As ModelPool.generate; packet and reply are kept, however the call ends, unless the request is refused."""

        async def generate(
            name: str, request: GenerateRequest, call: RequestContext
        ) -> AsyncGenerator[TextDelta | Generated, None]:
            reply: Generated | None = None
            failure, sent = _CUT_OFF, True
            try:
                async with aclosing(self._pool.generate(name, request, call)) as pieces:
                    async for piece in pieces:
                        if isinstance(piece, Generated):
                            reply, failure = piece, ""
                        yield piece
            except BadInput:
                sent = False
                raise
            except GaiadError as error:
                failure = error.message
                raise
            finally:
                if sent:
                    keep = self._keep(name, role, key, request, reply, failure, call)
                    await self._store.finish(self._store.attempt("its packet was not kept", keep))

        return generate

    async def _keep(
        self,
        name: str,
        role: str,
        key: str,
        request: GenerateRequest,
        reply: Generated | None,
        failure: str,
        call: RequestContext,
    ) -> None:
        model = self._pool.model(name)
        unhurried = RequestContext(tenant=call.tenant)
        rendered = request.segments or await model.tokenizer.render(request.messages, unhurried)
        packet = packet_of(
            request, self._ids.make("cog"), call.turn_id, role, key, model.window, self._now(), self._identity()
        )
        tokens = reply.prompt_tokens if reply else sum(await model.tokenizer.count([rendered], unhurried))
        manifest = PromptManifest(
            packet_id=packet.full_id,
            mtu=model.window,
            model=model.fingerprint,
            tokenizer=model.tokenizer.fingerprint,
            fields=[
                FieldReport(
                    field="user_prompt", limit=model.window, original_tokens=tokens, tokens=tokens, method="whole"
                )
            ],
            total_tokens=tokens,
            reserve_tokens=request.max_tokens,
            dropped=[],
            prompt_sha256=prompt_sha256(rendered),
        )
        asked = logged(request)
        if _texts(messages_of(packet)) != _texts(request.messages):
            asked["messages"] = msgspec.to_builtins(request.messages)
        said = {} if reply is None else msgspec.to_builtins(reply)
        sent = Sent(packet=packet, manifest=manifest, request=asked, reply=said, failure=failure, aside=True)
        await self._store.keep("", sent, call.tenant)

    def _now(self) -> str:
        return to_iso(self._clock.now())


def packet_of(
    request: GenerateRequest, full_id: str, turn_id: str, role: str, key: str, mtu: int, at: str, identity: str
) -> CognitionPacket:
    """The request as a packet: its system messages are the identity, where they begin with it, and the task
    instruction; its last message is the prompt.
    """
    messages = request.messages or [ChatMessage(role="user", content=request.segments)]
    *before, last = [(one.role, _text(one.content)) for one in messages]
    instruction = "\n\n".join(text for who, text in before if who == "system")
    with_identity = bool(identity) and instruction.startswith(f"{identity}\n\n")
    return CognitionPacket(
        packet_id=short(full_id),
        full_id=full_id,
        turn_id=turn_id,
        parent_id=None,
        timestamp=at,
        mtu=mtu,
        identity=identity if with_identity else "",
        persona="",
        role=role,
        role_text="",
        task_instruction_key=key,
        task_instruction=instruction.removeprefix(f"{identity}\n\n") if with_identity else instruction,
        history=[HistoryEntry(turn_id="", role=who, text=text) for who, text in before if who != "system"],
        context=[],
        user_prompt=last[1],
    )


def _texts(messages: list[ChatMessage]) -> list[tuple[str, str]]:
    return [(message.role, _text(message.content)) for message in messages]


def _text(content: list[Segment]) -> str:
    return "".join(segment.text for segment in content)
