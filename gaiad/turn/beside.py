"""What runs beside a turn: the look for an earlier packet to name below the answer, and the warm-up of the next prompt.

The look begins when the turn knows its own context, so it takes nothing from the way to the first word; the end of the
answer waits a moment for it at most. What a session has shown is in its turns' metadata, which no page is made of.

After a turn the model reads what was said where it will be in the next prompt, while nobody waits (decision 6): where
role text and task instruction came before the question they do not come again, so question and answer have to be read
again in their own place. The next turn then begins with a prompt of which only the question is new.
"""

import asyncio
from collections.abc import Collection, Sequence
from contextlib import aclosing
from datetime import tzinfo
from typing import Any

import msgspec

from gaiad.base.errors import GaiadError, NotFound
from gaiad.base.logs import get_logger
from gaiad.base.ports import Archive, Priority, RequestContext
from gaiad.base.tasks import TaskGroup
from gaiad.models.pool.pooled import PooledModel
from gaiad.research.proactive import Candidate, bearing_on, first_new, title_of, told
from gaiad.wire.chat import Also
from gaiad.wire.generation import GenerateRequest
from gaiad.wire.memory import SessionTurn
from prompts.messages import messages_of
from prompts.packet import CognitionPacket, HistoryEntry

ALSO, SURFACED = "also", "surfaced"  # in a turn's metadata: what it showed, and all that its session has shown by then
STATUSES = ("SUCCESS", "PARTIAL", "UNVERIFIED")
"""The ends of a turn that may show something: nothing goes below a question to the person, or below no answer."""
PATIENCE_S = 1.0
"""How long the end of a turn waits for a pass that is late; it takes milliseconds on an idle machine."""
_log = get_logger("gaiad.turns")


class Surfacing:
    """One for the daemon; days are those of `zone`."""

    def __init__(self, archive: Archive, zone: tzinfo) -> None:
        self._archive = archive
        self._zone = zone
        self._tasks = TaskGroup("proactive")

    def begin(
        self,
        message: str,
        session_id: str,
        turns: Sequence[SessionTurn],
        context: Collection[str],
        call: RequestContext,
    ) -> "SurfacingPass":
        """Look for what bears on the message, in the session whose last turns these are; returns at once.

        `context` are packets that the turn has before it anyway.
        """
        return SurfacingPass(self._tasks, self._archive, self._zone, message, session_id, turns, context, call)


class SurfacingPass:
    """Of one turn. `trouble` says why nothing was looked for, "" when it was; `surfaced` what its session has shown."""

    def __init__(
        self,
        tasks: TaskGroup,
        archive: Archive,
        zone: tzinfo,
        message: str,
        session_id: str,
        turns: Sequence[SessionTurn],
        context: Collection[str],
        call: RequestContext,
    ) -> None:
        self.trouble = ""
        self.surfaced = shown_in(turns)
        self._archive = archive
        self._zone = zone
        self._session_id = session_id
        self._task = tasks.start("look", self._look(message, turns, context, call))

    async def pick(self, passed_over: Collection[str]) -> Also | None:
        """One packet that bears on the message, is none of `passed_over`, and was not shown in the session before."""
        await asyncio.wait({self._task}, timeout=PATIENCE_S)
        if not self._task.done():
            self.give_up()
            self.trouble = f"it took longer than {PATIENCE_S:g} s"
            return None
        found = first_new(self._task.result(), {*passed_over, *self.surfaced})
        if found is None:
            return None
        self.surfaced.append(found.packet_id)
        return Also(packet_id=found.packet_id, title=title_of(found), words=told(found, self._zone), score=found.score)

    def give_up(self) -> None:
        """Nothing of it is needed any longer."""
        self._task.cancel()

    async def _look(
        self, message: str, turns: Sequence[SessionTurn], context: Collection[str], call: RequestContext
    ) -> list[Candidate]:
        try:
            if not turns:  # a history that is not looked back on
                self.surfaced = shown_in(await self._archive.session_turns(self._session_id, call, -1, 1, latest=True))
            return await bearing_on(self._archive, message, call, self._session_id, {*context, *self.surfaced})
        except NotFound:  # a tenant that nobody has spoken in yet
            return []
        except GaiadError as error:
            self.trouble = error.message
        except Exception as error:  # noqa: BLE001  (the answer goes out without it; a note says so)
            _log.error("proactive_pass_failed", exc_info=error)
            self.trouble = repr(error)
        return []


def shown_in(turns: Sequence[SessionTurn]) -> list[str]:
    """The packets that these turns or those before them have shown, once each."""
    listed = [name for turn in turns for name in turn.metadata.get(SURFACED, ()) if isinstance(name, str)]
    return list(dict.fromkeys(listed))


def as_metadata(also: Also | None, surfaced: Sequence[str]) -> dict[str, Any]:
    """What a turn's metadata keeps of it; nothing when the session has shown nothing."""
    shown = {ALSO: msgspec.to_builtins(also)} if also is not None else {}
    return {**shown, **({SURFACED: list(surfaced)} if surfaced else {})}


def remembered(turn: SessionTurn) -> Also | None:
    """What the turn showed; None also when it cannot be read, as of a turn that somebody else wrote."""
    try:
        return msgspec.convert(turn.metadata.get(ALSO), Also | None)
    except msgspec.ValidationError:
        return None


class PrefixWarmup:
    """Only for models whose prefix cache is here. A turn stops its session's first; what was read stays read."""

    def __init__(self) -> None:
        self._tasks = TaskGroup("read-ahead")
        self._reading: dict[tuple[str, str], asyncio.Task[None]] = {}

    def begin(self, packet: CognitionPacket, answer: str, model: PooledModel, tenant: str, session_id: str) -> None:
        """Let `model` read `packet` with its answer as history; returns at once."""
        if model.kind == "gguf" and answer:
            call = RequestContext(tenant=tenant, priority=Priority.BACKGROUND, turn_id=packet.turn_id)
            task = self._tasks.start("read", _read(as_history(packet, answer), model, call))
            self._reading[tenant, session_id] = task
            task.add_done_callback(lambda ended: self._forget((tenant, session_id), ended))

    async def stop_session(self, tenant: str, session_id: str) -> None:
        """Somebody waits in this session again."""
        if task := self._reading.get((tenant, session_id)):
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def stop(self) -> None:
        """All of it: the daemon stops."""
        await self._tasks.stop()

    def _forget(self, session: tuple[str, str], ended: asyncio.Task[None]) -> None:
        if self._reading.get(session) is ended:
            del self._reading[session]


def as_history(packet: CognitionPacket, answer: str) -> CognitionPacket:
    """The packet as the next one of its session will begin: its question and answer are history, its pages stand before
    that question, and nothing is asked.
    """
    said = [
        HistoryEntry(turn_id=packet.turn_id, role="user", text=packet.user_prompt),
        HistoryEntry(turn_id=packet.turn_id, role="assistant", text=answer),
    ]
    pages = [msgspec.structs.replace(item, before_turn=item.before_turn or packet.turn_id) for item in packet.context]
    history = [*packet.history, *said]
    return msgspec.structs.replace(
        packet,
        history=history,
        context=pages,
        user_prompt="",
        work=[],
        role_text="",
        task_instruction="",
        feedback="",
        feedback_from="",
    )


async def _read(packet: CognitionPacket, model: PooledModel, call: RequestContext) -> None:
    request = GenerateRequest(messages=messages_of(packet), max_tokens=1, seed=0)
    try:
        async with aclosing(model.generate(request, call)) as pieces:
            async for _ in pieces:
                pass
    except GaiadError as error:  # the next turn reads it itself
        _log.debug("prefix_not_warmed_up", model=model.name, reason=error.message)
