"""The layout of GAM's Integration Point 1 and the user responses of its failure modes."""

from datetime import timedelta, timezone
from typing import Any

import msgspec

from gaiad.cli.research_text import engine_line, found_line, result_text, short_text
from gaiad.wire.schemas import ResearchResult


def answer(**changes: Any) -> ResearchResult:
    facts: dict[str, Any] = {
        "status": "SUCCESS",
        "answer": "The enumeration protocol overcomes noun bias [Packet: tp-20251130-154500].",
        "source_packets": ["tp-20251130-154500", "tp-20251127-033715", "tp-3"],
        "citations": [
            {
                "packet_id": "tp-20251130-154500",
                "page_id": "pg1",
                "start": 3,
                "end": 9,
                "sha256": "ab" * 32,
                "quote": "noun bias",
                "timestamp": "2025-11-30T15:45:00Z",
                "topic": "Gemini RAG Analysis",
            },
            {
                "packet_id": "tp-20251127-033715",
                "page_id": "pg2",
                "start": 0,
                "end": 4,
                "sha256": "cd" * 32,
                "quote": "I \x1b[31mspy",
                "timestamp": "2025-11-27T03:37:15Z",
                "topic": "I Spy Game\nAnalysis",
            },
        ],
        "confidence": 0.9,
        "confidence_band": "HIGH",
        "iterations_used": 2,
        "max_iterations": 5,
        "note": "",
        "suggestions": [],
        "engine": "extractive",
        "took_ms": 12.3,
    }
    return msgspec.convert(facts | changes, ResearchResult)


def test_a_sure_answer_is_printed_as_the_seed_shows_it() -> None:
    rule = "─" * 54
    assert result_text(answer(), "enumeration", 60, confidence=False) == "\n".join(
        [
            "Found 3 relevant packets [tp-20251130-154500, tp-20251127-033715, ...]",
            "",
            "Synthesizing answer...",
            "",
            rule,
            "RESEARCH RESULT",
            "",
            "The enumeration protocol overcomes noun bias",
            "[Packet: tp-20251130-154500].",
            "",
            "SOURCES:",
            '- [Packet: tp-20251130-154500] "Gemini RAG Analysis" (2025-11-30)',
            '- [Packet: tp-20251127-033715] "I Spy Game Analysis" (2025-11-27)',
            '- [Packet: tp-3] "untitled" (undated)',
            "",
            "Iterations: 2/5 | Status: SUCCESS",
            rule,
        ]
    )


def test_confidence_is_shown_when_asked_for_and_carries_a_warning_when_not_high() -> None:
    assert "CONFIDENCE: 0.90 (HIGH)\n\nSOURCES" in result_text(answer(), "q", 60, confidence=True)
    unsure = answer(confidence=0.65, confidence_band="MEDIUM")
    text = result_text(unsure, "q", 60, confidence=False)
    assert "CONFIDENCE: 0.65 (MEDIUM)\n\n⚠️ Review source packets to verify accuracy.\n\nSOURCES" in text


def test_nothing_found_says_so_with_suggestions_once() -> None:
    empty = {"status": "NOT_FOUND", "source_packets": [], "citations": [], "suggestions": ["Try broader search terms"]}
    for said in (
        "",
        'No relevant Transmission Packets found for query: "XYZ"\n\nSuggestions:\n- Try broader search terms',
    ):
        text = result_text(answer(**empty, answer=said), "XYZ", 80, confidence=True)
        assert text.startswith("Found 0 relevant packets\n")
        assert text.count('No relevant Transmission Packets found for query: "XYZ"') == 1
        assert text.count("Suggestions:\n- Try broader search terms") == 1
        assert "CONFIDENCE" not in text
        assert "SOURCES" not in text
        assert "Synthesizing" not in text
        assert "Status: NOT_FOUND" in text


def test_a_partial_answer_says_what_partial_means_in_the_whole_layout_only() -> None:
    partial = answer(status="PARTIAL")
    text = result_text(partial, "q", 80, confidence=True)
    assert text.count("Research completed with PARTIAL status.\n\nFound relevant information but") == 1
    assert "PARTIAL" not in short_text(partial, "q", 80)


def test_a_topic_forges_no_citation() -> None:
    citations = msgspec.to_builtins(answer().citations[:1])
    forged = answer(citations=[citations[0] | {"topic": "[Packet: tp-fake] real"}])
    assert '"(Packet: tp-fake] real"' in result_text(forged, "q", 60, confidence=False)


def test_notes_follow_the_answer() -> None:
    assert "\n\nDegraded: no embedder.\n" in result_text(
        answer(note="Degraded: no embedder."), "q", 80, confidence=True
    )


def test_quotes_come_with_page_span_and_hash_and_without_escapes() -> None:
    text = result_text(answer(), "q", 80, confidence=True, quotes=True)
    assert "[Packet: tp-20251130-154500] page pg1, characters 3 to 9, sha256 abababababab\n  > noun bias" in text
    assert "\x1b" not in text


def test_found_line_counts_and_abbreviates() -> None:
    assert found_line(["a"]) == "Found 1 relevant packet [a]"
    assert found_line(["a", "b"]) == "Found 2 relevant packets [a, b]"


def test_the_engine_is_named() -> None:
    assert engine_line(answer()) == "Engine: extractive (12 ms)"
    assert engine_line(answer(research_id="res_1")) == "Engine: extractive (12 ms); gaiad research show res_1"


def test_the_day_of_a_source_is_that_of_the_persons_zone() -> None:
    east = timezone(timedelta(hours=9))
    assert '"Gemini RAG Analysis" (2025-11-30)' in result_text(answer(), "q", 80, confidence=True)
    assert '"Gemini RAG Analysis" (2025-12-01)' in result_text(answer(), "q", 80, confidence=True, zone=east)
