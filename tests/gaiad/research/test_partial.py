"""Answers that improve: told after a round that another one follows, to who listens, and to nobody else."""

from datetime import UTC, datetime
from typing import Any

import pytest

from gaiad.base.clock import FrozenClock
from gaiad.base.config import load_config
from gaiad.base.ports import RequestContext
from gaiad.research.evidence import Evidence
from gaiad.research.loop import Researcher
from gaiad.research.one_run import Partials
from gaiad.research.query import process_query
from gaiad.research.reflect import ReflectionResult
from gaiad.research.sentences import Quote, Statement, cite, verifies
from gaiad.research.synthesis import compose
from gaiad.research.trail import IntegrationState, integrate
from gaiad.wire.schemas import Page, ResearchRequest, ResearchResult

CONFIG = load_config(environment={}).research
QUESTION = "Where is the float switch wired and who paid the plumber?"
TEXTS = ("The float switch is wired in series.", "A committee hums.", "The float switch was moved to the basin.")
NOW = datetime(2025, 12, 15, 12, tzinfo=UTC)
Told = list[tuple[str, dict[str, Any]]]


class Counting:
    """An archive that counts how often pages are read."""

    def __init__(self, archive: Any) -> None:
        self._archive = archive
        self.reads = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._archive, name)

    async def pages(self, page_ids: list[str], call: RequestContext) -> list[Page]:
        self.reads += 1
        pages: list[Page] = await self._archive.pages(page_ids, call)
        return pages


@pytest.fixture
def archive(memory: Any, page: Any) -> Counting:
    return Counting(memory([page(text, f"tp-{number}") for number, text in enumerate(TEXTS, start=1)]))


async def run(archive: Any, listens: bool, query: str = QUESTION) -> tuple[ResearchResult, Told]:
    told: Told = []
    clock = FrozenClock(NOW)
    result = await Researcher(archive, clock, CONFIG).research(
        ResearchRequest(query=query),
        RequestContext(),
        lambda name, data: told.append((name, data)),
        listens=lambda: listens,
    )
    return result, told


async def test_a_round_that_did_not_do_tells_what_it_found_before_the_next_one(archive: Counting) -> None:
    result, told = await run(archive, listens=True)
    assert result.iterations_used > 1
    names = [name for name, _ in told]
    first = names.index("partial")
    assert names[first - 1 : first + 2] == ["reflected", "partial", "searching"]
    data = told[first][1]
    assert data["iteration"] == 1
    assert "[Packet: tp-1]" in data["answer"]
    assert data["packets"] == list(dict.fromkeys(one.packet_id for one in data["citations"]))
    assert all(verifies(one, archive.stored) for one in data["citations"])
    assert data["missing"]


async def test_partial_answers_get_no_worse_and_no_two_are_the_same(archive: Counting) -> None:
    told: Told = []
    partials = Partials(archive, RequestContext(), lambda name, data: told.append((name, data)), lambda: True)
    parameters = process_query(QUESTION, await archive.facets(RequestContext()), NOW, UTC)
    rounds = [
        (["tp-1"], 0.5),
        (["tp-3"], 0.4),  # less sure
        (["tp-1"], 0.6),  # the same pages
        (["tp-1", "tp-2"], 0.5),
        (["tp-3"], 0.7),
        (["tp-1"], 0.6),  # less sure than the last one told
    ]
    for iteration, (packets, confidence) in enumerate(rounds, start=1):
        selected = [evidence(archive.stored[f"{packet}/0"]) for packet in packets]
        statements = [stated(item.page) for item in selected]
        draft = compose(parameters, statements, UTC)
        state = integrate(IntegrationState(), draft, statements, [one.page.page_id for one in selected])
        await partials.offer(statements, state, reflected(confidence), iteration)
    found = [(data["iteration"], data["packets"], data["confidence"]) for _, data in told]
    assert found == [(1, ["tp-1"], 0.5), (4, ["tp-1", "tp-2"], 0.5), (5, ["tp-3"], 0.7)]
    assert len({data["answer"] for _, data in told}) == 3


def stated(page: Page) -> Statement:
    return Statement(Quote(page, 0, len(page.text), 1.0), cite(page, 0, len(page.text)))


def evidence(page: Page) -> Evidence:
    return Evidence(page=page, credits={}, lexical=0.5, cosine=None, fused=0.5, relevance=0.5, standing=0.5)


def reflected(confidence: float) -> ReflectionResult:
    return ReflectionResult(
        is_sufficient=False,
        is_relevant=True,
        confidence=confidence,
        missing_aspects=(),
        refinement_suggestions=(),
    )


async def test_nobody_who_listens_costs_nothing_and_changes_nothing(archive: Counting) -> None:
    listened, _ = await run(archive, listens=True)
    with_listener, archive.reads = archive.reads, 0
    alone, told = await run(archive, listens=False)
    assert "partial" not in [name for name, _ in told]
    assert archive.reads < with_listener
    assert alone == listened


async def test_a_run_of_one_round_and_one_that_finds_nothing_have_no_partial_answer(archive: Counting) -> None:
    for query, status in (("Where is the float switch wired?", "SUCCESS"), ("Who is Zebulon?", "NOT_FOUND")):
        result, told = await run(archive, listens=True, query=query)
        assert result.status == status
        assert "partial" not in [name for name, _ in told]


async def test_what_the_archive_no_longer_confirms_is_in_no_partial_answer(archive: Counting, page: Any) -> None:
    whole = archive.stored["tp-1/0"]
    search = archive.search

    async def changing(request: Any, call: RequestContext) -> Any:
        archive.stored["tp-1/0"] = whole
        return await search(request, call)

    def listens() -> bool:  # asked right before the check
        archive.stored["tp-1/0"] = page("Nobody wired anything at all, anywhere.")
        return True

    archive.search = changing  # type: ignore[attr-defined]
    told: Told = []
    clock = FrozenClock(NOW)
    await Researcher(archive, clock, CONFIG).research(  # type: ignore[arg-type]
        ResearchRequest(query=QUESTION), RequestContext(), lambda name, data: told.append((name, data)), listens=listens
    )
    assert [name for name, _ in told].count("searching") > 1
    assert "partial" not in [name for name, _ in told]
