"""What is recorded of the prompt texts behind a packet, and what a replay says of those that changed."""

import pytest

from prompts.load import load_prompt
from prompts.versions import changed_prompts, prompt_mark, prompts_in
from tests.makers.cognition import packet


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
