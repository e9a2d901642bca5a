"""What greets or thanks is replied to; what asks is not taken for it; what is vague is offered topics."""

from datetime import UTC, datetime
from typing import Any

import pytest

from gaiad.base.clock import FrozenClock
from gaiad.base.config import load_config
from gaiad.base.ports import RequestContext
from gaiad.research.answer import clarify_answer
from gaiad.research.loop import Researcher
from gaiad.research.query import process_query
from gaiad.research.responses import reply_to
from gaiad.wire.schemas import Facets, ResearchRequest, ResearchResult


@pytest.mark.parametrize("text", ["thanks!", "Thank you very much", "Hello gaiad", "good morning", "bye"])
def test_small_talk_has_a_reply(text: str) -> None:
    assert reply_to(text)


@pytest.mark.parametrize("text", ["", "good?", "Thank you for the oak", "hello world program", "What did Mara say?"])
def test_what_says_more_has_none(text: str) -> None:
    assert reply_to(text) == ""


async def _ask(archive: Any, query: str) -> ResearchResult:
    clock = FrozenClock(datetime(2025, 12, 15, 12, tzinfo=UTC))
    research = Researcher(archive, clock, load_config(environment={}).research)
    return await research.research(ResearchRequest(query=query), RequestContext())


async def test_thanks_are_not_searched_for(memory: Any, page: Any) -> None:
    result = await _ask(memory([page("Thanks to Mara the boat floats.")]), "thanks!")
    assert (result.answer, result.citations) == ("You're welcome.", [])


def test_a_vague_request_is_offered_the_topics_on_file() -> None:
    vague = process_query("Tell me about that thing", Facets(), datetime(2025, 12, 15, tzinfo=UTC), UTC)
    answer = clarify_answer(vague, {"Boat building": 2, "Orchard": 5, "": 9})
    assert answer.status == "CLARIFY"
    assert answer.text.endswith("On file, for example:\n- Orchard\n- Boat building")
