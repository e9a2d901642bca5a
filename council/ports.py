"""What the council's parts ask of the house around them: who is there, to be heard, and a role's word on something.

Protocols only. `council/room.py` holds the one CouncilRoom; the turn's side gives the one Speaker, for only there are
models and packets known (GCP 1: the whole cognitive stack goes with every call).
"""

from typing import Protocol

import msgspec

from council.envelope import Envelope, MessageType
from council.quorum import Seat
from council.roles import Role
from council.stages import Form
from gaiad.base.ports import RequestContext
from prompts.packet import RiskLevel, WorkItem


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """A role is asked for its word on `subject`, gaiad's own sentence, under one directive, in one form.

    `work` is what it is about: words of models, of the user and of memory, which go into the packet fenced.
    `task_instruction` is the directive's key. `turn_id` is the turn it belongs to, else what it is asked for (an RFC's
    id, a seed's). `session_id` "" is not a session's.
    """

    role: Role
    task_instruction: str
    subject: str
    work: tuple[WorkItem, ...] = ()
    form: Form
    max_tokens: int
    turn_id: str = ""
    session_id: str = ""


def in_words(subject: str, work: tuple[WorkItem, ...]) -> str:
    """What was asked, for logs and people: the sentence, then each part by what it is and whose."""
    parts = [f"{item.marker}{' by ' if item.role else ''}{item.role}: {item.text}" for item in work]
    return "\n".join([subject, *parts])


class RoleReply(msgspec.Struct, frozen=True, kw_only=True):
    """The role's reply and what it cost. `packet_id` is the full id of the Cognition Packet; times in milliseconds."""

    text: str
    packet_id: str
    prompt_sha256: str
    model: str
    fingerprint: str
    seed: int
    prompt_tokens: int
    cached_tokens: int
    tokens: int
    queue_ms: float
    prefill_ms: float
    decode_ms: float


class Speaker(Protocol):
    """Lets a role speak. Every call takes a whole Cognition Packet and leaves it in the cognition log."""

    async def say(self, ask: Ask, call: RequestContext) -> RoleReply:
        """Raises BadInput, TokenBudgetError, Unavailable, WorkerDied, DeadlineExceeded, Cancelled."""
        ...


class CouncilRoom(Protocol):
    """The room where the council sits."""

    def seats(self) -> list[Seat]:
        """All three roles as they are at this moment, in the order of council_roles.toml."""
        ...

    def is_free(self, role: Role) -> bool:
        """Whether the role's model has a free sequence, is awake, and no person waits for it."""
        ...

    async def post(
        self,
        tenant: str,
        *,
        sender: str,
        role: str,
        type: MessageType,
        content: str,
        turn_id: str = "",
        parent: Envelope | None = None,
        confidence: float | None = None,
        risk_level: RiskLevel | None = None,
    ) -> Envelope:
        """Say it to all: kept durably in the council log first, then published on the event hub as kind `council`.

        `tenant` is whose turn it is about, `gaiad.wire.council.HOUSE` for nobody's. Raises BadInput, Unavailable.
        """
        ...
