"""The message of the council (GCP 8.1): who says what to all the others, in one of five types (GCP 8.2).

`msg_id` and `parent_id` are GCP's eight digits for show; they collide, so that things are found by `full_id` and
`parent_full_id`, which sort by time. Storing and streaming belong to others.
"""

from typing import Annotated, Any, Literal, get_args

import msgspec

from gaiad.base.errors import BadInput
from gaiad.base.ids import short
from prompts.packet import RiskLevel

MessageType = Literal["PROPOSAL", "VOTE", "INFO", "ESCALATION", "HEARTBEAT"]
MESSAGE_TYPES: tuple[MessageType, ...] = get_args(MessageType)
Name = Annotated[str, msgspec.Meta(pattern=r"^[a-z][a-z0-9_]{0,47}$")]
Digits = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{8}$")]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]


class Envelope(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One message. `sender` is the council role, `gaiad` or `person`; `role` what it does just then (`observer`).

    `timestamp` is UTC in ISO 8601. `content` is markdown or JSON. `parent_id` is null and `parent_full_id` "" for a
    message that answers none; a VOTE always answers a PROPOSAL.
    """

    msg_id: Digits
    parent_id: Digits | None
    timestamp: str
    sender: Name
    role: Name
    type: MessageType
    confidence: Share | None
    risk_level: RiskLevel | None
    content: str
    full_id: Annotated[str, msgspec.Meta(min_length=1)]
    parent_full_id: str = ""


def make_envelope(
    *,
    full_id: str,
    timestamp: str,
    sender: str,
    role: str,
    type: MessageType,
    content: str,
    parent: Envelope | None = None,
    confidence: float | None = None,
    risk_level: RiskLevel | None = None,
) -> Envelope:
    """A checked message in answer to `parent`. Raises BadInput naming the field that is wrong."""
    if type == "VOTE" and (parent is None or parent.type != "PROPOSAL"):
        found = "nothing" if parent is None else f"a {parent.type}"
        raise BadInput(f"VOTE of {sender!r}: it answers {found}; give the PROPOSAL it is about as its parent")
    made = Envelope(
        msg_id=short(full_id),
        parent_id=None if parent is None else parent.msg_id,
        timestamp=timestamp,
        sender=sender,
        role=role,
        type=type,
        confidence=confidence,
        risk_level=risk_level,
        content=content,
        full_id=full_id,
        parent_full_id="" if parent is None else parent.full_id,
    )
    return read_envelope(write_envelope(made))


def write_envelope(envelope: Envelope) -> bytes:
    """One line of JSON with GCP's field names in GCP's order, the full ids after them."""
    return msgspec.json.encode(envelope)


def read_envelope(line: bytes | str) -> Envelope:
    """What `write_envelope` wrote. Raises BadInput naming the field when it is not a message of the council."""
    try:
        envelope = msgspec.json.decode(line, type=Envelope)
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise BadInput(f"no message of the council: {error}; its fields are those of GCP 8.1") from error
    _check_ids(envelope)
    return envelope


def struct_content(value: Any) -> str:
    """A struct as the JSON payload of a message."""
    return msgspec.json.encode(value).decode()


def _check_ids(envelope: Envelope) -> None:
    if envelope.msg_id != short(envelope.full_id):
        raise BadInput(
            f"msg_id {envelope.msg_id!r}: {envelope.full_id!r} is shown as {short(envelope.full_id)!r}; do not set it"
        )
    shown = short(envelope.parent_full_id) if envelope.parent_full_id else None
    if envelope.parent_id != shown:
        raise BadInput(f"parent_id {envelope.parent_id!r}: {envelope.parent_full_id!r} is shown as {shown!r}")
    if envelope.type == "VOTE" and envelope.parent_id is None:
        raise BadInput(f"VOTE of {envelope.sender!r} does not name a PROPOSAL; set parent_id")
