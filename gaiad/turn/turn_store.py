"""What stays of a turn and of a call: the packet that was sent with its reply, in the log, and what was said, in the
memory.

A stored packet can be replayed: its prompt byte for byte, its reply beside the one it had (decision 9). The reply is
made in a fresh worker, alone: beside other requests a model's numbers move a little, and so may its words.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import aclosing
from itertools import zip_longest
from typing import Any, TypeVar

import msgspec

from gaiad.base.clock import Clock, to_iso
from gaiad.base.errors import BadInput, Conflict, GaiadError, NotFound
from gaiad.base.ids import IdMaker, short
from gaiad.base.logs import get_logger
from gaiad.base.ports import Archive, RequestContext, Tokenizer
from gaiad.base.tasks import TaskGroup, WorkUnderWay
from gaiad.ledger.turn_log import CallRecord, CognitionLog
from gaiad.models.pool.making import ServedModel
from gaiad.models.pool.pool import ModelPool
from gaiad.models.pool.pooled import PooledModel
from gaiad.wire.chat import Replay
from gaiad.wire.generation import ChatMessage, Generated, GenerateRequest, Segment, TextDelta
from gaiad.wire.memory import SessionTurn
from prompts.budget import Built
from prompts.builder import prompt_sha256
from prompts.load import changed_prompts
from prompts.messages import messages_of
from prompts.packet import CognitionPacket, FieldReport, HistoryEntry, PromptManifest

_logger = get_logger("gaiad.cognition")
T = TypeVar("T")
_CUT_OFF = "the call was cut off"


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """What the cognition log keeps of one call: everything a replay needs, and what came back (decision 9).

    `failure` says why nothing came back whole, "" when it did. `aside` is set for what a role was asked beside a turn:
    a ballot, a look, a review. Such a packet has no history, so no later one begins as it does.
    """

    packet: CognitionPacket
    manifest: PromptManifest
    request: dict[str, Any]
    reply: dict[str, Any]
    failure: str = ""
    aside: bool = False


class TurnStore:
    """Writes both; neither is lost when the person has gone meanwhile."""

    def __init__(
        self, archive: Archive, log: CognitionLog, clock: Clock, under_way: WorkUnderWay | None = None
    ) -> None:
        """Turns, and what is being kept of them, are `under_way`."""
        self.under_way = under_way or WorkUnderWay()
        self._archive = archive
        self._log = log
        self._clock = clock
        self._tasks = TaskGroup("keeper")

    async def finish(self, work: Coroutine[Any, Any, T]) -> T:
        """Do `work` to its end, also when whoever waits for it is cancelled meanwhile."""
        return await asyncio.shield(self.begin(work))

    def begin(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Do `work` beside what goes on; it is waited for at the daemon's end."""
        return self._tasks.start("keep", self._counted(work))

    async def _counted(self, work: Coroutine[Any, Any, T]) -> T:
        with self.under_way.begun():
            return await work

    async def attempt(self, otherwise: str, work: Coroutine[Any, Any, Any]) -> str:
        """Do `work`; when it fails, the log says so, and what is returned in words: it must not cost the answer."""
        try:
            await work
        except Exception as error:
            words = error.message if isinstance(error, GaiadError) else repr(error)
            _logger.error("not_kept", what=otherwise, error=words, exc_info=error)
            return f"{otherwise}: {words}"
        return ""

    async def close(self) -> None:
        """Wait for what is being kept."""
        await self._tasks.wait()

    async def keep(self, session_id: str, sent: Sent, tenant: str) -> None:
        """Into the cognition log; durable when this returns."""
        packet = sent.packet
        row = CallRecord(
            full_id=packet.full_id,
            short_id=short(packet.full_id),
            turn_id=packet.turn_id,
            session_id=session_id,
            body=msgspec.json.encode(sent),
            model="" if sent.aside else sent.manifest.model,
        )
        await self._log.add(tenant, row)

    async def keep_aside(
        self,
        session_id: str,
        built: Built,
        asked: GenerateRequest,
        reply: Generated | None,
        failure: str,
        call: RequestContext,
    ) -> None:
        """What a role was asked beside a turn; kept though the caller is cancelled, and a failure is only logged."""
        sent = Sent(
            packet=built.packet,
            manifest=built.manifest,
            request=logged(asked),
            reply={} if reply is None else msgspec.to_builtins(reply),
            failure=failure,
            aside=True,
        )
        await self.finish(self.attempt("its packet was not kept", self.keep(session_id, sent, call.tenant)))

    async def remember(self, turn: SessionTurn, tenant: str) -> None:
        """Into the memory, whether or not anybody still waits for the answer."""
        await self._archive.remember_turn(turn, RequestContext(tenant=tenant))

    async def last_packet(self, session_id: str, call: RequestContext, fingerprint: str) -> CognitionPacket | None:
        """The last one of a session's turns that went to this model, None when it cannot be read: it serves reuse only.

        What was asked beside the turns is passed over, however much it was; one that holds what the call may not see is
        not used.
        """
        record = await self._log.last_of_model(call.tenant, session_id, fingerprint)
        try:
            packet = None if record is None else decode_sent(record).packet
            if packet is None or not call.hidden:
                return packet
            return None if await self._archive.hidden(_named_in(packet), call) else packet
        except NotFound as error:
            _logger.warning("last_packet_not_used", session_id=session_id, reason=error.message)
            return None

    def now(self) -> str:
        """UTC in ISO 8601."""
        return to_iso(self._clock.now())


def _named_in(packet: CognitionPacket) -> set[str]:
    """The turns and packets whose words stand in it."""
    return {entry.turn_id for entry in packet.history} | {item.packet_id for item in packet.context}


def logged(asked: GenerateRequest) -> dict[str, Any]:
    """The request but for the messages, which the packet renders to again."""
    found: dict[str, Any] = msgspec.to_builtins(msgspec.structs.replace(asked, messages=[]))
    return found


def decode_sent(record: CallRecord) -> Sent:
    """What was kept of a call. Raises NotFound when a newer version wrote it in a way that this one does not know."""
    try:
        return msgspec.json.decode(record.body, type=Sent)
    except msgspec.DecodeError as error:
        raise NotFound(f"{record.full_id}: was kept by another version of gaiad ({error})") from error


class CallLog:
    """Calls of models outside a turn (`ask`, `/generate`, a bare role under /v1), each kept with its Cognition Packet.

    The packet says what was sent, word for word, and can be replayed. What gaiad asks of itself begins with its
    identity; a role that a person asks bare is sent the person's words and nothing else, so its packet has no identity.
    None has a persona. Heartbeats, probes and the warm-up of a prefix say nothing to anybody and are not kept.
    """

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


async def replay(sent: Sent, pool: ModelPool, call: RequestContext, *, generate: bool) -> Replay:
    """Rebuild the prompt, and with `generate` the reply. Raises Conflict when that cannot be, Unavailable.

    By the model that it was sent to, whoever has the role now; when that is gone, by the role's.
    """
    known = pool.name_with(sent.manifest.model)
    name = known or pool.name_of(role=sent.packet.role)
    model = pool.model(name)
    asked = msgspec.convert(sent.request, GenerateRequest) if sent.request else None
    rendered = (
        asked.segments if asked and asked.segments else await model.tokenizer.render(_messages(sent, asked), call)
    )
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


def _messages(sent: Sent, asked: GenerateRequest | None) -> list[ChatMessage]:
    """As they were sent: those kept because the packet does not render to them, else the packet's."""
    return asked.messages if asked and asked.messages else messages_of(sent.packet)


async def _reply(model: ServedModel, sent: Sent, call: RequestContext) -> str:
    request = msgspec.convert(sent.request, GenerateRequest)
    messages = [] if request.segments else _messages(sent, request)
    request = msgspec.structs.replace(request, messages=messages, seed=sent.reply["seed"])
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
