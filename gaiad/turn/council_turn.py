"""Takes a turn through the council: the state machine says which stage comes next; here it is run and reported.

What a stage wrote is in the next one's packet; what was said goes to the council's log while it is said; what came of
it is kept however the turn ends, also when its reader has left. Every event goes to `emit`, `done` last.
"""

from collections.abc import Sequence
from contextlib import aclosing
from typing import NamedTuple

from msgspec import structs

from council.execute_review import Considered
from council.observer import Observer, Windows
from council.observer_rules import ObserverRules
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
from gaiad.base.events import Emit
from gaiad.base.ports import RequestContext
from gaiad.research.evidence import asks, asks_of_gaiad, only_tells
from gaiad.research.familiar import asks_back
from gaiad.research.sentences import split
from gaiad.turn.acting import RESPONSE, Acting
from gaiad.turn.answers import (
    ENDS_TEXT,
    closing_words,
    cut_notes,
    instead_of_answer,
    is_quoting,
    not_told,
    quote,
    undone,
    unsaid_quote,
    usable,
)
from gaiad.turn.beside import STATUSES
from gaiad.turn.cognition import StagePackets
from gaiad.turn.grounding import Grounding, about_the_pages, says_enough
from gaiad.turn.plan_check import of_request, step_characters
from gaiad.turn.recorder import TurnRecorder
from gaiad.turn.stage_call import CUT, ENDED, StageCall
from gaiad.turn.stage_start import StageStart
from gaiad.turn.turn_state import FAILED, as_event, succeeded
from prompts.messages import own_texts
from prompts.packet import WorkItem

_LAST_COUNTS = ("PLAN", "RESPONSE", "INTERRUPT")  # of each, only the last one written is work for the next stage


MEMO = "MEMO"


class Done(NamedTuple):
    """How a stage call ended; `confidence` is that of a refined plan."""

    outcome: Outcome
    tokens: int = 0
    confidence: float | None = None

    def doubt(self) -> float | None:
        """The confidence where it is the reason that the matter goes up."""
        return self.confidence if self.outcome == "low_confidence" else None


class CouncilTurn:
    """One turn. `call` ends with the turn's deadline; `memos` seed its plan (JIT).

    One that goes on from an approved command has `work` of the turn before, and the role that `acted_by` then.
    """

    def __init__(
        self,
        packets: StagePackets,
        recorder: TurnRecorder,
        clock: Clock,
        call: RequestContext,
        emit: Emit,
        memos: Sequence[str] = (),
        *,
        work: Sequence[WorkItem] = (),
        acted_by: Role | None = None,
    ) -> None:
        self._services = recorder.services
        self._turn_state = turn_state = recorder.turn_state
        self._recorder = recorder
        self._rules = turn_state.rules
        self._machine = TurnStateMachine(turn_state.choice.depth, turn_state.rules, acted_by)
        self._clock = clock
        self._call = call
        self._emit = emit
        self._start = StageStart(packets, recorder, clock, call)
        self._written = [WorkItem(marker=MEMO, text="\n".join(memos), role="archive")] if memos else [*work]
        self._done = Done("lost")
        self._errors: list[GaiadError] = []

    async def run(self) -> None:
        """depth, each stage's events, done. Raises what made the turn impossible when there is nothing else to say."""
        turn_state = self._turn_state
        self._recorder.begin()
        try:
            await self._emit("depth", {"depth": turn_state.choice.depth, "why": turn_state.choice.why})
            end = await self._stages()
            self._end(end)
            if words := closing_words(end, turn_state, await undone(end, turn_state)):
                await self._show(words)
            if await self._surface():
                await self._emit("also", turn_state.also)
        except Cancelled:
            raise
        except Exception:
            turn_state.status = FAILED if turn_state.end is None else turn_state.status
            raise
        finally:
            if turn_state.beside is not None:
                turn_state.beside.give_up()
            await self._recorder.close()
        await self._emit("done", turn_state.answer())

    async def _stages(self) -> End:
        """One stage after the other, until the state machine ends the turn."""
        step = self._machine.begin(self._recorder.seats())
        while isinstance(step, StageTask):
            await self._stage(step)
            step = self._machine.done(self._done.outcome, self._done.tokens, self._recorder.seats(), self._done.doubt())
            for record in await self._recorder.escalations(self._machine):
                await self._emit("escalation", record)
            if isinstance(step, StageTask) and self._recorder.waiting:
                step = self._machine.await_approval(self._recorder.what_waits(), self._recorder.seats())
        return step

    async def _show(self, text: str) -> None:
        """More of the answer."""
        await self._emit("delta", {"text": self._turn_state.show(text)})

    async def _retract(self, reason: str) -> None:
        """The answer so far is withdrawn."""
        await self._emit("retract", {"reason": reason})
        self._turn_state.shown = ""

    async def _block(self, marker: str, text: str, role: str) -> None:
        """A block of the turn that later stages read too."""
        self._write(marker, text, role)
        await self._emit("block", as_event(self._turn_state.block(marker, text, role)))

    def _write(self, marker: str, text: str, role: str) -> None:
        """Work for the next stages. Nothing is added where nothing was written, though it may replace what was written
        before.
        """
        if marker in _LAST_COUNTS:
            self._written = [item for item in self._written if item.marker != marker]
        if text.strip():
            self._written.append(WorkItem(marker=marker, text=text, role=role))

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
        """Raises when there is nothing to be said but that it could not be done; a partial answer is withdrawn."""
        self._turn_state.ended(structs.replace(end, reduced_quorum=end.reduced_quorum or self._recorder.reduced()))
        if end.ending != "refused":
            return
        last = self._errors[-1] if self._errors else Unavailable(end.why, 30.0)
        if len(self._errors) == 1 or isinstance(last, DeadlineExceeded | BadInput):
            raise last
        reasons = "; ".join(dict.fromkeys(error.message for error in self._errors))
        raise Unavailable(f"{end.why}: {reasons}" if reasons else end.why, getattr(last, "retry_after_s", 5.0))

    async def _stage(self, task: StageTask) -> None:
        """One stage call from its packet to its record; sets `_done`."""
        task = self._start.with_commands(task)
        names, began = self._turn_state.gathered.names, self._clock.monotonic()
        self._services.room.step(names.turn_id, task.stage, task.role, self._turn_state.choice.depth)
        number, of = self._machine.place_of(task.stage)
        shown = {"stage": task.stage, "role": task.role, "why": task.why, "number": number, "of": of}
        await self._emit("stage", shown)
        stage: StageCall | None = None
        try:
            stage = await self._start.open(task, self._written, began)
            await self._emit("packet", self._turn_state.sizes(stage))
            await (self._act(stage) if task.stage == "act" else self._think(stage))
        except GaiadError as error:
            if isinstance(error, Cancelled) or (stage is None and self._start.is_the_messages(error, task)):
                raise
            self._errors.append(error)
            self._done = Done("lost", 0 if stage is None else stage.tokens)
            await self._recorder.lost(task, error, stage)
        finally:
            if stage is not None:
                self._recorder.called(stage)
        await self._emit("stage_done", self._turn_state.stages[-1])

    async def _think(self, stage: StageCall) -> None:
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
        value, outcome, confidence = reading.value, reading.outcome, None
        if value is None:
            _refuse_unended(stage)
        if isinstance(value, Plan | RefinedPlan):
            value, note = of_request(value, stage.built.packet.user_prompt, step_characters(stage.asked.contract))
            stage.notes += [note] if note else []
            outcome = outcome if value else "ok"  # the turn goes on without a plan
        if isinstance(value, RefinedPlan):
            confidence = self._turn_state.confidence = value.confidence
        self._done = Done(outcome, stage.tokens, confidence)
        self._turn_state.stages.append(stage.record(outcome, confidence))
        wrote = ""
        if isinstance(value, Plan | RefinedPlan):
            wrote = f"PLAN:\n{plan_text(value)}"
            await self._block("PLAN", plan_text(value), task.role)
        elif isinstance(value, Verification):
            verdict = self._verdict(value, stage.model.name)
            wrote = f"VERIFY: {verdict}"
            await self._block("VERIFY", verdict, task.role)
        await self._recorder.thought(stage, reading, wrote)

    def _verdict(self, value: Verification, model: str) -> str:
        """As people read it: a success counts only from a model that has shown that it tells right from wrong."""
        if value.outcome == "fail" or "verify" in (self._services.room.duties(model) or ()):
            return verification_text(value)
        return (
            f"unverified: {model} says success ({value.summary}), but has not shown that it can tell; "
            f"gaiad models probe {model} measures it"
        )

    async def _act(self, stage: StageCall) -> None:
        """The answer, as it is written; one that was shown before is retracted when it is written again."""
        if self._turn_state.shown:
            await self._retract(stage.task.why)
        self._turn_state.acts(stage)
        if is_quoting(stage, self._turn_state.gathered, self._services.room.duties(stage.model.name)):
            await self._show(quote(stage, self._turn_state))
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
                        await self._show(checked)
            if rest := grounding.finish():
                await self._show(rest)
            if grounding.dangling:
                await self._retract("you did not say so")
                await self._show(grounding.text)
        finally:
            await observer.close()
            self._turn_state.cited = list(dict.fromkeys([*grounding.cited, *acting.cited]))
            self._looked(observer)
        await self._acted(stage, acting, grounding)

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
        """A model reads along at full depth, when the settings let it and a role can."""
        services, packet, names = self._services, stage.built.packet, self._turn_state.gathered.names
        rules = ObserverRules(own_texts(packet), self._allowed(), services.observed, packet.user_prompt)
        windows = self._turn_state.choice.depth == "full" and services.config.observer_windows
        reader = assign_stage(services.rules.roles, "observe", self._recorder.seats()) if windows else None
        if reader is None:
            return Observer(rules)
        return Observer(
            rules,
            Windows(
                role=reader.role,
                floor=services.room,
                speaker=services.speaker,
                clock=self._clock,
                limits=services.rules.limits.observer,
                call=self._call,
                max_tokens=services.rules.stages.stages["observe"].max_tokens,
                question=packet.user_prompt,
                turn_id=names.turn_id,
                session_id=names.session_id,
            ),
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

    async def _acted(self, stage: StageCall, acting: Acting, grounding: Grounding) -> None:
        """What came of the text: stopped, empty, or an answer with what goes with it."""
        self._turn_state.read(stage, acting)
        if acting.stopped and acting.broken not in ENDS_TEXT:
            await self._interrupted(stage, acting)
            return
        if acting.stopped:
            stage.failure = f"{ENDED}: {acting.stopped}"
        await self._corrected(stage, acting, grounding)
        unread: list[str] = []
        commands = acting.commands(unread)
        stage.notes += unread
        self._turn_state.act_notes += [f"a command was not proposed: {why}" for why in unread]
        outcome: Outcome = "ok" if self._turn_state.shown.strip() or commands else "empty"
        if outcome == "empty":
            _refuse_unended(stage)
            if any(row.stage == "act" and row.verdict == "empty" for row in self._turn_state.stages):
                await self._show(instead_of_answer(stage, self._turn_state))
        self._done = Done(outcome, stage.tokens)
        self._turn_state.stages.append(stage.record(outcome))
        self._write(RESPONSE, self._turn_state.shown, stage.task.role)
        for seed in acting.seeds:
            await self._emit("block", as_event(self._turn_state.block("THOUGHT_SEED", seed, stage.task.role)))
        await self._recorder.acted(stage, outcome, acting)
        for one in await self._considered(commands, stage) if commands else ():
            self._write("EXECUTE", one.told, stage.task.role)
            await self._emit("vote", one.vote)

    async def _corrected(self, stage: StageCall, acting: Acting, grounding: Grounding) -> None:
        """Replace what is not usable of the answer, and what the pages contradict."""
        turn_state = self._turn_state
        limits = self._services.observed.repetition
        kept, note = usable(turn_state.shown, acting.broken, stage.built.packet, limits)
        if kept != turn_state.shown:
            await self._retract(note)
            await self._show(kept)
        turn_state.act_notes += [*([note] if note else []), *cut_notes(grounding)]
        if not_told(grounding, turn_state):
            if turn_state.shown.strip():
                await self._retract("your packets say otherwise")
            await self._show(instead_of_answer(stage, turn_state))
        elif quoted := unsaid_quote(grounding, turn_state):
            await self._show(quoted)

    async def _considered(self, commands: list[Command], stage: StageCall) -> list[Considered]:
        """What the council says to them; when that cannot be written down, no command is considered and the answer is
        kept.
        """
        try:
            return await self._recorder.consider(commands, stage, self._call)
        except (Unavailable, DeadlineExceeded) as error:
            self._turn_state.notes.append(f"no command was considered: {error.message}")
            return []

    async def _interrupted(self, stage: StageCall, acting: Acting) -> None:
        """The text is withdrawn; its beginning and the reason are in the packet of the next try."""
        reason = acting.stopped
        await self._retract(reason)
        stage.failure = f"interrupted: {reason}"
        self._done = Done("interrupted", stage.tokens)
        self._turn_state.stages.append(stage.record("interrupted"))
        found = assign_stage(self._rules.roles, "observe", self._recorder.seats())
        role = found.role if found else stage.task.role
        self._write(RESPONSE, acting.shown, stage.task.role)
        await self._recorder.interrupted(stage, reason, role)
        await self._block("INTERRUPT", reason, role)


def _refuse_unended(stage: StageCall) -> None:
    """Nothing can be read: a role that was cut off was too slow, and another does it; one that ended is asked again."""
    if stage.failure == CUT:
        raise DeadlineExceeded(f"{stage.task.role} wrote nothing readable before its deadline of {stage.task.stage}")
