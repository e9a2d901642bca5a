"""What a Cognition Packet is made from, and what comes of it."""

import msgspec

from gaiad.errors import BadInput
from gaiad.generation import ChatMessage, Segment
from prompts.packet import DEFAULT_MTU, CognitionPacket, ContextItem, HistoryEntry, Manifest, RiskLevel, WorkItem


class BuildRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Plain texts and numbers: the same request always gives the same packet.

    `model` is the target's fingerprint. `history` is the session's, oldest first; `context` what was found, best first.
    With `context_stays` it was found for earlier turns: a page leaves with the question it stands before.
    `previous` is the session's last packet: what stood in it stays in place where it can. `work` is what earlier stages
    of the turn wrote, in their order; history and context yield to it. `work_tokens` is the room that they leave free
    for work in all (see `prompts.work.work_room`), 0 when no stage follows.
    """

    full_id: str
    turn_id: str
    timestamp: str
    model: str
    identity: str
    user_prompt: str
    task_instruction_key: str
    task_instruction: str
    persona: str = ""
    role: str = ""
    role_text: str = ""
    parent_id: str | None = None
    mtu: int = DEFAULT_MTU
    reserve_tokens: int = 0
    history: list[HistoryEntry] = []
    context: list[ContextItem] = []
    context_stays: bool = False
    work: list[WorkItem] = []
    work_tokens: int = 0
    previous: CognitionPacket | None = None
    confidence: float | None = None
    risk_level: RiskLevel | None = None
    retry_count: int | None = None


class Built(msgspec.Struct, frozen=True, kw_only=True):
    """The packet, the messages to send, the prompt as the model's chat template writes it, and how it was made."""

    packet: CognitionPacket
    messages: list[ChatMessage]
    rendered: list[Segment]
    manifest: Manifest


def check_request(request: BuildRequest) -> None:
    """Raises BadInput for a request without an identity, a prompt or a sensible MTU."""
    if not request.identity.strip():
        raise BadInput("a packet needs an identity; none was given")
    if not request.user_prompt.strip():
        raise BadInput("the prompt is empty; say what you want to know")
    if request.mtu < 1 or request.reserve_tokens < 0:
        raise BadInput(
            f"mtu {request.mtu} and reserve_tokens {request.reserve_tokens}: must be positive; 4096 is usual"
        )
    if request.work_tokens < 0:
        raise BadInput(f"work_tokens {request.work_tokens}: must not be below 0, which holds no room free")
