"""The shipped contracts are GCP 6's table, and what their forms allow is read as what it is."""

import random
from typing import Any, get_args

import pytest

from constants.load import load
from council.roles import STAGES, CouncilStage
from council.stage_output import read_output
from council.stages import (
    MARKERS,
    Form,
    Input,
    Plan,
    RefinedPlan,
    Verification,
    plan_text,
    stage_form,
    stage_table,
    verification_text,
)
from gaiad.base.errors import BadInput
from gaiad.models.child.reply_form import MARKERS as FORM_MARKERS
from router.routing import Marker
from tests.makers.form_texts import form_texts

TABLE = stage_table()
INSTRUCTIONS = {key: each["stage"] for key, each in load("task_instructions.toml", dict[str, dict[str, Any]]).items()}
MEANT: dict[CouncilStage, set[str]] = {
    "plan": {"ok"},
    "refine": {"ok", "low_confidence"},
    "observe": {"ok", "interrupt"},
    "act": {"ok"},
    "verify": {"success", "fail"},
}


HELD = [stage for stage in STAGES if stage != "act"]


def drawn(stage: CouncilStage, max_tokens: int, count: int, *, may_execute: bool = False) -> list[str]:
    form = stage_form(stage, max_tokens, may_execute=may_execute)
    return form_texts(count, schema=form.schema, contract=form.contract, seed=3)


def test_the_shipped_contracts_fit_the_shipped_directives() -> None:
    assert list(TABLE.stages) == list(STAGES)
    for stage, entry in TABLE.stages.items():
        for key in filter(None, (entry.task_instruction, entry.after_interrupt, entry.with_commands)):
            assert INSTRUCTIONS[key] == stage
    assert {stage: entry.markers[0] for stage, entry in TABLE.stages.items()} == {
        "plan": "PLAN",
        "refine": "PLAN",
        "observe": "INTERRUPT",
        "act": "RESPONSE",
        "verify": "VERIFY",
    }
    assert TABLE.chains == {"fast": ("act",), "full": ("plan", "refine", "act", "verify")}
    assert {part for entry in TABLE.stages.values() for part in entry.inputs} == set(get_args(Input))


def test_markers_are_those_of_the_router_and_of_forms() -> None:
    assert set(MARKERS) == set(get_args(Marker)) == set(FORM_MARKERS)


@pytest.mark.parametrize("max_tokens", [16, 64, 512])
@pytest.mark.parametrize("stage", HELD)
def test_whatever_the_form_allows_keeps_the_contract(stage: CouncilStage, max_tokens: int) -> None:
    for text in drawn(stage, max_tokens, 12):
        reading = read_output(stage, text, 0.3)
        assert reading.outcome in MEANT[stage], text
        assert reading.value is not None
        assert reading.notes == (), text


def test_an_answer_is_plain_text_and_held_to_no_form() -> None:
    assert stage_form("act", 64) == Form()


def test_act_with_leave_to_execute_writes_its_command_first() -> None:
    for text in drawn("act", 256, 20, may_execute=True):
        assert text.startswith("EXECUTE: {")
        reading = read_output("act", text, 0.3)
        assert reading.outcome == "ok"
        assert reading.value.text


@pytest.mark.parametrize("stage", HELD)
def test_a_reply_cut_anywhere_is_read_without_a_fault(stage: CouncilStage) -> None:
    chance = random.Random(1)
    for text in drawn(stage, 128, 8):
        for end in chance.sample(range(len(text)), min(30, len(text))):
            reading = read_output(stage, text[:end], 0.3)
            assert reading.outcome in MEANT[stage] | {"missing", "unreadable", "empty", "ok"}


@pytest.mark.parametrize(
    ("stage", "text", "outcome"),
    [
        ("plan", 'PLAN: {"steps":["find the log", "read its la', "ok"),
        ("plan", 'PLAN: {"steps":["find the l', "missing"),
        ("plan", 'PLAN: {"steps":["find', "missing"),
        ("refine", 'PLAN: {"confidence":0.9,"steps":["find the l', "missing"),
        ("refine", 'PLAN: {"confidence":0.9', "missing"),
        ("refine", 'PLAN: {"confidence":0.9,"steps":["find the log","rea', "ok"),
        ("refine", 'PLAN: {"confidence":0.2,"steps":["find the log","rea', "low_confidence"),
        ("verify", 'VERIFY: {"outcome":"fail","summary":"the file is mis', "fail"),
        ("verify", 'VERIFY: {"outcome":"fa', "missing"),
        ("observe", '{"interrupt":true,"reason":"it leaks a k', "interrupt"),
        ("observe", '{"interrupt":fal', "unreadable"),
    ],
)
def test_a_cut_reply_gives_what_was_whole(stage: CouncilStage, text: str, outcome: str) -> None:
    reading = read_output(stage, text, 0.3)
    assert reading.outcome == outcome
    assert reading.notes


def test_usual_text_ends_before_the_tokens_do() -> None:
    """At two characters a token, which words of any language take on average, the longest body fits."""
    for stage in ("plan", "refine", "observe", "verify"):
        for tokens in (128, 256, 400):
            form = stage_form(stage, tokens)
            schema = form.schema or form.contract.blocks[0].schema
            longest = 0
            for field in schema["properties"].values():
                if field.get("type") == "array":
                    longest += field["maxItems"] * (field["items"]["maxLength"] + 3)
                longest += field.get("maxLength", 8)
            assert longest <= tokens * 2 + 40, (stage, tokens)


def test_too_few_tokens_are_refused() -> None:
    with pytest.raises(BadInput, match="plan: 15 tokens are too few"):
        stage_form("plan", 15)


def test_plans_and_verdicts_as_people_read_them_are_read_back() -> None:
    plan = RefinedPlan(confidence=0.75, steps=("find the log", "read it"))
    assert plan_text(plan) == "1. find the log\n2. read it\nconfidence=0.75"
    assert read_output("refine", f"PLAN:\n{plan_text(plan)}", 0.3).value == plan
    assert read_output("plan", f"PLAN: {plan_text(Plan(steps=plan.steps))}", 0.3).value == Plan(steps=plan.steps)
    verdict = Verification(outcome="fail", summary="step 2 was not done")
    assert read_output("verify", f"VERIFY: {verification_text(verdict)}", 0.3).value == verdict
