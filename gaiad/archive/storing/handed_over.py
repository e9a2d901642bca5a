"""A session that is handed over (JIT), as the turns it becomes: those of one UTC day together, and only what is new.

Pure. Ids follow from what is said, so that the same session handed over again is known.
"""

import hashlib
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from gaiad.base.errors import BadInput, Conflict
from gaiad.wire.memory import IngestedTurn, IngestSession, SessionTurn, TurnMessage

_TELLING_WORDS = 4
_TOGETHER = 200  # turns in one packet at most: pages of a packet are each other's surroundings


def session_id_of(request: IngestSession) -> str:
    """Its own id, or one that follows from all of it."""
    return request.session_id or f"session_{_digest(msgspec.json.encode(request, order='sorted'))}"


def only_new(request: IngestSession, known: Sequence[SessionTurn]) -> tuple[IngestSession, Sequence[SessionTurn]]:
    """The session without the turns that are kept of it already, and those that hold them; else it as it is.

    Known are the turns it opens with that are all that is kept, and a part of what is kept that it opens with, or is:
    agents hand over the last turns again, and a system message that tells the day. A few words alone may be said again.
    """
    kept = [(turn, message) for turn in known for message in turn.messages]
    part = _kept_part([message for _, message in kept], request.turns)
    if not part.length:
        return request, ()
    end = part.lead + part.length
    before, new = request.turns[part.lead : end], request.turns[end:]
    if kept[0][1].role != "system":
        new = [*request.turns[: part.lead], *new]
    if new and not new[0].timestamp:  # it follows on
        last = next((turn.timestamp for turn in reversed(before) if turn.timestamp), "")
        new[0] = msgspec.structs.replace(new[0], timestamp=last)
    holding = {turn.turn_id: turn for turn, _ in kept[part.start : part.start + part.length]}
    return msgspec.structs.replace(request, turns=new), list(holding.values())


def known_part(
    known: Sequence[SessionTurn], given: Sequence[IngestedTurn], roles: Sequence[str] = ("user", "assistant")
) -> bool:
    """Whether what these roles said in `given` is a part of `known`, or what it ends with, but for white space."""
    kept = [_plain(message) for turn in known for message in turn.messages if message.role in roles]
    return _kept_part(kept, [_plain(turn) for turn in given if turn.role in roles]).length > 0


def _plain(message: IngestedTurn | TurnMessage) -> IngestedTurn:
    return IngestedTurn(role=message.role, content=" ".join(message.content.split()))


class _Part(NamedTuple):
    """`length` messages, from `lead` on of what is given and from `start` on of what is kept."""

    lead: int
    start: int
    length: int


def _kept_part(kept: Sequence[TurnMessage | IngestedTurn], given: Sequence[IngestedTurn]) -> _Part:
    """What is kept of what is given; the system messages it leads with count only where all that is kept is given."""
    said, asked = [_said(one) for one in kept], [_said(one) for one in given]
    if said == asked[: len(said)]:
        return _Part(0, 0, len(said))
    kept_lead, lead = _leading(kept), _leading(given)
    start, length = _overlap(said[kept_lead:], asked[lead:])
    start += kept_lead
    surely = _surely(kept[start : start + length], given[lead : lead + length])
    return _Part(lead, start, length if surely else 0)


def _said(message: IngestedTurn | TurnMessage) -> tuple[str, str]:
    return message.role, message.content


def _leading(messages: Sequence[IngestedTurn | TurnMessage]) -> int:
    """How many system messages it opens with."""
    return next((number for number, one in enumerate(messages) if one.role != "system"), len(messages))


def _overlap(kept: Sequence[tuple[str, str]], given: Sequence[tuple[str, str]]) -> tuple[int, int]:
    """Where in `kept` all of `given` is found, else where its longest beginning is at the end; and how long that is.

    By Knuth, Morris and Pratt: in one pass, however often the same is said.
    """
    shorter = [0] * len(given)  # of a beginning, its longest own beginning that it ends with
    for number in range(1, len(given)):
        length = shorter[number - 1]
        while length and given[number] != given[length]:
            length = shorter[length - 1]
        shorter[number] = length + (given[number] == given[length])
    found, length = (0, 0), 0
    for number, message in enumerate(kept if given else ()):
        if length == len(given):
            length = shorter[length - 1]
        while length and message != given[length]:
            length = shorter[length - 1]
        length += message == given[length]
        if length == len(given):
            found = number + 1 - length, length
    return found if found[1] else (len(kept) - length, length)


def _surely(kept: Sequence[TurnMessage | IngestedTurn], given: Sequence[IngestedTurn]) -> bool:
    """Whether the same words are the same turns: their times do not differ, and they are more than a yes or an OK."""
    differ = any(a.timestamp and b.timestamp and a.timestamp != b.timestamp for a, b in zip(kept, given, strict=True))
    return not differ and sum(len(one.content.split()) for one in given) >= _TELLING_WORDS


def must_say_something(request: IngestSession) -> None:
    """Raise BadInput for turns of one day that are all empty, or a time that is none."""
    number = 0
    for _, messages in _groups(request):
        if not any(message.content.strip() for message in messages):
            raise BadInput(f"turns[{number}].content is empty, like all turns of its day; give one with text")
        number += len(messages)


def must_be_labelled(request: IngestSession, known: Sequence[SessionTurn]) -> None:
    """Raise Conflict when turns that are kept lack a label they are handed over with: nobody should believe them so."""
    for turn in known:
        lacking = {*request.classification, *request.policy_tags} - {*turn.classification, *turn.policy_tags}
        if lacking:
            raise Conflict(
                f"session {turn.session_id!r} is stored without the label {min(lacking)!r}, and stored turns keep their"
                " labels: send only the new turns, or everything under a new sessionId; stored turns can be hidden by a"
                " label that they have (memory.exclude)"
            )


def session_turns(request: IngestSession) -> list[SessionTurn]:
    """What the session becomes: its turns of one day together, for they are each other's surroundings.

    Ids follow from what is said, so that the same session handed over again is known. Raises BadInput.
    """
    session_id = session_id_of(request)
    made = []
    header = _header_fields(request.metadata)
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
                tags=header.tags,
                origin_run_id=header.origin_run_id,
                request_intent=header.request_intent,
            )
        )
    return made


class _HeaderFields(msgspec.Struct, frozen=True, rename="camel"):
    """What JIT's page header has beside the session's own fields; the session's metadata may give it."""

    tags: list[str] = []
    origin_run_id: str = ""
    request_intent: str = ""


def _header_fields(metadata: dict[str, Any]) -> _HeaderFields:
    try:
        return msgspec.convert(metadata, _HeaderFields)
    except msgspec.ValidationError as error:
        raise BadInput(f"metadata does not fit JIT's page header: {error}") from error


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
