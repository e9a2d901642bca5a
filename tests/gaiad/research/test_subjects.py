"""The two things that a comparison is about, where one is held against the other by more and less."""

from datetime import UTC, datetime
from typing import Any

import pytest

from gaiad.base.clock import FrozenClock
from gaiad.base.config import load_config
from gaiad.base.ports import RequestContext
from gaiad.research.loop import Researcher
from gaiad.research.query import exceeds, subjects_of
from gaiad.wire.schemas import ResearchRequest, ResearchResult

CLOCK = FrozenClock(datetime(2025, 12, 15, 12, tzinfo=UTC))


@pytest.mark.parametrize(
    ("question", "subjects"),
    [
        ("How much more does the oak table weigh than the bench?", ("oak table", "bench")),
        ("Does the bench weigh more than the oak table?", ("bench", "oak table")),
        ("How much heavier is the bench than the oak table?", ("bench", "oak table")),
        ("Which is far cheaper, the bench or the oak table?", ("bench", "oak table")),
        ("Why does Otto earn less than Vera?", ("Otto", "Vera")),
        ("Was it more than twenty degrees?", ()),
        ("Did we buy more than three stones?", ()),
        ("Who has more money than the king?", ()),
        ("What did Otto say rather than the truth?", ()),
    ],
)
def test_more_than_names_two_things(question: str, subjects: tuple[str, ...]) -> None:
    assert (subjects_of(question), exceeds(question)) == (subjects, bool(subjects))


async def ask(archive: Any, question: str) -> ResearchResult:
    researcher = Researcher(archive, CLOCK, load_config(environment={}).research)
    return await researcher.research(ResearchRequest(query=question), RequestContext())


async def test_both_are_told_and_one_that_is_not_found_is_missing(memory: Any, page: Any) -> None:
    archive = memory(
        [page("The oak table weighs 60 kilos.", "tp-table"), page("The bench weighs 20 kilos.", "tp-bench")]
    )
    both = await ask(archive, "How much more does the oak table weigh than the bench?")
    assert both.status == "SUCCESS"
    assert "60 kilos" in both.answer
    assert "20 kilos" in both.answer
    one = await ask(archive, "How much more does the oak table weigh than the wardrobe?")
    assert one.status != "SUCCESS"
    assert "anything about wardrobe" in one.missing_aspects
