"""Takes a turn through the council: which stage comes next is the course's business, here it is done and told.

A turn is a stream of events, `done` last. What a stage wrote stands in the next one's packet; what was said goes to the
council's log while it is said; what came of it is kept whichever way the turn ends, also when nobody listens any more.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import NamedTuple

from msgspec import structs

from council.course import Course, End, Task
from council.execute_review import Considered
from council.observer import Observer
from council.roles import Role, assign_stage
from council.stage_output import Outcome, read_output
from council.stages import (
    Command,
    Marker,
    Plan,
    RefinedPlan,
    Verification,
    plan_text,
    verification_text,
)
from gaiad.clock import Clock
from gaiad.errors import BadInput, Cancelled, DeadlineExceeded, GaiadError, Unavailable
from gaiad.ports import Call
from gaiad.turn.acting import RESPONSE, Acting
from gaiad.turn.also import STATUSES
from gaiad.turn.closing import closing_words, undone
from gaiad.turn.company import Company
from gaiad.turn.minutes import Minutes
from gaiad.turn.quoting import is_quoting, quote
from gaiad.turn.remembering import Keeper
from gaiad.turn.stage_call import CUT, StageCall
from gaiad.turn.stage_packets import StagePackets
from gaiad.turn.stage_start import StageStart
from gaiad.turn.story import FAILED, Story, Told, as_event
from gaiad.turn.watching import watch
from gaiad.turn.written import Written
from prompts.packet import WorkItem

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
        company: Company,
        packets: StagePackets,
        keeper: Keeper,
        story: Story,
        minutes: Minutes,
        clock: Clock,
        call: Call,
        memos: Sequence[str] = (),
        *,
        work: Sequence[WorkItem] = (),
        acted_by: Role | None = None,
    ) -> None:
        self._company = company
        self._keeper = keeper
        self._story = story
        self._minutes = minutes
        self._rules = story.rules
        self._course = Course(story.choice.depth, story.rules, acted_by)
        self._clock = clock
        self._call = call
        self._start = StageStart(packets, story, minutes, clock, call)
        self._written = Written([WorkItem(marker=MEMO, text="\n".join(memos), role="archive")] if memos else work)
        self._done = Done("lost")
        self._errors: list[GaiadError] = []

    async def events(self) -> AsyncGenerator[Event, None]:
        """depth, each stage's events, done. Raises what made the turn impossible when there is nothing else to say."""
        story = self._story
        self._minutes.begin()
        try:
            yield "depth", {"depth": story.choice.depth, "why": story.choice.why}
            step = self._course.begin(self._minutes.seats())
            while isinstance(step, Task):
                async with aclosing(self._stage(step)) as events:
                    async for event in events:
                        yield event
                step = self._course.done(*self._done.told(), self._minutes.seats(), self._done.doubt())
                for record in await self._minutes.escalations(self._course):
                    yield "escalation", record
                if isinstance(step, Task) and self._minutes.waiting:
                    step = self._course.await_approval(self._minutes.what_waits(), self._minutes.seats())
            self._end(step)
            if words := closing_words(step, story, await undone(step, story)):
                yield "delta", {"text": story.show(words)}
            if await self._surface():
                yield "also", story.also
        except Cancelled:
            raise
        except Exception:
            story.status = FAILED if story.end is None else story.status
            raise
        finally:
            if story.beside is not None:
                story.beside.give_up()
            await self._keeper.finish(self._minutes.close())
        yield "done", story.answer()

    async def _surface(self) -> bool:
        """Whether an earlier packet can be named below the answer, one that it neither cites nor had in its context."""
        story, beside = self._story, self._story.beside
        if beside is None or not story.answered or story.status not in STATUSES:
            return False
        story.also = await beside.pick(story.citable() | set(story.cited))
        if beside.trouble:
            story.notes.append(f"no earlier packet was looked for: {beside.trouble}")
        return story.also is not None

    def _end(self, end: End) -> None:
        """Raises when there is nothing to be said but that it could not be done; what was shown in part is void."""
        self._story.ended(structs.replace(end, reduced_quorum=end.reduced_quorum or self._minutes.reduced()))
        if end.ending != "refused":
            return
        last = self._errors[-1] if self._errors else Unavailable(end.why, 30.0)
        if len(self._errors) == 1 or isinstance(last, DeadlineExceeded | BadInput):
            raise last
        reasons = "; ".join(dict.fromkeys(error.message for error in self._errors))
        raise Unavailable(f"{end.why}: {reasons}" if reasons else end.why, getattr(last, "retry_after_s", 5.0))

    async def _stage(self, task: Task) -> AsyncGenerator[Event, None]:
        """One stage call from its packet to its record; sets `_done`."""
        task = self._start.with_commands(task)
        names, began = self._story.gathered.names, self._clock.monotonic()
        self._company.room.step(names.turn_id, task.stage, task.role, self._story.choice.depth)
        yield "stage", {"stage": task.stage, "role": task.role, "why": task.why}
        stage: StageCall | None = None
        try:
            stage = await self._start.open(task, self._written.items, began)
            yield "packet", self._story.sizes(stage)
            doing = self._act(stage) if task.stage == "act" else self._think(stage)
            async with aclosing(doing) as events:
                async for event in events:
                    yield event
        except GaiadError as error:
            if isinstance(error, Cancelled) or (stage is None and self._start.is_the_messages(error, task)):
                raise
            self._errors.append(error)
            self._done = Done("lost", 0 if stage is None else stage.tokens)
            await self._minutes.lost(task, error, stage)
        finally:
            if stage is not None:
                self._minutes.called(stage)
        yield "stage_done", self._story.stages[-1]

    async def _think(self, stage: StageCall) -> AsyncGenerator[Event, None]:
        """Plan, Refine, Verify: the whole reply is read at its end. Raises as StageCall.pieces; DeadlineExceeded."""
        async with aclosing(stage.pieces(self._call, self._start.pace(stage))) as pieces:
            async for _ in pieces:
                pass
        task = stage.task
        reading = read_output(task.stage, stage.text, self._rules.limits.escalation.confidence_below)
        stage.notes += reading.notes
        value, confidence = reading.value, None
        if value is None:
            _refuse_unended(stage)
        if isinstance(value, RefinedPlan):
            confidence = self._story.confidence = value.confidence
        self._done = Done(reading.outcome, stage.tokens, confidence)
        self._story.stages.append(stage.record(reading.outcome, confidence))
        if isinstance(value, Plan | RefinedPlan):
            yield "block", as_event(self._wrote("PLAN", plan_text(value), task.role))
        elif isinstance(value, Verification):
            yield "block", as_event(self._wrote("VERIFY", verification_text(value), task.role))
        await self._minutes.thought(stage, reading)

    async def _act(self, stage: StageCall) -> AsyncGenerator[Event, None]:
        """The answer, as it is written; one that was shown before is retracted when it is written anew."""
        if self._story.shown:
            yield "retract", {"reason": stage.task.why}
            self._story.shown = ""
        self._story.acts(stage)
        if is_quoting(stage):
            found = self._story.gathered.found
            self._story.cited = [] if found is None else found.source_packets
            yield "delta", {"text": self._story.show(quote(stage, self._story.gathered))}
            self._done = Done("ok", stage.tokens)
            self._story.stages.append(stage.record("ok"))
            return
        observer = self._watch(stage)
        acting = Acting(stage, observer, self._story.citable(), self._allowed())
        try:
            async with aclosing(acting.texts(self._call, self._start.pace(stage))) as texts:
                async for text in texts:
                    yield "delta", {"text": self._story.show(text)}
        finally:
            await observer.close()
            self._story.cited = acting.cited
            self._looked(observer)
        async with aclosing(self._acted(stage, acting)) as events:
            async for event in events:
                yield event

    def _watch(self, stage: StageCall) -> Observer:
        return watch(
            self._company,
            stage,
            self._story.gathered.names,
            self._minutes.seats(),
            self._call,
            self._clock,
            allowed=self._allowed(),
            windows=self._story.choice.depth == "full",
        )

    def _allowed(self) -> list[Marker]:
        """The blocks that Act may write; a command only where this turn may ask for one."""
        markers = self._rules.stages.stages["act"].markers
        return [marker for marker in markers if marker != "EXECUTE" or self._minutes.may_execute]

    def _looked(self, observer: Observer) -> None:
        """The observer's looks are stage calls too; their tokens count."""
        for look in observer.looks:
            self._story.stages.append(self._minutes.look(look))
            self._course.observed(look.role, look.outcome, look.tokens)

    async def _acted(self, stage: StageCall, acting: Acting) -> AsyncGenerator[Event, None]:
        """What came of the text: stopped, empty, or an answer with what goes with it."""
        self._story.read(stage, acting)
        if reason := acting.stopped:
            yield "retract", {"reason": reason}
            yield "block", as_event(await self._interrupted(stage, acting, reason))
            return
        commands = acting.commands(stage.notes)
        outcome: Outcome = "ok" if self._story.shown.strip() or commands else "empty"
        if outcome == "empty":
            _refuse_unended(stage)
        self._done = Done(outcome, stage.tokens)
        self._story.stages.append(stage.record(outcome))
        self._written.add(RESPONSE, self._story.shown, stage.task.role)
        for seed in acting.seeds:
            yield "block", as_event(self._story.block("THOUGHT_SEED", seed, stage.task.role))
        await self._minutes.acted(stage, outcome, acting)
        for one in await self._considered(commands, stage) if commands else ():
            self._written.add("EXECUTE", one.told, stage.task.role)
            yield "vote", one.vote

    async def _considered(self, commands: list[Command], stage: StageCall) -> list[Considered]:
        """What the council says to them; when that cannot be written down nothing is, and the answer stands."""
        try:
            return await self._minutes.consider(commands, stage, self._call)
        except (Unavailable, DeadlineExceeded) as error:
            self._story.notes.append(f"no command was considered: {error.message}")
            return []

    async def _interrupted(self, stage: StageCall, acting: Acting, reason: str) -> Told:
        """The text is void; its beginning and the reason stand in the packet of the next try."""
        stage.failure = f"interrupted: {reason}"
        self._done = Done("interrupted", stage.tokens)
        self._story.stages.append(stage.record("interrupted"))
        found = assign_stage(self._rules.roles, "observe", self._minutes.seats())
        role = found.role if found else stage.task.role
        self._story.shown = ""
        self._written.add(RESPONSE, acting.shown, stage.task.role)
        await self._minutes.interrupted(stage, reason, role)
        return self._wrote("INTERRUPT", reason, role)

    def _wrote(self, marker: str, text: str, role: str) -> Told:
        self._written.add(marker, text, role)
        return self._story.block(marker, text, role)


def _refuse_unended(stage: StageCall) -> None:
    """Nothing can be read: a role that was cut off was too slow, and another does it; one that ended is asked again."""
    if stage.failure == CUT:
        raise DeadlineExceeded(
            f"{stage.task.role} wrote nothing that can be read by the deadline of {stage.task.stage}"
        )
