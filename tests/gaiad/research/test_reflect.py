"""What was found is held against the whole question."""

from datetime import UTC, datetime
from typing import Any

import pytest

from gaiad.base.clock import FrozenClock
from gaiad.base.config import load_config
from gaiad.base.ports import RequestContext
from gaiad.research.loop import Researcher
from gaiad.wire.schemas import ResearchRequest

LEMON = "Ines will bring the lemon tree from Porto."
OTTO = "Otto lives in Graz."


@pytest.mark.parametrize(
    ("query", "status", "missing"),
    [
        ("Who lives in Porto?", "NOT_FOUND", ["lives"]),
        ("Who lives in Graz?", "SUCCESS", []),
        ("What will Ines bring from Porto?", "SUCCESS", []),
    ],
)
async def test_half_of_a_question_is_no_answer_to_it(
    memory: Any, page: Any, query: str, status: str, missing: list[str]
) -> None:
    clock = FrozenClock(datetime(2026, 1, 15, 12, tzinfo=UTC))
    others = [page(f"The tram was late on day {number}.", f"tp-{number}") for number in range(3, 14)]
    cosines = {"tp-1/0": 0.48, "tp-2/0": 0.3, **{one.page_id: 0.05 for one in others}}
    archive = memory([page(LEMON), page(OTTO, "tp-2"), *others], cosines)
    result = await Researcher(archive, clock, load_config(environment={}).research).research(
        ResearchRequest(query=query), RequestContext()
    )
    assert (result.status, result.missing_aspects) == (status, missing)
