"""Roles count while they beat: the edges of GCP 8.5, sleepers, and simulated days with random outages."""

import random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from council.heartbeat import Heartbeat
from council.limits import council_limits
from gaiad.base.errors import BadInput

LIMITS = council_limits().heartbeat
ROLES = ("prime", "lite", "codemind")
DAY_S = 86_400


def active(heartbeat: Heartbeat, now: float) -> tuple[str, ...]:
    return tuple(role for role in ROLES if heartbeat.state(role, now) == "ready")


def test_nobody_counts_before_the_first_beat() -> None:
    heartbeat = Heartbeat(ROLES, 0.0, LIMITS)
    assert active(heartbeat, 0.0) == ()
    change = heartbeat.beat("lite", 1.0)
    assert change is not None
    assert (change.role, change.was, change.now) == ("lite", "inactive", "ready")
    assert heartbeat.beat("lite", 2.0) is None
    assert active(heartbeat, 2.0) == ("lite",)


def test_ninety_seconds_still_count_and_more_do_not() -> None:
    heartbeat = Heartbeat(["lite"], 0.0, LIMITS)
    heartbeat.beat("lite", 10.0)
    assert heartbeat.missed(100.0) == ()
    assert heartbeat.state("lite", 100.0) == "ready"
    assert heartbeat.state("lite", 100.5) == "inactive", "also when nobody called missed"
    (change,) = heartbeat.missed(100.5)
    assert (change.was, change.now, change.silent_s) == ("ready", "inactive", 90.5)
    assert heartbeat.missed(200.0) == (), "told once"
    back = heartbeat.beat("lite", 201.0)
    assert back is not None
    assert back.now == "ready"


def test_a_beat_that_comes_out_of_order_takes_nothing_back() -> None:
    heartbeat = Heartbeat(["lite"], 0.0, LIMITS)
    heartbeat.beat("lite", 50.0)
    heartbeat.beat("lite", 20.0)
    assert heartbeat.last_beat("lite") == 50.0


def test_a_sleeper_is_not_probed_and_counts_only_after_a_wake_probe() -> None:
    heartbeat = Heartbeat(["lite"], 0.0, LIMITS)
    heartbeat.due(0.0)
    heartbeat.beat("lite", 0.0)
    change = heartbeat.sleep("lite", 5.0)
    assert change is not None
    assert change.now == "sleeping"
    assert heartbeat.missed(5000.0) == ()
    assert heartbeat.due(5000.0) == ()
    assert heartbeat.sleepers(5000.0) == ("lite",)
    assert heartbeat.wake("lite", 5000.0)
    assert not heartbeat.wake("lite", 5001.0), "it is being woken already"
    assert heartbeat.due(5001.0) == ("lite",)
    assert heartbeat.state("lite", 5002.0) != "ready"
    heartbeat.beat("lite", 5003.0)
    assert heartbeat.state("lite", 5003.0) == "ready"


def test_a_sleeper_that_does_not_wake_is_inactive() -> None:
    heartbeat = Heartbeat(["lite"], 0.0, LIMITS)
    heartbeat.sleep("lite", 0.0)
    heartbeat.wake("lite", 100.0)
    assert heartbeat.missed(190.0) == ()
    (change,) = heartbeat.missed(190.1)
    assert (change.was, change.now) == ("sleeping", "inactive")
    assert heartbeat.due(190.1) == ("lite",), "it is probed like any silent role"


def test_a_caller_that_comes_late_gets_one_probe_and_the_grid_stays() -> None:
    heartbeat = Heartbeat(["lite"], 0.0, LIMITS)
    assert heartbeat.due(0.0) == ("lite",)
    assert heartbeat.due(29.9) == ()
    assert heartbeat.due(500.0) == ("lite",)
    assert heartbeat.due(509.9) == ()
    assert heartbeat.due(510.0) == ("lite",)


def test_an_unknown_role_is_named() -> None:
    with pytest.raises(BadInput, match="heartbeat of 'guest': no such role; there are prime, lite, codemind"):
        Heartbeat(ROLES, 0.0, LIMITS).beat("guest", 0.0)


def test_a_day_of_beats_with_random_outages() -> None:
    """2,880 probes a role; a role counts exactly when it answered one in the last 90 s."""
    chance = random.Random(5)
    outages = {
        role: [(start, start + chance.randrange(20, 4000)) for start in chance.sample(range(DAY_S), 12)]
        for role in ROLES
    }
    heartbeat = Heartbeat(ROLES, 0.0, LIMITS)
    probes = dict.fromkeys(ROLES, 0)
    answered: dict[str, float | None] = dict.fromkeys(ROLES)
    told = dict.fromkeys(ROLES, "inactive")
    for second in range(0, DAY_S, 10):
        changes = list(heartbeat.missed(float(second)))
        for role in heartbeat.due(float(second)):
            probes[role] += 1
            if not any(start <= second < end for start, end in outages[role]):
                answered[role] = float(second)
                if change := heartbeat.beat(role, float(second)):
                    changes.append(change)
        for change in changes:
            assert change.was == told[change.role], "the changes join without a gap"
            told[change.role] = change.now
        for role in ROLES:
            last = answered[role]
            expected = "ready" if last is not None and second - last <= 90 else "inactive"
            assert heartbeat.state(role, float(second)) == told[role] == expected
    assert set(probes.values()) == {2880}


class Pulses(RuleBasedStateMachine):
    """Any order of beats, sleeps, wakes and silences, beside a model that only remembers what happened."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.heartbeat = Heartbeat(ROLES, 0.0, LIMITS)
        self.last: dict[str, float | None] = dict.fromkeys(ROLES)
        self.asleep: dict[str, bool] = dict.fromkeys(ROLES, False)
        self.woken: dict[str, float | None] = dict.fromkeys(ROLES)

    @rule(seconds=st.sampled_from([0.0, 1.0, 29.0, 30.0, 61.0, 90.0, 91.0, 3600.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule(role=st.sampled_from(ROLES))
    def beat(self, role: str) -> None:
        self.heartbeat.beat(role, self.now)
        self.last[role], self.asleep[role], self.woken[role] = self.now, False, None

    @rule(role=st.sampled_from(ROLES))
    def sleep(self, role: str) -> None:
        self.heartbeat.sleep(role, self.now)
        self.asleep[role], self.woken[role] = True, None

    @precondition(lambda self: any(self.asleep.values()))
    @rule(role=st.sampled_from(ROLES))
    def wake(self, role: str) -> None:
        self.heartbeat.missed(self.now)
        self._forget_oversleepers()
        assert self.heartbeat.wake(role, self.now) == (self.asleep[role] and self.woken[role] is None)
        if self.asleep[role] and self.woken[role] is None:
            self.woken[role] = self.now

    @rule()
    def look(self) -> None:
        self.heartbeat.missed(self.now)
        self._forget_oversleepers()
        assert self.heartbeat.missed(self.now) == ()

    @rule()
    def probe(self) -> None:
        due = self.heartbeat.due(self.now)
        assert all(not self.asleep[role] or self.woken[role] is not None for role in due)
        assert self.heartbeat.due(self.now) == ()

    def _forget_oversleepers(self) -> None:
        for role in ROLES:
            if self._overslept(role):
                self.asleep[role], self.woken[role] = False, None

    def _overslept(self, role: str) -> bool:
        woken = self.woken[role]
        return woken is not None and self.now - woken > 90

    @invariant()
    def only_those_count_who_beat_within_ninety_seconds_and_do_not_sleep(self) -> None:
        for role in ROLES:
            last = self.last[role]
            heard = last is not None and self.now - last <= 90
            expected = "ready" if heard else "inactive"
            if self.asleep[role]:
                expected = "inactive" if self._overslept(role) else "sleeping"
            assert self.heartbeat.state(role, self.now) == expected


TestPulses = Pulses.TestCase
TestPulses.settings = settings(max_examples=40, stateful_step_count=40)
