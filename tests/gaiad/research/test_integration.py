"""What each round comes to, as JIT's IntegrationState: made by the rules and with a model, kept in the trail."""

from datetime import UTC, datetime
from typing import Any

from gaiad.base.clock import FrozenClock
from gaiad.base.config import load_config
from gaiad.base.ports import RequestContext
from gaiad.research.loop import Researcher
from gaiad.research.trail import IntegrationState, Trail, integrate
from gaiad.wire.schemas import ResearchRequest, ResearchResult
from tests.makers.last_trail import LastTrail

CLOCK = FrozenClock(datetime(2025, 12, 15, 12, tzinfo=UTC))
CONFIG = load_config(environment={}).research
SEVERAL = "Where is the float switch wired and who paid the plumber?"
CHANGE = "How did the pump plan change over time?"


async def run(archive: Any, query: str, **fields: Any) -> tuple[ResearchResult, Trail]:
    keeps = LastTrail()
    result = await Researcher(archive, CLOCK, CONFIG, keeps).research(
        ResearchRequest(query=query, **fields), RequestContext()
    )
    return result, keeps.trail


async def test_every_round_leaves_a_state_whose_facts_are_its_quotes(memory: Any, page: Any) -> None:
    texts = ("The float switch is wired in series.", "A committee hums.", "The float switch was moved to the basin.")
    pages = [page(text, f"tp-{number}") for number, text in enumerate(texts, start=1)]
    result, trail = await run(memory(pages), SEVERAL)
    assert len(trail.rounds) == result.iterations_used > 1
    for one in trail.rounds:
        assert one.plan
        assert one.state.used_pages == tuple(item.page.page_id for item in one.selected)
        assert one.reflection is not None
        assert not one.reflection.is_sufficient
        asked = tuple(f"Is there anything on: {aspect}?" for aspect in one.reflection.missing_aspects)
        assert one.state.open_questions == asked != ()
    last = trail.rounds[-1].state
    assert result.answer.startswith(last.briefing_draft)
    assert [fact.rpartition(" [Packet: ")[0] for fact in last.key_facts] == [one.quote for one in result.citations]


async def test_what_the_rules_hold_irrelevant_comes_into_no_state(memory: Any, page: Any) -> None:
    result, trail = await run(memory([page("A pump hums.")]), "Which violin did Ottoline Pfeiffer play?")
    assert result.status == "NOT_FOUND"
    state = trail.rounds[-1].state
    assert (state.briefing_draft, state.key_facts, state.used_pages) == ("", (), ())
    assert len(state.open_questions) == len(result.missing_aspects) > 0


def test_a_round_that_brings_nothing_leaves_what_was_there() -> None:
    before = IntegrationState(briefing_draft="It hums.", key_facts=("It hums. [Packet: tp-1]",), used_pages=("p-1",))
    assert integrate(before, "", [], ["p-2"]) == before


# ------------------------------------------------------------------------------------------------------------- budgets


async def test_a_run_may_be_given_fewer_pages_and_no_more_than_the_cap(memory: Any, page: Any) -> None:
    months = range(1, 13)
    pages = [page(f"The pump plan has {n} valves.", f"tp-{n}", timestamp=f"2025-{n:02}-01T10:00:00Z") for n in months]
    few, _ = await run(memory(pages), CHANGE, max_pages=2)
    assert len({one.page_id for one in few.citations}) == 2
    most, _ = await run(memory(pages), CHANGE, max_pages=1_000)
    assert 2 < len({one.page_id for one in most.citations}) <= 32


async def test_an_answer_above_its_tokens_ends_at_a_whole_quote_and_says_so(memory: Any, page: Any) -> None:
    text = "The pump plan has {} valves, each of brass and as wide as a hand, in the long wall of the lower basin."
    pages = [page(text.format(n), f"tp-{n}", timestamp=f"2025-0{n}-01T10:00:00Z") for n in range(1, 9)]
    whole, _ = await run(memory(pages), CHANGE)
    cut, trail = await run(memory(pages), CHANGE, max_output_tokens=200)
    assert whole.status == "SUCCESS"
    assert cut.status == "PARTIAL"
    assert len(cut.answer.encode()) <= 600
    assert 0 < len(cut.citations) < len(whole.citations)
    assert whole.citations[: len(cut.citations)] == cut.citations
    assert cut.missing_aspects == [f"{len(whole.citations) - len(cut.citations)} more quotes (max_output_tokens = 200)"]
    assert (await run(memory(pages), CHANGE, max_output_tokens=200))[0].answer == cut.answer
    assert trail.result == cut


async def test_one_quote_stays_however_few_the_tokens_are(memory: Any, page: Any) -> None:
    result, _ = await run(memory([page("The float switch is wired in series.")]), "Where is the float switch wired?")
    (citation,) = result.citations
    short, _ = await run(
        memory([page("The float switch is wired in series.")]), "Where is the float switch wired?", max_output_tokens=1
    )
    assert (short.status, short.citations) == ("SUCCESS", [citation])
    assert "Not even one part fits into max_output_tokens = 1" in short.note
    assert "max_output_tokens" not in result.note


async def test_a_list_above_its_tokens_names_how_many_there_are(memory: Any, page: Any) -> None:
    pages = [page(f"We spoke of valve {n}.", f"tp-{n}") for n in range(1, 9)]
    result, _ = await run(memory(pages), "Show me all conversations", max_output_tokens=120)
    assert result.status == "PARTIAL"
    assert len(result.answer.encode()) <= 360
    assert f"Showing {len(result.sources)} of 8 packets." in result.note
