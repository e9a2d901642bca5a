"""From a finished research run to JIT's BriefingContext: which pages, facts and open questions, within how many tokens.

Everything but the counting is pure. What does not fit is left out in a fixed order (summary, open questions,
then page by page its excerpt and facts, each within its share), so the same run and limit give the same briefing; no
fact and no citation is cut in two.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence

import msgspec

from gaiad.base.ports import Archive, RequestContext, Tokenizer
from gaiad.research.evidence import Evidence, Term, union
from gaiad.research.sentences import cut_at_word, inline, shown, split
from gaiad.research.trail import Trail
from gaiad.research.words import content_words
from gaiad.wire.generation import Segment
from gaiad.wire.memory import BriefingContext, BriefingEvidence, Memo, PageHeader, SessionSummary, SessionTurn
from gaiad.wire.schemas import (
    Citation,
    Facets,
    Filters,
    Focus,
    Hit,
    PacketFilter,
    PacketSummary,
    Page,
    ResearchResult,
    Retriever,
    SearchMode,
    SearchRequest,
    SearchResponse,
)

# Cosine of request and page from which a page is near. Requests of nothing that was ever spoken of stay below .26 in
# talk about other things, paraphrases without a common word lie around .4.
NEAR = 0.36
MOST = 3
"""Pages that a request is given beside its answer, or instead of one."""
_WORDS = 2  # "Noted." bears on nothing, however near the talk it occurs in


def near_request(evidence: Sequence[Evidence], names: Collection[str]) -> list[Evidence]:
    """At most `MOST` pages, best first, that are near in meaning or have one of the request's names (normalised)."""
    return [item for item in evidence if _is_near(item, names)][:MOST]


def completing(
    evidence: Sequence[Evidence], chosen: Collection[str], terms: Sequence[Term], names: Collection[str]
) -> list[Evidence]:
    """Near pages that have a word of the request better than any of the `chosen` (page ids), at most `MOST`."""
    had = union(item for item in evidence if item.page.page_id in chosen)
    lacking = [term.word for term in terms if had.get(term.word, 0.0) < 1.0]
    return [
        item
        for item in evidence
        if item.page.page_id not in chosen
        and _is_near(item, names)
        and any(item.credits.get(word, 0.0) > had.get(word, 0.0) for word in lacking)
    ][:MOST]


def _is_near(item: Evidence, names: Collection[str]) -> bool:
    near = item.cosine is not None and item.cosine >= NEAR
    bears = near or any(item.credits.get(name, 0.0) == 1.0 for name in names)
    return bears and len(content_words(item.page.text)) >= _WORDS


_CITED = re.compile(r"(?:\[Packet: [^\]\n]*\][.,;]?[ \t]*)+")
_WORD = re.compile(r"\S+")


def answers(text: str) -> Sequence[str]:
    """The beginnings of an answer that end behind a citation, shortest first; of one without any, behind a sentence."""
    if found := [match.end() for match in _CITED.finditer(text)]:
        return [text[:end].rstrip() for end in found]
    return _sentences(text)


def excerpts(text: str) -> Sequence[str]:
    """The beginnings of an excerpt that end behind a sentence, shortest first; before these, those of its first
    sentence by words, with a sign that it goes on."""
    whole = _sentences(text)
    first = whole[0] if whole else text
    return [*(f"{first[: match.end()]} …" for match in list(_WORD.finditer(first))[:-1]), *whole]


def _sentences(text: str) -> list[str]:
    return [text[: sentence.end] for sentence in split(text)]


class BriefingArchive:
    """Implements ports.Archive over another one, for one run. `hits` is what was found, by page id."""

    def __init__(self, archive: Archive, mode: SearchMode, sessions: Sequence[str], memo_names: Sequence[str]) -> None:
        self._archive = archive
        self._mode = mode
        self._preferred = list(sessions)
        self._memo_names = list(memo_names)
        self.hits: dict[str, Hit] = {}
        self.searches = 0

    async def search(self, request: SearchRequest, call: RequestContext) -> SearchResponse:
        """As Archive.search, in the briefing's mode; the first search is made again with the memo's names."""
        boosts: Filters = msgspec.structs.replace(request.boosts, session_ids=self._preferred)
        mode = request.mode if self._mode == "hybrid" else self._mode
        asked: SearchRequest = msgspec.structs.replace(request, boosts=boosts, mode=mode)
        searches = [asked]
        if self._memo_names and not self.searches:
            searches.append(msgspec.structs.replace(asked, query=" ".join((asked.query, *self._memo_names))))
        self.searches += len(searches)
        responses = await asyncio.gather(*(self._archive.search(each, call) for each in searches))
        found: dict[str, Hit] = {}
        for response in responses:
            for hit in response.hits:
                found.setdefault(hit.page_id, hit)
        self.hits = {**found, **self.hits}
        return msgspec.structs.replace(responses[0], hits=list(found.values()))

    def hits_by_tool(self) -> dict[str, int]:
        """How many of the pages found each retriever found."""
        return dict(Counter(tool for hit in self.hits.values() for tool in hit.retrievers))

    async def pages(self, page_ids: Sequence[str], call: RequestContext) -> list[Page]:
        return await self._archive.pages(page_ids, call)

    async def section_pages(self, packet_id: str, focus: Focus, call: RequestContext) -> list[Page]:
        return await self._archive.section_pages(packet_id, focus, call)

    async def list_packets(self, request: PacketFilter, call: RequestContext) -> list[PacketSummary]:
        return await self._archive.list_packets(request, call)

    async def packet_summaries(self, packet_ids: Sequence[str], call: RequestContext) -> list[PacketSummary]:
        return await self._archive.packet_summaries(packet_ids, call)

    async def facets(self, call: RequestContext) -> Facets:
        return await self._archive.facets(call)

    async def document_frequency(self, words: Sequence[str], call: RequestContext) -> dict[str, int]:
        return await self._archive.document_frequency(words, call)

    async def similarity(self, query: str, texts: Sequence[str], call: RequestContext) -> list[float]:
        return await self._archive.similarity(query, texts, call)

    async def remember_turn(self, turn: SessionTurn, call: RequestContext) -> str:
        return await self._archive.remember_turn(turn, call)

    async def session_turns(
        self, session_id: str, call: RequestContext, after: int = -1, limit: int = 200, *, latest: bool = False
    ) -> list[SessionTurn]:
        return await self._archive.session_turns(session_id, call, after, limit, latest=latest)

    async def sessions(self, call: RequestContext, limit: int = 50, offset: int = 0) -> list[SessionSummary]:
        return await self._archive.sessions(call, limit, offset)

    async def session_memos(self, session_id: str, call: RequestContext) -> list[Memo]:
        return await self._archive.session_memos(session_id, call)

    async def page_headers(self, page_ids: Sequence[str], call: RequestContext) -> list[PageHeader]:
        return await self._archive.page_headers(page_ids, call)

    async def hidden(self, ids: Collection[str], call: RequestContext) -> set[str]:
        return await self._archive.hidden(ids, call)


EXCERPT_MAX = 600
# Where a limit binds, the summary has at most this share of it, and the open questions what is left up to theirs: what
# is said without its evidence proves nothing.
_SUMMARY_SHARE, _QUESTIONS_SHARE = 0.4, 0.6
Shorter = Callable[[str], Sequence[str]]


class BriefingPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page for the briefing, before its labels are known; `facts` are quotes from it."""

    page_id: str
    excerpt: str
    score: float
    retriever: Retriever
    facts: tuple[str, ...] = ()


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """A briefing before it is held to its limit of tokens; `pages` best first."""

    summary: str = ""
    questions: tuple[str, ...] = ()
    pages: tuple[BriefingPage, ...] = ()
    reflections: int = 0


def named_page(page: Page) -> BriefingPage:
    """A page that the request names by its id."""
    return BriefingPage(page_id=page.page_id, excerpt=_beginning(page.text), score=1.0, retriever="page_id")


def _beginning(text: str) -> str:
    return text[: cut_at_word(text, 0, EXCERPT_MAX)] if len(text) > EXCERPT_MAX else text


def draft(trail: Trail, result: ResearchResult, hits: Mapping[str, Hit], max_pages: int) -> Draft:
    """What a run that came to its end has to tell, on at most `max_pages` pages; `hits` are what was found, by page.

    Where nothing answers, what is near the request stands as evidence all the same: an agent reads for itself.
    """
    reflections = sum(one.reflection is not None for one in trail.rounds)
    if result.status == "CLARIFY":
        return Draft(questions=(result.answer,), reflections=reflections)
    names = trail.parameters.names if trail.parameters else ()
    depth = _depth_spent(trail, result)
    if result.status == "NOT_FOUND":
        questions = _once((trail.request.query, *_missing(result), *depth))
        near = [item.page.page_id for item in near_request(trail.evidence, names)]
        pages = _pages(near[:max_pages], trail, hits, {})
        return Draft(summary=result.answer.split("\n")[0], questions=questions, pages=pages, reflections=reflections)
    cited: dict[str, list[Citation]] = {}
    for citation in result.citations:
        cited.setdefault(citation.page_id, []).append(citation)
    selected = trail.rounds[-1].selected if trail.rounds else []
    wanted = list(dict.fromkeys((*cited, *(item.page.page_id for item in selected))))
    more = max(0, len(wanted) - max_pages)
    beside = [item.page.page_id for item in completing(trail.evidence, wanted, trail.terms, names)]
    pages = _pages([*wanted, *beside][:max_pages], trail, hits, cited)
    left_out = [f"{more} more pages bear on this; raise maxPages = {max_pages} to see them."] if more else []
    listed = result.answer.split("\n")[:-1]  # the last line is for people at a terminal
    summary = "\n".join(listed[: max_pages + 1]) if result.kind == "listing" else result.answer
    return Draft(
        summary=summary, questions=_once((*_missing(result), *depth, *left_out)), pages=pages, reflections=reflections
    )


def _pages(
    page_ids: Sequence[str], trail: Trail, hits: Mapping[str, Hit], cited: Mapping[str, Sequence[Citation]]
) -> tuple[BriefingPage, ...]:
    weighed = {item.page.page_id: item for item in trail.evidence}
    return tuple(_found(one, hits.get(one), cited.get(one, ()), weighed.get(one)) for one in page_ids)


def _found(page_id: str, hit: Hit | None, citations: Sequence[Citation], item: Evidence | None) -> BriefingPage:
    excerpt = hit.excerpt if hit else " ".join(citations[0].quote.split()) if citations else ""
    return BriefingPage(
        page_id=page_id,
        excerpt=excerpt or (_beginning(item.page.text) if item else ""),
        score=round(min(1.0, item.relevance if item else 1.0), 4),
        retriever=best_retriever(hit),
        facts=tuple(f"{shown(each.quote)} {inline(each.packet_id)}" for each in citations),
    )


def best_retriever(hit: Hit | None) -> Retriever:
    """The one that ranked the page best, words before meaning; `metadata` for a page that filters alone found."""
    if hit is None:
        return "metadata"
    ranks = hit.explanation.retrievers if hit.explanation else {}
    seen = [name for name in hit.retrievers if name in ranks]
    return min(seen, key=lambda name: (ranks[name].rank, name), default=(hit.retrievers or ["metadata"])[0])


def _missing(result: ResearchResult) -> tuple[str, ...]:
    return tuple(f"Nothing was found on: {aspect}" for aspect in result.missing_aspects)


def _depth_spent(trail: Trail, result: ResearchResult) -> tuple[str, ...]:
    """JIT's budget exhaustion: that the last round allowed was not enough either."""
    last = trail.rounds[-1].reflection if trail.rounds else None
    if last is None or last.is_sufficient or len(trail.rounds) < result.max_iterations:
        return ()
    return (f"Stopped at maxReflectionDepth = {result.max_iterations}.",)


def _once(questions: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(questions))


# ------------------------------------------------------------------------------------------------------ within a limit


async def briefing(
    drafted: Draft, headers: Mapping[str, PageHeader], limit: int | None, tokenizer: Tokenizer, call: RequestContext
) -> BriefingContext:
    """The draft as BriefingContext, of at most `limit` tokens in all its texts; labels are from `headers` by page id.

    When it does not fit whole, it says so in an open question. Raises what the tokenizer raises.
    """
    texts = [drafted.summary, *drafted.questions]
    texts += [text for page in drafted.pages for text in (page.excerpt, *page.facts)]
    costs = dict(zip(texts, await _count(tokenizer, texts, call), strict=True))
    room = _Room(costs, limit, tokenizer, call)
    asked = drafted.questions
    if limit is not None and sum(costs[text] for text in texts) > limit:
        note = f"Cut at maxOutputTokens = {limit}."
        (costs[note],) = await _count(tokenizer, [note], call)
        asked = (note, *asked)
    summary = await room.put(drafted.summary, _SUMMARY_SHARE, answers)
    questions = await _while_they_fit(room, asked, _QUESTIONS_SHARE)
    facts: list[str] = []
    evidence: list[BriefingEvidence] = []
    for page in drafted.pages:
        excerpt = await room.put(page.excerpt, shorter=excerpts)
        if not excerpt:
            break
        evidence.append(_evidence(page, excerpt, headers[page.page_id]))
        facts += await _while_they_fit(room, page.facts)
        if excerpt != page.excerpt:
            break
    return BriefingContext(
        executive_summary=summary,
        key_facts=facts,
        open_questions=questions,
        evidence=evidence,
        tokens_used=room.used,
        reflection_steps=drafted.reflections,
        pages_used=len(evidence),
    )


async def _while_they_fit(room: "_Room", texts: Sequence[str], share: float = 1.0) -> list[str]:
    kept: list[str] = []
    for text in texts:
        if not await room.put(text, share):
            break
        kept.append(text)
    return kept


class _Room:
    """The limit, and how much of it is used."""

    def __init__(self, costs: Mapping[str, int], limit: int | None, tokenizer: Tokenizer, call: RequestContext) -> None:
        self._costs = costs
        self._limit = limit
        self._tokenizer = tokenizer
        self._call = call
        self.used = 0

    async def put(self, text: str, share: float = 1.0, shorter: Shorter | None = None) -> str:
        """The text, or the longest of its `shorter` ones, that fits into this share of the limit with what is there."""
        if self._limit is None or self.used + self._costs[text] <= int(self._limit * share):
            self.used += self._costs[text]
            return text
        if shorter is None:
            return ""
        kept, cost = await _longest(shorter(text), int(self._limit * share) - self.used, self._tokenizer, self._call)
        self.used += cost
        return kept


async def _longest(texts: Sequence[str], limit: int, tokenizer: Tokenizer, call: RequestContext) -> tuple[str, int]:
    """The longest of these, shortest first, with at most `limit` tokens, and its tokens."""
    best, cost, low, high = "", 0, 0, len(texts) - 1
    while low <= high:
        middle = (low + high) // 2
        (tokens,) = await _count(tokenizer, [texts[middle]], call)
        if tokens <= limit:
            best, cost, low = texts[middle], tokens, middle + 1
        else:
            high = middle - 1
    return best, cost


async def _count(tokenizer: Tokenizer, texts: Sequence[str], call: RequestContext) -> list[int]:
    return await tokenizer.count([[Segment(text)] for text in texts], call) if texts else []


def _evidence(page: BriefingPage, excerpt: str, header: PageHeader) -> BriefingEvidence:
    return BriefingEvidence(
        page_id=page.page_id,
        excerpt=excerpt,
        relevance_score=page.score,
        retriever_type=page.retriever,
        classification=header.classification,
        policy_tags=header.policy_tags,
    )
