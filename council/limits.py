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
    """How long a round of voting is open, how many closed ones are kept for late ballots, and how long those may come.

    `ballot_tokens` is what a role may write for its ballot.
    """

    deadline_s: Seconds
    kept_rounds: Positive
    late_s: Seconds
    ballot_tokens: Annotated[int, msgspec.Meta(ge=32)]


class TurnCaps(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one turn may spend: stage calls, and tokens that its stages write."""

    max_rounds: Positive
    max_tokens: Positive


class ExecuteLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a review of a command may write, how long it may take, and how many commands of one turn are looked at.

    `call_share` is how much of the call's time all commands of a turn may take together.
    """

    review_tokens: Annotated[int, msgspec.Meta(ge=32)]
    review_s: Seconds
    call_share: Share
    most_commands: Positive


class WindowLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the observing role reads along: after every so many characters, the last so many, within so many seconds.

    After `lost_in_a_row` looks without a judgement it looks no more at this text.
    """

    every_characters: Positive
    shown_characters: Positive
    look_s: Seconds
    lost_in_a_row: Positive


class CouncilLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """constants/council_limits.toml."""

    heartbeat: HeartbeatLimits
    escalation: EscalationLimits
    voting: VotingLimits
    turn: TurnCaps
    execute: ExecuteLimits
    observer: WindowLimits


def council_limits() -> CouncilLimits:
    """The shipped numbers."""
    return load("council_limits.toml", CouncilLimits)
