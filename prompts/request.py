"""What a Cognition Packet is made from, and what comes of it."""

import msgspec

from gaiad.errors import BadInput
from gaiad.generation import ChatMessage, Segment
from prompts.packet import DEFAULT_MTU, CognitionPacket, ContextItem, HistoryEntry, Manifest, RiskLevel


class BuildRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Plain texts and numbers: the same request always gives the same packet.

    `model` is the target's fingerprint. `history` is the session's, oldest first; `context` what was found, best first.
    `previous` is the session's last packet: what stood in it stays in place where it can. A stage's further input (the
    plan that is to be refined) belongs into `role_text`.
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
