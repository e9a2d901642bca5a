"""When a matter goes up (GCP 8.4), and to whom: from Prime to the person, from others to Prime first (decision 11).

Pure. Three triggers are GCP's; a stage that fails for good (no plan after the retry) is the fourth, from GCP 6. A
matter goes up twice at most: to Prime, and from Prime to the person.
"""

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from council.limits import EscalationLimits
from council.quorum import Seat
from prompts.packet import RiskLevel

Trigger = Literal["high_risk", "low_confidence", "interrupts", "stage_failed"]
Destination = Literal["prime", "person"]
PRIME: Final = "prime"


class Signals(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a turn when it may have to go up. `failed` says what failed for good, "" when nothing did."""

    risk_level: RiskLevel | None = None
    confidence: float | None = None
    interrupts_in_a_row: int = 0
    failed: str = ""


class Escalation(msgspec.Struct, frozen=True, kw_only=True):
    """What goes up from whom to whom. `why` is for people."""

    raised_by: str
    to: Destination
    triggers: tuple[Trigger, ...]
    why: str


def triggers(signals: Signals, limits: EscalationLimits) -> dict[Trigger, str]:
    """The triggers that fire and each one's words, in a fixed order; empty when none does."""
    found: dict[Trigger, str] = {}
    if signals.risk_level in limits.risk_levels:
        found["high_risk"] = f"the risk is {signals.risk_level}"
    if signals.confidence is not None and signals.confidence < limits.confidence_below:
        found["low_confidence"] = f"confidence {signals.confidence:g} is below {limits.confidence_below:g}"
    if signals.interrupts_in_a_row >= limits.interrupts_in_a_row:
        found["interrupts"] = f"the answer was interrupted {signals.interrupts_in_a_row} times in a row"
    if signals.failed:
        found["stage_failed"] = signals.failed
    return found


def escalate(
    raised_by: str, signals: Signals, seats: Sequence[Seat], limits: EscalationLimits, asked: Sequence[str] = ()
) -> Escalation | None:
    """The escalation, None when nothing fires. `asked` are roles this matter went to before in the turn.

    It goes to Prime when another raised it and Prime is active, can judge and was not asked yet; else to the person.
    """
    fired = triggers(signals, limits)
    if not fired:
        return None
    to, aside = _destination(raised_by, seats, asked)
    why = f"{'; '.join(fired.values())}{aside}"
    return Escalation(raised_by=raised_by, to=to, triggers=tuple(fired), why=why)


def _destination(raised_by: str, seats: Sequence[Seat], asked: Sequence[str]) -> tuple[Destination, str]:
    if raised_by == PRIME:
        return "person", ""
    if PRIME in asked:
        return "person", " (Prime was asked before)"
    if any(seat.role == PRIME and seat.active and seat.can_vote for seat in seats):
        return "prime", ""
    return "person", " (Prime is not there to ask)"
