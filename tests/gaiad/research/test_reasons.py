"""A why-question is answered with the reason, not with the sentence before it."""

from datetime import UTC, datetime
from typing import Any

import pytest

from gaiad.clock import FrozenClock
from gaiad.config import load_config
from gaiad.ports import Call
from gaiad.research.evidence import Evidence
from gaiad.research.loop import Researcher
from gaiad.research.quotes import Quote
from gaiad.research.reasons import asks_why, gives_reason, with_reasons
from gaiad.schemas import ResearchRequest


def found(page: Any, *neighbours: Any) -> Evidence:
    return Evidence(
        page=page,
        credits={},
        lexical=1.0,
        cosine=None,
        fused=1.0,
        relevance=1.0,
        standing=1.0,
        neighbours=neighbours,
    )


def quote(page: Any, text: str) -> Quote:
    start = page.text.index(text)
    return Quote(page, start, start + len(text), 1.0)


@pytest.mark.parametrize("question", ["Why was it sold?", "And why not?", "What was the reason for the delay?"])
def test_what_asks_why(question: str) -> None:
    assert asks_why(question)
    assert not asks_why("What did we say why?")


def test_the_reason_that_follows_is_quoted_too(page: Any) -> None:
    text = "The boat was sold. It was in March. We sold it because the mast was rotten. The car stayed."
    whole = page(text)
    (longer,) = with_reasons([quote(whole, "The boat was sold. It was in March.")], [found(whole)])
    assert longer.text == "The boat was sold. It was in March. We sold it because the mast was rotten."


def test_a_reason_on_the_next_page_is_quoted_from_there(page: Any) -> None:
    one, two = page("The boat was sold."), page("That is due to the mast. It rained.", sequence=1)
    quotes = with_reasons([quote(one, "The boat was sold.")], [found(one, two)])
    assert [one.text for one in quotes] == ["The boat was sold.", "That is due to the mast."]


@pytest.mark.parametrize(
    "text",
    [
        "The boat was sold because of the mast. The car stayed, since it runs.",
        "The boat was sold.\n\nThe car stayed, because it runs.",
        "The boat was sold. It rained. It snowed. The car stayed, because it runs.",
    ],
)
def test_another_matters_reason_is_left(page: Any, text: str) -> None:
    whole = page(text)
    first = quote(whole, text.split(". ")[0].split("\n")[0].rstrip(".") + ".")
    assert with_reasons([first], [found(whole)]) == [first]


@pytest.mark.parametrize("text", ["I chose it 'cause it helps.", "It was due to rain.", "That's why we left."])
def test_a_reason_is_known_by_its_words(text: str) -> None:
    assert gives_reason(text)
    assert not gives_reason("We chose the cause of the year.")


async def test_a_reason_in_other_words_stays_beside_what_has_the_words(memory: Any, page: Any) -> None:
    asked = page("We could choose the agency of the harbour, the agency with the old sign.")
    told = page("We took it because they help everybody who takes a child.", "tp-2", topic="The agency")
    clock = FrozenClock(datetime(2026, 1, 15, 12, tzinfo=UTC))
    archive = memory([asked, told], {"tp-1/0": 0.6, "tp-2/0": 0.8})
    research = Researcher(archive, clock, load_config(environment={}).research)
    answer = (await research.research(ResearchRequest(query="Why did we choose the agency?"), Call())).answer
    assert "because they help everybody" in answer


async def test_the_reason_of_the_fourth_objection_in_the_samples(ask: Any) -> None:
    answer = (await ask("Why was the fourth objection against GAM withdrawn?")).answer
    assert "because the memo is only a signpost" in answer
    assert "main criticisms" not in answer
