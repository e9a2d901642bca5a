"""After a turn the model reads what was said where it will stand in the next prompt, while nobody waits (decision 6).

Where role text and task instruction stood before the question they do not come again, so question and answer have to be
read again in their own place. Done now, the next turn begins with a prompt of which only the question is new.
"""

import asyncio
from contextlib import aclosing

import msgspec

from gaiad.base.errors import GaiadError
from gaiad.base.logs import get_logger
from gaiad.base.ports import Priority, RequestContext
from gaiad.base.tasks import TaskGroup
from gaiad.models.pool.pooled import PooledModel
from gaiad.wire.generation import GenerateRequest
from prompts.messages import messages_of
from prompts.packet import CognitionPacket, HistoryEntry

_log = get_logger("gaiad.cognition")


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
        packet, history=history, context=pages, user_prompt="", work=[], role_text="", task_instruction=""
    )


async def _read(packet: CognitionPacket, model: PooledModel, call: RequestContext) -> None:
    request = GenerateRequest(messages=messages_of(packet), max_tokens=1, seed=0)
    try:
        async with aclosing(model.generate(request, call)) as pieces:
            async for _ in pieces:
                pass
    except GaiadError as error:  # the next turn reads it itself
        _log.debug("not_read_ahead", model=model.name, reason=error.message)
