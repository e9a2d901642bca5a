"""What intake may ask of conversations: take a turn, see what a packet would hold or held. A part of `service`.

What leaves to a person goes through the router for the channel the person is at (GCP 7); the memory keeps it whole.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import Any

import msgspec

from gaiad.base.channels import check_chat
from gaiad.base.config import Config, MemoryConfig
from gaiad.base.errors import NotFound
from gaiad.base.events import NamedEvent
from gaiad.base.logs import get_logger
from gaiad.base.metrics import Metrics
from gaiad.base.ports import Archive, RequestContext
from gaiad.ledger.turn_log import CallRecord, CognitionLog
from gaiad.models.pool.pool import ModelPool
from gaiad.service.identity_fit import Fitting
from gaiad.turn.cognition import Assembler
from gaiad.turn.taker import TurnTaker
from gaiad.turn.turn import Executed
from gaiad.turn.turn_store import decode_sent, replay
from gaiad.wire.chat import (
    ChatAnswer,
    ChatChannel,
    ChatRequest,
    PacketRecord,
    PersonaRow,
    RedactionCount,
    Rendering,
    Replay,
)
from gaiad.wire.memory import SessionSummary, SessionTurn
from gaiad.wire.schemas import ResearchResult
from router.routed import RoutedTurn
from router.routing import Routing, kept, routing_of
from router.stored import Scrubber, stored_as_shown

OWNERS: ChatChannel = "cli_chat"
"""Where a command is approved and verified: it is for its owner alone."""
_log = get_logger("gaiad.cognition")


class Conversations:
    """Sessions and the packets of their turns."""

    def __init__(
        self,
        taker: TurnTaker,
        assembler: Assembler,
        archive: Archive,
        log: CognitionLog,
        pool: ModelPool,
        metrics: Metrics,
        fitting: Fitting,
        routing: Routing,
        memory: MemoryConfig,
        turn_ended: Callable[[str], None],
    ) -> None:
        """`turn_ended` hears the tenant of every turn that was answered."""
        self._taker = taker
        self._archive = archive
        self._log = log
        self._assembler = assembler
        self._pool = pool
        self._metrics = metrics
        self._fitting = fitting
        self._memory = memory
        self._turn_ended = turn_ended
        self._use_routing(routing)

    def problems(self) -> list[str]:
        """What is wrong with personas and instructions, in words."""
        problems = self._assembler.factory.problems()  # takes changed registry files up, which are then measured too
        return [*self._fitting.notes(), *problems]

    def use_config(self, config: Config) -> None:
        """Other sizes, another length of history, other routes and lists, from the next turn on. Raises ConfigError."""
        self._use_routing(routing_of(config))
        self._memory = config.memory
        self._assembler.factory.config = config.cognition
        self._fitting.use_config(config.cognition)
        self._taker.use_history(config.cognition.history_turns)

    def _seen_by(self, channel: ChatChannel, call: RequestContext) -> RequestContext:
        """The call without what the channel may not see. Raises BadInput for a channel that is not a chat."""
        check_chat(channel)
        return call.without(*self._memory.hidden_from(channel))

    def _use_routing(self, routing: Routing) -> None:
        self._routing, self._read_tables = routing, False
        self._taker.use_memory(kept(routing.table))

    async def chat(self, request: ChatRequest, call: RequestContext) -> AsyncGenerator[NamedEvent, None]:
        """A turn as it happens, as its channel may have it; the last event is `done` with a ChatAnswer.

        Raises as TurnTaker.take.
        """
        started = time.perf_counter()
        routed: RoutedTurn | None = None
        try:
            async with aclosing(self._taker.take(request, self._seen_by(request.channel, call))) as events:
                async for name, data in events:
                    if routed is None:  # not before: nothing may be waited for ahead of the session's line
                        routed = await self._routed(request.channel)
                    if isinstance(data, ChatAnswer):
                        self._metrics.observe_ms("turn", (time.perf_counter() - started) * 1000)
                        self._metrics.count("turns")
                        self._turn_ended(call.tenant)
                    for event in routed.feed(name, data):
                        yield event
        finally:
            if routed is not None:
                self._tell(routed, request.channel, call)

    async def name(self, request: ChatRequest, call: RequestContext) -> tuple[ChatRequest, str]:
        """The request with its session, and the id its turn will have. Raises as TurnTaker.name."""
        return await self._taker.name(request, self._seen_by(request.channel, call))

    async def again(self, turn_id: str, channel: ChatChannel, call: RequestContext) -> ChatAnswer:
        """What a turn said that ended before, as `channel` may have it. Raises as TurnTaker.again."""
        routed = await self._routed(channel)
        answer = routed.answer(await self._taker.again(turn_id, self._seen_by(channel, call)))
        self._tell(routed, channel, call)
        return answer

    async def verify(self, executed: Executed, call: RequestContext) -> AsyncGenerator[NamedEvent, None]:
        """The turn after an approved command was run, as it happens. Raises as TurnTaker.take."""
        async with aclosing(self._taker.verify(executed, self._seen_by(OWNERS, call))) as events:
            async for event in events:
                yield event

    async def render(self, request: ChatRequest, call: RequestContext) -> Rendering:
        """What a turn would send; nothing is sent or remembered."""
        return await self._taker.render(request, self._seen_by(request.channel, call))

    async def packet(self, name: str, call: RequestContext) -> PacketRecord:
        """A packet that was sent, by its id, the digits shown, or its turn. Raises NotFound."""
        record = await self._log.find(call.tenant, name)
        return _decoded(record)

    async def packets(self, call: RequestContext, limit: int, session_id: str = "") -> list[PacketRecord]:
        """The last ones, newest first; one that another version wrote is left out and logged."""
        found = []
        for record in await self._log.newest(call.tenant, limit, session_id):
            try:
                found.append(_decoded(record))
            except NotFound as error:
                _log.warning("a packet is left out of the list", packet=record.full_id, why=error.message)
        return found

    async def replay(self, name: str, call: RequestContext, *, generate: bool) -> Replay:
        """Build a stored packet's prompt again, and with `generate` its reply in a fresh worker."""
        return await replay(decode_sent(await self._log.find(call.tenant, name)), self._pool, call, generate=generate)

    def personas(self) -> list[PersonaRow]:
        """Those in force, by name."""
        self._assembler.factory.problems()  # takes changed registry files up
        found = sorted(self._assembler.factory.registry.personas.items())
        return [
            PersonaRow(name=name, scope=one.scope, tone=one.tone, projects=list(one.projects)) for name, one in found
        ]

    async def sessions(self, call: RequestContext, limit: int) -> list[SessionSummary]:
        """Sessions, the one spoken in last first."""
        return await self._archive.sessions(call, limit)

    async def turns(
        self, session_id: str, call: RequestContext, limit: int, channel: ChatChannel | None = None
    ) -> list[SessionTurn]:
        """The last turns of a session, in order; as `channel` may have them, or without one as they are remembered."""
        turns = await self._archive.session_turns(session_id, call, limit=limit, latest=True)
        if channel is None:
            return turns
        routed = await self._routed(channel)
        return await asyncio.to_thread(lambda: [routed.remembered(turn) for turn in turns])  # a long session is long

    async def routed_result(self, result: ResearchResult, channel: ChatChannel, call: RequestContext) -> ResearchResult:
        """What research found, as `channel` may have it."""
        routed = await self._routed(channel)
        shown = routed.found(result)
        self._tell(routed, channel, call)
        return shown

    def scrubs(self, channel: ChatChannel) -> bool:
        """Whether what `channel` is shown may be scrubbed, as the settings are now."""
        return bool(self._routing.stages[channel])

    async def shown(self, stored: object, channel: ChatChannel, tenant: str) -> tuple[Any, list[RedactionCount]]:
        """What is stored, as JSON values that `channel` may have, and what was taken out; made beside the loop."""
        routing = self._routing
        scrubber = Scrubber(routing.rules, routing.stages[channel])
        shown = await asyncio.to_thread(stored_as_shown, scrubber, stored)
        self._count(scrubber.taken, channel, tenant)
        return shown

    async def _routed(self, channel: ChatChannel) -> RoutedTurn:
        """The way to a channel; what redaction has to read from disk is read beside the loop."""
        routing = self._routing
        routed = RoutedTurn(routing, channel)
        if routed.scrubs and not self._read_tables:
            await asyncio.to_thread(routing.rules.read_tables)
            self._read_tables = True
        return routed

    def _tell(self, routed: RoutedTurn, channel: str, call: RequestContext) -> None:
        """What was taken out of a turn, by kind and count: never the text."""
        self._count(routed.taken, channel, call.tenant)

    def _count(self, taken: Mapping[str, int], channel: str, tenant: str) -> None:
        if taken:
            self._metrics.count("redactions", sum(taken.values()))
            _log.info("redacted", channel=channel, tenant=tenant, **taken)


def _decoded(record: CallRecord) -> PacketRecord:
    """Raises NotFound for one that another version wrote."""
    sent = decode_sent(record)
    values: dict[str, Any] = msgspec.to_builtins(sent)
    return PacketRecord(session_id=record.session_id, made_at=sent.packet.timestamp, **values)
