"""Prompt texts: strict variables, untouched values, and the shipped files as the seed words them."""

import pytest

from gaiad.base.errors import GaiadError
from prompts.load import (
    CompressorWords,
    changed_prompts,
    check_all,
    check_uses,
    fill,
    load_prompt,
    parse_prompt,
    prompt_mark,
    prompt_names,
    prompts_in,
    render,
)
from tests.makers.cognition import packet


def head(variables: str) -> str:
    return f"---\nversion: 3\nvariables: {variables}\n---\n"


def test_every_shipped_prompt_fits_its_head() -> None:
    assert [prompt.name for prompt in check_all()] == prompt_names()
    assert {"research_reflection", "research_synthesis"} <= set(prompt_names())


def test_values_are_put_in_as_they_are() -> None:
    prompt = parse_prompt("x", head("question, context") + 'Q {question}\n{"json": {}}\nC {context}\n')
    text = render(prompt, {"question": "{context} \\1 {other}", "context": "plain {question}"})
    assert text == 'Q {context} \\1 {other}\n{"json": {}}\nC plain {question}\n'
    assert prompt.version == 3


def test_json_in_the_seeds_reflection_prompt_survives() -> None:
    text = render(load_prompt("research_reflection"), {"user_query": "When?", "formatted_contexts": "none"})
    assert 'Respond in JSON:\n{\n  "is_sufficient": true/false,\n' in text
    assert "USER QUERY:\nWhen?\n" in text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (head("a") + "{a} {b}", "variable b used in the text but not declared"),
        (head("a, b") + "{a}", "variable b declared in its head but not used"),
        (head("a") + "{a} {User}", "variable User used in the text but not declared"),
        ("{a}", "must start with ---"),
    ],
)
def test_a_text_that_disagrees_with_its_head_is_refused(text: str, message: str) -> None:
    with pytest.raises(GaiadError, match=message):
        parse_prompt("broken", text)


def test_missing_and_unknown_values_are_refused() -> None:
    prompt = parse_prompt("x", head("a") + "{a}")
    with pytest.raises(GaiadError, match="variable a missing"):
        render(prompt, {})
    with pytest.raises(GaiadError, match="variable b unknown; it takes: a"):
        render(prompt, {"a": "1", "b": "2"})
    with pytest.raises(GaiadError, match="prompt 'nobody': no such file"):
        load_prompt("nobody")


def test_a_prompt_whose_variables_are_not_those_its_callers_give_is_refused_at_start() -> None:
    prompts = {prompt.name: prompt for prompt in check_all()}
    changed = [
        ("compressor", "{section}", "variable target_tokens is given and not taken"),
        (
            "persona",
            "{tone}{style_notes}{constraints}{layers}{mood}",
            "variable mood is never given; the variables are: co",
        ),
        ("role_lite", "{name}", "variable name is never given; the variables are: none"),
    ]
    for name, body, message in changed:
        text = head(", ".join(sorted(part.strip("{") for part in body.split("}") if part))) + body
        with pytest.raises(GaiadError, match=rf"prompts/text/{name}\.md: {message}"):
            check_uses([*(prompts | {name: parse_prompt(name, text)}).values()])
    del prompts["identity"]
    with pytest.raises(GaiadError, match=r"prompts/text/identity\.md: is not there"):
        check_uses([*prompts.values()])


def test_a_use_fills_the_prompt_that_is_its_own() -> None:
    text = fill(CompressorWords(target_tokens="40", section="The lantern {target_tokens}."))
    assert "in ≤ 40 tokens" in text
    assert "START>> The lantern {target_tokens}. <<END" in text


def body(name: str) -> str:
    return load_prompt(name).body.rstrip("\n")


def test_every_shipped_text_behind_a_packet_is_recorded_and_no_other() -> None:
    shipped = packet(role_text=body("role_lite"), task_instruction=body("stage_initial_planning"))
    found = prompts_in(shipped, ["whole", "trimmed", "extractive"])
    assert list(found) == ["identity", "persona", "quoted_memory", "role_lite", "stage_initial_planning"]
    judged = packet(persona="", task_instruction_key="ballot", task_instruction=body("judge_ballot"))
    assert list(prompts_in(judged, ["whole", "lite"])) == ["compressor", "identity", "judge_ballot", "quoted_memory"]


def test_a_users_own_directive_is_not_the_shipped_one() -> None:
    assert "stage_initial_planning" not in prompts_in(packet(task_instruction="Plan as I like it."), ["whole"])


@pytest.mark.parametrize(("name", "changed"), [("quoted_memory", ["quoted_memory"]), ("gone", ["gone"])])
def test_a_replay_names_what_changed_or_went(name: str, changed: list[str]) -> None:
    recorded = prompts_in(packet(), ["whole"])
    assert changed_prompts(recorded) == []
    assert changed_prompts(recorded | {name: "0-0123456789abcdef"}) == changed


def test_a_mark_tells_version_and_words_apart() -> None:
    version, _, digest = prompt_mark("role_lite").partition("-")
    assert version == str(load_prompt("role_lite").version)
    assert len(digest) == 16
    assert digest != prompt_mark("role_prime").partition("-")[2]
