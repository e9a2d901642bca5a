"""What a person may change about a kept run, and a run that another researcher made. Pure."""

import hashlib

import msgspec

from gaiad.base.clock import moment_of, to_iso
from gaiad.base.errors import BadInput, NotFound
from gaiad.base.ids import lowest
from gaiad.wire.research import (
    ContradictionRecord,
    ResearchAgentPayload,
    RunRow,
    SettleContradiction,
)


def settled(payload: ResearchAgentPayload, asked: SettleContradiction) -> ResearchAgentPayload:
    """The payload with one contradiction open, resolved or acknowledged, as the synthesis tells it too.

    Raises NotFound, BadInput for one that is resolved without a word.
    """
    if asked.status == "resolved" and not asked.resolution.strip():
        raise BadInput("say how it was resolved in `resolution`")
    if asked.contradiction_id not in {one.contradiction_id for one in payload.contradictions}:
        raise NotFound(f"the run has no contradiction {asked.contradiction_id!r}; `gaiad research show` lists them")
    records = [
        _settled(one, asked, payload.metadata.iteration_count)
        if one.contradiction_id == asked.contradiction_id
        else one
        for one in payload.contradictions
    ]
    told = [
        msgspec.structs.replace(one, resolution=asked.resolution.strip() or msgspec.UNSET)
        if one.contradiction_id == asked.contradiction_id
        else one
        for one in payload.synthesis.contradictions
    ]
    synthesis = msgspec.structs.replace(payload.synthesis, contradictions=told)
    return msgspec.structs.replace(payload, contradictions=records, synthesis=synthesis)


def _settled(record: ContradictionRecord, asked: SettleContradiction, iteration: int) -> ContradictionRecord:
    words = asked.resolution.strip()
    return msgspec.structs.replace(
        record,
        status=asked.status,
        resolution=words or msgspec.UNSET,
        resolution_iteration=iteration if asked.status == "resolved" else msgspec.UNSET,
    )


def imported_row(payload: ResearchAgentPayload, prefix: str, tenant: str) -> RunRow:
    """The line of a run that came from elsewhere. Its id follows from all of it, so the same again is the same run.

    Raises BadInput for a time that is none, and for a run under way.
    """
    meta = payload.metadata
    if meta.status == "in_progress":
        raise BadInput(f"run {meta.research_id} is under way; import it when it has ended")
    try:
        began = moment_of(meta.started_at)
        first = lowest(began, prefix)
    except (ValueError, OverflowError) as error:
        raise BadInput(
            f"metadata.startedAt {meta.started_at!r} is not a time; write it as 2025-11-30T15:45:00Z"
        ) from error
    digest = hashlib.sha256(msgspec.json.encode(payload, order="sorted")).hexdigest().upper()
    return RunRow(
        research_id=first[:-16] + digest[:16],
        tenant=tenant,
        query=meta.research_goal,
        started_at=to_iso(began),
        status=meta.status,
        outcome="",
        confidence=0.0,
        sources=meta.total_sources_gathered,
        contradictions=meta.contradictions_found,
        iterations=meta.iteration_count,
    )
