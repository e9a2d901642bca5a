"""The ends a run can come to, each as an Answer: found (SUCCESS, PARTIAL), a listing, NOT_FOUND, CLARIFY.

Pure. Status, the seed's user responses, notes and confidence are settled here; the loop only says what it found.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import tzinfo
from typing import Any

import msgspec

from gaiad.base.clock import to_iso
from gaiad.research import responses
from gaiad.research.disagreement import find_disagreement
from gaiad.research.evidence import own_words
from gaiad.research.listing import Listing
from gaiad.research.query import SearchParameters
from gaiad.research.reflect import ReflectionResult, band, final, main_reason
from gaiad.research.responses import reply_to, told_once
from gaiad.research.sentences import Statement, shown
from gaiad.research.synthesis import compose, list_packets, quoted
from gaiad.wire.schemas import Citation, PacketSummary, ResearchResult, ResearchStatus

ENGINE = "extractive"


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """A result but for the run's limits and time. `sources` are the packets cited, in the order of the answer;
    `engine` is the model that wrote it."""

    parameters: SearchParameters
    status: ResearchStatus
    text: str
    citations: tuple[Citation, ...] = ()
    sources: tuple[PacketSummary, ...] = ()
    confidence: float = 0.0
    iterations: int = 0
    refinements: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    suggestions: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    degraded: tuple[str, ...] = ()
    engine: str = ENGINE

    def result(self, max_iterations: int, took_ms: float) -> ResearchResult:
        """The answer as it goes on the wire."""
        return ResearchResult(
            status=self.status,
            answer=self.text,
            source_packets=list(dict.fromkeys(citation.packet_id for citation in self.citations)),
            citations=list(self.citations),
            confidence=self.confidence,
            confidence_band=band(self.confidence),
            iterations_used=self.iterations,
            max_iterations=max_iterations,
            note=" ".join(self.notes),
            suggestions=list(self.suggestions),
            engine=self.engine,
            took_ms=took_ms,
            kind=self.parameters.kind,
            missing_aspects=list(self.missing),
            sources=list(self.sources),
            degraded=list(told_once(self.degraded)),
            parameters=parameters_shown(self.parameters, self.refinements),
        )


TOPICS_OFFERED = 3


def clarify_answer(parameters: SearchParameters, topics: Mapping[str, int]) -> Answer:
    """GAM 6: the query is ambiguous, so ask, with the archive's `topics` (by packets) to choose from.

    Nothing was searched. What only greets or thanks is replied to.
    """
    if reply := reply_to(parameters.text):
        return Answer(parameters=parameters, status="CLARIFY", text=reply)
    text = responses.clarify(parameters.text)
    offered = sorted(filter(None, topics), key=lambda topic: -topics[topic])[:TOPICS_OFFERED]
    if offered:
        text = "\n".join([text, responses.offer(), *(f"- {shown(topic)}" for topic in offered)])
    return Answer(parameters=parameters, status="CLARIFY", text=text)


def not_found_answer(
    parameters: SearchParameters,
    iterations: int,
    refinements: tuple[str, ...],
    missing: Sequence[str],
    degraded: tuple[str, ...] = (),
    near: Sequence[Statement] = (),
    *,
    empty: bool = False,
    of_then: str = "",
) -> Answer:
    """GAM failure mode 1; `empty` is whether the archive holds no packet at all, `near` are quotes that come near,
    `of_then` lists the packets of the period asked about.
    """
    text = responses.not_found(parameters.text, empty=empty)
    if near:
        text = f"{responses.nearest()}\n{quoted(near)}"
    if of_then:
        text = f"{responses.not_said_then(parameters.date_text)}\n{of_then}"
    return Answer(
        parameters=parameters,
        status="NOT_FOUND",
        text=text,
        citations=tuple(one.citation for one in near),
        iterations=iterations,
        refinements=refinements,
        notes=(*_period_missing(parameters, missing), *_degraded(degraded), *_refined(refinements)),
        suggestions=tuple(responses.suggestions(empty=empty)),
        missing=tuple(missing),
        degraded=degraded,
    )


def found_answer(
    parameters: SearchParameters,
    statements: Sequence[Statement],
    removed: int,
    sources: Sequence[PacketSummary],
    reflection: ReflectionResult,
    iterations: int,
    at_limit: bool,
    refinements: tuple[str, ...],
    degraded: tuple[str, ...],
    zone: tzinfo,
    *,
    written: str = "",
    engine: str = ENGINE,
    unsupported: int = 0,
) -> Answer:
    """An answer made of verified quotes: SUCCESS when reflection was satisfied and no quote was lost, else PARTIAL.

    `written` is what the model `engine` wrote on these quotes, "" when they are the answer themselves; `unsupported`
    counts its sentences that were dropped because no quote carried them.
    """
    status: ResearchStatus = "SUCCESS" if reflection.is_sufficient else "PARTIAL"
    citations = tuple(statement.citation for statement in statements)
    notes = _what_is_missing(parameters, reflection, status, at_limit)
    notes += _what_was_removed(removed, unsupported, engine)
    own = all(own_words(statement.quote.page) for statement in statements)
    if own:
        notes.append("Nothing but a model's own earlier words says this.")
    disagreement = find_disagreement(statements, zone)
    doubtful = own or disagreement.contradicts
    confidence = final(reflection.confidence, status, len(citations), removed + unsupported, doubtful=doubtful)
    doubt = "a model alone said it" if own else "its packets contradict each other" if doubtful else ""
    notes += _why_not_high(confidence, reflection, doubt, status, lost=removed + unsupported)
    notes += disagreement.notes
    notes += _degraded(degraded)
    text = written or compose(parameters, statements, zone)
    return Answer(
        parameters=parameters,
        status=status,
        text=text,
        citations=citations,
        sources=tuple(sources),
        confidence=confidence,
        iterations=iterations,
        refinements=refinements,
        notes=(*notes, *_refined(refinements)),
        missing=reflection.missing_aspects if status == "PARTIAL" else (),
        degraded=degraded,
        engine=engine,
    )


def _what_is_missing(
    parameters: SearchParameters, reflection: ReflectionResult, status: ResearchStatus, at_limit: bool
) -> list[str]:
    notes: list[str] = []
    if reflection.temporality == 0 and parameters.dated:
        notes.append(f"Nothing found {parameters.date_text}; these packets are from another time.")
    if status == "PARTIAL":
        if at_limit:
            notes.append(responses.at_limit())
        if reflection.missing_aspects:
            notes.append(f"Missing: {', '.join(reflection.missing_aspects)}.")
    return notes


def _period_missing(parameters: SearchParameters, missing: Sequence[str]) -> tuple[str, ...]:
    """What is missing, of a question about a period; without one the words of the question say it."""
    return (f"Missing: {', '.join(missing)}.",) if parameters.dated and missing else ()


def _what_was_removed(citations: int, sentences: int, engine: str) -> list[str]:
    """`citations` that did not verify, and `sentences` of the model `engine` that no quote carried."""
    notes: list[str] = []
    if citations:
        notes.append(f"{citations} citations did not verify and were removed.")
    if sentences:
        notes.append(f"{sentences} of {engine}'s sentences stood in no quote and were removed.")
    return notes


def _why_not_high(
    confidence: float, reflection: ReflectionResult, doubt: str, status: ResearchStatus, *, lost: int
) -> tuple[str, ...]:
    """The main reason of a confidence below HIGH; `doubt` is what caps it, `lost` counts citations and sentences."""
    if band(confidence) == "HIGH":
        return ()
    other = "the answer is PARTIAL" if status == "PARTIAL" else "the model that reflected is not surer"
    reason = doubt or reason_of(confidence, reflection, "citations did not hold" if lost else other)
    return (f"Confidence {confidence:.2f}, mainly because {reason}.",)


def reason_of(confidence: float, reflection: ReflectionResult, capped: str) -> str:
    """What takes most from the confidence of an answer that this reflection judged; see `main_reason`."""
    return main_reason(
        confidence,
        reflection.coverage,
        reflection.specificity,
        reflection.temporality,
        reflection.completeness,
        reflection.likelihood,
        capped,
    )


def listing_answer(
    parameters: SearchParameters,
    listing: Listing,
    verified: Sequence[Citation],
    zone: tzinfo,
) -> Answer:
    """A list is complete unless it says otherwise; packets without quotable words are listed without a quote."""
    leads = {citation.packet_id: citation for citation in verified}
    removed = len(listing.leads) - len(verified)
    unknown = no_such_models(parameters)
    partial = listing.total > len(listing.packets) or listing.open_ended or bool(unknown and not parameters.models)
    notes = list(_about_listing(parameters, listing))
    if removed:
        notes.append(f"{removed} citations did not verify and were removed.")
    notes += _degraded(listing.degraded)
    return Answer(
        parameters=parameters,
        status="PARTIAL" if partial else "SUCCESS",
        text=list_packets(listing, leads, zone),
        citations=tuple(verified),
        sources=listing.packets,
        confidence=final(1.0, "PARTIAL" if partial else "SUCCESS", len(verified), removed),
        iterations=1,
        notes=tuple(notes),
        missing=unknown if partial else (),
        degraded=listing.degraded,
    )


def no_such_models(parameters: SearchParameters) -> tuple[str, ...]:
    """What is missing where the question names models that no packet is of."""
    return tuple(f"{word}: no such model here" for word in parameters.unknown_models)


def _about_listing(parameters: SearchParameters, listing: Listing) -> Iterator[str]:
    """What a reader of the list must know of what is not in it."""
    if listing.total > len(listing.packets):
        yield f"Showing {len(listing.packets)} of {listing.total} {listing.noun}s."
    if listing.open_ended:
        yield f"More {listing.noun}s may speak of it: name a period or more words to list them all."
    if names := ", ".join(parameters.unknown_models):
        yield f"No packet here is of {names}{'' if parameters.models else '; these speak of it'}."


def _degraded(reasons: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"Degraded: {reason}." for reason in told_once(reasons))


def _refined(refinements: Sequence[str]) -> tuple[str, ...]:
    return (f"Searched again {'; '.join(refinements)}.",) if refinements else ()


def parameters_shown(parameters: SearchParameters, refinements: Sequence[str]) -> dict[str, Any]:
    """The search parameters and the trail of refinements as JSON values; empty ones left out."""
    fields = {
        "kind": parameters.kind,
        "keywords": list(parameters.keywords),
        "phrases": list(parameters.phrases),
        "since": to_iso(parameters.since) if parameters.since else "",
        "until": to_iso(parameters.until) if parameters.until else "",
        "date_text": parameters.date_text,
        "models": list(parameters.models),
        "topics": list(parameters.topics),
        "people": list(parameters.people),
        "metrics": [msgspec.structs.asdict(metric) for metric in parameters.metrics],
        "most": parameters.most,
        "left_out": [*parameters.left_out, *parameters.left_out_models],
        "order": parameters.order,
        "focus": parameters.focus,
        "subjects": list(parameters.subjects),
        "refinements": list(refinements),
    }
    return {name: value for name, value in fields.items() if value}


BYTES_PER_TOKEN = 3  # fewer than vocabularies need for prose, so that the estimate is too high and not too low


def tokens_of(text: str) -> int:
    """A cautious estimate, whichever model reads it."""
    return -(-len(text.encode()) // BYTES_PER_TOKEN)


def within(limit: int, most: int, make: Callable[[int], Answer]) -> Answer:
    """`make(most)`, or of the answers with fewer parts the longest of at most `limit` tokens; 0 is no limit.

    One part stays in any case, for an answer without evidence would be none; a note says that it does not fit.
    """
    answer = make(most)
    for kept in range(most - 1, 0, -1):
        if not limit or tokens_of(answer.text) <= limit:
            break
        answer = make(kept)
    if not limit or tokens_of(answer.text) <= limit:
        return answer
    note = f"Not even one part fits into max_output_tokens = {limit}; it is given whole."
    return msgspec.structs.replace(answer, notes=(note, *answer.notes))


def first_packets(listing: Listing, kept: int) -> Listing:
    """The listing of its first `kept` packets."""
    if kept == len(listing.packets):
        return listing
    packets = listing.packets[:kept]
    leads = {one.packet_id: listing.leads[one.packet_id] for one in packets if one.packet_id in listing.leads}
    return msgspec.structs.replace(listing, packets=packets, leads=leads)
