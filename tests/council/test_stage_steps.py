"""GCP 6's failure modes, row by row; the table has no gap and no turn runs away."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from council.limits import TurnCaps, council_limits
from council.roles import STAGES
from council.stage_output import Outcome
from council.stage_steps import (
    OUTCOMES,
    StageDone,
    next_step,
    spent_cap,
    step_table,
    times_in_a_row,
)
from council.stages import stage_table
from gaiad.base.errors import BadInput

TABLE = step_table()
CHAINS = stage_table().chains
CAPS = council_limits().turn


def done(*ends: str) -> list[StageDone]:
    """`plan:ok` and the like."""
    parts = [end.split(":") for end in ends]
    return [msgspec.convert({"stage": stage, "outcome": outcome}, StageDone) for stage, outcome in parts]


def after(*ends: str) -> tuple[str, str | None]:
    step = next_step(TABLE, CHAINS["full"], done(*ends), CAPS)
    return step.action, step.stage


@pytest.mark.parametrize(
    ("ends", "action", "stage"),
    [
        (["plan:ok"], "go_on", "refine"),
        (["plan:missing"], "retry", "plan"),
        (["plan:missing", "plan:missing"], "escalate", "plan"),
        (["plan:missing"] * 5, "escalate", "plan"),
        (["plan:missing", "plan:ok"], "go_on", "refine"),
        (["plan:lost"], "stand_in", "plan"),
        (["plan:lost", "plan:missing"], "retry", "plan"),
        (["plan:lost"] * 3, "stop", None),
        (["plan:ok", "refine:ok"], "go_on", "act"),
        (["refine:low_confidence"], "escalate", "refine"),
        (["refine:missing"], "retry", "refine"),
        (["refine:missing", "refine:missing"], "escalate", "refine"),
        (["refine:lost"], "stand_in", "refine"),
        (["refine:lost"] * 3, "stop", None),
        (["observe:ok"], "go_on", "act"),
        (["observe:interrupt"], "interrupt", "act"),
        (["observe:unreadable"], "go_on", "act"),
        (["observe:lost"], "go_on", "act"),
        (["act:ok"], "go_on", "verify"),
        (["act:empty"], "retry", "act"),
        (["act:empty", "act:empty"], "go_on", "verify"),
        (["observe:interrupt", "act:interrupted"], "interrupt", "act"),
        (["act:interrupted", "observe:ok", "act:interrupted"], "interrupt", "act"),
        (
            ["act:interrupted", "observe:ok", "act:exec_error", "observe:interrupt", "act:interrupted"],
            "high_risk",
            "act",
        ),
        (["act:exec_error"], "interrupt", "act"),
        (["act:interrupted", "act:interrupted", "act:ok"], "go_on", "verify"),
        (["act:interrupted", "act:interrupted", "act:empty", "act:interrupted"], "interrupt", "act"),
        (["act:lost"], "stand_in", "act"),
        (["act:lost"] * 3, "stop", None),
        (["verify:success"], "finish", None),
        (["verify:unproven"], "unverified", None),
        (["verify:fail"], "revert_and_alert", None),
        (["verify:missing"], "retry", "verify"),
        (["verify:missing", "verify:missing"], "escalate", "verify"),
        (["verify:lost"], "stand_in", "verify"),
        (["verify:lost"] * 3, "escalate", "verify"),
    ],
)
def test_every_row(ends: list[str], action: str, stage: str | None) -> None:
    assert after(*ends) == (action, stage)


def test_the_shipped_table_has_no_gap_and_every_row_is_reached() -> None:
    for stage in STAGES:
        for outcome in OUTCOMES[stage]:
            times = [row.times for row in TABLE.rows if row.stage == stage and outcome in row.outcomes]
            assert 1 in times, f"{stage} that ends {outcome} has no row"
            assert len(set(times)) == len(times), f"{stage} that ends {outcome} has two rows for as many times"
    reached = set()
    for row in TABLE.rows:
        for outcome in row.outcomes:
            step = next_step(TABLE, CHAINS["full"], done(*[f"{row.stage}:{outcome}"] * row.times), CAPS)
            reached.add(row.why)
            assert step.why == row.why
    assert len(reached) == len(TABLE.rows)


def test_high_risk_comes_with_as_many_interrupts_as_escalate_by_themselves() -> None:
    (row,) = [row for row in TABLE.rows if row.action == "high_risk"]
    assert row.times == council_limits().escalation.interrupts_in_a_row


def test_fast_ends_after_its_one_act() -> None:
    step = next_step(TABLE, CHAINS["fast"], done("act:ok"), CAPS)
    assert (step.action, step.stage) == ("finish", None)


def test_the_caps_end_a_turn_in_words() -> None:
    caps = TurnCaps(max_rounds=2, max_tokens=100)
    step = next_step(TABLE, CHAINS["full"], done("plan:ok", "refine:ok"), caps)
    assert (step.action, step.stage) == ("stop", None)
    assert step.why == "the plan is good enough, and the turn has had its 2 stage calls"
    wordy = [StageDone(stage="plan", outcome="ok", tokens=60), StageDone(stage="observe", outcome="ok", tokens=40)]
    assert spent_cap(wordy, caps) == "the turn has written 100 of its 100 tokens"
    assert spent_cap(done("plan:ok", *["observe:ok"] * 9), caps) == "", "looking on is no round"


def test_the_caps_do_not_stop_an_alert_or_an_answer_that_is_there() -> None:
    caps = TurnCaps(max_rounds=1, max_tokens=100)
    for ends, action in (("verify:fail", "revert_and_alert"), ("verify:success", "finish")):
        assert next_step(TABLE, CHAINS["full"], done(ends), caps).action == action
    assert next_step(TABLE, CHAINS["full"], done(*["act:interrupted"] * 3), caps).action == "high_risk"


@given(st.data(), st.sampled_from(["fast", "full"]))
def test_no_turn_runs_away(data: st.DataObject, depth: str) -> None:
    """Whatever the stages do, a turn ends within its stage calls; escalated, Prime goes on with the stage."""
    chain = CHAINS[depth]  # type: ignore[index]
    history: list[StageDone] = []
    stage = chain[0]
    while True:
        outcome: Outcome = data.draw(st.sampled_from(OUTCOMES[stage]))
        history.append(StageDone(stage=stage, outcome=outcome, tokens=data.draw(st.sampled_from([0, 64, 900]))))
        step = next_step(TABLE, chain, history, CAPS)
        assert step.why
        if step.stage is None or step.action == "high_risk":
            break
        stage = step.stage
    assert len(history) <= CAPS.max_rounds
    assert sum(one.tokens for one in history) < CAPS.max_tokens + 900
    if step.action == "finish":
        gone_on = [one.stage for one in history if one.outcome in ("ok", "success")]
        assert [stage for stage in chain if stage != "act" or stage in gone_on] == gone_on


def test_ends_in_a_row_are_the_stages_own() -> None:
    past = done("plan:missing", "act:ok", "plan:missing", "observe:ok")
    assert times_in_a_row(past, "plan", ["missing"]) == 2
    assert times_in_a_row(done("plan:missing", "plan:ok", "plan:missing"), "plan", ["missing"]) == 1


def test_what_does_not_fit_is_named() -> None:
    with pytest.raises(BadInput, match="plan never ends 'success'"):
        after("plan:success")
    with pytest.raises(BadInput, match="no stage has ended"):
        after()
