"""A session that is handed over (JIT), as the turns it becomes: those of one UTC day together, and only what is new.

Pure. Ids follow from what is said, so that the same session handed over again is known.
"""

import hashlib
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

import msgspec

from gaiad.errors import BadInput, Conflict
from gaiad.memory_schemas import IngestSession, SessionTurn, TurnMessage

_TOGETHER = 200  # turns in one packet at most: pages of a packet are each other's surroundings


def session_id_of(request: IngestSession) -> str:
    """Its own id, or one that follows from all of it."""
    return request.session_id or f"session_{_digest(msgspec.json.encode(request, order='sorted'))}"


def only_new(request: IngestSession, known: Sequence[SessionTurn]) -> tuple[IngestSession, Sequence[SessionTurn]]:
    """The session without the turns it opens with that are all that is kept of it, and these; else it as it is."""
    said = [(message.role, message.content) for turn in known for message in turn.messages]
    if not said or [(turn.role, turn.content) for turn in request.turns[: len(said)]] != said:
        return request, ()
    before, new = request.turns[: len(said)], request.turns[len(said) :]
    if new and not new[0].timestamp:  # it follows on
        last = next((turn.timestamp for turn in reversed(before) if turn.timestamp), "")
        new[0] = msgspec.structs.replace(new[0], timestamp=last)
    return msgspec.structs.replace(request, turns=new), known


def must_be_labelled(request: IngestSession, known: Sequence[SessionTurn]) -> None:
    """Raise Conflict when turns that are kept lack a label they are handed over with: nobody shall believe them so."""
    for turn in known:
        lacking = {*request.classification, *request.policy_tags} - {*turn.classification, *turn.policy_tags}
        if lacking:
            raise Conflict(
                f"session {turn.session_id!r} is kept without the label {min(lacking)!r}, and what is kept keeps its"
                " labels: hand over the new turns alone, or the whole under a new sessionId; what is kept can be hidden"
                " by a label that it has (memory.exclude)"
            )


def session_turns(request: IngestSession) -> list[SessionTurn]:
    """What the session becomes: its turns of one day together, for they are each other's surroundings.

    Ids follow from what is said, so that the same session handed over again is known. Raises BadInput.
    """
    session_id = session_id_of(request)
    made = []
    for began, messages in _groups(request):
        words = msgspec.json.encode((session_id, messages), order="sorted")
        made.append(
            SessionTurn(
                session_id=session_id,
                turn_id=f"said_{_digest(words)}",
                messages=messages,
                started_at=began.isoformat() if began else "",
                title=request.title,
                description=request.description,
                agent_id=request.agent_id,
                classification=request.classification,
                policy_tags=request.policy_tags,
                session_metadata=request.metadata,
            )
        )
    return made


def _groups(request: IngestSession) -> Iterator[tuple[datetime | None, list[TurnMessage]]]:
    """Turns of one UTC day, at most `_TOGETHER`, with the time of the first; those without a time follow on."""
    began: datetime | None = None
    group: list[TurnMessage] = []
    for number, turn in enumerate(request.turns):
        moment = _moment(turn.timestamp, number)
        other_day = began is not None and moment is not None and moment.date() != began.date()
        if group and (other_day or len(group) == _TOGETHER):
            yield began, group
            began, group = moment or began, []
        began = began or moment
        group.append(
            TurnMessage(role=turn.role, content=turn.content, timestamp=turn.timestamp, metadata=turn.metadata)
        )
    yield began, group


def _moment(timestamp: str, number: int) -> datetime | None:
    if not timestamp:
        return None
    try:
        moment = datetime.fromisoformat(timestamp)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise BadInput(f"turns[{number}].timestamp = {timestamp!r}: write it as 2025-11-30T15:45:00Z") from error


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]
