"""What stays of a turn: the packet that was sent with its reply, in the log, and what was said, in the memory."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import msgspec

from gaiad.base.clock import Clock, to_iso
from gaiad.base.errors import GaiadError, NotFound
from gaiad.base.ids import short
from gaiad.base.logs import get_logger
from gaiad.base.ports import Archive, RequestContext
from gaiad.base.tasks import TaskGroup
from gaiad.ledger.cognition_log import CallRecord, CognitionLog
from gaiad.wire.generation import Generated, GenerateRequest
from gaiad.wire.memory import SessionTurn
from prompts.budget import Built
from prompts.packet import CognitionPacket, PromptManifest

_logger = get_logger("gaiad.cognition")
T = TypeVar("T")


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

    def __init__(self, archive: Archive, log: CognitionLog, clock: Clock) -> None:
        self._archive = archive
        self._log = log
        self._clock = clock
        self._tasks = TaskGroup("keeper")

    async def finish(self, work: Coroutine[Any, Any, T]) -> T:
        """Do `work` to its end, also when whoever waits for it is cancelled meanwhile."""
        return await asyncio.shield(self.begin(work))

    def begin(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Do `work` beside what goes on; it is waited for at the daemon's end."""
        return self._tasks.start("keep", work)

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
