"""The iteration controller (GAM 6): search, reflect, refine, at most `max_iterations` times, then a checked answer.

sufficient evidence          -> SUCCESS
limit, or nothing new to try -> PARTIAL when something relevant was found, else NOT_FOUND
nothing to look up           -> CLARIFY
"""

import asyncio
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

import msgspec

from gaiad.clock import Clock
from gaiad.config import ResearchConfig
from gaiad.errors import BadInput, GaiadError
from gaiad.ports import Archive, Call
from gaiad.research import answer as ends
from gaiad.research.answer import ENGINE, Answer, clarify_answer, found_answer, listing_answer, not_found_answer
from gaiad.research.citations import confirmed
from gaiad.research.evidence import Evidence, Term, lookup_words, make_terms
from gaiad.research.gather import Pool
from gaiad.research.landmarks import landmark_periods
from gaiad.research.listing import list_matching
from gaiad.research.partial import Listens, Partials
from gaiad.research.query import SearchParameters, process_query
from gaiad.research.recording import Recorder, keep_broken_off, kept
from gaiad.research.refine import Attempt, first_attempt, refine, search_requests
from gaiad.research.reflect import ReflectionResult, evaluate_sufficiency
from gaiad.research.selection import select
from gaiad.research.synthesis import Statement, plan_statements
from gaiad.research.thinking.steps import ByRules, Draft, Steps
from gaiad.research.thinking.thinker import Thinker
from gaiad.research.thinking.writing import composed
from gaiad.research.trail import Trail
from gaiad.run_events import OnEvent
from gaiad.schemas import Facets, ResearchRequest, ResearchResult
from gaiad.tracing import span

QUERY_MAX_CHARS = 4000


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What the loop ended with; `refinements` names every change of the search, in order."""

    selected: list[Evidence]
    reflection: ReflectionResult
    iterations: int
    refinements: tuple[str, ...]
    degraded: tuple[str, ...]


def _nobody() -> bool:
    return False


class Researcher:
    """Answers questions from one archive by quoting it; holds no state between questions. `recorder` keeps the runs."""

    def __init__(
        self, archive: Archive, clock: Clock, config: ResearchConfig, recorder: Recorder | None = None
    ) -> None:
        self._archive = archive
        self._clock = clock
        self._config = config
        self._recorder = recorder

    def use_config(self, config: ResearchConfig) -> None:
        """From the next run on."""
        self._config = config

    async def research(
        self,
        request: ResearchRequest,
        call: Call,
        on_event: OnEvent | None = None,
        passed_over: Collection[str] = frozenset(),
        *,
        keep: bool = True,
        research_id: str = "",
        goes_on: bool = False,
        listens: Listens = _nobody,
        thinker: Thinker | None = None,
    ) -> ResearchResult:
        """Research one question. `on_event(name, data)` hears searching, found, reflected, synthesizing.

        While `listens()` it hears `partial` too: after a round that is not the last, the best answer so far.

        `passed_over` are packet ids that whoever asks has before him anyway: they are no evidence, nor do they take
        the place of any. With `keep` false nothing of the run is kept; `research_id` is the id it is kept by, "" for a
        new one. A run that `goes_on` leaves nothing behind when its task is cancelled: it will be run again.
        With a `thinker` its model plans, reflects and writes; without one the rules do.

        Raises BadInput for an empty or too long question or a bad `now`, Cancelled, DeadlineExceeded, and what the
        archive raises.
        """
        started = self._clock.monotonic()
        if not request.query.strip():
            raise BadInput('the question is empty; ask one, for example: gaiad ask "What did we discuss last week?"')
        if len(request.query) > QUERY_MAX_CHARS:
            raise BadInput(f"the question has {len(request.query)} characters; ask in at most {QUERY_MAX_CHARS}")
        recorder = self._recorder if keep else None
        trail = Trail((research_id or recorder.new_id()) if recorder else "", request, call.tenant, self._clock)
        tell = on_event or _ignore
        steps = ByRules() if thinker is None else thinker.begin(self._archive, call, trail, tell, passed_over)
        partials = Partials(self._archive, call, self._clock.zone, tell, listens)
        run = _Run(self._archive, self._clock, self._config, request, call, tell, passed_over, trail, steps, partials)
        try:
            answer = await run.answer()
        except (asyncio.CancelledError, GaiadError) as error:
            await keep_broken_off(recorder, trail, error, call, goes_on=goes_on)
            raise
        took_ms = round((self._clock.monotonic() - started) * 1000, 3)
        return await kept(recorder, trail, answer.result(run.max_iterations, took_ms), call)


def _ignore(_name: str, _data: dict[str, Any]) -> None:
    """For callers that do not listen."""


class _Run:
    """One question on its way."""

    def __init__(
        self,
        archive: Archive,
        clock: Clock,
        config: ResearchConfig,
        request: ResearchRequest,
        call: Call,
        on_event: OnEvent,
        passed_over: Collection[str],
        trail: Trail,
        steps: Steps,
        partials: Partials,
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
        cap = config.max_iterations
        self.max_iterations = min(request.max_iterations, cap) if request.max_iterations > 0 else cap

    async def answer(self) -> Answer:
        with span("researcher.plan"):
            facets = await self._archive.facets(self._call)
            landmarks = await landmark_periods(self._archive, self._request.query, facets, self._call)
            parameters = process_query(self._request.query, facets, self._now(), self._clock.zone, landmarks)
            self._trail.understood(parameters)
            if parameters.ambiguous:
                return clarify_answer(parameters)
            frequencies = await self._archive.document_frequency(lookup_words(parameters), self._call)
        self._trail.terms = terms = make_terms(parameters, frequencies, facets.pages)
        if parameters.kind == "listing":
            return await self._list(parameters, terms, facets)
        found = await self._loop(parameters, terms, frequencies)
        if not found.reflection.is_relevant:
            return not_found_answer(
                parameters,
                found.iterations,
                found.refinements,
                _missing(found, facets),
                found.degraded,
                empty=not facets.packets,
            )
        self._tell("synthesizing", packets=_packet_ids(found.selected))
        return await self._synthesize(parameters, terms, found)

    def _now(self) -> datetime:
        if not self._request.now:
            return self._clock.now()
        try:
            now = datetime.fromisoformat(self._request.now)
        except ValueError as error:
            raise BadInput(f"now = {self._request.now!r}: write it as ISO 8601, 2025-12-15T12:00:00Z") from error
        return now if now.tzinfo else now.replace(tzinfo=self._clock.zone)

    async def _loop(self, parameters: SearchParameters, terms: Sequence[Term], frequencies: dict[str, int]) -> Found:
        pool = Pool(self._archive, self._call, terms, parameters.text, self._trail, self._passed_over)
        attempt: Attempt | None = first_attempt(parameters, self._request.filters)
        iteration = 0
        while attempt is not None:
            iteration += 1
            last = attempt
            self._trail.begin_round(attempt.query, attempt.done)
            self._call.check(self._clock.monotonic())
            self._tell("searching", iteration=iteration, query=attempt.query, refinements=list(attempt.done))
            asked = search_requests(attempt, self._call.tenant)
            new = await pool.search(asked, attempt.beside)
            new += await self._steps.look(parameters, asked, pool.evidence, by_meaning=not pool.degraded)
            config = self._config
            selected = select(
                parameters,
                pool.evidence,
                attempt.floor,
                max_pages=config.max_pages,
                max_packets=config.max_sources,
                threshold=config.citation_threshold,
            )
            self._tell("found", iteration=iteration, new_pages=new, packets=_packet_ids(selected))
            self._trail.evidence = pool.evidence
            with span("researcher.reflect", iteration=iteration) as counts:
                by_rules = evaluate_sufficiency(parameters, terms, selected, pool.by_question)
                reflection = await self._steps.judge(parameters, selected, by_rules)
                counts["sufficient"] = reflection.is_sufficient
            self._trail.end_round(selected, reflection)
            self._tell(
                "reflected",
                iteration=iteration,
                sufficient=reflection.is_sufficient,
                confidence=round(reflection.confidence, 2),
                missing=list(reflection.missing_aspects),
            )
            if reflection.is_sufficient or iteration == self.max_iterations:
                break
            with span("researcher.plan", iteration=iteration + 1):
                refined = refine(attempt, reflection, frequencies, self._config.expand_days, pool.evidence)
                attempt = self._steps.next(attempt, reflection, refined)
            if attempt is not None:
                await self._partials.offer(parameters, terms, selected, reflection, iteration, config.max_pages)
        return Found(
            selected=selected,
            reflection=reflection,
            iterations=iteration,
            refinements=last.done,
            degraded=(*pool.degraded, *self._steps.degraded),
        )

    async def _synthesize(self, parameters: SearchParameters, terms: Sequence[Term], found: Found) -> Answer:
        quotes = Draft(statements=tuple(plan_statements(parameters, found.selected, terms, self._config.max_pages)))
        draft = await self._steps.draft(parameters, found.selected) or quotes
        standing = await self._standing(draft)
        degraded = (*found.degraded, *(one for one in self._steps.degraded if one not in found.degraded))
        if draft.engine and draft.statements and not standing.statements:
            degraded = (*degraded, f"synthesis by rules: no citation of {draft.engine} verified")
            draft, standing = quotes, await self._standing(quotes)
        self._call.check(self._clock.monotonic())
        if not standing.statements:
            return not_found_answer(
                parameters, found.iterations, found.refinements, found.reflection.missing_aspects, degraded
            )
        sources = await self._archive.packet_summaries(_cited(standing.statements), self._call)
        return found_answer(
            parameters,
            standing.statements,
            len(draft.statements) - len(standing.statements),
            sources,
            found.reflection,
            found.iterations,
            found.iterations == self.max_iterations,
            found.refinements,
            degraded,
            self._clock.zone,
            written=composed(parameters, standing.sentences, self._clock.zone),
            engine=standing.engine or ENGINE,
            unsupported=standing.unsupported,
        )

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
            unknown = ends.no_such_models(parameters)
            missing, empty = unknown or _period_gap(parameters, facets), not facets.packets
            return not_found_answer(parameters, 1, (), missing, listing.degraded, empty=empty)
        verified = await confirmed(self._archive, list(listing.leads.values()), self._call)
        return listing_answer(parameters, listing, verified, self._clock.zone)

    def _tell(self, name: str, **data: Any) -> None:
        self._on_event(name, data)


def _packet_ids(evidence: Sequence[Evidence]) -> list[str]:
    return list(dict.fromkeys(item.page.packet_id for item in evidence))


def _cited(statements: Sequence[Statement]) -> list[str]:
    return list(dict.fromkeys(statement.citation.packet_id for statement in statements))


def _missing(found: Found, facets: Facets) -> tuple[str, ...]:
    return found.reflection.missing_aspects if facets.packets else ("any packet: the archive is empty",)


def _period_gap(parameters: SearchParameters, facets: Facets) -> tuple[str, ...]:
    if not parameters.dated or not facets.first:
        return ()
    return (f"packets {parameters.date_text}; the archive holds {facets.first[:10]} to {facets.last[:10]}",)
