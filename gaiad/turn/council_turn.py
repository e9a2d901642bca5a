"""Takes a turn through the council: the state machine says which stage comes next; here it is run and reported.

What a stage wrote is in the next one's packet; what was said goes to the council's log while it is said; what came of
it is kept however the turn ends, also when its reader has left. Every event goes to `emit`, `done` last.
"""

from collections.abc import Sequence
from contextlib import aclosing
from typing import NamedTuple

import msgspec
from msgspec import structs

from council.execute_review import Considered
from council.observer import Observer, Windows
from council.observer_rules import ObserverRules
from council.roles import Role, assign_stage
from council.stage_output import Outcome, read_output, without_proof, without_success
from council.stages import Command, Marker, Plan, RefinedPlan, Verification, plan_text
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
    of_request,
    quote,
    step_characters,
    undone,
    unrecorded_notes,
    unsaid_quote,
    usable,
    verdict_text,
)
from gaiad.turn.beside import STATUSES
from gaiad.turn.cognition import StagePackets, StageStart
from gaiad.turn.grounding import Grounding, about_the_pages, says_enough
from gaiad.turn.stage_call import ENDED, StageCall, observed
from gaiad.turn.turn import FAILED, Turn, command_line, how_it_ended, succeeded
from gaiad.turn.turn_record import chat_answer, close_turn, log_running, packet_sizes, stage_ended
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
        turn: Turn,
        clock: Clock,
        call: RequestContext,
        emit: Emit,
        memos: Sequence[str] = (),
        *,
        work: Sequence[WorkItem] = (),
        acted_by: Role | None = None,
    ) -> None:
        self._services = turn.services
        self._turn = turn
        self._rules = turn.rules
        self._machine = TurnStateMachine(turn.choice.depth, turn.rules, acted_by)
        self._acted_by = acted_by
        self._clock = clock
        self._call = call
        self._emit = emit
        self._start = StageStart(packets, turn, clock, call)
        self._written = [WorkItem(marker=MEMO, text="\n".join(memos), role="archive")] if memos else [*work]
        self._done = Done("lost")
        self._errors: list[GaiadError] = []

    async def run(self) -> None:
        """depth, each stage's events, done. Raises what made the turn impossible when there is nothing else to say."""
        turn = self._turn
        log_running(turn)
        try:
            await self._emit("depth", {"depth": turn.choice.depth, "why": turn.choice.why})
            await self._command_failed()
            end = await self._stages()
            self._end(end)
            if words := closing_words(end, turn, await undone(end, turn)):
                await self._show(words)
            if await self._surface():
                await self._emit("also", turn.also)
        except Cancelled:
            raise
        except Exception:
            turn.status = FAILED if turn.end is None else turn.status
            raise
        finally:
            if turn.beside is not None:
                turn.beside.give_up()
            await close_turn(turn)
        await self._emit("done", chat_answer(turn))

    async def _command_failed(self) -> None:
        """An approved command that failed is an INTERRUPT (GCP 6), told before anybody verifies it."""
        executed = self._turn.executed
        if executed is not None and not succeeded(executed.approval):
            reason = f"{command_line(executed.approval)} {how_it_ended(executed.approval)}"
            role = self._observing_role(self._acted_by or "prime")
            await self._turn.interrupted(self._acted_by or "prime", reason, role)
            await self._emit("block", msgspec.to_builtins(self._turn.block("INTERRUPT", reason, role)))

    def _observing_role(self, otherwise: str) -> str:
        found = assign_stage(self._rules.roles, "observe", self._turn.seats())
        return found.role if found else otherwise

    async def _stages(self) -> End:
        """One stage after the other, until the state machine ends the turn."""
        step = self._machine.begin(self._turn.seats())
        while isinstance(step, StageTask):
            await self._stage(step)
            step = self._machine.done(self._done.outcome, self._done.tokens, self._turn.seats(), self._done.doubt())
            for record in await self._turn.escalate(self._machine):
                await self._emit("escalation", record)
            if isinstance(step, StageTask) and self._turn.waiting:
                step = self._machine.await_approval(self._turn.what_waits(), self._turn.seats())
        return step

    async def _show(self, text: str) -> None:
        """More of the answer."""
        await self._emit("delta", {"text": self._turn.show(text)})

    async def _retract(self, reason: str) -> None:
        """The answer so far is withdrawn."""
        await self._emit("retract", {"reason": reason})
        self._turn.shown = ""

    async def _block(self, marker: str, text: str, role: str) -> None:
        """A block of the turn that later stages read too."""
        self._write(marker, text, role)
        await self._emit("block", msgspec.to_builtins(self._turn.block(marker, text, role)))

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
        turn, beside = self._turn, self._turn.beside
        if beside is None or not turn.answered or turn.status not in STATUSES:
            return False
        turn.also = await beside.pick(turn.citable() | set(turn.cited))
        if beside.trouble:
            turn.notes.append(f"no earlier packet was looked for: {beside.trouble}")
        return turn.also is not None

    def _end(self, end: End) -> None:
        """Raises when there is nothing to be said but that it could not be done; a partial answer is withdrawn."""
        self._turn.ended(structs.replace(end, reduced_quorum=end.reduced_quorum or self._turn.reduced()))
        if end.ending != "refused":
            return
        last = self._errors[-1] if self._errors else Unavailable(end.why, 30.0)
        if len(self._errors) == 1 or isinstance(last, DeadlineExceeded | BadInput):
            raise last
        reasons = "; ".join(dict.fromkeys(error.message for error in self._errors))
        raise Unavailable(f"{end.why}: {reasons}" if reasons else end.why, getattr(last, "retry_after_s", 5.0))

    async def _stage(self, task: StageTask) -> None:
        """One stage call from its packet to its record; sets `_done`."""
        if self._start.leaves_out(task.stage):
            self._done = Done("ok")
            return
        task = self._start.with_commands(task)
        names, began = self._turn.names, self._clock.monotonic()
        self._services.room.step(names.turn_id, task.stage, task.role, self._turn.choice.depth)
        number, of = self._machine.place_of(task.stage)
        shown = {"stage": task.stage, "role": task.role, "why": task.why, "number": number, "of": of}
        await self._emit("stage", shown)
        stage: StageCall | None = None
        try:
            stage = await self._start.open(task, self._written, began)
            await self._emit("packet", packet_sizes(self._turn, stage))
            await (self._act(stage) if task.stage == "act" else self._think(stage))
        except GaiadError as error:
            if isinstance(error, Cancelled) or (stage is None and self._start.is_the_messages(error, task)):
                raise
            self._errors.append(error)
            self._done = Done("lost", 0 if stage is None else stage.tokens)
            await self._turn.lost(task, error, stage)
        finally:
            if stage is not None:
                stage_ended(self._turn, stage)
        await self._emit("stage_done", self._turn.stages[-1])

    async def _think(self, stage: StageCall) -> None:
        """Plan, Refine, Verify: the whole reply is read at its end. Raises as StageCall.pieces; DeadlineExceeded."""
        async with aclosing(stage.pieces(self._call, self._start.pace(stage))) as pieces:
            async for _ in pieces:
                pass
        task = stage.task
        reading = read_output(task.stage, stage.text, self._rules.limits.escalation.confidence_below)
        executed = self._turn.executed
        if executed is not None and not succeeded(executed.approval):
            reading = without_success(reading)
        if not (proven := "verify" in (self._services.room.duties(stage.model.name) or ())):
            reading = without_proof(reading)
        stage.notes += reading.notes
        value, outcome, confidence = reading.value, reading.outcome, None
        if without := value is None and self._start.goes_on_without(stage):
            stage.notes.append("the turn goes on without it")
        elif value is None:
            stage.refuse_cut()
        if isinstance(value, Plan | RefinedPlan):
            value, note = of_request(value, stage.built.packet.user_prompt, step_characters(stage.asked.contract))
            stage.notes += [note] if note else []
            outcome = outcome if value else "ok"  # the turn goes on without a plan
        if isinstance(value, RefinedPlan):
            confidence = self._turn.confidence = value.confidence
        self._done = Done("ok" if without else outcome, stage.tokens, confidence)
        self._turn.stages.append(stage.record(outcome, confidence))
        wrote = ""
        if isinstance(value, Plan | RefinedPlan):
            wrote = plan_text(value)
            await self._block("PLAN", wrote, task.role)
        elif isinstance(value, Verification):
            wrote = verdict_text(value, stage.model.name, task.role, proven=proven)
            await self._block("VERIFY", wrote, task.role)
        await self._turn.thought(stage, reading, wrote)

    async def _act(self, stage: StageCall) -> None:
        """The answer, as it is written; one that was shown before is retracted when it is written again."""
        if self._turn.shown:
            await self._retract(stage.task.why)
        self._turn.acts(stage)
        if is_quoting(stage, self._turn.gathered, self._services.room.duties(stage.model.name)):
            await self._show(quote(stage, self._turn))
            self._done = Done("ok", stage.tokens)
            self._turn.stages.append(stage.record("ok"))
            return
        observer = self._watch(stage)
        acting = Acting(stage, observer, self._turn.citable(), self._allowed())
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
            self._turn.cited = list(dict.fromkeys([*grounding.cited, *acting.cited]))
            self._looked(observer)
        await self._acted(stage, acting, grounding)

    def _grounding(self, stage: StageCall) -> Grounding:
        packet, gathered = stage.built.packet, self._turn.gathered
        found = gathered.found is not None and gathered.found.status == "SUCCESS"
        message = self._turn.request.message
        asked = any(asks(part.text) for part in split(message)) and says_enough(message)
        told = gathered.needed or (found and asked)
        strict = not only_tells(message) and (bool(asks_back(message)) or about_the_pages(packet, told=told))
        strict = strict and (found or not asks_of_gaiad(message))
        duties, by_name = self._services.room.duties(stage.model.name), gathered.by_name
        unread = bool(by_name) or (duties is not None and "answer" not in duties and bool(gathered.context))
        unproven = duties is not None and asked and unread
        return Grounding(packet, self._clock.zone, strict=strict, found=found, unproven=unproven, by_name=by_name)

    def _watch(self, stage: StageCall) -> Observer:
        """A model reads along at full depth, when the settings let it and a role can."""
        services, packet, names = self._services, stage.built.packet, self._turn.names
        rules = ObserverRules(own_texts(packet), self._allowed(), services.observed, packet.user_prompt)
        windows = self._turn.choice.depth == "full" and services.config.observer_windows
        reader = assign_stage(services.rules.roles, "observe", self._turn.seats()) if windows else None
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
        return [marker for marker in markers if marker != "EXECUTE" or self._turn.may_execute]

    def _looked(self, observer: Observer) -> None:
        """The observer's looks are stage calls too; their tokens count."""
        for look in observer.looks:
            self._turn.stages.append(observed(look))
            self._machine.observed(look.outcome, look.tokens)

    async def _acted(self, stage: StageCall, acting: Acting, grounding: Grounding) -> None:
        """What came of the text: stopped, empty, or an answer with what goes with it."""
        self._turn.read(stage, acting)
        if acting.stopped and acting.broken not in ENDS_TEXT:
            await self._interrupted(stage, acting)
            return
        if acting.stopped:
            stage.failure = f"{ENDED}: {acting.stopped}"
        await self._corrected(stage, acting, grounding)
        unread: list[str] = []
        commands = acting.commands(unread)
        stage.notes += unread
        self._turn.act_notes += [f"a command was not proposed: {why}" for why in unread]
        outcome: Outcome = "ok" if self._turn.shown.strip() or commands else "empty"
        if outcome == "empty":
            stage.refuse_cut()
            if any(row.stage == "act" and row.verdict == "empty" for row in self._turn.stages):
                await self._show(instead_of_answer(stage, self._turn))
        self._done = Done(outcome, stage.tokens)
        self._turn.stages.append(stage.record(outcome))
        self._write(RESPONSE, self._turn.shown, stage.task.role)
        for marker, text in acting.beside:
            await self._emit("block", msgspec.to_builtins(self._turn.block(marker, text, stage.task.role)))
        await self._turn.answer_written(stage, outcome, acting)
        for one in await self._considered(commands, stage) if commands else ():
            self._write("EXECUTE", one.told, stage.task.role)
            await self._emit("vote", one.vote)

    async def _corrected(self, stage: StageCall, acting: Acting, grounding: Grounding) -> None:
        """Replace what is not usable of the answer, and what the pages contradict."""
        turn = self._turn
        limits = self._services.observed.repetition
        kept, note = usable(turn.shown, acting.broken, stage.built.packet, limits)
        if kept != turn.shown:
            await self._retract(note)
            await self._show(kept)
        turn.act_notes += [*([note] if note else []), *cut_notes(grounding)]
        if not_told(grounding, turn):
            if turn.shown.strip():
                await self._retract("your packets say otherwise")
            await self._show(instead_of_answer(stage, turn))
        elif quoted := unsaid_quote(grounding, turn):
            await self._show(quoted)
        elif turn.shown.strip():
            turn.act_notes += unrecorded_notes(grounding, stage, turn)

    async def _considered(self, commands: list[Command], stage: StageCall) -> list[Considered]:
        """What the council says to them; when that cannot be written down, no command is considered and the answer is
        kept.
        """
        try:
            return await self._turn.consider(commands, stage, self._call)
        except (Unavailable, DeadlineExceeded) as error:
            self._turn.notes.append(f"no command was considered: {error.message}")
            return []

    async def _interrupted(self, stage: StageCall, acting: Acting) -> None:
        """The text is withdrawn; its beginning and the reason are in the packet of the next try."""
        reason = acting.stopped
        await self._retract(reason)
        stage.failure = f"interrupted: {reason}"
        self._done = Done("interrupted", stage.tokens)
        self._turn.stages.append(stage.record("interrupted"))
        role = self._observing_role(stage.task.role)
        self._write(RESPONSE, acting.shown, stage.task.role)
        await self._turn.interrupted(stage.task.role, reason, role)
        await self._block("INTERRUPT", reason, role)
