"""Memos seed planning (JIT): short lines on what pages hold, for the stage that plans before anybody searches.

First the session's latest memo, then by turns those of the session that share words with the question and those of
pages the archive finds for it. A memo is made of what was said, so it is data like any quoted page, no instruction.
"""

from collections.abc import Iterator, Sequence
from itertools import chain, zip_longest

from gaiad.errors import NotFound
from gaiad.memory_schemas import Memo
from gaiad.ports import Archive, Call
from gaiad.research.asked import QUERY_MAX_CHARS
from gaiad.research.within import tokens_of
from gaiad.research.words import content_words, stem, stems
from gaiad.schemas import SearchRequest

MOST_TOKENS = 200
PAGES = 8


async def plan_seeds(archive: Archive, session_id: str, question: str, call: Call) -> list[str]:
    """Memo texts for a plan, the most useful first, `MOST_TOKENS` together at most by a cautious estimate.

    A turn has the labels of what it is given, and these lines are not among it: what any channel does not see is left
    out, as whatever is written from the plan may be read on another channel.

    [] when nothing is remembered. Raises DeadlineExceeded, Cancelled, and what the archive's search raises.
    """
    call = call.without(call.guarded, ())
    try:
        own = await archive.session_memos(session_id, call)
        found = await _matching(archive, session_id, question, call)
    except NotFound:  # a tenant that nobody has spoken in yet
        return []
    return list(_within(MOST_TOKENS, _ordered(own, found, question)))


async def _matching(archive: Archive, session_id: str, question: str, call: Call) -> list[str]:
    """Memos of other sessions' pages that the archive finds, best first."""
    if not content_words(question):
        return []
    request = SearchRequest(query=question[:QUERY_MAX_CHARS], limit=PAGES, tenant=call.tenant)
    hits = (await archive.search(request, call)).hits
    others = [hit.page_id for hit in hits if hit.session_id != session_id]
    return [header.memo_snapshot for header in await archive.page_headers(others, call)]


def _ordered(own: Sequence[Memo], found: Sequence[str], question: str) -> Iterator[str]:
    """The latest of the session, then one by one the session's best and the archive's best."""
    wanted = {stem(word) for word in content_words(question)}
    shared = {memo.page_id: len(wanted & stems(memo.text)) for memo in own}
    matching = [memo for memo in own if shared[memo.page_id]]
    matching.sort(key=lambda memo: (shared[memo.page_id], memo.sequence), reverse=True)
    pairs = zip_longest([memo.text for memo in matching], found, fillvalue="")
    return chain((memo.text for memo in own[-1:]), chain.from_iterable(pairs))


def _within(tokens: int, texts: Iterator[str]) -> Iterator[str]:
    """Each text once, those that still fit; a long one makes room for shorter ones after it."""
    left, said = tokens, set[str]()
    for text in texts:
        cost = tokens_of(text)
        if text and text not in said and cost <= left:
            left -= cost
            said.add(text)
            yield text
