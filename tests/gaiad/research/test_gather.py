"""The pool of evidence: the question says how well a page answers it, what is searched beside it only brings pages."""

from datetime import UTC, datetime
from typing import Any

import msgspec

from gaiad.base.clock import FrozenClock
from gaiad.base.ports import RequestContext
from gaiad.research.evidence import Term
from gaiad.research.gather import Pool
from gaiad.research.trail import Trail
from gaiad.wire.schemas import ResearchRequest, SearchRequest, SearchResponse

CLOCK = FrozenClock(datetime(2025, 12, 15, 12, tzinfo=UTC))
QUESTION, BESIDE = "Who painted the hall?", "Who painted the hall Otto"


def pool_of(archive: Any) -> Pool:
    terms = [Term(word=word, stem=word, weight=1.0, frequency=2) for word in ("paint", "hall")]
    return Pool(archive, RequestContext(), terms, QUESTION, Trail("", ResearchRequest(query=QUESTION), "local", CLOCK))


async def test_a_search_beside_the_question_brings_pages_and_changes_none(memory: Any, page: Any) -> None:
    archive = memory(
        [page("The hall was painted by a guild."), page("Otto painted the hall.", "tp-2"), page("Otto hums.", "tp-3")]
    )
    asked, beside = SearchRequest(query=QUESTION, explain=True), SearchRequest(query=BESIDE, explain=True)
    alone, together = pool_of(archive), pool_of(archive)
    await alone.search([asked])
    await together.search([beside, asked], [BESIDE])
    own = {item.page.page_id: item.relevance for item in alone.evidence}
    assert {item.page.page_id: item.relevance for item in together.by_question} == own
    assert {item.page.packet_id for item in together.evidence} >= {"tp-1", "tp-2", "tp-3"}
    assert {item.page.packet_id for item in together.evidence} > {item.page.packet_id for item in together.by_question}


async def test_a_page_that_is_gone_since_the_search_is_left_out(memory: Any, page: Any) -> None:
    archive = memory([page("The hall was painted by a guild."), page("Otto painted the hall.", "tp-2")])
    search = archive.search

    async def then_gone(request: SearchRequest, call: RequestContext) -> SearchResponse:
        found: SearchResponse = await search(request, call)
        del archive.stored["tp-2/0"]
        return found

    archive.search = then_gone
    pool = pool_of(archive)
    assert await pool.search([SearchRequest(query=QUESTION, explain=True)]) == 1
    assert [item.page.packet_id for item in pool.evidence] == ["tp-1"]


async def test_what_other_searches_find_stands_behind_what_the_question_found(memory: Any, page: Any) -> None:
    archive = memory([page("Otto painted the hall, and the hall shines.", "tp-1"), page("The hall burnt.", "tp-2")])
    pool = pool_of(archive)
    await pool.search([SearchRequest(query="Who burnt it?", limit=1, explain=True)])
    await pool.search([SearchRequest(query=QUESTION, explain=True)])
    assert [item.page.packet_id for item in pool.evidence] == ["tp-1", "tp-2"]
    assert [item.page.packet_id for item in pool.ranked] == ["tp-2", "tp-1"]


async def test_pages_with_the_quoted_words_go_before_others_and_leave_none_out(memory: Any, page: Any) -> None:
    archive = memory(
        [
            page("The hall was painted by a guild, the hall of red paint.", "tp-1"),
            page('Otto painted "Red Harbour" in the hall.', "tp-2"),
        ]
    )
    asked = SearchRequest(query=QUESTION, explain=True)
    alone, quoting = pool_of(archive), pool_of(archive)
    await alone.search([asked])
    await quoting.search([asked, msgspec.structs.replace(asked, phrases=["red harbour"])])
    before, after = ({item.page.packet_id: item.relevance for item in pool.evidence} for pool in (alone, quoting))
    assert before["tp-1"] == before["tp-2"]
    assert after["tp-1"] < after["tp-2"] == before["tp-2"]
    assert {item.page.packet_id for item in quoting.ranked} == {"tp-1", "tp-2"}


async def test_quoted_words_that_stand_nowhere_change_nothing(memory: Any, page: Any) -> None:
    asked = SearchRequest(query=QUESTION, explain=True)
    alone, quoting = (pool_of(memory([page("The hall was painted by a guild.")])) for _ in range(2))
    await alone.search([asked])
    await quoting.search([asked, msgspec.structs.replace(asked, phrases=["blue barn"])])
    assert quoting.evidence == alone.evidence
