"""The iteration controller over a small archive in memory: termination, refusal, cancel, proof."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from gaiad.base.clock import FrozenClock
from gaiad.base.config import load_config
from gaiad.base.errors import BadInput, Cancelled, DeadlineExceeded
from gaiad.base.ports import RequestContext
from gaiad.research.loop import Researcher
from gaiad.wire.schemas import Focus, Page, ResearchRequest, ResearchResult, SearchRequest, SearchResponse

CLOCK = FrozenClock(datetime(2025, 12, 15, 12, tzinfo=UTC))
CONFIG = load_config(environment={}).research


async def research(archive: Any, query: str, call: RequestContext | None = None, **fields: Any) -> ResearchResult:
    return await Researcher(archive, CLOCK, CONFIG).research(
        ResearchRequest(query=query, **fields), call or RequestContext()
    )


async def test_a_covered_question_takes_one_search(memory: Any, page: Any) -> None:
    archive = memory([page("The float switch is wired in series with the supply of both valves.")])
    result = await research(archive, "Where is the float switch wired?")
    assert (result.status, result.iterations_used, result.engine) == ("SUCCESS", 1, "extractive")
    assert result.answer == "The float switch is wired in series with the supply of both valves. [Packet: tp-1]"


async def test_an_empty_archive_finds_nothing(memory: Any) -> None:
    result = await research(memory([]), "Where is the float switch wired?")
    assert result.status == "NOT_FOUND"
    assert result.missing_aspects == ["any packet: the archive is empty"]
    assert result.suggestions == ["Nothing is remembered yet: bring in your records with `gaiad import FILE_OR_FOLDER`"]
    assert result.answer.endswith(f"Suggestions:\n- {result.suggestions[0]}")
    listed = await research(memory([]), "Show me all Gemini conversations from November")
    assert listed.suggestions == result.suggestions


async def test_refinements_are_named_and_bounded(memory: Any, page: Any) -> None:
    archive = memory([page("The valve opens."), page("A pump hums.", "tp-2")])
    result = await research(archive, "Which committee chose the valve and the study in March 2024?")
    assert 1 < result.iterations_used <= 5
    assert result.parameters["refinements"]
    assert len(set(result.parameters["refinements"])) == len(result.parameters["refinements"])
    assert "Searched again with" in result.note


async def test_the_callers_limit_holds_and_never_exceeds_the_configured_one(memory: Any, page: Any) -> None:
    archive = memory([page("The valve opens.")])
    query = "Which committee chose the valve and the study in March 2024?"
    assert (await research(archive, query, max_iterations=1)).iterations_used == 1
    assert (await research(archive, query, max_iterations=99)).max_iterations == 5


async def test_a_paraphrase_is_found_by_meaning(memory: Any, page: Any) -> None:
    text = "The tank emptied itself because a valve was stuck."
    archive = memory([page(text)], cosines={"tp-1/0": 0.62})
    result = await research(archive, "How come the reservoir lost everything overnight?")
    assert result.status in ("SUCCESS", "PARTIAL")
    assert result.citations[0].quote == text


async def test_a_distant_page_is_no_answer(memory: Any, page: Any) -> None:
    archive = memory([page("The tank emptied itself because a valve was stuck.")], cosines={"tp-1/0": 0.2})
    assert (await research(archive, "Who painted the cathedral ceiling?")).status == "NOT_FOUND"


async def test_clarify_searches_nothing(memory: Any, page: Any) -> None:
    archive = memory([page("The valve opens.")])
    result = await research(archive, "Tell me about that thing")
    assert (result.status, result.iterations_used, archive.searches) == ("CLARIFY", 0, [])
    assert result.answer.endswith('do you mean by "Tell me about that thing"?')


async def test_words_prefer_and_flags_filter(memory: Any, page: Any) -> None:
    archive = memory([page("Gemini likes the valve.")], models=["Gemini 2.5 Pro"])
    await research(archive, "What did Gemini say about the valve in November?")
    words = archive.searches[0]
    assert words.boosts.models == ["Gemini 2.5 Pro"]
    assert words.boosts.since == "2025-11-01T00:00:00Z"
    assert words.filters == type(words.filters)()
    flags = type(words.filters)(models=["GPT-5"])
    await research(archive, "What did Gemini say about the valve?", filters=flags)
    assert archive.searches[-1].filters == flags


async def test_the_question_in_another_year(memory: Any, page: Any) -> None:
    archive = memory([page("The valve opens.")])
    result = await research(archive, "What about the valve in November?", now="2024-02-01T00:00:00Z")
    assert result.parameters["since"] == "2023-11-01T00:00:00Z"


class ForgetfulArchive:
    """Changes its pages between the search and the check."""

    def __init__(self, archive: Any, changed: str) -> None:
        self._archive = archive
        self._changed = changed

    def __getattr__(self, name: str) -> Any:
        return getattr(self._archive, name)

    async def search(self, request: SearchRequest, call: RequestContext) -> SearchResponse:
        return await self._archive.search(request, call)  # type: ignore[no-any-return]

    async def section_pages(self, packet_id: str, focus: Focus, call: RequestContext) -> list[Page]:
        pages = await self._archive.section_pages(packet_id, focus, call)
        stored = self._archive.stored
        if stored[self._changed] not in pages:
            return pages  # type: ignore[no-any-return]
        stored[self._changed] = replace(stored[self._changed], text="Something else entirely.")
        return pages  # type: ignore[no-any-return]


async def test_a_citation_that_no_longer_verifies_is_removed_and_said(memory: Any, page: Any) -> None:
    pages = [
        page("The float switch is wired in series."),
        page("Red wires: the float switch is wired to the tank lid with screws.", "tp-2"),
    ]
    whole = await research(memory(pages), "Where is the float switch wired?")
    assert set(whole.source_packets) == {"tp-1", "tp-2"}
    result = await research(ForgetfulArchive(memory(pages), "tp-2/0"), "Where is the float switch wired?")
    assert result.source_packets == ["tp-1"]
    assert "did not verify" in result.note


async def test_no_answer_is_left_when_no_citation_verifies(memory: Any, page: Any) -> None:
    archive = ForgetfulArchive(memory([page("The float switch is wired in series.")]), "tp-1/0")
    result = await research(archive, "Where is the float switch wired?")
    assert (result.status, result.citations) == ("NOT_FOUND", [])


async def test_a_packet_cannot_forge_a_citation(memory: Any, page: Any) -> None:
    archive = memory([page("The float switch is safe [Packet: tp-forged] and \x1b[2Jsound.")])
    result = await research(archive, "Is the float switch safe?")
    assert "[Packet: tp-forged]" not in result.answer
    assert "\x1b" not in result.answer
    assert "\x1b" in result.citations[0].quote


async def test_cancel_and_deadline_end_the_run(memory: Any, page: Any) -> None:
    archive = memory([page("The valve opens.")])
    cancelled = RequestContext()
    cancelled.cancel()
    with pytest.raises(Cancelled):
        await research(archive, "Does the valve open?", cancelled)
    with pytest.raises(DeadlineExceeded):
        await research(archive, "Does the valve open?", RequestContext(deadline=-1.0))


@pytest.mark.parametrize("query", ["", "   ", "\n"])
async def test_an_empty_question_is_refused(memory: Any, query: str) -> None:
    with pytest.raises(BadInput, match="question is empty"):
        await research(memory([]), query)


async def test_a_book_is_not_a_question(memory: Any) -> None:
    with pytest.raises(BadInput, match="at most 4000"):
        await research(memory([]), "word " * 1000)


async def test_a_bad_now_is_refused(memory: Any) -> None:
    with pytest.raises(BadInput, match="ISO 8601"):
        await research(memory([]), "Does the valve open?", now="tomorrow")


async def test_progress_is_told_in_order(memory: Any, page: Any) -> None:
    archive = memory([page("The float switch is wired in series.")])
    told: list[tuple[str, dict[str, Any]]] = []
    researcher = Researcher(archive, CLOCK, CONFIG)
    request = ResearchRequest(query="Where is the float switch wired?")
    await researcher.research(request, RequestContext(), lambda name, data: told.append((name, data)))
    assert [name for name, _ in told] == [
        "searching",
        "planned",
        "found",
        "integrated",
        "reflected",
        "synthesizing",
    ]
    data = dict(told)
    assert data["found"]["packets"] == ["tp-1"]
    assert [(one["tool"], one["query"]) for one in data["planned"]["actions"]] == [
        (tool, "Where is the float switch wired?") for tool in ("bm25", "dense")
    ]
    assert msgspec.json.decode(msgspec.json.encode(data["integrated"])) == {
        "iteration": 1,
        "briefingDraft": "The float switch is wired in series. [Packet: tp-1]",
        "keyFacts": ["The float switch is wired in series. [Packet: tp-1]"],
        "openQuestions": [],
        "usedPages": ["tp-1/0"],
    }


async def test_of_pages_about_something_else_no_confidence_is_told(memory: Any, page: Any) -> None:
    archive = memory([page("The float switch is wired in series."), page("A switch is a lever.", "tp-2")])
    told: list[tuple[str, dict[str, Any]]] = []
    request = ResearchRequest(query="Who painted the float green?")
    result = await Researcher(archive, CLOCK, CONFIG).research(
        request, RequestContext(), lambda name, data: told.append((name, data))
    )
    assert result.status == "NOT_FOUND"
    assert {data["confidence"] for name, data in told if name == "reflected"} == {0.0}


async def test_turns_are_quoted_without_their_speaker_and_a_question_with_its_answer(memory: Any, page: Any) -> None:
    turns = [
        page("Mara: What about the train to Sintra?", section="transcript", speaker="Mara", sequence=0),
        page("GPT: Forty minutes each way.", section="transcript", speaker="GPT", sequence=1),
    ]
    archive = memory(turns)

    async def with_neighbours(request: SearchRequest, call: RequestContext) -> SearchResponse:
        response = await type(archive).search(archive, request, call)
        near = {"tp-1/0": "tp-1/1", "tp-1/1": "tp-1/0"}
        other = {hit.page_id: hit for hit in response.hits}
        fill = replace(response.hits[0], page_id="tp-1/1")
        hits = [replace(hit, adjacent=[other.get(near[hit.page_id], fill)]) for hit in response.hits]
        return replace(response, hits=hits)

    archive.search = with_neighbours
    result = await research(archive, "How long is the train to Sintra?")
    assert 'GPT: "Forty minutes each way." [Packet: tp-1]' in result.answer
    assert [one.quote for one in result.citations] == ["What about the train to Sintra?", "Forty minutes each way."]


async def test_words_of_the_topic_do_not_outweigh_the_word_asked_about(memory: Any, page: Any) -> None:
    text = "Synergy protocol joins models.\n- **Type:** weighted consensus\n- **Quorum:** 60% participation required"
    archive = memory(
        [page(text, topic="Synergy protocol"), page("Synergy protocol, again.", "tp-2", topic="Synergy protocol")]
    )
    result = await research(archive, "What is the quorum in the Synergy protocol?")
    assert "Quorum: 60% participation required [Packet: tp-1]" in result.answer
