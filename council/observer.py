"""The observer of one stream of Act (GCP 6, decision 12): rules before anything is shown, and a model that reads along.

The rules judge every piece before it is released. The observing role's model is best effort and later: it is shown the
last of the released text now and then, when it is free and no person waits for it, and can only stop what comes after.
Whoever drives the stream cancels it on `stop`, posts the INTERRUPT and counts the looks; here nothing is posted.
"""

import asyncio
import re
from typing import Literal

import msgspec

from council.limits import WindowLimits
from council.observer_rules import ObserverRules, Rule
from council.ports import Ask, CouncilRoom, RoleReply, Speaker
from council.roles import Role
from council.stage_output import Outcome, read_output
from council.stages import Observation, stage_form
from gaiad.base.clock import Clock
from gaiad.base.errors import BadInput, GaiadError
from gaiad.base.logs import get_logger
from gaiad.base.ports import Priority, RequestContext
from gaiad.base.tasks import TaskGroup
from prompts.packet import WorkItem

WINDOW_INSTRUCTION = "observer_window"
_NO_REASON = "the observer gave no reason"
_SENTENCE_END = re.compile(r"[.!?\u2026]+[\"'\u2019\u201d)\]*_]*(?=\s)|[\u3002\uff01\uff1f]|\n")
_log = get_logger("gaiad.observer")


def whole_sentences(text: str) -> str:
    """The text up to its last sentence that has ended; all of it where none has."""
    ends = [found.end() for found in _SENTENCE_END.finditer(text)]
    return text[: ends[-1]].rstrip() if ends else text


class StopReason(msgspec.Struct, frozen=True, kw_only=True):
    """Why the stream must end. `reason` is for people and never quotes a secret.

    A rule's `at` is the first character that was not released; of a model it is how much was released when it said so,
    all of which is retracted. `role` is "" for a rule, `rule` for a model.
    """

    source: Literal["rule", "model"]
    reason: str
    at: int
    rule: Rule | Literal[""] = ""
    role: str = ""


class ObserverCheck(msgspec.Struct, frozen=True, kw_only=True):
    """One look of the model at `characters` of released text. `said` is None when it was lost; `why` says how."""

    role: Role
    outcome: Outcome
    characters: int
    ms: float
    said: RoleReply | None = None
    why: str = ""

    @property
    def tokens(self) -> int:
        """What it wrote."""
        return 0 if self.said is None else self.said.tokens


class Windows(msgspec.Struct, frozen=True, kw_only=True):
    """Who reads along and how. `question` is what the text answers; `call` is the turn's."""

    role: Role
    floor: CouncilRoom
    speaker: Speaker
    clock: Clock
    limits: WindowLimits
    call: RequestContext
    max_tokens: int
    question: str = ""
    turn_id: str = ""
    session_id: str = ""


class Observer:
    """Feed pieces as they come and show what is given back. Once `stop` is set nothing more is released.

    Without `windows` (the setting `observer_windows` is off, or no role can observe) only the rules watch. `looks` are
    those that have ended, in order.
    """

    def __init__(self, rules: ObserverRules, windows: Windows | None = None) -> None:
        self._rules = rules
        self._windows = windows
        self._tasks = TaskGroup("observer")
        self._released = ""  # the last of it, as much as a look is shown
        self._count = 0
        self._looked_at = 0
        self._looking: RequestContext | None = None
        self._lost = 0
        self._stopped = asyncio.Event()
        self._ended = False
        self.looks: list[ObserverCheck] = []
        self.stop: StopReason | None = None

    def feed(self, piece: str) -> str:
        """What can be shown by now."""
        return "" if self.stop or self._ended else self._pass(self._rules.feed(piece))

    def finish(self) -> str:
        """What was held back: the stream has ended, and the model looks no more."""
        shown = "" if self.stop or self._ended else self._pass(self._rules.finish())
        self._ended = True
        self._cancel_look()
        return shown

    async def wait_stop(self) -> StopReason:
        """Wait until the stream must be cancelled; to be raced against it, for it may never come."""
        await self._stopped.wait()
        if self.stop is None:
            raise BadInput("the observer was woken without a reason to stop")
        return self.stop

    async def close(self) -> None:
        """End a look that is still going on. To be called however the stream ended."""
        self._ended = True
        self._cancel_look()
        await self._tasks.stop()

    def _pass(self, text: str) -> str:
        """Count what is released, stop by the rules, and let the model look when it is time."""
        self._count += len(text)
        if (fault := self._rules.violation) is not None:
            self._stop(StopReason(source="rule", reason=fault.reason, at=fault.at, rule=fault.rule))
        elif self._windows is not None:
            self._released = (self._released + text)[-self._windows.limits.shown_characters :]
            self._maybe_look(self._windows)
        return text

    def _stop(self, stop: StopReason) -> None:
        if self.stop is None:
            self.stop = stop
            self._stopped.set()
            self._cancel_look()

    def _maybe_look(self, windows: Windows) -> None:
        due = self._count - self._looked_at >= windows.limits.every_characters
        if not due or self._looking is not None or self._lost >= windows.limits.lost_in_a_row:
            return
        if not windows.floor.is_free(windows.role):
            return
        self._looked_at = self._count
        until = windows.clock.monotonic() + windows.limits.look_s
        deadline = until if windows.call.deadline is None else min(until, windows.call.deadline)
        self._looking = RequestContext(windows.call.tenant, deadline, Priority.BACKGROUND, windows.turn_id)
        self._tasks.start("look", self._look(windows, whole_sentences(self._released), self._count, self._looking))

    def _cancel_look(self) -> None:
        if self._looking is not None:
            self._looking.cancel()

    async def _look(self, windows: Windows, text: str, count: int, call: RequestContext) -> None:
        """Ask the model about the last of the text; a look that fails is `lost` and stops nothing."""
        started = windows.clock.monotonic()
        try:
            async with asyncio.timeout(windows.limits.look_s):
                said = await windows.speaker.say(_question(windows, text), call)
        except (GaiadError, TimeoutError) as error:
            why = error.message if isinstance(error, GaiadError) else f"no judgement in {windows.limits.look_s:g} s"
            self._note(windows, count, started, None, why)
        except asyncio.CancelledError:
            self._note(windows, count, started, None, "the text ended first")
            raise
        else:
            self._note(windows, count, started, said, "")
        finally:
            call.cancel()
            self._looking = None

    def _note(self, windows: Windows, count: int, started: float, said: RoleReply | None, why: str) -> None:
        """Keep the look, and stop when it says so of a stream that still runs."""
        reading = None if said is None else read_output("observe", said.text, 0.0)
        outcome: Outcome = "lost" if reading is None else reading.outcome
        value = None if reading is None else reading.value
        self._lost = self._lost + 1 if outcome in ("lost", "unreadable") else 0
        ms = (windows.clock.monotonic() - started) * 1000
        said_why = value.reason if isinstance(value, Observation) else why
        self.looks.append(
            ObserverCheck(role=windows.role, outcome=outcome, characters=count, ms=ms, said=said, why=said_why)
        )
        if outcome == "lost":
            _log.info("look_lost", role=windows.role, turn_id=windows.turn_id, why=why)
        if outcome == "interrupt" and not self._ended:
            reason = said_why.strip() or _NO_REASON
            self._stop(StopReason(source="model", reason=reason, at=self._count, role=windows.role))


def _question(windows: Windows, text: str) -> Ask:
    """What the observing role is asked: the user's words and the window, both untrusted."""
    asked = [WorkItem("QUESTION", windows.question, "user")] if windows.question else []
    return Ask(
        role=windows.role,
        task_instruction=WINDOW_INSTRUCTION,
        subject="Judge the quoted part of a response; more is still being written.",
        work=(*asked, WorkItem("RESPONSE", text, "")),
        form=stage_form("observe", windows.max_tokens),
        max_tokens=windows.max_tokens,
        turn_id=windows.turn_id,
        session_id=windows.session_id,
    )
