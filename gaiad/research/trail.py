"""What one research run did, as it did it: searches, rounds, evidence, the end. The loop writes it for the payload.

A trail holds values only; whoever wants no payload leaves it unread.
"""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

import msgspec

from gaiad.base.clock import Clock
from gaiad.base.errors import Cancelled, GaiadError
from gaiad.base.ports import RequestContext
from gaiad.research.evidence import Evidence, Term
from gaiad.research.query import SearchParameters
from gaiad.research.reflect import ReflectionResult
from gaiad.research.sentences import Statement, inline, shown
from gaiad.wire.research import PayloadStatus
from gaiad.wire.schemas import PacketFilter, PacketSummary, ResearchRequest, ResearchResult, Retriever, SearchRequest


class PlanAction(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """JIT's PlanAction; the tool `metadata` is ours. `page_ids` are for the tool page_id, `query` for all others."""

    tool: Retriever
    query: str = ""
    page_ids: list[str] = []
    k: int = 8
    note: str = ""


def actions_of(requests: Sequence[SearchRequest]) -> list[PlanAction]:
    """The searches as a plan, in their order."""
    return [action for request in requests for action in _actions(request)]


def _actions(request: SearchRequest) -> list[PlanAction]:
    quoted = f"pages that hold {' and '.join(repr(phrase) for phrase in request.phrases)}" if request.phrases else ""
    note = quoted if request.order == "relevance" else f"in order of time, the {request.order} first"
    tools: tuple[Retriever, ...] = ("bm25", "dense") if request.mode == "hybrid" else (request.mode,)
    return [
        PlanAction(tool=tool, query=request.query, page_ids=list(request.page_ids), k=request.limit, note=note)
        for tool in tools
    ]


def as_request(action: PlanAction, base: SearchRequest) -> SearchRequest | None:
    """The search of an action, with the filters and preferences of the question's own; None for one without words."""
    if action.tool == "page_id":
        ids = list(dict.fromkeys(action.page_ids))
        search = msgspec.structs.replace(base, mode="page_id", query="", page_ids=ids, phrases=[], order="relevance")
        return search if ids else None
    query = " ".join(action.query.split())
    if not query:
        return None
    return msgspec.structs.replace(
        base, mode=action.tool, query=query, limit=action.k, phrases=[], order="relevance", adjacent=0
    )


class IntegrationState(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """JIT's IntegrationState. Facts are quotes with their packet, `used_pages` ids, best first."""

    briefing_draft: str = ""
    key_facts: tuple[str, ...] = ()
    open_questions: tuple[str, ...] = ()
    used_pages: tuple[str, ...] = ()


def integrate(
    before: IntegrationState, draft: str, statements: Sequence[Statement], used: Iterable[str]
) -> IntegrationState:
    """The state with this round's `draft`, its quotes as facts, and the pages in `used`; what was open stays open until
    the round is judged.

    A round that brings nothing leaves what was there.
    """
    if not statements:
        return before
    facts = [fact_of(one.quote.text, one.citation.packet_id) for one in statements]
    return msgspec.structs.replace(
        before, briefing_draft=draft, key_facts=tuple(dict.fromkeys(facts)), used_pages=tuple(dict.fromkeys(used))
    )


def left_open(state: IntegrationState, missing: Iterable[str], *, enough: bool) -> IntegrationState:
    """The state once the round is judged: what is `missing` is asked after, nothing where it is `enough`."""
    questions = () if enough else tuple(question_on(aspect) for aspect in missing)
    return msgspec.structs.replace(state, open_questions=questions)


def question_on(aspect: str) -> str:
    """A missing aspect as a question."""
    return f"Is there anything on: {aspect}?"


def fact_of(quote: str, packet_id: str) -> str:
    """A quote as a key fact."""
    return f"{shown(quote)} {inline(packet_id)}"


@dataclass
class Search:
    """One call of the archive. `packet_ids` are what it found, best first, `hits` how many pages or packets."""

    iteration: int
    tool: str
    request: SearchRequest | PacketFilter
    started_at: datetime
    completed_at: datetime
    packet_ids: list[str] = field(default_factory=list)
    hits: int = 0
    error: str = ""

    def found(self, packet_ids: Sequence[str]) -> None:
        """What came back, one id a hit."""
        self.hits += len(packet_ids)
        self.packet_ids += [one for one in dict.fromkeys(packet_ids) if one not in self.packet_ids]


@dataclass
class Round:
    """One iteration: what was planned to be searched for, what it came to. `reflection` is None for a listing, and for
    a round that was not finished."""

    number: int
    query: str
    refinements: tuple[str, ...]
    started_at: datetime
    completed_at: datetime
    selected: list[Evidence] = field(default_factory=list)
    reflection: ReflectionResult | None = None
    plan: list[PlanAction] = field(default_factory=list)
    state: IntegrationState = field(default_factory=IntegrationState)


@dataclass
class Spent:
    """What models that write were asked for in a run: calls, and tokens as the models count them."""

    calls: int = 0
    prompt_tokens: int = 0
    reply_tokens: int = 0

    def add(self, prompt_tokens: int, reply_tokens: int) -> None:
        """One more call."""
        self.calls += 1
        self.prompt_tokens += prompt_tokens
        self.reply_tokens += reply_tokens


class Trail:
    """Begun with the run. `evidence` is all that was found, best first; `listed` the packets of a listing."""

    def __init__(self, research_id: str, request: ResearchRequest, tenant: str, clock: Clock) -> None:
        self.research_id = research_id
        self.request = request
        self.tenant = tenant
        self.started_at = self.ended_at = clock.now()
        self.searches: list[Search] = []
        self.rounds: list[Round] = []
        self.parameters: SearchParameters | None = None
        self.terms: Sequence[Term] = ()
        self.evidence: Sequence[Evidence] = ()
        self.listed: Sequence[PacketSummary] = ()
        self.spent = Spent()
        self.status: PayloadStatus = "in_progress"
        self.result: ResearchResult | None = None
        self.error = ""
        self._clock = clock

    def understood(self, parameters: SearchParameters) -> None:
        """The question has been read."""
        self.parameters = parameters

    def begin_round(self, query: str, refinements: tuple[str, ...] = ()) -> None:
        """A new iteration; searches belong to it from here on."""
        now = self._clock.now()
        self.rounds.append(Round(len(self.rounds) + 1, query, refinements, now, now))

    def planned(self, actions: Sequence[PlanAction]) -> None:
        """The iteration searches for this, too."""
        self.rounds[-1].plan += actions

    def end_round(
        self,
        selected: Sequence[Evidence],
        reflection: ReflectionResult | None,
        state: IntegrationState | None = None,
    ) -> None:
        """The iteration has been judged."""
        last = self.rounds[-1]
        last.selected, last.reflection, last.completed_at = list(selected), reflection, self._clock.now()
        last.state = state or last.state

    @contextmanager
    def searching(self, tool: str, request: SearchRequest | PacketFilter) -> Iterator[Search]:
        """A search while it runs; one that fails is told with its error, which goes on to the caller."""
        now = self._clock.now()
        search = Search(len(self.rounds), tool, request, now, now)
        self.searches.append(search)
        try:
            yield search
        except GaiadError as error:
            search.error = error.message
            raise
        finally:
            search.completed_at = self._clock.now()

    def answered(self, result: ResearchResult) -> None:
        """The run came to its end, with an answer or none."""
        self.result = result
        self._end("complete")

    def broke_off(self, status: PayloadStatus, error: str) -> None:
        """The run came to no end: `failed` or `cancelled`, and why."""
        self.error = error
        self._end(status)

    def _end(self, status: PayloadStatus) -> None:
        self.status, self.ended_at = status, self._clock.now()
        if self.rounds:
            self.rounds[-1].completed_at = max(self.rounds[-1].completed_at, self.ended_at)


class Recorder(Protocol):
    """Who keeps trails of runs."""

    def new_id(self) -> str:
        """The id of a run that begins."""
        ...

    async def keep(self, trail: Trail, call: RequestContext) -> str:
        """Keep the run, durable when this returns; why it could not be kept, "" when it was."""
        ...


async def kept(recorder: Recorder | None, trail: Trail, result: ResearchResult, call: RequestContext) -> ResearchResult:
    """The result with the id of the kept run, or with the reason why it is not kept."""
    if recorder is None:
        return result
    result = msgspec.structs.replace(result, research_id=trail.research_id)
    trail.answered(result)
    trouble = await recorder.keep(trail, call)
    if not trouble:
        return result
    return msgspec.structs.replace(
        result, research_id="", degraded=[*result.degraded, f"the run was not kept: {trouble}"]
    )


async def keep_broken_off(
    recorder: Recorder | None, trail: Trail, error: BaseException, call: RequestContext, *, goes_on: bool = False
) -> None:
    """A run that came to no answer is kept too, from where the question was understood.

    One that `goes_on` after a stop of the daemon has come to no end by it: nothing is kept.
    """
    if recorder is None or trail.parameters is None or (goes_on and isinstance(error, asyncio.CancelledError)):
        return
    cancelled = isinstance(error, asyncio.CancelledError | Cancelled)
    trail.broke_off("cancelled" if cancelled else "failed", _why(error))
    await recorder.keep(trail, call)


def _why(error: BaseException) -> str:
    if isinstance(error, asyncio.CancelledError):
        return "the caller went away"
    return error.message if isinstance(error, GaiadError) else f"unexpected {type(error).__name__}"
