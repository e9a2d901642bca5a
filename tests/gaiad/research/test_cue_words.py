"""What was decided is asked with many words, and told with others."""

from datetime import UTC, datetime
from typing import Any

import pytest

from gaiad.clock import FrozenClock
from gaiad.config import load_config
from gaiad.ports import Call
from gaiad.research.cue_words import all_denied, asks_what_was_decided, cues, own_forms
from gaiad.research.evidence import credits_of, make_terms
from gaiad.research.loop import Researcher
from gaiad.research.query import process_query
from gaiad.schemas import Facets, ResearchRequest, ResearchResult

STOVE = "We decided on November 3 to heat the greenhouse with a wood stove."
PLANTS = "For the greenhouse we chose tomatoes, figs and a lemon tree."
BICYCLE = "Otto repaired the gear hub of the bicycle."


async def answer_to(memory: Any, page: Any, query: str) -> ResearchResult:
    pages = [
        page(STOVE, timestamp="2025-11-03T09:00:00Z"),
        page(PLANTS, "tp-2", timestamp="2025-12-05T09:00:00Z"),
        page(BICYCLE, "tp-3", timestamp="2025-12-10T09:00:00Z"),
    ]
    clock = FrozenClock(datetime(2026, 1, 15, 12, tzinfo=UTC))
    research = Researcher(memory(pages), clock, load_config(environment={}).research)
    return await research.research(ResearchRequest(query=query), Call())


@pytest.mark.parametrize("when", ["in December", "since December", "after November 18"])
@pytest.mark.parametrize("verb", ["decide", "agree on", "settle"])
async def test_what_was_chosen_then_is_what_was_decided_then(memory: Any, page: Any, when: str, verb: str) -> None:
    answer = await answer_to(memory, page, f"What did we {verb} about the greenhouse {when}?")
    assert (answer.status, answer.source_packets) == ("SUCCESS", ["tp-2"])
    assert "Nothing found" not in answer.note


async def test_the_word_of_deciding_is_never_missing(memory: Any, page: Any) -> None:
    answer = await answer_to(memory, page, "What did we conclude about the gear hub?")
    assert answer.source_packets == ["tp-3"]
    assert answer.missing_aspects == []


async def test_nothing_in_the_period_is_said_when_the_matter_is_of_another_time(memory: Any, page: Any) -> None:
    answer = await answer_to(memory, page, "What did we decide about the greenhouse in September?")
    assert answer.status == "PARTIAL"
    assert "Nothing found in September" in answer.note


def test_beside_names_alone_the_word_is_the_matter_itself() -> None:
    assert cues(("gemini", "claude", "agree"), ("Gemini", "Claude 3")) == frozenset()
    assert cues(("decide",), ()) == frozenset()
    assert cues(("otto", "chose", "bicycle"), ("Otto",)) == {"chose"}


async def test_a_page_of_then_with_the_words_goes_before_a_nearer_one_of_another_time(memory: Any, page: Any) -> None:
    early, late = {"timestamp": "2025-11-03T09:00:00Z"}, {"timestamp": "2025-12-05T09:00:00Z"}
    pages = [
        page("The glass of the greenhouse came from Porto.", **early),
        page("Glass, greenhouse: paid.", "tp-2", **late),
    ]
    clock = FrozenClock(datetime(2026, 1, 15, 12, tzinfo=UTC))
    archive = memory(pages, {"tp-1/0": 0.9, "tp-2/0": 0.1})
    research = Researcher(archive, clock, load_config(environment={}).research)
    request = ResearchRequest(query="And the glass for the greenhouse in December?")
    assert (await research.research(request, Call())).source_packets == ["tp-2"]


@pytest.mark.parametrize(
    ("text", "denied"),
    [
        ("We did not agree, and that is some evidence.", True),
        ("We never really agreed on it.", True),
        ("We didn't agree at first. Then we agreed on May.", False),
        ("Agreement about the index.", False),
        ("It rained.", False),
    ],
)
def test_a_word_of_deciding_that_is_denied(text: str, denied: bool) -> None:
    assert all_denied(text, own_forms("agree")) is denied


def test_where_two_did_not_agree_is_not_what_they_agreed_on(page: Any) -> None:
    facets = Facets(pages=10, models={"Gemini": 1, "Claude": 1})
    asked = process_query("What did Gemini and Claude agree on?", facets, datetime(2026, 1, 15, 12, tzinfo=UTC), UTC)
    terms = make_terms(asked, {"gemini": 3, "claude": 3, "agree": 1}, 10)
    denied = credits_of(page("Gemini: We did not agree, and that is some evidence."), [], terms)
    agreed = credits_of(page("Claude answers Gemini: agreement about the index."), [], terms)
    assert denied["agree"] < 0.5 < agreed["agree"]


async def test_what_was_decided_about_a_thing_is_told_in_the_order_of_time(ask: Any) -> None:
    result = await ask("What did we decide about consent?")
    law, breach = (result.answer.index(one) for one in ("Jul 3, 2025", "Sep 15, 2025"))
    assert law < breach
    days = [citation.timestamp for citation in (await ask("What was decided about the schema?")).citations]
    assert days == sorted(days)
    assert len(set(days)) > 1


def test_why_something_was_chosen_asks_for_one_decision() -> None:
    assert asks_what_was_decided("What did we decide about heating?", ("decide", "heating"), ())
    assert asks_what_was_decided("Which plants did we choose?", ("plants", "choose"), ())
    assert not asks_what_was_decided("Why did we choose Lisbon?", ("choose", "lisbon"), ())
    assert not asks_what_was_decided("What does the pump cost?", ("pump", "cost"), ())
