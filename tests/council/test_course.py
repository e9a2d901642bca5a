"""A turn goes its stages, ends as the seed says when one fails, and always ends."""

from collections.abc import Sequence
from itertools import product

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from council.limits import TurnCaps, council_limits
from council.quorum import Seat, council_rules
from council.roles import ROLES, Role, role_table
from council.stage_output import Outcome
from council.stage_steps import OUTCOMES, step_table
from council.stages import Depth, stage_table
from council.state_machine import End, Rulebook, StageTask, TurnStateMachine
from gaiad.base.errors import BadInput

BOOK = Rulebook(
    roles=role_table(), stages=stage_table(), steps=step_table(), limits=council_limits(), quorum=council_rules()
)
ALL = [Seat(role=role) for role in ROLES]
GOOD: dict[str, Outcome] = {"plan": "ok", "refine": "ok", "act": "ok", "verify": "success"}


class Machine(TurnStateMachine):
    """Notes how its stage calls and looks ended: stage, role, outcome."""

    def __init__(self, depth: Depth, book: Rulebook) -> None:
        super().__init__(depth, book)
        self.log: list[tuple[str, str, Outcome]] = []

    def observed(self, outcome: Outcome, tokens: int) -> bool:
        must_stop = super().observed(outcome, tokens)
        self.log.append(("observe", "lite", outcome))
        return must_stop

    def done(
        self, outcome: Outcome, tokens: int, seats: Sequence[Seat], confidence: float | None = None
    ) -> StageTask | End:
        task = self.task
        found = super().done(outcome, tokens, seats, confidence)
        assert task is not None
        self.log.append((task.stage, task.role, outcome))
        return found


def take(
    *outcomes: Outcome, depth: Depth = "full", seats: list[Seat] = ALL
) -> tuple[Machine, list[StageTask], End | None]:
    """A turn whose stages end so one after the other, and well from there on; low confidence is 0.2."""
    machine, tasks, left = Machine(depth, BOOK), list[StageTask](), [*outcomes]
    found = machine.begin(seats)
    while isinstance(found, StageTask):
        tasks.append(found)
        outcome = left.pop(0) if left else GOOD[found.stage]
        found = machine.done(outcome, 64, seats, 0.2 if outcome == "low_confidence" else None)
    assert found is machine.end
    return machine, tasks, machine.end


def went(tasks: list[StageTask]) -> str:
    return " ".join(f"{task.stage}:{task.role}" for task in tasks)


def seated(*active: Role) -> list[Seat]:
    return [Seat(role=role, active=role in active) for role in ROLES]


def test_a_full_turn_goes_all_stages_by_their_roles() -> None:
    machine, tasks, end = take()
    assert went(tasks) == "plan:lite refine:prime act:prime verify:codemind"
    assert [task.task_instruction for task in tasks] == ["initial_planning", "refinement", "act", "verification"]
    assert end == End(ending="answered", why="the verifying role found no fault", reduced_quorum=False)
    assert [outcome for *_, outcome in machine.log] == ["ok", "ok", "ok", "success"]


def test_a_fast_turn_acts_once() -> None:
    _, tasks, end = take(depth="fast")
    assert went(tasks) == "act:prime"
    assert end is not None
    assert end.ending == "answered"


@pytest.mark.parametrize(
    ("outcomes", "path", "ending", "said"),
    [
        (["missing"], "plan:lite plan:lite refine:prime act:prime verify:codemind", "answered", "no fault"),
        (["missing"] * 2, "plan:lite plan:lite plan:prime refine:prime act:prime verify:codemind", "answered", ""),
        (["missing"] * 3, "plan:lite plan:lite plan:prime", "asks_person", "there is still no plan"),
        (["ok", "low_confidence"], "plan:lite refine:prime", "asks_person", "confidence 0.2 is below 0.3"),
        (
            ["ok", "ok", "interrupted", "interrupted"],
            "plan:lite refine:prime act:prime act:prime act:prime verify:codemind",
            "answered",
            "no fault",
        ),
        (
            ["ok", "ok", "interrupted", "exec_error", "interrupted"],
            "plan:lite refine:prime act:prime act:prime act:prime",
            "asks_person",
            "the risk is high; the answer was interrupted 3 times in a row",
        ),
        (
            ["ok", "ok", "ok", "fail"],
            "plan:lite refine:prime act:prime verify:codemind",
            "reverted",
            "did not stand up to verification",
        ),
        (
            ["ok", "ok", "ok", "unproven"],
            "plan:lite refine:prime act:prime verify:codemind",
            "unverified",
            "has not shown that it can tell right from wrong",
        ),
        (
            ["ok", "ok", "ok", "missing", "missing"],
            "plan:lite refine:prime act:prime verify:codemind verify:codemind verify:prime",
            "answered",
            "no fault",
        ),
        (["lost"], "plan:lite plan:prime refine:prime act:prime verify:codemind", "answered", "no fault"),
        (["lost", "lost", "lost"], "plan:lite plan:prime plan:codemind", "refused", "no role could write a plan"),
    ],
)
def test_failures_end_as_the_seed_says(outcomes: list[Outcome], path: str, ending: str, said: str) -> None:
    _, tasks, end = take(*outcomes)
    assert went(tasks) == path
    assert end is not None
    assert end.ending == ending
    assert said in end.why


@pytest.mark.parametrize(
    ("outcomes", "raised"),
    [
        (["missing"], []),
        (["missing"] * 2, ["lite to prime: stage_failed"]),
        (["missing"] * 3, ["lite to prime: stage_failed", "prime to person: stage_failed"]),
        (["ok", "low_confidence"], ["prime to person: low_confidence"]),
        (["ok", "ok", "interrupted", "interrupted"], []),
        (["ok", "ok", "interrupted", "interrupted", "interrupted"], ["prime to person: high_risk, interrupts"]),
        (["ok", "ok", "interrupted", "exec_error", "exec_error"], ["prime to person: high_risk, interrupts"]),
        (["ok", "ok", "ok", "fail"], ["codemind to person: stage_failed"]),
    ],
)
def test_each_failure_mode_of_the_seed_goes_up_to_whom_it_says(outcomes: list[Outcome], raised: list[str]) -> None:
    machine, _, _ = take(*outcomes)
    assert [f"{one.raised_by} to {one.to}: {', '.join(one.triggers)}" for one in machine.escalations] == raised


def test_a_repair_has_its_own_directive() -> None:
    _, tasks, _ = take("ok", "ok", "interrupted")
    assert [task.task_instruction for task in tasks[2:4]] == ["act", "interruption_handling"]
    assert tasks[3].action == "interrupt"


@pytest.mark.parametrize(("place", "kept"), list(product(range(4), ROLES)))
def test_whichever_role_is_lost_at_whichever_stage_the_turn_is_answered_without_it(place: int, kept: Role) -> None:
    """The role at this stage dies; one other is not there at all."""
    seats = [Seat(role=role, active=role != kept) for role in ROLES]
    _, healthy, _ = take(seats=seats)
    lost = healthy[place].role
    outcomes: list[Outcome] = [GOOD[task.stage] for task in healthy[:place]]
    _, tasks, end = take(*outcomes, "lost", seats=seats)
    assert end is not None
    assert (end.ending, end.reduced_quorum) == ("answered", True)
    assert all(task.role not in (lost, kept) for task in tasks[place + 1 :])
    assert tasks[place + 1].stage == tasks[place].stage


def test_nobody_there_is_a_refusal_in_words() -> None:
    _, tasks, end = take(seats=seated())
    assert tasks == []
    assert end == End(ending="refused", why="no role is available to plan", reduced_quorum=True)


def test_an_answer_that_nobody_is_left_to_verify_is_not_thrown_away() -> None:
    _, _, end = take("ok", "ok", "ok", "lost", seats=seated("lite"))
    assert end == End(ending="unverified", why="no role is available to verify", reduced_quorum=True)
    short = msgspec.structs.replace(BOOK.limits, turn=TurnCaps(max_rounds=3, max_tokens=1000))
    machine = Machine("full", msgspec.structs.replace(BOOK, limits=short))
    machine.begin(ALL)
    for _ in range(3):
        found = machine.done("ok", 10, ALL)
    assert isinstance(found, End)
    assert (found.ending, found.why) == ("unverified", "there is an answer, and the turn has had its 3 stage calls")


def test_one_role_does_all_stages_and_quorum_is_reduced() -> None:
    _, tasks, end = take(seats=seated("lite"))
    assert {task.role for task in tasks} == {"lite"}
    assert end is not None
    assert (end.ending, end.reduced_quorum) == ("answered", True)


def test_two_roles_are_a_quorum() -> None:
    _, _, end = take(seats=seated("prime", "lite"))
    assert end is not None
    assert not end.reduced_quorum


def test_who_acted_does_not_verify_while_another_is_there() -> None:
    machine = Machine("full", BOOK)
    early, late = seated("lite", "codemind"), seated("prime", "lite")
    machine.begin(early)
    for outcome, seats in (("ok", early), ("ok", early), ("ok", late)):
        found = machine.done(outcome, 10, seats)  # type: ignore[arg-type]
    assert [role for _, role, _ in machine.log] == ["lite", "codemind", "lite"]
    assert isinstance(found, StageTask)
    assert (found.stage, found.role) == ("verify", "prime")


def test_a_role_that_falls_silent_between_its_tries_is_replaced() -> None:
    machine = Machine("full", BOOK)
    machine.begin(ALL)
    task = machine.done("missing", 10, seated("prime", "codemind"))
    assert isinstance(task, StageTask)
    assert (task.stage, task.role, task.stands_in_for) == ("plan", "prime", "lite")


def test_the_observer_stops_a_running_act_only_when_it_must() -> None:
    machine = Machine("fast", BOOK)
    with pytest.raises(BadInput, match="nothing is being written"):
        machine.observed("ok", 4)
    machine.begin(ALL)
    assert not machine.observed("ok", 4)
    assert not machine.observed("unreadable", 4)
    assert machine.observed("interrupt", 4)
    repair = machine.done("interrupted", 20, ALL)
    assert isinstance(repair, StageTask)
    assert repair.task_instruction == "interruption_handling"
    assert [stage for stage, *_ in machine.log] == ["observe", "observe", "observe", "act"]


def test_what_comes_out_of_order_is_refused() -> None:
    machine = Machine("fast", BOOK)
    with pytest.raises(BadInput, match="no task is running"):
        machine.done("ok", 1, ALL)
    machine.begin(ALL)
    with pytest.raises(BadInput, match="the turn has begun"):
        machine.begin(ALL)
    machine.done("ok", 1, ALL)
    with pytest.raises(BadInput, match="no task is running"):
        machine.done("ok", 1, ALL)


@given(st.data(), st.sampled_from(["fast", "full"]))
def test_every_turn_ends_whatever_happens(data: st.DataObject, depth: Depth) -> None:
    machine = Machine(depth, BOOK)
    states = st.tuples(*[st.booleans()] * 6)

    def seats() -> list[Seat]:
        drawn = data.draw(states)
        return [Seat(role=role, active=drawn[n], can_vote=drawn[n + 3]) for n, role in enumerate(ROLES)]

    now = seats()
    found = machine.begin(now)
    calls = 0
    while isinstance(found, StageTask):
        calls += 1
        role = found.role
        assert any(seat.role == role and seat.active for seat in now), "only who is there is asked"
        assert role not in {who for _, who, outcome in machine.log if outcome == "lost"}
        outcome = data.draw(st.sampled_from(OUTCOMES[found.stage]))
        now = seats()
        found = machine.done(outcome, data.draw(st.sampled_from([0, 64, 800])), now, 0.1)
    assert calls <= BOOK.limits.turn.max_rounds
    assert found.why
    assert (found.ending == "asks_person") == (found.escalation is not None)
    assert sum(one.to == "prime" for one in machine.escalations) <= 1
    if found.ending == "answered":
        assert machine.log[-1][2] in ("ok", "success", "empty")
    acted = [outcome for stage, _, outcome in machine.log if stage == "act"]
    assert not (found.ending == "refused" and acted[-1:] == ["ok"])
