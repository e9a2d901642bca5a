"""A briefing within its limit: never above it, the same every time, and what it says stands beside its evidence."""

import pytest

from gaiad.base.clock import FrozenClock
from gaiad.base.ports import RequestContext
from gaiad.models.tokens.word_tokenizer import WordTokenizer, count_words
from gaiad.research.briefing import BriefingPage, Draft, best_retriever, briefing
from gaiad.wire.memory import BriefingContext, PageHeader
from gaiad.wire.schemas import Explanation, Hit, RetrieverScore

PAGES = tuple(
    BriefingPage(
        page_id=f"p-{n}",
        excerpt=f"Excerpt {n} tells of the lamp at length.",
        score=0.5,
        retriever="bm25",
        facts=(f"Fact {n}.",),
    )
    for n in range(4)
)
DRAFT = Draft(summary="The lamp was lit in May. " * 3, questions=("Who lit it?", "When was it put out?"), pages=PAGES)
HEADERS = {
    page.page_id: PageHeader(session_id="s", tenant_id="local", sequence=0, created_at="", policy_tags=["no-export"])
    for page in PAGES
}


async def held(limit: int | None, clock: FrozenClock) -> BriefingContext:
    return await briefing(DRAFT, HEADERS, limit, WordTokenizer(clock), RequestContext())


def words(built: BriefingContext) -> int:
    texts = [built.executive_summary, *built.key_facts, *built.open_questions]
    return sum(map(count_words, [*texts, *(one.excerpt for one in built.evidence)]))


async def test_without_a_limit_all_of_it_is_there(clock: FrozenClock) -> None:
    built = await held(None, clock)
    assert built.executive_summary == DRAFT.summary
    assert built.open_questions == list(DRAFT.questions)
    assert built.key_facts == [f"Fact {n}." for n in range(4)]
    assert [one.excerpt for one in built.evidence] == [page.excerpt for page in PAGES]
    assert all(one.policy_tags == ["no-export"] for one in built.evidence)
    assert (built.tokens_used, built.pages_used) == (words(built), 4)
    assert await held(built.tokens_used, clock) == built


@pytest.mark.parametrize("limit", range(1, 90))
async def test_no_limit_is_passed_and_the_count_is_right(limit: int, clock: FrozenClock) -> None:
    built = await held(limit, clock)
    assert words(built) == built.tokens_used <= limit
    assert built.pages_used == len(built.evidence)
    assert await held(limit, clock) == built


async def test_what_was_cut_says_so_and_keeps_room_for_evidence(clock: FrozenClock) -> None:
    built = await held(40, clock)
    assert built.open_questions[0] == "Cut at maxOutputTokens = 40."
    assert built.executive_summary == "The lamp was lit in May. The lamp was lit in May."
    assert built.evidence[0].excerpt == PAGES[0].excerpt
    assert built.key_facts[0] == "Fact 0."
    assert built.pages_used < 4


def test_the_retriever_that_ranked_a_page_best_is_named() -> None:
    ranks = {"bm25": RetrieverScore(rank=4, score=1.0), "dense": RetrieverScore(rank=2, score=0.4)}
    hit = Hit(
        page_id="p", packet_id="k", session_id="s", score=1.0, excerpt="", timestamp="", topic="",
        retrievers=["bm25", "dense"], explanation=Explanation(retrievers=ranks, boosts={}, matched_terms=[]),
    )  # fmt: skip
    assert best_retriever(hit) == "dense"
    assert best_retriever(None) == "metadata"
