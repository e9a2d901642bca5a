"""The council's numbers as one checked struct; constants/limits.toml keeps those of the quorum."""

from typing import Annotated

import msgspec

from constants.load import load
from prompts.packet import RiskLevel

Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Positive = Annotated[int, msgspec.Meta(ge=1)]
Seconds = Annotated[float, msgspec.Meta(gt=0)]


class HeartbeatLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Seconds between beats (GCP 8.2), and of silence after which a role is inactive (GCP 8.5)."""

    interval_s: Seconds
    inactive_after_s: Seconds


class EscalationLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The triggers of GCP 8.4."""

    risk_levels: tuple[RiskLevel, ...]
    confidence_below: Share
    interrupts_in_a_row: Positive


class VotingLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long a round of voting is open, and how many closed ones are kept for late ballots."""

    deadline_s: Seconds
    kept_rounds: Positive


class TurnCaps(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one turn may spend: stage calls, and tokens that its stages write."""

    max_rounds: Positive
    max_tokens: Positive


class CouncilLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """constants/council_limits.toml."""

    heartbeat: HeartbeatLimits
    escalation: EscalationLimits
    voting: VotingLimits
    turn: TurnCaps


def council_limits() -> CouncilLimits:
    """The shipped numbers."""
    return load("council_limits.toml", CouncilLimits)
