"""The steps of a run as a model takes them, each under a form (decision 3); by rules where it cannot.

What a model may change is bounded. It may search for more, ask for another round, doubt, and put verified quotes into
its own sentences. It may not raise a confidence, cite what was not in its context, or say what no quote of its sentence
carries. What the rules find is about something else it may call relevant for pages that its own searches brought, where
the question was asked in other words than theirs: then only its own sentences may answer, never HIGH.
"""

import asyncio
from collections.abc import Callable, Collection, Sequence
from datetime import tzinfo
from itertools import zip_longest
from typing import Any

import msgspec

from gaiad.base.clock import Clock
from gaiad.base.errors import GaiadError, NotFound
from gaiad.base.events import OnEvent
from gaiad.base.logs import get_logger, span
from gaiad.base.ports import Archive, RequestContext
from gaiad.research.evidence import Evidence, only_asked, only_quotes, own_words, repeats_question, weigh
from gaiad.research.query import SearchParameters
from gaiad.research.refine import LOW_FLOOR, Attempt
from gaiad.research.reflect import DOUBTFUL_CAP, MEDIUM_FROM, ReflectionResult, evaluate_sufficiency, strangers
from gaiad.research.sentences import shown
from gaiad.research.thinking.asking import (
    PLAN,
    QUERY_CHARACTERS,
    REFLECTION,
    SYNTHESIS,
    Limits,
    Mind,
    Plan,
    Prompt,
    Reflection,
    RunCalls,
    Synthesis,
    plan_schema,
    reflection_schema,
    synthesis_schema,
)
from gaiad.research.thinking.steps import ByRules, Draft, Steps
from gaiad.research.thinking.support import (
    Passage,
    carried,
    context_pages,
    passages_of,
    shown_memo,
    shown_plain,
    shown_with_labels,
)
from gaiad.research.trail import IntegrationState, PlanAction, Trail, as_request, left_open
from gaiad.wire.generation import Segment
from gaiad.wire.schemas import Hit, Page, Retriever, SearchRequest
from prompts.load import PlanningWords, ReflectionWords, SynthesisWords, Words, fill, load_prompt

MEMO_PAGES = 8
SEARCH = "search: "
"""How a refinement begins that a model suggested."""
_TOOLS: tuple[Retriever, ...] = ("bm25", "dense", "metadata", "page_id")
_log = get_logger("gaiad.research")
_HERE = "\x00here\x00"  # where the retrieved text stands; no question can hold it


class ByModel:
    """One run's steps on one model. `passed_over` packets never come in; `most` pages are shown to the model."""

    def __init__(
        self,
        asking: RunCalls,
        archive: Archive,
        call: RequestContext,
        trail: Trail,
        zone: tzinfo,
        most: int,
        passed_over: Collection[str],
    ) -> None:
        self._asking = asking
        self._archive = archive
        self._call = call
        self._trail = trail
        self._zone = zone
        self._most = most
        self._passed_over = frozenset(passed_over)
        self._planned = self._wanting = self._alone = False
        self._queries: list[str] = []
        self._searched: set[str] = set()
        self.more: dict[str, Evidence] = {}

    @property
    def degraded(self) -> list[str]:
        return self._asking.degraded

    # ----------------------------------------------------------------------------------------------------------- plan

    async def look(
        self,
        parameters: SearchParameters,
        asked: Sequence[SearchRequest],
        found: Sequence[Evidence],
        *,
        by_meaning: bool,
    ) -> int:
        """In the first round what the model plans, later what its reflection suggested; how many pages are new."""
        base = asked[0]
        if self._planned:
            requests = [msgspec.structs.replace(base, query=query, mode="hybrid") for query in self._queries]
            self._queries = []
        else:
            self._planned = True
            with span("researcher.plan") as counts:
                actions = await self._plan(parameters, found, by_meaning=by_meaning)
                counts["actions"] = len(actions)
            self._trail.planned(actions)
            self._asking.tell("planned", iteration=1, by=self._asking.name, actions=msgspec.to_builtins(actions))
            requests = [request for action in actions if (request := as_request(action, base)) is not None]
        if not requests:
            return 0
        with span("researcher.search", searches=len(requests)):
            found_by_each = await asyncio.gather(*(self._search(request) for request in requests))
        before = len(self.more.keys() | {item.page.page_id for item in found})
        await self._add(_by_turns(found_by_each), parameters.text)
        return len(self.more.keys() | {item.page.page_id for item in found}) - before

    async def _plan(
        self, parameters: SearchParameters, found: Sequence[Evidence], *, by_meaning: bool
    ) -> list[PlanAction]:
        """From the pages found first and their memos, and from the question alone when its own words found none."""
        known = list(found[:MEMO_PAGES])
        if strangers(parameters, self._trail.terms):
            return []
        try:
            headers = await self._archive.page_headers([item.page.page_id for item in known], self._call)
        except GaiadError as error:  # a page was replaced in between
            self._asking.go_without("the pages found were not planned with", error)
            return []
        prompt = planning_prompt(parameters.text, known, [header.memo_snapshot for header in headers])
        tools = [tool for tool in _TOOLS if (by_meaning or tool != "dense") and (known or tool != "page_id")]

        def schema(shown_items: int) -> dict[str, object]:
            return plan_schema([item.page.page_id for item in known[:shown_items]], tools)

        plan = await self._asking.ask(PLAN, prompt, Plan, schema)
        ids = {item.page.page_id for item in known}
        return [one for one in plan.actions if one.tool in tools and ids.issuperset(one.page_ids)] if plan else []

    async def _search(self, request: SearchRequest) -> list[Hit]:
        """Nothing from a search that fails: the rules' own may have found enough."""
        try:
            with self._trail.searching("archive.search", request) as search:
                response = await self._archive.search(request, self._call)
                search.found([hit.packet_id for hit in response.hits if hit.packet_id not in self._passed_over])
        except GaiadError as error:
            self._asking.go_without(f"a {request.mode} search that {self._asking.name} planned", error)
            return []
        return response.hits

    async def _add(self, hits: Sequence[Hit], question: str) -> None:
        """What the model's searches found, in that order; no echo of a conversation with gaiad comes in."""
        wanted = [hit for hit in hits if hit.page_id not in self.more and hit.packet_id not in self._passed_over]
        fresh = {hit.page_id: hit for hit in reversed(wanted)}
        pages = {page.page_id: page for page in await self._stored(list(dict.fromkeys(hit.page_id for hit in wanted)))}
        telling = {page_id: page for page_id, page in pages.items() if not _echoes(page, question)}
        weighed = weigh([fresh[page_id] for page_id in telling], telling, {}, self._trail.terms)
        by_page = {item.page.page_id: item for item in weighed}
        self.more |= {page_id: by_page[page_id] for page_id in telling}

    async def _stored(self, page_ids: list[str]) -> list[Page]:
        """Those that are still there."""
        try:
            return await self._archive.pages(page_ids, self._call) if page_ids else []
        except NotFound as error:  # a packet was deleted in between
            _log.info("planned_pages_gone", reason=error.message)
            return []

    # ----------------------------------------------------------------------------------------------------- reflection

    async def judge(
        self, parameters: SearchParameters, selected: Sequence[Evidence], by_rules: ReflectionResult
    ) -> ReflectionResult:
        """The rules' judgement with the model's: enough is what the model says of relevant evidence, the confidence is
        the lower one, and what is missing is named by the model."""
        self._alone = not by_rules.is_relevant
        if self._alone and (not self.more or strangers(parameters, self._trail.terms)):
            return by_rules
        pages = self._context(parameters, selected)
        if not pages:
            return by_rules
        prompt = reflection_prompt(parameters.text, pages)
        said = await self._asking.ask(REFLECTION, prompt, Reflection, lambda _items: reflection_schema())
        if said is None:
            return by_rules
        enough = said.is_sufficient and (not self._alone or said.confidence >= MEDIUM_FROM)
        self._wanting = not enough
        self._queries = [] if enough else self._new_queries(said.refinement_suggestions)
        self._searched.update(self._queries)
        missing = tuple(dict.fromkeys(shown(aspect) for aspect in said.missing_aspects))
        judged = self._of_its_own(parameters) if self._alone and enough else by_rules
        return msgspec.structs.replace(
            judged,
            is_sufficient=enough,
            confidence=min(judged.confidence, said.confidence),
            missing_aspects=() if enough else (missing or by_rules.missing_aspects),
            refinement_suggestions=(*(SEARCH + query for query in self._queries), *by_rules.refinement_suggestions),
        )

    def _new_queries(self, suggestions: Sequence[str]) -> list[str]:
        queries = [query for one in suggestions if (query := _query(one))]
        return [query for query in dict.fromkeys(queries) if query not in self._searched]

    def _of_its_own(self, parameters: SearchParameters) -> ReflectionResult:
        """How the rules measure what the model's searches brought, which the model alone holds relevant.

        Nearness in meaning does not count: it is that to what was searched for, and not to the question.
        """
        own = [msgspec.structs.replace(item, cosine=None) for item in self.more.values()]
        measured = evaluate_sufficiency(parameters, self._trail.terms, own, own)
        confidence = min(DOUBTFUL_CAP, measured.confidence)
        return msgspec.structs.replace(measured, is_relevant=True, confidence=confidence)

    def _context(self, parameters: SearchParameters, selected: Sequence[Evidence]) -> list[Page]:
        """What the rules would quote, what the model searched for, and the next best pages that were found; but a
        question for the first or the last time is about what the rules have selected, and where they hold all of that
        irrelevant, only what the model searched for is left."""
        more = list(self.more.values())
        if self._alone:
            return context_pages((), more, self._most)
        in_order = parameters.order != "relevance"
        others = [] if in_order else [item for item in self._trail.evidence if item.relevance >= LOW_FLOOR]
        return context_pages(selected, more, self._most, others)

    def settled(self, state: IntegrationState, reflection: ReflectionResult) -> IntegrationState:
        """Its own pages were read too, and what it finds missing is open."""
        used = dict.fromkeys((*state.used_pages, *self.more))
        judged = left_open(state, reflection.missing_aspects, enough=reflection.is_sufficient)
        return msgspec.structs.replace(judged, used_pages=tuple(used))

    def next(self, attempt: Attempt, reflection: ReflectionResult, by_rules: Attempt | None) -> Attempt | None:
        """The rules' next attempt, or the same one again when only the model has something new to search for."""
        if not self._queries or reflection.is_sufficient:
            return by_rules
        following = by_rules or attempt
        return msgspec.structs.replace(following, done=(*following.done, SEARCH + "; ".join(self._queries)))

    # ------------------------------------------------------------------------------------------------------ synthesis

    async def draft(self, parameters: SearchParameters, selected: Sequence[Evidence]) -> Draft | None:
        """The model's sentences that their quotes carry; None, and why is told, when there is none.

        It is empty when the model writes nothing after its reflection, too, found the pages wanting.
        """
        passages = [of_page for of_page in passages_of(self._context(parameters, selected)) if of_page]
        if not passages:
            return None

        def schema(shown_items: int) -> dict[str, object]:
            return synthesis_schema([one.label for of_page in passages[:shown_items] for one in of_page])

        prompt = synthesis_prompt(parameters.text, passages)
        said = await self._asking.ask(SYNTHESIS, prompt, Synthesis, schema)
        if said is None:
            return None
        by_label = {one.label: one for of_page in passages for one in of_page}
        if not said.sentences and self._wanting:
            return Draft(statements=(), engine=self._asking.name)
        draft, dropped = carried(said, by_label, parameters, self._asking.name, self._zone)
        if dropped:
            _log.info("sentences_dropped", model=self._asking.name, reasons=dropped)
        if not draft.sentences:
            what = "no sentence" if not said.sentences else f"only sentences that no quote carries ({dropped[0]})"
            self._asking.fall_back(SYNTHESIS, f"{self._asking.name} wrote {what}")
            return None
        known = {item.page.page_id for item in self._trail.evidence}
        more = [item for page_id, item in self.more.items() if page_id not in known]
        self._trail.evidence = [*self._trail.evidence, *more]
        return draft


def _by_turns(found: Sequence[Sequence[Hit]]) -> list[Hit]:
    """The best of each search, then the second of each, and so on."""
    return [hit for hits in zip_longest(*found) for hit in hits if hit is not None]


def _query(suggestion: str) -> str:
    return " ".join(shown(suggestion).split())[:QUERY_CHARACTERS]


def _echoes(page: Page, question: str) -> bool:
    """What a conversation with gaiad adds without telling anything new."""
    return only_quotes(page) or own_words(page) or repeats_question(page, question) or only_asked(page, question)


_USABLE = ("ready", "sleeping")  # a sleeper is woken by the first call


class Thinker:
    """Begins the steps of runs on `mind`, whose calls begin with `identity`. `most` is how many pages it sees, `duties`
    what it may do, by its name.
    """

    def __init__(
        self,
        mind: Mind,
        limits: Limits,
        clock: Clock,
        most: int,
        duties: Callable[[str], frozenset[str] | None],
        identity: str = "",
    ) -> None:
        self._mind = mind
        self._limits = limits
        self._clock = clock
        self._most = most
        self._duties = duties
        self._identity = identity

    def begin(
        self,
        archive: Archive,
        call: RequestContext,
        trail: Trail,
        on_event: OnEvent,
        passed_over: Collection[str],
    ) -> Steps:
        """The steps of one run, the rules' own when the model cannot answer from pages; what calls take is added to the
        trail.
        """
        duties = self._duties(self._mind.name)
        if self._mind.kind == "extractive" or (duties is not None and SYNTHESIS.duty not in duties):
            return ByRules()
        status = self._mind.status()
        if status.state not in _USABLE:
            why = f" ({status.reason})" if status.reason else ""
            return ByRules([f"thinking by rules: {self._mind.name} is {status.state}{why}"])

        def tell(name: str, **data: Any) -> None:
            on_event(name, data)

        asking = RunCalls(self._mind, self._limits, self._clock, call, trail.spent, tell, duties, self._identity)
        return ByModel(asking, archive, call, trail, self._clock.zone, self._most, passed_over)


# What each step says to a model: the seed's prompts (prompts/text), with retrieved text as fenced data between.


def planning_prompt(question: str, found: Sequence[Evidence], memos: Sequence[str]) -> Prompt:
    """JIT's plan from the request and the memos of what was found first."""
    items = [shown_memo(item.page, memo) for item, memo in zip(found, memos, strict=True)]
    known = _HERE if items else "none: no page has the words of the question"
    return _prompt("judge_research_planning", PlanningWords(user_query=_plain(question), known_pages=known), items)


def reflection_prompt(question: str, pages: Sequence[Page]) -> Prompt:
    """GAM 4's reflection on the pages."""
    words = ReflectionWords(user_query=_plain(question), formatted_contexts=_HERE)
    return _prompt("judge_research_reflection", words, [shown_plain(page) for page in pages])


def synthesis_prompt(question: str, passages: Sequence[Sequence[Passage]]) -> Prompt:
    """GAM 5's synthesis of the pages, whose passages have labels."""
    words = SynthesisWords(user_query=_plain(question), formatted_contexts_with_citations=_HERE)
    prompt = _prompt("judge_research_synthesis", words, [shown_with_labels(of_page) for of_page in passages])
    return Prompt(
        system=prompt.system,
        before=prompt.before,
        items=prompt.items,
        after=f"{prompt.after.rstrip()}\n\n{load_prompt('research_synthesis_form').body.strip()}",
    )


def _plain(question: str) -> str:
    return question.replace("\x00", " ")


def _prompt(role: str, words: Words, items: list[list[Segment]]) -> Prompt:
    before, _, after = fill(words).partition(_HERE)
    texts = (load_prompt(role).body, load_prompt("quoted_memory").body)
    return Prompt(system="\n\n".join(text.strip() for text in texts), before=before, items=items, after=after)
