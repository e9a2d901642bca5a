"""Hours of heartbeats in milliseconds: the clock is moved by hand, the models are made up, the loop is the real one."""

import asyncio
import random
from collections import Counter
from datetime import UTC, datetime

import pytest

from council.heartbeat import StateChange
from council.limits import HeartbeatLimits
from council.pulse import Beat, Pulse
from gaiad.base.clock import FrozenClock
from gaiad.base.errors import DeadlineExceeded, Unavailable
from gaiad.base.ports import RequestContext

LIMITS = HeartbeatLimits(interval_s=30.0, inactive_after_s=90.0)
HOUR = 3600
DAY = 24 * HOUR


class Model:
    """`alive` False is a stopped process: it neither answers nor fails."""

    kind, has_room = "gguf", True

    def __init__(self, name):
        self.name, self.state, self.heard_at = name, "ready", None
        self.alive, self.probes, self.under_way = True, 0, 0

    async def beat(self, call):
        self.probes += 1
        self.under_way += 1
        try:
            while not self.alive:
                await asyncio.Event().wait()
            if self.state != "ready":
                raise Unavailable(f"{self.name}: {self.state}", 30.0)
            return 3.0
        finally:
            self.under_way -= 1

    async def wake(self, call):
        if not self.alive:
            await asyncio.Event().wait()
        self.state = "ready"


class House:
    """A pulse, its clock, and what it told."""

    def __init__(self, **models):
        self.models = models or {role: Model(role) for role in ("prime", "lite", "codemind")}
        self.clock = FrozenClock(datetime(2025, 12, 1, tzinfo=UTC))
        self.beats, self.changes = Counter(), []
        self.pulse = Pulse(self.models, LIMITS, self.clock, self.on_beat, self.on_change)

    async def on_beat(self, beat: Beat):
        self.beats[beat.role] += 1

    async def on_change(self, change: StateChange):
        self.changes.append((change.role, change.was, change.now))

    async def look(self):
        self.pulse.tick()
        for _ in range(4):
            await asyncio.sleep(0)

    async def pass_time(self, seconds, step=5.0):
        for _ in range(round(seconds / step)):
            self.clock.advance(step)
            await self.look()

    def states(self):
        return [self.pulse.state(role) for role in self.models]


@pytest.fixture
async def open_house():
    opened = []

    async def start(**models):
        house = House(**models)
        opened.append(house)
        house.pulse.start()
        await house.look()
        return house

    yield start
    for house in opened:
        await house.pulse.close()


async def test_a_day_has_2880_beats_a_role(open_house):
    house = await open_house()
    await house.pass_time(DAY - 30.0, step=10.0)
    assert house.beats == {"prime": 2880, "lite": 2880, "codemind": 2880}
    assert house.states() == ["ready"] * 3
    assert [now for _, _, now in house.changes] == ["ready"] * 3


async def test_a_stopped_model_is_inactive_after_90_s_and_delays_nobody(open_house):
    house = await open_house()
    await house.pass_time(30.0)
    house.models["lite"].alive = False
    await house.pass_time(90.0)
    assert house.states() == ["ready"] * 3
    await house.pass_time(5.0)
    assert house.states() == ["ready", "inactive", "ready"]
    assert house.pulse.trouble("lite") == "it wrote no token in 20 s"
    await house.pass_time(HOUR)
    assert house.beats["prime"] - house.beats["lite"] == (HOUR + 90) // 30
    assert house.models["lite"].under_way <= 1
    house.models["lite"].alive = True
    await house.pass_time(30.0)
    assert house.states() == ["ready"] * 3
    assert house.changes[3:] == [("lite", "ready", "inactive"), ("lite", "inactive", "ready")]
    assert house.pulse.trouble("lite") == ""


async def test_a_model_of_several_roles_is_asked_once_for_all_of_them(open_house):
    shared = Model("one")
    house = await open_house(prime=shared, lite=shared, codemind=Model("other"))
    await house.pass_time(HOUR)
    assert shared.probes == HOUR // 30 + 1
    assert house.beats["prime"] == house.beats["lite"] == house.beats["codemind"] == HOUR // 30 + 1


async def test_a_model_that_writes_for_somebody_is_not_asked_besides(open_house):
    house = await open_house()
    writing = house.models["prime"]
    for _ in range(HOUR // 5):
        writing.heard_at = house.clock.monotonic()
        await house.pass_time(5.0)
    assert writing.probes == 1
    assert house.beats["prime"] == HOUR // 30 + 1
    assert house.states() == ["ready"] * 3


async def test_what_a_model_wrote_long_ago_proves_nothing(open_house):
    house = await open_house()
    stuck = house.models["prime"]
    stuck.heard_at, stuck.alive = house.clock.monotonic() + 10.0, False
    await house.pass_time(105.0)
    assert house.pulse.state("prime") == "inactive"


async def test_the_last_heartbeat_is_when_it_lived_and_not_when_it_was_looked_at(open_house):
    house = await open_house()
    await house.pass_time(20.0)
    house.models["lite"].heard_at = house.clock.monotonic()
    await house.pass_time(10.0)
    assert house.pulse.last_beat("lite") == "2025-12-01T00:00:20Z"
    assert house.pulse.last_beat("prime") == "2025-12-01T00:00:30Z"


async def test_a_sleeper_is_not_asked_and_counts_again_after_the_beat_that_follows_its_waking(open_house):
    house = await open_house()
    lite = house.models["lite"]
    lite.state = "sleeping"
    await house.pass_time(HOUR)
    assert (lite.probes, house.pulse.state("lite"), house.pulse.sleepers()) == (1, "sleeping", ("lite",))
    lite.state = "starting"
    await house.pass_time(5.0)
    assert house.pulse.state("lite") == "sleeping"
    lite.state = "ready"
    await house.pass_time(35.0)
    assert house.pulse.state("lite") == "ready"


async def test_a_sleeper_that_does_not_wake_is_inactive_in_the_end(open_house):
    house = await open_house()
    lite = house.models["lite"]
    lite.state = "sleeping"
    await house.pass_time(30.0)
    lite.state, lite.alive = "starting", False
    await house.pass_time(100.0)
    assert house.pulse.state("lite") == "inactive"


async def test_a_model_that_comes_up_is_heard_at_once_and_not_at_the_next_beat(open_house):
    late = Model("late")
    late.state = "starting"
    house = await open_house(prime=late, lite=Model("lite"))
    await house.pass_time(5.0)
    assert house.states() == ["inactive", "ready"]
    late.state = "ready"
    await house.look()
    assert house.states() == ["ready", "ready"]


async def test_who_waits_for_the_models_that_are_loading_goes_on_when_they_are_heard(open_house):
    late = Model("late")
    late.state = "starting"
    house = await open_house(prime=late, lite=Model("lite"))
    waiting = asyncio.ensure_future(house.pulse.settled(house.clock.monotonic() + 60.0))
    await house.look()
    assert not waiting.done()
    late.state = "ready"
    await house.look()
    await asyncio.wait_for(waiting, 30)
    assert house.states() == ["ready", "ready"]


async def test_right_after_the_start_who_waits_goes_on_with_the_first_beats():
    house = House()
    house.pulse.start()
    assert house.states() == ["inactive"] * 3
    await house.pulse.settled(house.clock.monotonic() + 10.0)
    assert house.states() == ["ready"] * 3
    await house.pulse.close()


@pytest.mark.parametrize("state", ["failed", "sleeping", "inactive"])
async def test_nobody_waits_for_a_model_that_is_not_on_its_way(open_house, state):
    lost = Model("lost")
    lost.state = state
    house = await open_house(prime=lost, lite=Model("lite"))
    await asyncio.wait_for(house.pulse.settled(house.clock.monotonic() + 60.0), 30)


async def test_who_waits_for_a_model_that_never_comes_waits_no_longer_than_told(open_house):
    late = Model("late")
    late.state = "starting"
    house = await open_house(prime=late)
    waiting = asyncio.ensure_future(house.pulse.settled(house.clock.monotonic() + 1.5))
    await house.pass_time(2.0, step=1.0)
    await asyncio.wait_for(waiting, 30)
    assert house.states() == ["inactive"]


async def test_waking_for_a_vote_ends_with_the_callers_deadline(open_house):
    house = await open_house()
    lite = house.models["lite"]
    lite.state, lite.alive = "sleeping", False
    with pytest.raises(DeadlineExceeded, match="lite: was not awake in time"):
        await house.pulse.rouse("lite", RequestContext(deadline=house.clock.monotonic() + 0.01))


async def test_what_cannot_be_told_keeps_the_pulse_going(open_house):
    house = await open_house()

    async def full_disk(_beat):
        raise Unavailable("the disk is full", 30.0)

    house.pulse._on_beat = full_disk
    await house.pass_time(HOUR)
    await asyncio.wait_for(house.pulse.told(), 30)
    assert house.states() == ["ready"] * 3


@pytest.mark.parametrize("seed", range(3))
async def test_through_random_outages_of_a_day_nobody_counts_who_was_silent_for_too_long(open_house, seed):
    house, chance = await open_house(), random.Random(seed)
    down_since = dict.fromkeys(house.models, 0.0)
    up_since = dict.fromkeys(house.models, 0.0)
    for _ in range(DAY // 10):
        await house.pass_time(10.0, step=10.0)
        now = house.clock.monotonic()
        for role, model in house.models.items():
            state = house.pulse.state(role)
            if not model.alive and now - down_since[role] > 90.0:
                assert state == "inactive"
            if model.alive and now - up_since[role] >= 60.0:
                assert state == "ready"
            if chance.random() < 0.01:
                model.alive = not model.alive
                (up_since if model.alive else down_since)[role] = now
    assert len(house.changes) > 20
