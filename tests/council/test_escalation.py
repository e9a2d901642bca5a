"""GCP 8.4's triggers fire at their edges, and a matter goes to Prime first unless Prime raised it."""

import pytest

from council.limits import council_limits
from council.quorum import Seat
from council.state_machine import Signals, escalate, triggers

LIMITS = council_limits().escalation
ALL = [Seat(role="prime"), Seat(role="lite"), Seat(role="codemind")]


@pytest.mark.parametrize(
    ("signals", "fired"),
    [
        (Signals(), []),
        (Signals(risk_level="med", confidence=0.3, interrupts_in_a_row=2), []),
        (Signals(risk_level="high"), ["high_risk"]),
        (Signals(confidence=0.29), ["low_confidence"]),
        (Signals(confidence=0.0), ["low_confidence"]),
        (Signals(interrupts_in_a_row=3), ["interrupts"]),
        (Signals(failed="there is no plan"), ["stage_failed"]),
        (
            Signals(risk_level="high", confidence=0.1, interrupts_in_a_row=4, failed="x"),
            ["high_risk", "low_confidence", "interrupts", "stage_failed"],
        ),
    ],
)
def test_triggers(signals: Signals, fired: list[str]) -> None:
    assert list(triggers(signals, LIMITS)) == fired
    assert (escalate("lite", signals, ALL, LIMITS) is None) == (not fired)


@pytest.mark.parametrize(
    ("raised_by", "seats", "asked", "to"),
    [
        ("lite", ALL, (), "prime"),
        ("codemind", ALL, (), "prime"),
        ("prime", ALL, (), "person"),
        ("lite", ALL, ("prime",), "person"),
        ("lite", [Seat(role="prime", active=False), Seat(role="lite")], (), "person"),
        ("lite", [Seat(role="prime", can_vote=False), Seat(role="lite")], (), "person"),
    ],
)
def test_where_it_goes(raised_by: str, seats: list[Seat], asked: tuple[str, ...], to: str) -> None:
    found = escalate(raised_by, Signals(risk_level="high"), seats, LIMITS, asked)
    assert found is not None
    assert (found.to, found.raised_by) == (to, raised_by)


def test_the_words_say_each_trigger_and_why_prime_was_passed_over() -> None:
    found = escalate("prime", Signals(confidence=0.2, interrupts_in_a_row=3), ALL, LIMITS)
    assert found is not None
    assert found.why == ("confidence 0.2 is below 0.3; the answer was interrupted 3 times in a row")


def test_the_shipped_numbers_are_the_seeds() -> None:
    limits = council_limits()
    assert (limits.heartbeat.interval_s, limits.heartbeat.inactive_after_s) == (30.0, 90.0)
    assert (LIMITS.risk_levels, LIMITS.confidence_below, LIMITS.interrupts_in_a_row) == (("high",), 0.3, 3)
