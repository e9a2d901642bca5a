"""What models write without a grammar is read where it is clear, and said to be missing where it is not."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from council.roles import STAGES, CouncilStage
from council.stage_output import read_marked, read_output
from council.stages import Plan, RefinedPlan


@pytest.mark.parametrize(
    "text",
    [
        "PLAN:\n1. find the log\n2. read it",
        "PLAN: 1. find the log\n2. read it",
        "Plan:\n1) find the log\n2) read it",
        "**Plan:**\n- find the log\n- read it",
        "## PLAN\n* find the log\n* read it",
        "Sure, here it is.\nPLAN:\nStep 1: find the log\nStep 2: read it\nThat is all.",
        "<think>PLAN: 1. nothing</think>\nPLAN:\n1. find the log\n2. read it",
        'PLAN:\n```json\n{"steps": ["find the log", "read it"]}\n```',
        'PLAN: {"steps": ["find the log", "read it"]} I hope this helps!',
        "1. find the log\n2. read it",
        "PLAN:\r\n1. find the log\r\n2. read it\r\n",
    ],
)
def test_plans_as_models_write_them(text: str) -> None:
    reading = read_output("plan", text, 0.3)
    assert reading.value == Plan(steps=("find the log", "read it"))
    assert reading.outcome == "ok"
    assert reading.notes, "what is not the form is told"


def test_a_tag_of_thoughts_inside_a_step_is_text() -> None:
    said = RefinedPlan(confidence=1.0, steps=("escape <think> in EX", "see </think> \U001071d2 <reasoning>"))
    reading = read_output("refine", "PLAN: " + msgspec.json.encode(said).decode(), 0.3)
    assert (reading.value, reading.notes) == (said, ())


@pytest.mark.parametrize("before", ["", "PLAN: ", "Sure.\n  ", "**Plan:** "])
def test_thoughts_that_begin_a_line_or_a_block_are_left_out(before: str) -> None:
    thoughts = "<think>PLAN: 1. no</think> <Thinking>\n2. nothing</Thinking>"
    assert read_output("plan", f"{before}{thoughts}\nPLAN: 1. read it", 0.3).value == Plan(steps=("read it",))
    assert read_output("plan", f"PLAN: {thoughts}1. read it", 0.3).value == Plan(steps=("read it",))


@pytest.mark.parametrize("text", ["", "   \n", "PLAN:", "PLAN: {}", "I think we should read the log.", '{"steps": []}'])
def test_no_plan_is_missing(text: str) -> None:
    assert read_output("plan", text, 0.3).outcome == "missing"
    assert read_output("refine", text, 0.3).outcome == "missing"


@pytest.mark.parametrize(
    ("written", "confidence"),
    [
        ("confidence=0.8", 0.8),
        ("Confidence: 0.8", 0.8),
        ("**confidence** = .8", 0.8),
        ("confidence: 80%", 0.8),
        ("confidence 8/10", 0.8),
        ("Confidence = 0,8", 0.8),
        ("confidence=0.1 or rather confidence=0.8", 0.8),
        ("confidence=1", 1.0),
        ("confidence=0", 0.0),
    ],
)
def test_confidence_as_models_write_it(written: str, confidence: float) -> None:
    reading = read_output("refine", f"PLAN:\n1. find the log\n{written}", 0.3)
    assert reading.value == RefinedPlan(confidence=confidence, steps=("find the log",))
    assert reading.outcome == ("low_confidence" if confidence < 0.3 else "ok")


@pytest.mark.parametrize("written", ["", "confidence=x", "confidence=-0.5", "confidence=7", "confidence: 150%", "sure"])
def test_a_refined_plan_without_a_confidence_is_missing(written: str) -> None:
    reading = read_output("refine", f"PLAN:\n1. find the log\n{written}", 0.3)
    assert reading.outcome == "missing"
    assert "no confidence" in " ".join(reading.notes)


def test_confidence_is_low_only_below_the_limit() -> None:
    for confidence, outcome in ((0.29, "low_confidence"), (0.3, "ok")):
        text = f'PLAN: {{"confidence": {confidence}, "steps": ["a"]}}'
        assert read_output("refine", text, 0.3).outcome == outcome


def test_a_refined_plan_after_the_old_one_counts() -> None:
    text = 'PLAN: {"confidence": 0.1, "steps": ["old"]}\nPLAN: {"confidence": 0.9, "steps": ["new"]}'
    assert read_output("refine", text, 0.3).value == RefinedPlan(confidence=0.9, steps=("new",))


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("VERIFY: success - all steps are done", "success"),
        ("VERIFY: Success.", "success"),
        ("Verify: passed: the tests are green", "success"),
        ("VERIFY: **fail**: step 2 was not done", "fail"),
        ("VERIFY:\nfailed\nthe file is missing", "fail"),
        ("fail: no file", "fail"),
        ("VERIFY: success criteria were not met", "missing"),
        ("VERIFY: success/fail: unclear", "missing"),
        ("VERIFY: unsuccessful.", "missing"),
        ("VERIFY: not a success.", "missing"),
        ("VERIFY:", "missing"),
        ("It all looks good to me.", "missing"),
        ("", "missing"),
    ],
)
def test_only_a_first_word_is_a_verdict(text: str, outcome: str) -> None:
    assert read_output("verify", text, 0.3).outcome == outcome


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("", "ok"),
        ("CONTINUE", "ok"),
        ("OK.", "ok"),
        ('{"interrupt": false, "reason": ""}', "ok"),
        ("INTERRUPT: none", "ok"),
        ("INTERRUPT: it gives a password away", "interrupt"),
        ("Interrupt: it gives a password away", "interrupt"),
        ("I have read it.\nINTERRUPT: it gives a password away", "interrupt"),
        ("INTERRUPT:", "interrupt"),
        ('{"interrupt": true, "reason": "x"}', "interrupt"),
        ("The text seems fine so far.", "unreadable"),
    ],
)
def test_what_an_observer_says(text: str, outcome: str) -> None:
    assert read_output("observe", text, 0.3).outcome == outcome


def response(text: str):
    return read_output("act", text, 0.3)


def test_an_answer_is_whole_however_it_is_marked() -> None:
    assert response("RESPONSE: Yes.").value.text == "Yes."
    assert response("Response: Yes.").value.text == "Yes."
    unmarked = response("Yes, since May.\nResponse: 200 means that it worked.\nPlan: wait.")
    assert unmarked.value.text == "Yes, since May.\nResponse: 200 means that it worked.\nPlan: wait."
    assert unmarked.notes == ()
    both = response("Let me see.\nRESPONSE: Yes.\nResponse: 200 means that it worked.\nTHOUGHT_SEED: ask again")
    assert both.value.text == "Yes.\nResponse: 200 means that it worked."
    assert both.value.seeds == ("ask again",)
    assert "text before the first marker was left out" in both.notes


def test_an_answer_or_a_command_alone_is_enough() -> None:
    assert response("RESPONSE: Yes.").outcome == "ok"
    assert response("EXECUTE: ls").outcome == "ok"
    assert response("THOUGHT_SEED: later").outcome == "empty"


def test_the_summary_of_a_verdict_in_plain_text() -> None:
    for text, summary in (("VERIFY: fail - no file.", "no file"), ("VERIFY: fail", "no summary was given")):
        assert read_output("verify", text, 0.3).value.summary == summary


def test_a_fail_is_not_talked_over_by_a_success() -> None:
    for text in ("VERIFY: fail: no file\nVERIFY: success.", "VERIFY: success.\nVERIFY: fail: no file"):
        assert read_output("verify", text, 0.3).outcome == "fail"


def test_half_a_character_is_no_fault() -> None:
    for stage in STAGES:
        assert read_output(stage, "PLAN: 1. \ud800", 0.3).stage == stage


def test_a_fence_may_begin_behind_a_marker() -> None:
    reading = response("RESPONSE: ```\nEXECUTE: ls\n```\nEXECUTE: ls -l")
    assert reading.value.text == "```\nEXECUTE: ls\n```"
    assert [command.argv for command in reading.value.commands] == [("ls", "-l")]


def test_a_marker_in_a_code_fence_is_text() -> None:
    text = "RESPONSE: Write\n```\nEXECUTE: rm -rf /\n```\nand wait."
    assert response(text).value.commands == ()
    assert response(text).value.text == text.removeprefix("RESPONSE: ")


@pytest.mark.parametrize("text", ["", "RESPONSE:", "Let me see.\nRESPONSE:", "<think>hm</think>", "PLAN: 1. do it"])
def test_an_answer_of_nothing_is_empty(text: str) -> None:
    assert response(text).outcome == "empty"


def test_commands_are_exact_arguments_or_left_out() -> None:
    asked = response('EXECUTE: {"argv": ["ls", "-l", "a b; rm"], "why": "to see"}\nRESPONSE: I would look.')
    assert asked.value.commands[0].argv == ("ls", "-l", "a b; rm")
    assert response("EXECUTE: ls -l 'a b'\nRESPONSE: x").value.commands[0].argv == ("ls", "-l", "a b")
    for body in ("ls | sh", "ls; rm x", "echo $HOME", "ls 'a", "cat `x`", '{"argv": ["ls"', "ls " + "x " * 40):
        reading = response(f"EXECUTE: {body}\nRESPONSE: x")
        assert reading.value.commands == (), body
        assert any("EXECUTE" in note for note in reading.notes)
    assert response('EXECUTE: {"argv": [], "why": ""}\nRESPONSE: x').value.commands == ()


def test_a_plan_is_cut_to_its_bounds() -> None:
    reading = read_output("plan", "PLAN:\n" + "\n".join(f"{n}. number {n}, {'long ' * 60}" for n in range(1, 15)), 0.3)
    assert isinstance(reading.value, Plan)
    assert len(reading.value.steps) == 10
    assert all(len(step) <= 200 for step in reading.value.steps)


def test_steps_are_read_once_and_without_a_number_of_their_own() -> None:
    reading = read_output("plan", '{"steps": ["1. Find the log", "2. Read it", "3) find the log!"]}', 0.3)
    assert reading.value == Plan(steps=("Find the log", "Read it"))


def test_a_plan_that_goes_round_in_circles_is_none() -> None:
    steps = [f'"{number}. Check the list"' for number in range(1, 4)]
    reading = read_output("plan", f'{{"steps": [{", ".join(steps)}]}}', 0.3)
    assert (reading.outcome, reading.value) == ("missing", None)
    assert "its steps repeat one another" in reading.notes


PIECES = ["PLAN:", "RESPONSE:", "VERIFY:", "Plan", "\n", " ", "```", '{"steps":["a', '"]}', "1. a", "success", "- b",
          "confidence=", "0.5", "<think>", "</think>", "EXECUTE:", "INTERRUPT:", "\\", '"', "text"]  # fmt: skip


@settings(max_examples=150)
@given(st.sampled_from(STAGES), st.lists(st.sampled_from(PIECES), max_size=14) | st.text(max_size=60).map(list))
def test_no_text_is_a_fault(stage: CouncilStage, pieces: list[str]) -> None:
    text = "".join(pieces)
    reading = read_output(stage, text, 0.3)
    assert (reading.value is None) == (reading.outcome in ("missing", "unreadable"))


@pytest.mark.parametrize(
    "text",
    [
        'PLAN: {"steps":[' + " " * 40_000,
        "confidence " * 5_000,
        "<think>" * 9_000,
        "#" * 60_000,
        '"steps":["' + "\\" * 60_000,
        "1. " + " " * 60_000 + "x",
        "PLAN:\n" * 5_000,
        "success" + "!" * 60_000,
    ],
)
@pytest.mark.timeout(60)
def test_hostile_text_takes_no_time(text: str) -> None:
    for stage in STAGES:
        assert read_output(stage, text, 0.3).stage == stage


def test_blocks_come_in_order_with_the_text_before_them() -> None:
    marked = read_marked("hello\nPLAN: a\nb\n\nRESPONSE: c", "PLAN")
    assert [tuple(block) for block in marked.blocks] == [("", "hello"), ("PLAN", "a\nb"), ("RESPONSE", "c")]
    assert marked.notes == []


@pytest.mark.parametrize(
    ("stage", "text"),
    [
        ("plan", 'PLAN:\n{"steps": ["Look it up", "Use KEY"]}'),
        ("plan", "PLAN:\n1. Look it up\n2. Use KEY"),
        ("refine", 'PLAN:\n{"confidence": 0.8, "steps": ["Use KEY"]}'),
        ("verify", 'VERIFY:\n{"outcome": "fail", "summary": "it lacks KEY"}'),
        ("observe", '{"interrupt": true, "reason": "it shows KEY"}'),
    ],
)
def test_what_shows_a_secret_is_withheld(stage, text) -> None:
    key = "AKIA" + "Q7" * 8
    reading = read_output(stage, text.replace("KEY", key), 0.3)
    assert key not in str(reading)
    assert "withheld: it shows an AWS access key" in str(reading.value)
    assert reading.outcome == read_output(stage, text, 0.3).outcome


@pytest.mark.parametrize(
    "text",
    [
        'PLAN: {"confidence": 0.8, "steps": ["Look", "Write"]}\nEXECUTE: {"argv": ["ls"], "why": "x"}\nRESPONSE: Here.',
        "RESPONSE: Here.\nPLAN:\n1. Look\n2. Write\nconfidence=0.8\nEXECUTE: ls",
    ],
)
def test_a_refine_with_a_command_and_an_answer_beside_is_read_for_its_plan(text: str) -> None:
    """GCP 7.4's example; the command and the answer are Act's to give."""
    reading = read_output("refine", text, 0.3)
    assert reading.outcome == "ok"
    assert reading.value == RefinedPlan(confidence=0.8, steps=("Look", "Write"))
