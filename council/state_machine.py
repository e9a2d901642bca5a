"""The course of one turn through its stages: which role does what next, and with what words it ends. Pure.

It joins the chain of the depth, the failure modes (stage_steps), the stand-ins (roles) and the escalations into one
state machine. Whoever runs a turn asks it for the first task, does it, says how it ended, and is given the next task or
the end; models, time and people are not known here. Every turn ends, for its stage calls are capped.
"""

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from council.limits import CouncilLimits, EscalationLimits
from council.quorum import CouncilRules, Seat
from council.roles import CouncilStage, Role, RoleTable, assign_stage, voters
from council.stage_output import Outcome
from council.stage_steps import Action, NextStep, StageDone, StepTable, next_step, spent_cap, times_in_a_row
from council.stages import Depth, StageTable
from gaiad.base.errors import BadInput
from prompts.packet import RiskLevel

Trigger = Literal["high_risk", "low_confidence", "interrupts", "stage_failed"]
Destination = Literal["prime", "person"]
PRIME: Final = "prime"


class Signals(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a turn when it may have to go up. `failed` says what failed for good, "" when nothing did."""

    risk_level: RiskLevel | None = None
    confidence: float | None = None
    interrupts_in_a_row: int = 0
    failed: str = ""


class Escalation(msgspec.Struct, frozen=True, kw_only=True):
    """What goes up from whom to whom. `why` is for people."""

    raised_by: str
    to: Destination
    triggers: tuple[Trigger, ...]
    why: str


def triggers(signals: Signals, limits: EscalationLimits) -> dict[Trigger, str]:
    """The triggers that fire and each one's words, in a fixed order; empty when none does."""
    found: dict[Trigger, str] = {}
    if signals.risk_level in limits.risk_levels:
        found["high_risk"] = f"the risk is {signals.risk_level}"
    if signals.confidence is not None and signals.confidence < limits.confidence_below:
        found["low_confidence"] = f"confidence {signals.confidence:g} is below {limits.confidence_below:g}"
    if signals.interrupts_in_a_row >= limits.interrupts_in_a_row:
        found["interrupts"] = f"the answer was interrupted {signals.interrupts_in_a_row} times in a row"
    if signals.failed:
        found["stage_failed"] = signals.failed
    return found


def escalate(
    raised_by: str, signals: Signals, seats: Sequence[Seat], limits: EscalationLimits, asked: Sequence[str] = ()
) -> Escalation | None:
    """The escalation, None when nothing fires. `asked` are roles this matter went to before in the turn.

    It goes to Prime when another raised it and Prime is active, can judge and was not asked yet; else to the person.
    """
    fired = triggers(signals, limits)
    if not fired:
        return None
    to, aside = _destination(raised_by, seats, asked)
    why = f"{'; '.join(fired.values())}{aside}"
    return Escalation(raised_by=raised_by, to=to, triggers=tuple(fired), why=why)


def _destination(raised_by: str, seats: Sequence[Seat], asked: Sequence[str]) -> tuple[Destination, str]:
    if raised_by == PRIME:
        return "person", ""
    if PRIME in asked:
        return "person", " (Prime was asked before)"
    if any(seat.role == PRIME and seat.active and seat.can_vote for seat in seats):
        return "prime", ""
    return "person", " (Prime is not there to ask)"


Ending = Literal["answered", "unverified", "asks_person", "awaits_approval", "reverted", "refused"]


class Rulebook(msgspec.Struct, frozen=True, kw_only=True):
    """All tables and numbers that a turn goes by."""

    roles: RoleTable
    stages: StageTable
    steps: StepTable
    limits: CouncilLimits
    quorum: CouncilRules


class StageTask(msgspec.Struct, frozen=True, kw_only=True):
    """A stage call to make. `task_instruction` is the key of its directive; `action` and `why` say how it came up."""

    stage: CouncilStage
    role: Role
    duty: str
    stands_in_for: Role | None
    task_instruction: str
    action: Action
    why: str


class End(msgspec.Struct, frozen=True, kw_only=True):
    """How the turn ended, and why, for the person. `unverified` is an answer that nobody was left to verify,
    or nobody who can.

    `escalation` is the one that went to the person.
    """

    ending: Ending
    why: str
    reduced_quorum: bool
    escalation: Escalation | None = None


def doable(chain: Sequence[CouncilStage], seats: Sequence[Seat]) -> tuple[CouncilStage, ...]:
    """The stages without those that no model present can do, by its figures; those not measured count as able."""
    measured = bool(seats) and all(seat.duties is not None or not seat.can_vote for seat in seats)
    return tuple(stage for stage in chain if stage == "act" or not measured or any(seat.can(stage) for seat in seats))


class TurnStateMachine:
    """One turn. `escalations` has what went up.

    With `acted_by` it goes on from an Act of that role that came before: an approved command (decision 13).
    """

    def __init__(self, depth: Depth, book: Rulebook, acted_by: Role | None = None) -> None:
        self._book = book
        self._chain = book.stages.chains[depth]
        self._past = [StageDone(stage="act", outcome="ok")] if acted_by else []
        self._lost: list[Role] = []
        self._actor: str = acted_by or ""
        self.escalations: list[Escalation] = []
        self.task: StageTask | None = None
        self.end: End | None = None

    def begin(self, seats: Sequence[Seat]) -> StageTask | End:
        """The first task. Raises BadInput when the turn has begun."""
        if self.task is not None or self.end is not None:
            raise BadInput("the turn has begun; say how its task ended")
        self._chain = doable(self._chain, seats)
        if not self._chain:
            return self._finish("refused", "no role has a model that has shown that it can verify", seats)
        return self._assign(self._chain[0], "go_on", "the turn begins", seats)

    def place_of(self, stage: CouncilStage) -> tuple[int, int]:
        """Which one of how many stages it is in this turn, from 1."""
        return self._chain.index(stage) + 1, len(self._chain)

    def observed(self, outcome: Outcome, tokens: int) -> bool:
        """An observer has looked at the text of the running Act: whether it must stop now."""
        if self.task is None or self.task.stage != "act":
            raise BadInput("nothing is being written; the observer looks at a running Act")
        self._record("observe", outcome, tokens)
        return self._next().action == "interrupt"

    def await_approval(self, why: str, seats: Sequence[Seat]) -> End:
        """Act wants commands that a person has to approve first: the turn ends here (decision 13)."""
        return self._finish("awaits_approval", why, seats)

    def done(
        self, outcome: Outcome, tokens: int, seats: Sequence[Seat], confidence: float | None = None
    ) -> StageTask | End:
        """The running task ended so; `confidence` is that of a refined plan. Raises BadInput when none is running."""
        if self.task is None:
            raise BadInput("no task is running; begin the turn, or it has ended")
        task = self.task
        self._record(task.stage, outcome, tokens)
        if task.stage == "act":
            self._actor = task.role
        if outcome == "lost":
            self._lost.append(task.role)
        return self._follow(self._next(), task, seats, confidence)

    def _record(self, stage: CouncilStage, outcome: Outcome, tokens: int) -> None:
        self._past.append(StageDone(stage=stage, outcome=outcome, tokens=tokens))

    def _next(self) -> NextStep:
        return next_step(self._book.steps, self._chain, self._past, self._book.limits.turn)

    def _follow(
        self, step: NextStep, task: StageTask, seats: Sequence[Seat], confidence: float | None
    ) -> StageTask | End:
        match step.action:
            case "finish":
                return self._finish("answered", step.why, seats)
            case "stop":
                return self._finish("refused", step.why, seats)
            case "unverified":
                return self._finish("unverified", step.why, seats)
            case "revert_and_alert":
                self.escalations.append(
                    Escalation(raised_by=task.role, to="person", triggers=("stage_failed",), why=step.why)
                )
                return self._finish("reverted", step.why, seats)
            case "escalate" | "high_risk":
                return self._escalate(step, task, seats, confidence)
            case "retry" | "interrupt":
                return self._assign(task.stage, step.action, step.why, seats, task.role)
        return self._assign(step.stage or task.stage, step.action, step.why, seats)

    def _escalate(
        self, step: NextStep, task: StageTask, seats: Sequence[Seat], confidence: float | None
    ) -> StageTask | End:
        here = [seat for seat in seats if seat.role not in self._lost]
        before = any(one.to == PRIME for one in self.escalations)
        asked = [PRIME] if before or not self._can(PRIME, task.stage, seats) else []
        if spent_cap(self._past, self._book.limits.turn):
            asked = [PRIME]
        found = escalate(task.role, self._signals(step, confidence), here, self._book.limits.escalation, asked)
        if found is None:
            raise BadInput(f"{task.stage} ended low on confidence {confidence}, which is not below the limit")
        self.escalations.append(found)
        if found.to == "person":
            return self._finish("asks_person", found.why, seats, found)
        return self._assign(task.stage, step.action, found.why, seats, PRIME)

    def _can(self, role: Role, stage: CouncilStage, seats: Sequence[Seat]) -> bool:
        """Whether the role may do the stage in this turn at all."""
        others = [one for one in self._book.roles.roles if one != role]
        return assign_stage(self._book.roles, stage, seats, lost=[*self._lost, *others]) is not None

    def _signals(self, step: NextStep, confidence: float | None) -> Signals:
        if step.action == "high_risk":
            interrupts = times_in_a_row(self._past, "act", ("interrupted", "exec_error"))
            return Signals(risk_level="high", interrupts_in_a_row=interrupts)
        if self._past[-1].outcome == "low_confidence":
            return Signals(confidence=confidence)
        return Signals(failed=step.why)

    def _assign(
        self, stage: CouncilStage, action: Action, why: str, seats: Sequence[Seat], wanted: Role | None = None
    ) -> StageTask | End:
        """The task for `wanted` if it is still there, else for whoever does the stage now."""
        others = [role for role in self._book.roles.roles if role != wanted]
        found = assign_stage(self._book.roles, stage, seats, lost=[*self._lost, *others]) if wanted else None
        found = found or assign_stage(self._book.roles, stage, seats, self._actor, self._lost)
        if found is None:
            return self._finish("refused", f"no role is available to {stage}", seats)
        entry = self._book.stages.stages[stage]
        again = bool(entry.after_interrupt) and action in ("interrupt", "high_risk")
        self.task = StageTask(
            stage=stage,
            role=found.role,
            duty=found.duty,
            stands_in_for=found.stands_in_for,
            task_instruction=entry.after_interrupt if again else entry.task_instruction,
            action=action,
            why=why,
        )
        return self.task

    def _finish(self, ending: Ending, why: str, seats: Sequence[Seat], escalation: Escalation | None = None) -> End:
        if ending == "refused" and self._is_answered():
            ending = "unverified"
        able = [role for role in voters(seats) if role not in self._lost]
        reduced = len(able) < self._book.quorum.quorum_roles
        self.task = None
        self.end = End(ending=ending, why=why, reduced_quorum=reduced, escalation=escalation)
        return self.end

    def _is_answered(self) -> bool:
        """Whether Act's last text was whole."""
        return next((done.outcome == "ok" for done in reversed(self._past) if done.stage == "act"), False)
