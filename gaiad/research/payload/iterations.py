"""The iterations of a run: what each searched, found, compared and learned, and how complete it left the run. Pure."""

from collections.abc import Mapping, Sequence
from datetime import tzinfo

import msgspec

from gaiad.clock import to_iso
from gaiad.payload_schemas import Comparison, CompletenessAssessment, IterationRecord
from gaiad.research.evidence import names_subject
from gaiad.research.integration import question_on
from gaiad.research.payload.activities import activities
from gaiad.research.payload.comparing import Compared
from gaiad.research.payload.criteria import completeness, measure
from gaiad.research.payload.facts import Fact
from gaiad.research.payload.learnings import Lessons
from gaiad.research.payload.material import Material
from gaiad.research.trail import Round, Trail


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
