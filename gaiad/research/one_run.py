"""One question on its way (GAM 6, JIT): plan, search, integrate, reflect, refine, until it is enough or at its end.

sufficient evidence          -> SUCCESS
limit, or nothing new to try -> PARTIAL when something relevant was found, else NOT_FOUND
nothing to look up           -> CLARIFY
"""

import functools
from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import Any

import msgspec

from gaiad.base.clock import Clock, moment_of
from gaiad.base.config import ResearchConfig
from gaiad.base.errors import BadInput
from gaiad.base.events import OnEvent
from gaiad.base.logs import span
from gaiad.base.ports import Archive, RequestContext
from gaiad.research import answer as ends
from gaiad.research.answer import (
    ENGINE,
    Answer,
    clarify_answer,
    first_packets,
    found_answer,
    listing_answer,
    not_found_answer,
    within,
)
from gaiad.research.answering import Answerer
from gaiad.research.choosing import Chooser, Chosen, asks_what_was_done
from gaiad.research.evidence import Evidence, Term, make_terms
from gaiad.research.gather import Pool
from gaiad.research.listing import list_matching, period_gap
from gaiad.research.query import SearchParameters, process_query
from gaiad.research.refine import Attempt, first_attempt, refine, search_requests
from gaiad.research.reflect import ReflectionResult
from gaiad.research.responses import reply_to
from gaiad.research.scoring import words_asked
from gaiad.research.sentences import Statement, confirmed
from gaiad.research.several import ParsedQuestion, read_questions
from gaiad.research.synthesis import compose, list_packets
from gaiad.research.thinking.steps import ByRules, Draft, Steps
from gaiad.research.thinking.support import composed
from gaiad.research.trail import IntegrationState, Trail, actions_of, integrate
from gaiad.wire.schemas import Facets, ResearchRequest

QUERY_MAX_CHARS = 4000


def must_be_askable(request: ResearchRequest, clock: Clock) -> None:
    """Raise BadInput for an empty or too long question, or a bad `now`."""
    if not request.query.strip():
        raise BadInput('the question is empty; ask one, for example: gaiad ask "What did we discuss last week?"')
    if len(request.query) > QUERY_MAX_CHARS:
        raise BadInput(f"the question has {len(request.query)} characters; ask in at most {QUERY_MAX_CHARS}")
    asked_at(request, clock)


def asked_at(request: ResearchRequest, clock: Clock) -> datetime:
    """The moment that "last week" is counted from: the request's, or the present. Raises BadInput."""
    if not request.now:
        return clock.now()
    try:
        now = datetime.fromisoformat(request.now)
    except ValueError as error:
        raise BadInput(f"now = {request.now!r}: write it as ISO 8601, 2025-12-15T12:00:00Z") from error
    return now if now.tzinfo else now.replace(tzinfo=clock.zone)


Listens = Callable[[], bool]


class Partials:
    """Those of one run. `tell(name, data)` hears the event `partial`; `listens` is asked after every round."""

    def __init__(self, archive: Archive, call: RequestContext, tell: OnEvent, listens: Listens) -> None:
        self._archive = archive
        self._call = call
        self._tell = tell
        self._listens = listens
        self._confidence = 0.0
        self._text = ""
        self._pages: tuple[str, ...] = ()

    async def offer(
        self,
        statements: Sequence[Statement],
        state: IntegrationState,
        reflection: ReflectionResult,
        iteration: int,
    ) -> None:
        """Tell the answer as it would be after this round, if it is relevant, new, and as sure as the last one.

        Nothing is told of it while one of its quotes is not confirmed.
        """
        if not reflection.is_relevant or reflection.confidence < self._confidence or not self._listens():
            return
        if state.used_pages == self._pages:
            return
        self._pages = state.used_pages
        citations = await confirmed(self._archive, [one.citation for one in statements], self._call)
        text = state.briefing_draft if len(citations) == len(statements) else ""
        if not text or text == self._text:
            return
        self._confidence, self._text = reflection.confidence, text
        self._tell(
            "partial",
            {
                "iteration": iteration,
                "answer": text,
                "confidence": round(reflection.confidence, 2),
                "packets": list(dict.fromkeys(one.packet_id for one in citations)),
                "missing": list(reflection.missing_aspects),
                "citations": citations,
            },
        )


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """What a round came to. Without `statements` no quote of `selected` may answer: the rules hold it irrelevant."""

    selected: list[Evidence]
    statements: list[Statement]
    reflection: ReflectionResult
    near: tuple[Statement, ...] = ()


class RunOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What the loop ended with; `refinements` names every change of the search, in order."""

    last: Judged
    iterations: int
    refinements: tuple[str, ...]
    degraded: tuple[str, ...]


class Run:
    """Made for one question; `answer` is asked once."""

    def __init__(
        self,
        archive: Archive,
        clock: Clock,
        config: ResearchConfig,
        request: ResearchRequest,
        call: RequestContext,
        on_event: OnEvent,
        passed_over: Collection[str],
        trail: Trail,
        steps: Steps,
        partials: Partials,
        answerer: Answerer,
    ) -> None:
        self._trail = trail
        self._archive = archive
        self._clock = clock
        self._config = config
        self._request = request
        self._call = call
        self._on_event = on_event
        self._passed_over = passed_over
        self._steps = steps
        self._partials = partials
        self._answerer = answerer
        self._state = IntegrationState()
        self.max_iterations = config.max_iterations

    async def answer(self) -> Answer:
        """Raises BadInput for a bad `now`, Cancelled, DeadlineExceeded, and what the archive raises."""
        with span("researcher.plan"):
            facets = await self._archive.facets(self._call)
            now, zone = asked_at(self._request, self._clock), self._clock.zone
            parameters = process_query(self._request.query, facets, now, zone)
            self._trail.understood(parameters)
            if parameters.ambiguous or reply_to(self._request.query):
                return clarify_answer(parameters, facets.topics)
            held = read_questions(parameters, functools.partial(process_query, facets=facets, now=now, zone=zone))
            words = [word for each in (parameters, *(one for _, one in held)) for word in each.keywords]
            words += words_asked(parameters.text)
            frequencies = await self._archive.document_frequency(list(dict.fromkeys(words)), self._call)
        self._trail.terms = terms = make_terms(parameters, frequencies, facets.pages)
        each = [ParsedQuestion.of(put, one, make_terms(one, frequencies, facets.pages)) for put, one in held]
        self._chooser = Chooser(self._config, self._answerer, frequencies, facets.pages, each)
        if held:
            parameters = msgspec.structs.replace(parameters, order="relevance")
        if parameters.kind == "listing":
            return await self._list(parameters, terms, facets)
        if not facets.packets:
            self._steps = ByRules()  # there is nothing to think about
        found = await self._loop(parameters, terms)
        if not found.last.reflection.is_relevant:
            return await self._not_found(parameters, found, facets)
        self._tell("synthesizing", packets=_packet_ids(found.last.selected))
        return await self._synthesize(parameters, found, facets)

    # ------------------------------------------------------------------------------------------------------- the loop

    async def _loop(self, parameters: SearchParameters, terms: Sequence[Term]) -> RunOutcome:
        pool = Pool(self._archive, self._call, terms, parameters.text, self._trail, self._passed_over)
        attempt: Attempt | None = self._chooser.searched(first_attempt(parameters, self._request.filters))
        iteration = 0
        while attempt is not None:
            iteration += 1
            last = attempt
            judged = await self._round(parameters, terms, attempt, pool, iteration)
            if judged.reflection.is_sufficient or iteration == self.max_iterations:
                break
            with span("researcher.plan", iteration=iteration + 1):
                refined = refine(attempt, judged.reflection, self._config.expand_days)
                attempt = self._steps.next(attempt, judged.reflection, refined)
            if attempt is not None:
                await self._partials.offer(judged.statements, self._state, judged.reflection, iteration)
        degraded = (*pool.degraded, *self._steps.degraded)
        return RunOutcome(last=judged, iterations=iteration, refinements=last.done, degraded=degraded)

    async def _round(
        self, parameters: SearchParameters, terms: Sequence[Term], attempt: Attempt, pool: Pool, iteration: int
    ) -> Judged:
        """Plan, search, integrate and reflect once."""
        self._trail.begin_round(attempt.query, attempt.done)
        self._call.check(self._clock.monotonic())
        self._tell("searching", iteration=iteration, query=attempt.query, refinements=list(attempt.done))
        asked = search_requests(attempt, self._call.tenant)
        plan = actions_of(asked)
        self._trail.planned(plan)
        self._tell("planned", iteration=iteration, by="rules", actions=msgspec.to_builtins(plan))
        new = await pool.search(asked, attempt.beside)
        new += await self._steps.look(parameters, asked, pool.evidence, by_meaning=not pool.degraded)
        chosen = await self._chooser.choose(parameters, terms, pool, attempt.floor)
        self._tell("found", iteration=iteration, new_pages=new, packets=_packet_ids(chosen.selected))
        self._trail.evidence = pool.ranked
        return await self._judged(parameters, chosen, iteration)

    async def _judged(self, parameters: SearchParameters, chosen: Chosen, iteration: int) -> Judged:
        with span("researcher.reflect", iteration=iteration) as counts:
            used = [item.page.page_id for item in chosen.relevant]
            draft = compose(parameters, chosen.statements, self._clock.zone) if chosen.statements else ""
            self._state = integrate(self._state, draft, chosen.statements, used)
            reflection = await self._steps.judge(parameters, chosen.selected, chosen.by_rules)
            counts["sufficient"] = reflection.is_sufficient
        self._state = self._steps.settled(self._state, reflection)
        self._trail.end_round(chosen.selected, reflection, self._state)
        self._tell("integrated", iteration=iteration, **msgspec.to_builtins(self._state))
        self._tell(
            "reflected",
            iteration=iteration,
            sufficient=reflection.is_sufficient,
            confidence=round(reflection.confidence if reflection.is_relevant else 0.0, 2),
            missing=list(reflection.missing_aspects),
        )
        return Judged(selected=chosen.relevant, statements=chosen.statements, reflection=reflection, near=chosen.near)

    # ------------------------------------------------------------------------------------------------------- the ends

    async def _not_found(self, parameters: SearchParameters, found: RunOutcome, facets: Facets) -> Answer:
        near = (await self._standing(Draft(statements=found.last.near))).statements
        missing = found.last.reflection.missing_aspects if facets.packets else ("any packet: the archive is empty",)
        missing = period_gap(parameters, facets, self._clock.zone) if _nothing_of_then(parameters, facets) else missing
        of_then = await self._packets_of_then(parameters) if asks_what_was_done(parameters) else ""
        return not_found_answer(
            parameters,
            found.iterations,
            found.refinements,
            missing,
            found.degraded,
            near,
            empty=not facets.packets,
            of_then=of_then,
        )

    async def _packets_of_then(self, parameters: SearchParameters) -> str:
        """The packets of the period asked about, "" for none."""
        whole = msgspec.structs.replace(parameters, kind="listing", keywords=())
        listing = await list_matching(
            self._archive, whole, self._request.filters, (), self._call, self._trail, self._passed_over
        )
        verified = await confirmed(self._archive, list(listing.leads.values()), self._call)
        leads = {citation.packet_id: citation for citation in verified}
        return list_packets(listing, leads, self._clock.zone) if listing.packets else ""

    async def _synthesize(self, parameters: SearchParameters, found: RunOutcome, facets: Facets) -> Answer:
        quotes = Draft(statements=tuple(found.last.statements))
        draft = await self._steps.draft(parameters, found.last.selected) or quotes
        standing = await self._standing(draft)
        degraded = (*found.degraded, *(one for one in self._steps.degraded if one not in found.degraded))
        if draft.engine and draft.statements and not standing.statements:
            degraded = (*degraded, f"synthesis by rules: no citation of {draft.engine} verified")
            draft, standing = quotes, await self._standing(quotes)
        self._call.check(self._clock.monotonic())
        found = msgspec.structs.replace(found, degraded=degraded)
        if not standing.statements:
            return await self._not_found(parameters, found, facets)
        sources = await self._archive.packet_summaries(_cited(standing.statements), self._call)
        by_id = {source.packet_id: source for source in sources}
        lost = len(draft.statements) - len(standing.statements)

        def of_parts(kept: int) -> Answer:
            part = standing.first(kept)
            return found_answer(
                parameters,
                part.statements,
                lost,
                [by_id[packet_id] for packet_id in _cited(part.statements) if packet_id in by_id],
                self._cut(found.last.reflection, standing.parts - kept),
                found.iterations,
                found.iterations == self.max_iterations,
                found.refinements,
                degraded,
                self._clock.zone,
                written=composed(parameters, part.sentences, self._clock.zone),
                engine=part.engine or ENGINE,
                unsupported=part.unsupported,
            )

        answer = within(self._request.max_output_tokens, standing.parts, of_parts)
        if found.last.selected:
            return answer
        alone = f"No page of it has the words of the question: {answer.engine} found it by searches of its own."
        return msgspec.structs.replace(answer, notes=(alone, *answer.notes))

    def _cut(self, reflection: ReflectionResult, left_out: int) -> ReflectionResult:
        """What is left out for the sake of `max_output_tokens` is missing."""
        if not left_out:
            return reflection
        what = f"{left_out} more quotes (max_output_tokens = {self._request.max_output_tokens})"
        missing = (*reflection.missing_aspects, what)
        return msgspec.structs.replace(reflection, is_sufficient=False, missing_aspects=missing)

    async def _standing(self, draft: Draft) -> Draft:
        citations = [statement.citation for statement in draft.statements]
        return draft.standing(await confirmed(self._archive, citations, self._call))

    async def _list(self, parameters: SearchParameters, terms: Sequence[Term], facets: Facets) -> Answer:
        self._trail.begin_round(parameters.search_text)
        self._tell("searching", iteration=1, query=parameters.search_text, refinements=[])
        with span("researcher.search", searches=1):
            listing = await list_matching(
                self._archive, parameters, self._request.filters, terms, self._call, self._trail, self._passed_over
            )
        self._trail.listed = listing.packets
        self._trail.end_round([], None)
        self._tell("found", iteration=1, packets=[packet.packet_id for packet in listing.packets])
        self._call.check(self._clock.monotonic())
        if not listing.packets:
            missing = ends.no_such_models(parameters) or period_gap(parameters, facets, self._clock.zone)
            return not_found_answer(parameters, 1, (), missing, listing.degraded, empty=not facets.packets)
        verified = await confirmed(self._archive, list(listing.leads.values()), self._call)

        def of_packets(kept: int) -> Answer:
            shorter = first_packets(listing, kept)
            return listing_answer(
                parameters, shorter, [one for one in verified if one.packet_id in shorter.leads], self._clock.zone
            )

        return within(self._request.max_output_tokens, len(listing.packets), of_packets)

    def _tell(self, name: str, **data: Any) -> None:
        self._on_event(name, data)


def _nothing_of_then(parameters: SearchParameters, facets: Facets) -> bool:
    """Whether the question names a period that lies before or after all that the archive holds."""
    if not facets.first:
        return False
    before = parameters.until is not None and parameters.until <= moment_of(facets.first)
    return before or (parameters.since is not None and parameters.since > moment_of(facets.last))


def _packet_ids(evidence: Sequence[Evidence]) -> list[str]:
    return list(dict.fromkeys(item.page.packet_id for item in evidence))


def _cited(statements: Sequence[Statement]) -> list[str]:
    return list(dict.fromkeys(statement.citation.packet_id for statement in statements))
