"""A question in other words than the archive's: a model's searches may find what its own do not, within bounds."""

from typing import Any

import pytest

from gaiad.research.reflect import DOUBTFUL_CAP
from tests.gaiad.research.thinking.conftest import (
    PLAN,
    REFLECT,
    WRITE,
    Mind,
    no_plan,
    prompt,
    reflection,
    reply,
    sentences,
    sufficient,
)

QUESTION = "Which lodging did we settle on for the trip?"
HOTEL = "Mara booked Avenida, a hotel in Alfama, four nights long."
GOOD = ("Mara booked Avenida, a hotel in Alfama.", ["s1"])


def hotel_plan() -> Any:
    return reply(PLAN, {"actions": [{"tool": "bm25", "query": "hotel booked", "k": 8, "note": "another word"}]})


async def test_a_planned_search_answers_what_the_question_s_own_words_do_not_find(run: Any, page: Any) -> None:
    pages = [page("A pump hums at night.", "tp-2"), page(HOTEL)]
    alone = await run(pages, QUESTION, None)
    assert alone.result.status == "NOT_FOUND"
    mind = Mind([hotel_plan(), sufficient(0.95), reply(WRITE, sentences(GOOD))])
    told = await run(pages, QUESTION, mind)
    assert mind.asked == ["plan", "reflect", "write"]
    assert "no page has the words of the question" in prompt(mind.seen[0])
    assert (told.result.status, told.result.source_packets) == ("SUCCESS", ["tp-1"])
    assert told.result.answer.startswith("Mara booked Avenida, a hotel in Alfama. [Packet: tp-1]")
    assert 0 < told.result.confidence <= DOUBTFUL_CAP
    assert "script found it by searches of its own" in told.result.note
    assert told.trail.rounds[-1].state.used_pages == ("tp-1/0",)
    assert [one.query for one in told.trail.rounds[0].plan][-1] == "hotel booked"


async def test_pages_by_the_question_that_are_about_something_else_are_no_context_then(run: Any, page: Any) -> None:
    pages = [page("The trip switch hums; a lodging house stood there, which somebody sold.", "tp-2"), page(HOTEL)]
    mind = Mind([hotel_plan(), sufficient(), reply(WRITE, sentences(GOOD))])
    told = await run(pages, "Which pension did the consortium settle on for the expedition?", mind)
    assert told.result.source_packets in (["tp-1"], [])
    assert all("trip switch" not in prompt(one) for one in mind.seen[1:])


@pytest.mark.parametrize(
    ("judgement", "written"),
    [
        (sufficient(0.3), sentences(GOOD)),  # hardly sure
        (reply(REFLECT, reflection(False, 0.2, ["the lodging"])), sentences(GOOD)),
        (sufficient(), sentences()),  # writes nothing
        (sufficient(), sentences(("They slept on the ferry in May 1999.", ["s1"]))),  # what no quote carries
        (sufficient(), "no JSON at all"),
    ],
)
async def test_a_model_that_is_not_sure_or_writes_what_nothing_carries_finds_nothing(
    run: Any, page: Any, judgement: Any, written: Any
) -> None:
    pages = [page("A pump hums at night.", "tp-2"), page(HOTEL)]
    told = await run(pages, QUESTION, Mind([hotel_plan(), judgement, reply(WRITE, written)]))
    assert (told.result.status, told.result.citations) == ("NOT_FOUND", [])


async def test_who_stands_nowhere_in_the_archive_is_not_found_whatever_a_search_brings(run: Any, page: Any) -> None:
    mind = Mind([hotel_plan(), sufficient(), reply(WRITE, sentences(GOOD))])
    told = await run([page(HOTEL)], "Which lodging did Ottoline Pfeiffer settle on?", mind)
    assert told.result.status == "NOT_FOUND"
    assert mind.asked == [], "no call is made for somebody whom nobody ever named"


async def test_an_empty_archive_asks_no_model(run: Any) -> None:
    mind = Mind([no_plan(), sufficient(), reply(WRITE, sentences(GOOD))])
    told = await run([], QUESTION, mind)
    assert (told.result.status, mind.asked) == ("NOT_FOUND", [])
