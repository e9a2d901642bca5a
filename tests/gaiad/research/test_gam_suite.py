"""The five tests of GAM's Test Suite and the four queries of its Appendix A, against the sample packets."""

from typing import Any

import pytest


async def test_simple_factual_recall(ask: Any) -> None:
    result = await ask("What is the Codex Law of Consent?")
    assert result.status == "SUCCESS"
    assert "Confirm before changing intent" in result.answer
    assert len(result.source_packets) >= 1


@pytest.mark.parametrize(
    "query", ["History of Transmission Packet schema", "How has the Transmission Packet schema evolved?"]
)
async def test_temporal_evolution(ask: Any, query: str) -> None:
    result = await ask(query)
    assert result.status == "SUCCESS"
    assert "v1.0" in result.answer
    assert "v2.0" in result.answer
    assert len(result.source_packets) >= 3
    times = [citation.timestamp for citation in result.citations]
    assert times == sorted(times)


@pytest.mark.parametrize("query", ["Difference between RAG and GAM", "Compare RAG vs GAM architecture"])
async def test_comparative_analysis(ask: Any, query: str) -> None:
    result = await ask(query)
    assert result.status == "SUCCESS"
    assert "write path" in result.answer.lower()
    assert "read path" in result.answer.lower()
    assert "RAG:\n" in result.answer
    assert "GAM:\n" in result.answer


async def test_not_found_graceful_failure(ask: Any) -> None:
    result = await ask("Quantum entanglement protocol")
    assert result.status == "NOT_FOUND"
    assert "No relevant" in result.answer
    assert result.answer == (
        'No relevant Transmission Packets found for query: "Quantum entanglement protocol"\n\nSuggestions:\n'
        "- Try broader search terms\n- Check if topic was discussed under different terminology\n"
        "- Verify packets are ingested into database"
    )
    assert result.citations == []
    assert result.confidence == 0


async def test_iteration_limit(ask: Any) -> None:
    result = await ask("Tell me about that thing")
    assert result.iterations_used <= 5
    assert result.status in ["PARTIAL", "CLARIFY"]


async def test_first_discussed(ask: Any) -> None:
    result = await ask("When did we first discuss the enumeration protocol?")
    assert result.status == "SUCCESS"
    assert "First discussed in [Packet: tp-20251127-033715] on Nov 27, 2025" in result.answer
    assert result.source_packets == ["tp-20251127-033715"]


async def test_fields_about_a_packet_are_quoted_only_where_they_are_asked_for(ask: Any) -> None:
    assert "priorityTopics" not in (await ask("When did we first discuss the enumeration protocol?")).answer
    assert "sycophancy_level" in (await ask("How has the sycophancy level changed over time?")).answer


async def test_main_criticisms(ask: Any) -> None:
    result = await ask("What were the main criticisms of GAM architecture?")
    assert result.status == "SUCCESS"
    for criticism in ("Cost", "Latency", "Complexity"):
        assert criticism in result.answer
    assert "tp-20251130-032210" in result.source_packets


async def test_all_gemini_conversations_of_november(ask: Any) -> None:
    result = await ask("Show me all Gemini conversations from November")
    assert result.status == "SUCCESS"
    assert result.kind == "listing"
    assert result.source_packets == ["tp-20251119-190500", "tp-20251130-154500"]
    assert [packet.packet_id for packet in result.sources] == result.source_packets
    assert "gaiad packets show" in result.answer


async def test_two_models_on_one_debate(ask: Any) -> None:
    result = await ask("Compare how Gemini and Claude handled the RAG debate")
    assert result.status == "SUCCESS"
    gemini, claude = result.answer.split("\n\nClaude:\n")
    assert "tp-20251130-154500" in gemini
    assert "tp-20251204-100000" in claude
    assert "reproducibility" in result.answer


async def test_templates_in_november(ask: Any) -> None:
    result = await ask("What did we discuss about syntactic templates in November?")
    assert result.status == "SUCCESS"
    assert set(result.source_packets) == {"tp-20251114-093000", "tp-20251119-190500"}
    assert result.parameters["since"] == "2025-11-01T00:00:00Z"


async def test_committee_by_its_initials(ask: Any) -> None:
    spelled = await ask("Pull all conversations involving Gemini and the Recursive Thought Committee")
    initials = await ask("Pull all conversations involving Gemini and the RTC")
    assert spelled.source_packets == initials.source_packets == ["TP-SESSION-20251012-RTC-FOUNDING"]


async def test_a_period_without_the_topic_is_not_presented_as_an_answer(ask: Any) -> None:
    result = await ask("What did we discuss about noun bias in June?")
    assert result.status == "PARTIAL"
    assert "Nothing found in June" in result.note
    assert result.confidence < 0.75


@pytest.mark.parametrize(
    "query",
    [
        "What did Marvin say about tattoos?",
        "What is the best recipe for pancakes?",
        "Who won the football championship?",
        "When did Gemini visit Antarctica?",
        "blockchain consensus mining",
    ],
)
async def test_what_stands_nowhere_is_not_found(ask: Any, query: str) -> None:
    assert (await ask(query)).status == "NOT_FOUND"


@pytest.mark.parametrize(
    ("query", "packet"),
    [
        ("How are the microphones protected from the heat?", "tp-20250928-134500"),
        ("Why is the float switch wired in series?", "tp-20250722-073000"),
        ("How long is the train to Sintra?", "TP-SESSION-20251023-LISBON"),
        ("How many of the ten false statements were accepted?", "tp-20251105-090000"),
        ("What does the Devil's Advocate look for?", "TP-SESSION-20251012-RTC-FOUNDING"),
        ("When does the pilot of the Researcher start?", "tp-20251209-081500"),
        ('Which packet says "noun bias"?', "tp-20251127-033715"),
    ],
)
async def test_facts_come_from_their_packet(ask: Any, query: str, packet: str) -> None:
    result = await ask(query)
    assert result.status in ("SUCCESS", "PARTIAL")
    assert packet in result.source_packets


async def test_packets_about_a_topic(ask: Any) -> None:
    result = await ask("Find packets about enumeration protocol")
    assert result.status == "SUCCESS"
    assert {"tp-20251130-154500", "tp-20251127-033715"} <= set(result.source_packets)
    assert "overcome noun bias by forcing a divergent scan" in result.answer


async def test_metric_ranges_list_packets(ask: Any) -> None:
    result = await ask("Show me packets with sycophancy level above 0.55")
    assert result.source_packets == ["TP-SESSION-20251023-LISBON", "tp-20251105-090000"]
