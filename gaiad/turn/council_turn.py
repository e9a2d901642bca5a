"""Takes a turn through the council: the state machine says which stage comes next; here it is run and reported.

A turn is a stream of events, `done` last. What a stage wrote is in the next one's packet; what was said goes to the
council's log while it is said; what came of it is kept however the turn ends, also when nobody listens any longer.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import NamedTuple

from msgspec import structs

from council.execute_review import Considered
from council.observer import Observer
from council.roles import Role, assign_stage
from council.stage_output import Outcome, read_output, without_success
from council.stages import (
    Command,
    Marker,
    Plan,
    RefinedPlan,
    Verification,
    plan_text,
    verification_text,
)
from council.state_machine import End, StageTask, TurnStateMachine
from gaiad.base.clock import Clock
from gaiad.base.errors import BadInput, Cancelled, DeadlineExceeded, GaiadError, Unavailable
from gaiad.base.ports import RequestContext
from gaiad.research.evidence import asks, asks_of_gaiad, only_tells
from gaiad.research.familiar import asks_back
from gaiad.research.sentences import split
from gaiad.turn.acting import RESPONSE, Acting
from gaiad.turn.also import STATUSES
from gaiad.turn.closing import closing_words, undone, watch
from gaiad.turn.grounding import Grounding, about_the_pages, says_enough
from gaiad.turn.recorder import TurnRecorder
from gaiad.turn.services import TurnServices
from gaiad.turn.stage_call import CUT, ENDED, StageCall
from gaiad.turn.stage_packets import StagePackets
from gaiad.turn.stage_start import StageStart
from gaiad.turn.turn_state import FAILED, TurnState, WrittenBlock, as_event, succeeded
from gaiad.turn.turn_store import TurnStore
from gaiad.turn.usable import ENDS_TEXT, cut_notes, instead_of_answer, is_quoting, not_told, quote, unsaid_quote, usable
from prompts.packet import WorkItem

_LAST_COUNTS = ("PLAN", "RESPONSE", "INTERRUPT")  # of each, only the last one written is work for the next stage


class WrittenItems:
    """`items` in the order they were written."""

    def __init__(self, items: Sequence[WorkItem]) -> None:
        self.items = [*items]

    def add(self, marker: str, text: str, role: str) -> None:
        """Nothing is added where nothing was written, though it may put an end to what was written before."""
        if marker in _LAST_COUNTS:
            self.items = [item for item in self.items if item.marker != marker]
        if text.strip():
            self.items.append(WorkItem(marker=marker, text=text, role=role))


Event = tuple[str, object]
MEMO = "MEMO"


class Done(NamedTuple):
    """How a stage call ended; `confidence` is that of a refined plan."""

    outcome: Outcome
    tokens: int = 0
    confidence: float | None = None

    def told(self) -> tuple[Outcome, int]:
        return self.outcome, self.tokens

    def doubt(self) -> float | None:
        """The confidence where it is the reason that the matter goes up."""
        return self.confidence if self.outcome == "low_confidence" else None


class CouncilTurn:
    """One turn. `call` ends with the turn's deadline; `memos` seed its plan (JIT).

    One that goes on from an approved command has `work` of the turn before, and the role that `acted_by` then.
    """

    def __init__(
        self,
        services: TurnServices,
        packets: StagePackets,
        turn_store: TurnStore,
        turn_state: TurnState,
        recorder: TurnRecorder,
        clock: Clock,
        call: RequestContext,
        memos: Sequence[str] = (),
        *,
        work: Sequence[WorkItem] = (),
        acted_by: Role | None = None,
    ) -> None:
        self._services = services
        self._turn_store = turn_store
        self._turn_state = turn_state
        self._recorder = recorder
        self._rules = turn_state.rules
        self._machine = TurnStateMachine(turn_state.choice.depth, turn_state.rules, acted_by)
        self._clock = clock
        self._call = call
        self._start = StageStart(packets, turn_state, recorder, clock, call)
        self._written = WrittenItems([WorkItem(marker=MEMO, text="\n".join(memos), role="archive")] if memos else work)
        self._done = Done("lost")
        self._errors: list[GaiadError] = []

    async def events(self) -> AsyncGenerator[Event, None]:
        """depth, each stage's events, done. Raises what made the turn impossible when there is nothing else to say."""
        turn_state = self._turn_state
        self._recorder.begin()
        try:
            yield "depth", {"depth": turn_state.choice.depth, "why": turn_state.choice.why}
            step = self._machine.begin(self._recorder.seats())
            while isinstance(step, StageTask):
                async with aclosing(self._stage(step)) as events:
                    async for event in events:
                        yield event
                step = self._machine.done(*self._done.told(), self._recorder.seats(), self._done.doubt())
                for record in await self._recorder.escalations(self._machine):
                    yield "escalation", record
                if isinstance(step, StageTask) and self._recorder.waiting:
                    step = self._machine.await_approval(self._recorder.what_waits(), self._recorder.seats())
            self._end(step)
            if words := closing_words(step, turn_state, await undone(step, turn_state)):
                yield "delta", {"text": turn_state.show(words)}
            if await self._surface():
                yield "also", turn_state.also
        except Cancelled:
            raise
        except Exception:
            turn_state.status = FAILED if turn_state.end is None else turn_state.status
            raise
        finally:
            if turn_state.beside is not None:
                turn_state.beside.give_up()
            await self._turn_store.finish(self._recorder.close())
        yield "done", turn_state.answer()

    async def _surface(self) -> bool:
        """Whether an earlier packet can be named below the answer, one that it neither cites nor had in its context."""
        turn_state, beside = self._turn_state, self._turn_state.beside
        if beside is None or not turn_state.answered or turn_state.status not in STATUSES:
            return False
        turn_state.also = await beside.pick(turn_state.citable() | set(turn_state.cited))
        if beside.trouble:
            turn_state.notes.append(f"no earlier packet was looked for: {beside.trouble}")
        return turn_state.also is not None

    def _end(self, end: End) -> None:
        """Raises when there is nothing to be said but that it could not be done; what was shown in part is void."""
        self._turn_state.ended(structs.replace(end, reduced_quorum=end.reduced_quorum or self._recorder.reduced()))
        if end.ending != "refused":
            return
        last = self._errors[-1] if self._errors else Unavailable(end.why, 30.0)
        if len(self._errors) == 1 or isinstance(last, DeadlineExceeded | BadInput):
            raise last
        reasons = "; ".join(dict.fromkeys(error.message for error in self._errors))
        raise Unavailable(f"{end.why}: {reasons}" if reasons else end.why, getattr(last, "retry_after_s", 5.0))

    async def _stage(self, task: StageTask) -> AsyncGenerator[Event, None]:
        """One stage call from its packet to its record; sets `_done`."""
        task = self._start.with_commands(task)
        names, began = self._turn_state.gathered.names, self._clock.monotonic()
        self._services.room.step(names.turn_id, task.stage, task.role, self._turn_state.choice.depth)
        number, of = self._machine.place_of(task.stage)
        yield "stage", {"stage": task.stage, "role": task.role, "why": task.why, "number": number, "of": of}
        stage: StageCall | None = None
        try:
            stage = await self._start.open(task, self._written.items, began)
            yield "packet", self._turn_state.sizes(stage)
            doing = self._act(stage) if task.stage == "act" else self._think(stage)
            async with aclosing(doing) as events:
                async for event in events:
                    yield event
        except GaiadError as error:
            if isinstance(error, Cancelled) or (stage is None and self._start.is_the_messages(error, task)):
                raise
            self._errors.append(error)
            self._done = Done("lost", 0 if stage is None else stage.tokens)
            await self._recorder.lost(task, error, stage)
        finally:
            if stage is not None:
                self._recorder.called(stage)
        yield "stage_done", self._turn_state.stages[-1]

    async def _think(self, stage: StageCall) -> AsyncGenerator[Event, None]:
        """Plan, Refine, Verify: the whole reply is read at its end. Raises as StageCall.pieces; DeadlineExceeded."""
        async with aclosing(stage.pieces(self._call, self._start.pace(stage))) as pieces:
            async for _ in pieces:
                pass
        task = stage.task
        reading = read_output(task.stage, stage.text, self._rules.limits.escalation.confidence_below)
        executed = self._turn_state.executed
        if executed is not None and not succeeded(executed.approval):
            reading = without_success(reading)
        stage.notes += reading.notes
        value, confidence = reading.value, None
        if value is None:
            _refuse_unended(stage)
        if isinstance(value, RefinedPlan):
            confidence = self._turn_state.confidence = value.confidence
        self._done = Done(reading.outcome, stage.tokens, confidence)
        self._turn_state.stages.append(stage.record(reading.outcome, confidence))
        if isinstance(value, Plan | RefinedPlan):
            yield "block", as_event(self._wrote("PLAN", plan_text(value), task.role))
        elif isinstance(value, Verification):
            yield "block", as_event(self._wrote("VERIFY", verification_text(value), task.role))
        await self._recorder.thought(stage, reading)

    async def _act(self, stage: StageCall) -> AsyncGenerator[Event, None]:
        """The answer, as it is written; one that was shown before is retracted when it is written again."""
        if self._turn_state.shown:
            yield "retract", {"reason": stage.task.why}
            self._turn_state.shown = ""
        self._turn_state.acts(stage)
        if is_quoting(stage, self._turn_state.gathered, self._services.room.duties(stage.model.name)):
            found = self._turn_state.gathered.found
            self._turn_state.cited = [] if found is None else found.source_packets
            yield "delta", {"text": self._turn_state.show(quote(stage, self._turn_state.gathered))}
            self._done = Done("ok", stage.tokens)
            self._turn_state.stages.append(stage.record("ok"))
            return
        observer = self._watch(stage)
        acting = Acting(stage, observer, self._turn_state.citable(), self._allowed())
        grounding = self._grounding(stage)
        try:
            async with aclosing(acting.texts(self._call, self._start.pace(stage))) as texts:
                async for text in texts:
                    if checked := grounding.feed(text):
                        yield "delta", {"text": self._turn_state.show(checked)}
            if rest := grounding.finish():
                yield "delta", {"text": self._turn_state.show(rest)}
        finally:
            await observer.close()
            self._turn_state.cited = list(dict.fromkeys([*grounding.cited, *acting.cited]))
            self._looked(observer)
        async with aclosing(self._acted(stage, acting, grounding)) as events:
            async for event in events:
                yield event

    def _grounding(self, stage: StageCall) -> Grounding:
        packet, gathered = stage.built.packet, self._turn_state.gathered
        found = gathered.found is not None and gathered.found.status == "SUCCESS"
        message = self._turn_state.request.message
        asked = any(asks(part.text) for part in split(message)) and says_enough(message)
        told = gathered.needed or (found and asked)
        strict = not only_tells(message) and (bool(asks_back(message)) or about_the_pages(packet, told=told))
        strict = strict and (found or not asks_of_gaiad(message))
        return Grounding(packet, self._clock.zone, strict=strict, found=found)

    def _watch(self, stage: StageCall) -> Observer:
        return watch(
            self._services,
            stage,
            self._turn_state.gathered.names,
            self._recorder.seats(),
            self._call,
            self._clock,
            allowed=self._allowed(),
            windows=self._turn_state.choice.depth == "full",
        )

    def _allowed(self) -> list[Marker]:
        """The blocks that Act may write; a command only where this turn may ask for one."""
        markers = self._rules.stages.stages["act"].markers
        return [marker for marker in markers if marker != "EXECUTE" or self._recorder.may_execute]

    def _looked(self, observer: Observer) -> None:
        """The observer's looks are stage calls too; their tokens count."""
        for look in observer.looks:
            self._turn_state.stages.append(self._recorder.look(look))
            self._machine.observed(look.role, look.outcome, look.tokens)

    async def _acted(self, stage: StageCall, acting: Acting, grounding: Grounding) -> AsyncGenerator[Event, None]:
        """What came of the text: stopped, empty, or an answer with what goes with it."""
        self._turn_state.read(stage, acting)
        reason = acting.stopped
        if reason and acting.broken not in ENDS_TEXT:
            yield "retract", {"reason": reason}
            yield "block", as_event(await self._interrupted(stage, acting, reason))
            return
        if reason:
            stage.failure = f"{ENDED}: {reason}"
        shown, limits = self._turn_state.shown, self._services.observed.repetition
        kept, note = usable(shown, acting.broken, stage.built.packet, limits)
        if kept != self._turn_state.shown:
            yield "retract", {"reason": note}
            self._turn_state.shown = ""
            yield "delta", {"text": self._turn_state.show(kept)}
        self._turn_state.act_notes += [note] if note else []
        self._turn_state.act_notes += cut_notes(grounding)
        if not_told(grounding, self._turn_state):
            if self._turn_state.shown.strip():
                yield "retract", {"reason": "your packets say otherwise"}
                self._turn_state.shown = ""
            yield "delta", {"text": self._turn_state.show(instead_of_answer(stage, self._turn_state))}
            kept = self._turn_state.shown
        elif quoted := unsaid_quote(grounding, self._turn_state):
            yield "delta", {"text": self._turn_state.show(quoted)}
            kept = self._turn_state.shown
        unread: list[str] = []
        commands = acting.commands(unread)
        stage.notes += unread
        self._turn_state.act_notes += [f"a command was not proposed: {why}" for why in unread]
        outcome: Outcome = "ok" if kept.strip() or commands else "empty"
        if outcome == "empty":
            _refuse_unended(stage)
            if any(row.stage == "act" and row.verdict == "empty" for row in self._turn_state.stages):
                yield "delta", {"text": self._turn_state.show(instead_of_answer(stage, self._turn_state))}
        self._done = Done(outcome, stage.tokens)
        self._turn_state.stages.append(stage.record(outcome))
        self._written.add(RESPONSE, self._turn_state.shown, stage.task.role)
        for seed in acting.seeds:
            yield "block", as_event(self._turn_state.block("THOUGHT_SEED", seed, stage.task.role))
        await self._recorder.acted(stage, outcome, acting)
        for one in await self._considered(commands, stage) if commands else ():
            self._written.add("EXECUTE", one.told, stage.task.role)
            yield "vote", one.vote

    async def _considered(self, commands: list[Command], stage: StageCall) -> list[Considered]:
        """What the council says to them; when that cannot be written down nothing is, and the answer stands."""
        try:
            return await self._recorder.consider(commands, stage, self._call)
        except (Unavailable, DeadlineExceeded) as error:
            self._turn_state.notes.append(f"no command was considered: {error.message}")
            return []

    async def _interrupted(self, stage: StageCall, acting: Acting, reason: str) -> WrittenBlock:
        """The text is void; its beginning and the reason stand in the packet of the next try."""
        stage.failure = f"interrupted: {reason}"
        self._done = Done("interrupted", stage.tokens)
        self._turn_state.stages.append(stage.record("interrupted"))
        found = assign_stage(self._rules.roles, "observe", self._recorder.seats())
        role = found.role if found else stage.task.role
        self._turn_state.shown = ""
        self._written.add(RESPONSE, acting.shown, stage.task.role)
        await self._recorder.interrupted(stage, reason, role)
        return self._wrote("INTERRUPT", reason, role)

    def _wrote(self, marker: str, text: str, role: str) -> WrittenBlock:
        self._written.add(marker, text, role)
        return self._turn_state.block(marker, text, role)


def _refuse_unended(stage: StageCall) -> None:
    """Nothing can be read: a role that was cut off was too slow, and another does it; one that ended is asked again."""
    if stage.failure == CUT:
        raise DeadlineExceeded(f"{stage.task.role} wrote nothing readable before its deadline of {stage.task.stage}")
