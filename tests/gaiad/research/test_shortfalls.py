"""What a run went without is told once a reason, with the steps and how often."""

import msgspec

from gaiad.research.responses import by_rules, in_chat, not_found, told_once
from gaiad.wire.schemas import ResearchResult


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


def test_in_chat_one_short_line_says_what_status_and_confidence_say_elsewhere() -> None:
    def said(status: str, band: str, answer: str = "It is oak.") -> str:
        told = {"status": status, "answer": answer, "confidence_band": band, "confidence": 0.4, "engine": "extractive"}
        rest = {"iterations_used": 1, "max_iterations": 5, "note": "", "took_ms": 1.0}
        lists: dict[str, list[str]] = {"source_packets": [], "citations": [], "suggestions": []}
        return in_chat(msgspec.convert(told | rest | lists, ResearchResult))

    assert said("PARTIAL", "LOW") == "It is oak.\n\nThis may be only part of the answer."
    assert said("SUCCESS", "LOW") == "It is oak.\n\nThis may not be the answer."
    assert said("SUCCESS", "MEDIUM") == "It is oak."
    assert said("NOT_FOUND", "LOW", not_found("Who lives in Porto?")) == "Nothing on file answers this."
