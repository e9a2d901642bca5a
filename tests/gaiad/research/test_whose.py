"""A question about one person is not answered by what another says of himself."""

from typing import Any

import pytest

from gaiad.base.clock import FrozenClock
from gaiad.base.config import load_config
from gaiad.base.ports import RequestContext
from gaiad.research.evidence import Evidence
from gaiad.research.loop import Researcher
from gaiad.research.query import SearchParameters
from gaiad.research.reflect import somebody_elses
from gaiad.wire.schemas import Facets, ResearchRequest
from tests.gaiad.research.conftest import NOW, MemoryArchive, make_page


def asking(text: str, *people: str) -> SearchParameters:
    return SearchParameters(text=text, kind="factual", search_text=text, keywords=(), people=people)


def said(speaker: str, text: str, standing: float) -> Evidence:
    page = make_page(f"{speaker}: {text}", f"tp-{speaker}-{standing}", speaker=speaker)
    return Evidence(
        page=page, credits={}, lexical=1.0, cosine=None, fused=standing, relevance=standing, standing=standing
    )


OTTO = said("Otto", "I caught a trout at the lake.", 0.9)
VERA = said("Vera", "The lake was cold.", 0.5)


def judged(best: Evidence, *others: Evidence, question: str = "What did Vera catch at the lake?") -> str:
    return somebody_elses(asking(question, "Vera"), [best], [best, *others])


def test_what_another_says_of_himself_is_his() -> None:
    assert judged(OTTO, VERA) == "Otto"
    assert judged(said("Otto", "Hey Vera, I caught a trout.", 0.9), VERA) == "Otto", "called is not spoken of"


@pytest.mark.parametrize(
    "best",
    [
        said("Vera", "I caught a trout.", 0.9),
        said("Otto", "Then Vera caught a trout.", 0.9),
        said("Otto", "I saw Vera's trout.", 0.9),
        said("Otto", "How was your trout?", 0.9),
        said("user", "I caught a trout.", 0.9),
        said("Claude 3 Opus", "I read of a trout.", 0.9),
        said("", "A trout was caught.", 0.9),
    ],
)
def test_who_is_asked_about_or_spoken_of_or_may_be_meant_is_answered(best: Evidence) -> None:
    assert judged(best, VERA) == ""


def test_it_takes_a_page_of_the_person_asked_about_and_none_near_the_best() -> None:
    assert judged(OTTO) == "", "Vera speaks nowhere: the archive may call her otherwise"
    assert judged(OTTO, said("Vera", "We caught one, he and I.", 0.87)) == ""


@pytest.mark.parametrize("question", ["Who invited Vera to the lake?", "What did I tell Vera about the lake?"])
def test_a_question_for_somebody_else_is_left_alone(question: str) -> None:
    assert judged(OTTO, VERA, question=question) == ""


def test_two_people_asked_about_are_left_alone() -> None:
    assert somebody_elses(asking("What did Vera and Otto catch?", "Vera", "Otto"), [OTTO], [OTTO, VERA]) == ""


class Lake(MemoryArchive):
    async def facets(self, call: RequestContext) -> Facets:
        return Facets(people={"Vera": 2, "Otto": 2}, packets=1, pages=len(self.stored))


async def ask(question: str) -> Any:
    pages = [
        make_page("Otto: I caught a huge trout at the lake.", speaker="Otto", sequence=0),
        make_page("Vera: How lovely, the lake must have been cold.", speaker="Vera", sequence=1),
    ]
    researcher = Researcher(Lake(pages), FrozenClock(NOW), load_config((), {}).research)
    return await researcher.research(ResearchRequest(query=question), RequestContext(), keep=False)


async def test_the_answer_says_who_speaks_of_it() -> None:
    found = await ask("What huge trout did Otto catch?")
    assert found.status == "SUCCESS"
    refused = await ask("What huge trout did Vera catch?")
    assert refused.status == "NOT_FOUND"
    assert "this of Vera; Otto speaks of it" in refused.missing_aspects
