"""Proactive context of a turn: looked for beside the answer, shown below it, no part of what a model said.

The pass begins when the turn knows its own context, so it takes nothing from the way to the first word; the end of the
answer waits a moment for it at most. What a session has shown is in its turns' metadata, which no page is made of.
"""

import asyncio
from collections.abc import Collection, Sequence
from datetime import tzinfo
from typing import Any

import msgspec

from gaiad.base.errors import GaiadError, NotFound
from gaiad.base.logs import get_logger
from gaiad.base.ports import Archive, RequestContext
from gaiad.base.tasks import TaskGroup
from gaiad.research.proactive import Candidate, bearing_on, first_new, title_of, told
from gaiad.wire.chat import Also
from gaiad.wire.memory import SessionTurn

ALSO, SURFACED = "also", "surfaced"  # in a turn's metadata: what it showed, and all that its session has shown by then
STATUSES = ("SUCCESS", "PARTIAL")
"""How a turn ends that may show something: an answer that found nothing, or a question to the person, stands alone."""
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
        except Exception as error:  # noqa: BLE001  (the answer stands without it; its note tells)
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
