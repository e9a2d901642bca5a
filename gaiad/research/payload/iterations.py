"""The iterations of a run: what each searched, found, compared and learned, and how complete it left the run. Pure."""

from collections.abc import Mapping, Sequence
from datetime import tzinfo
from typing import Any

import msgspec
from msgspec import UNSET

from gaiad.base.clock import to_iso
from gaiad.research.answer import tokens_of
from gaiad.research.evidence import names_subject
from gaiad.research.payload.comparing import Compared
from gaiad.research.payload.material import Fact, Material
from gaiad.research.payload.sources import Lessons
from gaiad.research.query import Kind
from gaiad.research.trail import Round, Search, Trail, question_on
from gaiad.wire.research import (
    Activity,
    Comparison,
    CompletenessAssessment,
    CompletenessCriteria,
    IterationRecord,
    RunAccount,
)
from gaiad.wire.schemas import PacketFilter, SearchRequest


def account_of(trail: Trail) -> RunAccount:
    """The account of a run at its end."""
    result = trail.result
    citations = result.citations if result else []
    seconds = (trail.ended_at - trail.started_at).total_seconds()
    return RunAccount(
        rounds=len(trail.rounds),
        searches=len(trail.searches),
        pages_found=len(trail.evidence),
        pages_quoted=len({citation.page_id for citation in citations}),
        packets_cited=len({citation.packet_id for citation in citations}),
        model_calls=trail.spent.calls,
        prompt_tokens=trail.spent.prompt_tokens,
        reply_tokens=trail.spent.reply_tokens,
        answer_tokens=tokens_of(result.answer) if result else 0,
        took_ms=result.took_ms if result else round(max(0.0, seconds) * 1000, 3),
    )


def activities(searches: Sequence[Search], sources: Sequence[Material]) -> list[Activity]:
    """In the order in which the searches began."""
    taken: set[str] = set()
    found = []
    for number, search in enumerate(searches, start=1):
        created = [one for one in sources if one.packet_id in search.packet_ids and one.packet_id not in taken]
        taken |= {one.packet_id for one in created}
        found.append(_activity(number, search, [one.source_id for one in created]))
    return found


def _activity(number: int, search: Search, created: list[str]) -> Activity:
    return Activity(
        activity_id=f"act_{number:03}",
        activity_type="storage_search",
        description=_described(search),
        tool=search.tool,
        parameters=_given(search.request),
        started_at=to_iso(search.started_at),
        completed_at=to_iso(search.completed_at),
        success=not search.error,
        result_summary=_found_in_words(search, len(created)),
        sources_created=created,
        error_message=search.error or UNSET,
    )


def _described(search: Search) -> str:
    if isinstance(search.request, PacketFilter):
        return "List the packets that the filters let through"
    if search.request.mode == "page_id":
        return f"Look up by their ids the pages {', '.join(search.request.page_ids)}"
    order = {"relevance": "", "earliest": ", earliest first", "latest": ", latest first"}[search.request.order]
    return f'Search the pages for "{search.request.query}" ({search.request.mode}{order})'


def _found_in_words(search: Search, sources: int) -> str:
    if search.error:
        return "It failed."
    if isinstance(search.request, PacketFilter):
        return f"Packets: {search.hits}, new sources: {sources}"
    return f"Pages: {search.hits}, of packets: {len(search.packet_ids)}, new sources: {sources}"


def _given(request: SearchRequest | PacketFilter) -> dict[str, Any]:
    """What of the request differs from its defaults."""
    values: dict[str, Any] = msgspec.to_builtins(request)
    usual: dict[str, Any] = msgspec.to_builtins(type(request)())
    return {name: _changed(value, usual[name]) for name, value in values.items() if value != usual[name]}


def _changed(value: Any, usual: Any) -> Any:
    if isinstance(value, dict) and isinstance(usual, dict):
        return {name: one for name, one in value.items() if one != usual.get(name)}
    return value


WANTED: dict[Kind, int] = {"factual": 2, "conceptual": 3, "evolution": 3, "comparative": 4, "listing": 1}
DIVERSE = 3
WEIGHTS = {
    "questions_answered": 0.35,
    "source_diversity": 0.05,
    "source_quantity": 0.1,
    "contradictions_resolved": 0.1,
    "fact_corroboration": 0.1,
    "confidence_in_findings": 0.3,
}


def measure(
    *,
    answered: float,
    kind: Kind,
    sources: Sequence[Material],
    facts: Sequence[Fact],
    pairs: Sequence[Compared],
    confidence: float,
) -> CompletenessCriteria:
    """The six, of what there was at the time."""
    makers = {(one.packet.summary.model, one.packet.summary.session_id, one.packet.summary.dialect) for one in sources}
    agreed = {fact.fact_id for pair in pairs for held in pair.of_kind("agreement") for fact in (held.one, held.other)}
    return CompletenessCriteria(
        questions_answered=_score(answered),
        source_diversity=_score(len(makers) / DIVERSE),
        source_quantity=_score(len(sources) / WANTED[kind]),
        contradictions_resolved=0.0 if any(pair.type == "contradiction" for pair in pairs) else 1.0,
        fact_corroboration=_score(len(agreed) / len(facts)) if facts else 0.0,
        confidence_in_findings=_score(confidence),
    )


def completeness(criteria: CompletenessCriteria) -> float:
    """The weighted mean, 0 when nothing was found at all."""
    if not criteria.source_quantity:
        return 0.0
    values = msgspec.structs.asdict(criteria)
    return _score(sum(weight * values[name] for name, weight in WEIGHTS.items()))


def _score(value: float) -> float:
    return round(min(1.0, max(0.0, value)), 3)


class Ground(msgspec.Struct, frozen=True, kw_only=True):
    """What the records of a run are made of: sources, their facts, the pairs compared, and these as records. Days are
    those of `zone`."""

    trail: Trail
    sources: list[Material]
    facts: Mapping[str, Sequence[Fact]]
    pairs: list[Compared]
    comparisons: list[Comparison]
    questions: list[str]
    zone: tzinfo


def iteration_records(ground: Ground) -> list[IterationRecord]:
    """One for each round."""
    trail = ground.trail
    done = activities(trail.searches, ground.sources)
    lessons = Lessons(ground.facts, degraded=bool(trail.result and trail.result.degraded))
    records: list[IterationRecord] = []
    answered: set[str] = set()
    known_gaps: set[str] = set()
    for number, one in enumerate(trail.rounds, start=1):
        gaps = _gaps(trail, one)
        fresh = [gap for gap in gaps if gap not in known_gaps]
        known_gaps |= set(gaps)
        now = [question for question in _answered(ground, one) if question not in answered]
        answered |= set(now)
        new = [source for source in ground.sources if source.iteration == number]
        mine = [index for index, pair in enumerate(ground.pairs) if pair.iteration == number]
        records.append(
            IterationRecord(
                iteration_number=number,
                started_at=to_iso(one.started_at),
                completed_at=to_iso(one.completed_at),
                duration_seconds=_seconds(one),
                activities_performed=[
                    record for record, search in zip(done, trail.searches, strict=True) if search.iteration == number
                ],
                learnings=lessons.of(number, new, [ground.pairs[index] for index in mine], fresh),
                sources_gathered=[source.source_id for source in new],
                comparisons_performed=[ground.comparisons[index].comparison_id for index in mine],
                questions_answered=now,
                new_questions_raised=[question_on(gap) for gap in fresh],
                completeness_assessment=_assessment(ground, one, gaps, answered),
                next_steps=_next_steps(trail, number),
                summary=_summary(one, len(new), len(mine)),
            )
        )
    return records


def _seconds(one: Round) -> float:
    """Of the wall clock, which may be set back meanwhile."""
    return round(max(0.0, (one.completed_at - one.started_at).total_seconds()), 3)


def _is_last(trail: Trail, one: Round) -> bool:
    return one.number == len(trail.rounds)


def _gaps(trail: Trail, one: Round) -> list[str]:
    """What the round found missing; the last one also what the answer says is."""
    gaps = list(one.reflection.missing_aspects) if one.reflection and not one.reflection.is_sufficient else []
    result = trail.result if _is_last(trail, one) else None
    if result:
        gaps += result.missing_aspects
        if result.status == "NOT_FOUND" and not gaps:
            gaps.append(f"an answer to: {trail.request.query}")
    return list(dict.fromkeys(gaps))


def _answered(ground: Ground, one: Round) -> list[str]:
    """The research questions that this round answers; the first is the question itself, and what it holds is answered
    with it."""
    trail = ground.trail
    result = trail.result if _is_last(trail, one) else None
    whole = result.status == "SUCCESS" if result else bool(one.reflection and one.reflection.is_sufficient)
    subjects = trail.parameters.subjects if trail.parameters else ()
    found = (ground.questions[:1] if subjects else list(ground.questions)) if whole else []
    for subject, question in zip(subjects, ground.questions[1:], strict=False):
        if any(names_subject(item, subject) for item in one.selected):
            found.append(question)
    return found


def _assessment(ground: Ground, one: Round, gaps: list[str], answered: set[str]) -> CompletenessAssessment:
    trail = ground.trail
    result = trail.result if _is_last(trail, one) else None
    confidence = result.confidence if result else one.reflection.confidence if one.reflection else 0.0
    sources = [source for source in ground.sources if source.iteration <= one.number]
    criteria = measure(
        answered=_share_answered(ground, one, answered),
        kind=trail.parameters.kind if trail.parameters else "factual",
        sources=sources,
        facts=[fact for source in sources for fact in ground.facts[source.source_id]],
        pairs=[pair for pair in ground.pairs if pair.iteration <= one.number],
        confidence=confidence,
    )
    complete = result.status == "SUCCESS" if result else bool(one.reflection and one.reflection.is_sufficient)
    return CompletenessAssessment(
        is_complete=complete,
        completeness_score=completeness(criteria),
        reasoning=_reasoning(one, complete),
        gaps_identified=gaps,
        confidence_level=confidence,
        criteria_evaluated=criteria,
    )


def _share_answered(ground: Ground, one: Round, answered: set[str]) -> float:
    whole = ground.questions[0]
    partly = one.reflection.coverage if one.reflection and whole not in answered else 0.0
    return (len(answered) + min(1.0, partly)) / len(ground.questions)


def _reasoning(one: Round, complete: bool) -> str:
    verdict = "What was found suffices" if complete else "What was found does not suffice"
    if one.reflection is None:
        return f"{verdict}."
    judged = one.reflection
    return (
        f"{verdict}: coverage {judged.coverage:.2f}, specificity {judged.specificity:.2f}, "
        f"temporality {judged.temporality:.2f}, completeness {judged.completeness:.2f}."
    )


def _next_steps(trail: Trail, number: int) -> str:
    if number < len(trail.rounds):
        following = trail.rounds[number]
        return f"Search again: {'; '.join(following.refinements[-1:]) or following.query}."
    if trail.status != "complete":
        return f"None: the run was {trail.status} ({trail.error})."
    return "None: the run is at its end."


def _summary(one: Round, sources: int, comparisons: int) -> str:
    tried = f" ({'; '.join(one.refinements)})" if one.refinements else ""
    return (
        f'Searched for "{one.query}"{tried}: {sources} new sources, {comparisons} comparisons, '
        f"{len(one.selected)} pages to answer from."
    )
