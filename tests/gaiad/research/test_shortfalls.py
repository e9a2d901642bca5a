"""What a run went without is told once a reason, with the steps and how often."""

from gaiad.research.responses import by_rules, in_chat, not_found, partial, safeguard, told_once


def test_one_step_is_told_as_it_is() -> None:
    assert told_once([by_rules("synthesis", "qwen sleeps")]) == ("synthesis by rules: qwen sleeps",)
    assert told_once([]) == ()


def test_steps_with_one_reason_stand_in_one_sentence_with_how_often() -> None:
    broken = [
        by_rules(step, f"qwen did not keep to the form: JSON is malformed (byte {place})")
        for place, step in enumerate(["planning", "reflection", "reflection", "reflection", "synthesis"])
    ]
    assert told_once(broken) == (
        "planning, reflection (3 times) and synthesis by rules: qwen did not keep to the form: "
        "JSON is malformed (byte 0)",
    )


def test_other_reasons_keep_their_own_sentence_and_place() -> None:
    reasons = [
        "no vectors: the embedder starts",
        by_rules("reflection", "qwen sleeps"),
        "no vectors: the embedder starts",
        by_rules("synthesis", "qwen failed 2 times"),
        by_rules("reflection", "qwen sleeps"),
    ]
    assert told_once(reasons) == (
        "no vectors: the embedder starts",
        "reflection (2 times) by rules: qwen sleeps",
        "synthesis by rules: qwen failed 2 times",
    )


def test_in_chat_one_short_line_stands_for_what_a_report_says() -> None:
    report = f"It is oak. [Packet: tp-1]\n\n{partial(['tp-1'])}"
    assert in_chat(report, ["tp-1"]) == "It is oak. [Packet: tp-1]\n\nThis may be only part of the answer."
    unsure = f"It is oak.\n\nCONFIDENCE: 0.41 (LOW)\n\n{safeguard()}"
    assert in_chat(unsure, []) == "It is oak.\n\nThis may not be the answer."
    assert in_chat("It is oak.", ["tp-1"]) == "It is oak."
    assert in_chat(not_found("Who lives in Porto?"), []) == "Nothing on file answers this."
