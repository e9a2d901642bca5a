"""The room on real files and a real hub; only the models and the clock are made up."""

import asyncio
from datetime import UTC, datetime

import msgspec
import pytest

from council.envelope import read_envelope
from council.limits import council_limits
from council.ports import CouncilRoom
from council.quorum import council_rules
from council.roles import role_table, with_stages
from council.room import Room
from gaiad.base.clock import FrozenClock
from gaiad.base.errors import BadInput, Unavailable
from gaiad.base.events import EventHub
from gaiad.base.ports import RequestContext
from gaiad.ledger.council_log import CouncilLog
from gaiad.store.home_databases import HomeDatabases
from gaiad.wire.council import HOUSE, EscalationRecord, RunningTurn


class Model:
    """A member that does as it is told."""

    def __init__(self, name, kind="gguf", state="ready"):
        self.name, self.kind, self.state = name, kind, state
        self.has_room, self.heard_at, self.beats, self.wakes_to = True, None, 0, "ready"

    async def beat(self, call):
        self.beats += 1
        if self.state != "ready":
            raise Unavailable(f"{self.name}: {self.state}", 30.0)
        return 12.5

    async def wake(self, call):
        if self.wakes_to == "failed":
            raise Unavailable(f"{self.name}: no room in memory", 60.0)
        self.state = self.wakes_to


@pytest.fixture
def clock():
    return FrozenClock(datetime(2025, 12, 1, 12, 0, tzinfo=UTC))


@pytest.fixture
async def open_room(tmp_path, clock):
    opened = []

    async def start(**models):
        chosen = {role: models.get(role) or Model(role) for role in ("prime", "lite", "codemind")}
        log, hub = CouncilLog(HomeDatabases(tmp_path), clock), EventHub(clock)
        room = Room(chosen, log, hub, clock, table=role_table(), rules=council_rules(), limits=council_limits())
        opened.append((room, log))
        room.models, room.log, room.hub = chosen, log, hub
        await room.start()
        await beaten(room)
        return room

    yield start
    for room, log in opened:
        await room.close()
        log._databases.close()


async def beaten(room):
    """Let everything happen that is due now."""
    room.pulse.tick()
    for _ in range(5):
        await asyncio.sleep(0)
    await room.pulse.told()


async def said(room, tenant="local", **options):
    return [read_envelope(one.body) for one in await room.log.after(tenant, "", 1000, **options)]


def proposal(room, **more):
    fields = {"sender": "prime", "role": "actor", "type": "PROPOSAL", "content": "Shall we?"}
    return room.post("local", **{**fields, **more})


async def test_the_room_is_a_floor(open_room):
    floor: CouncilRoom = await open_room()
    assert [seat.role for seat in floor.seats()] == ["prime", "lite", "codemind"]


async def test_everybody_is_there_after_the_first_beat_and_it_is_told(open_room):
    room = await open_room()
    assert all(seat.active and seat.can_vote for seat in room.seats())
    found = await said(room, HOUSE)
    beats = [one for one in found if one.type == "HEARTBEAT"]
    assert [one.sender for one in beats] == ["prime", "lite", "codemind"]
    assert msgspec.json.decode(beats[0].content) == {"model": "prime", "ms": 12.5}
    assert [one.content for one in found if one.type == "INFO"] == [
        "Prime is ready.",
        "Lite is ready.",
        "CodeMind is ready.",
    ]


async def test_a_model_that_quotes_is_there_and_cannot_vote(open_room):
    quoting = Model("extractive", kind="extractive")
    room = await open_room(prime=quoting, lite=quoting)
    assert [(seat.active, seat.can_vote) for seat in room.seats()] == [(True, False), (True, False), (True, True)]
    assert not room.quorum
    assert [one.can_vote for one in room.role_states()] == [False, False, True]


async def test_what_is_said_is_stored_before_it_is_published_under_one_order(open_room):
    room = await open_room()
    before = room.hub.last_id
    made = await asyncio.gather(*(proposal(room, content=f"Plan {n}", turn_id="turn_1") for n in range(30)))
    stored = [one.full_id for one in await said(room) if one.type == "PROPOSAL"]
    published = [event.data["full_id"] for event in room.hub.since(before) if event.tenant == "local"]
    assert stored == published == sorted(one.full_id for one in made)
    assert len(await room.log.of_turn("local", "turn_1")) == 30


async def test_a_message_has_the_fields_of_the_seed_on_the_hub(open_room):
    room = await open_room()
    made = await proposal(room, confidence=0.5, risk_level="low")
    event = room.hub.since(0)[-1]
    assert (event.kind, event.tenant, event.data) == ("council", "local", msgspec.to_builtins(made))
    assert event.data["parent_id"] is None


async def test_a_vote_without_its_proposal_is_refused_and_nothing_is_kept(open_room):
    room = await open_room()
    with pytest.raises(BadInput, match="VOTE of 'prime': it answers nothing"):
        await room.post("local", sender="prime", role="voter", type="VOTE", content="yes")
    assert [one for one in await said(room) if one.type == "VOTE"] == []


async def test_what_could_not_be_stored_is_not_published(open_room):
    room = await open_room()
    last = room.hub.last_id
    with pytest.raises(BadInput, match="tenant"):
        await room.post("../x", sender="prime", role="actor", type="INFO", content="Hello.")
    assert room.hub.last_id == last


async def test_a_caller_that_goes_away_leaves_what_it_said_whole(open_room):
    room = await open_room()
    asking = asyncio.ensure_future(proposal(room))
    await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await room.close()
    stored = [one.full_id for one in await said(room) if one.type == "PROPOSAL"]
    assert stored == [event.data["full_id"] for event in room.hub.since(0) if event.data["type"] == "PROPOSAL"]
    assert len(stored) == 1


async def test_a_role_is_free_when_it_is_there_and_nobody_waits_for_it(open_room):
    room = await open_room()
    assert room.is_free("lite")
    room.models["lite"].has_room = False
    assert not room.is_free("lite")
    assert room.is_free("prime")


async def test_a_sleeper_does_not_count_until_it_is_woken_for_the_vote(open_room, clock):
    lite = Model("small", state="sleeping")
    room = await open_room(lite=lite, codemind=Model("words", kind="extractive"))
    assert [one.state for one in room.role_states()] == ["ready", "sleeping", "ready"]
    assert not room.quorum
    seats = await room.rouse(RequestContext(deadline=clock.monotonic() + 5.0))
    assert [seat.active for seat in seats] == [True, True, True]
    assert room.quorum
    assert lite.beats == 1


async def test_one_that_cannot_be_woken_keeps_nobody_else_asleep(open_room):
    lite, codemind = Model("small", state="sleeping"), Model("coder", state="sleeping")
    lite.wakes_to = "failed"
    room = await open_room(lite=lite, codemind=codemind)
    assert [seat.active for seat in await room.rouse(RequestContext())] == [True, False, True]


async def test_a_model_that_was_woken_by_somebody_counts_after_its_next_beat(open_room):
    lite = Model("small", state="sleeping")
    room = await open_room(lite=lite)
    lite.state = "ready"
    assert not room.seats()[1].active
    await beaten(room)
    assert room.seats()[1].active


async def test_what_a_model_says_of_itself_is_told_by_role(open_room):
    room = await open_room(lite=Model("small", state="starting"))
    assert [room.model_state(role) for role in ("prime", "lite")] == ["ready", "starting"]
    with pytest.raises(BadInput, match="role 'nobody': no such role; there are prime, lite, codemind"):
        room.model_state("nobody")


async def test_changed_settings_stand_in_the_status(open_room):
    room = await open_room()
    stages = {"prime": ("refine", "act", "plan"), "lite": ("observe",)}
    room.use(with_stages(role_table(), stages), "full")
    status = room.status("local")
    assert (status.depth, status.roles[0].stages) == ("full", ["refine", "act", "plan"])


async def test_a_turn_stands_in_the_status_of_its_tenant_while_it_runs(open_room):
    room = await open_room()
    room.begin("local", RunningTurn(turn_id="turn_1", session_id="s", depth="", stage="", role=""))
    room.step("turn_1", "plan", "lite", depth="full")
    assert room.status("work").turns == []
    assert room.status("local").turns == [
        RunningTurn(turn_id="turn_1", session_id="s", depth="full", stage="plan", role="lite")
    ]
    with pytest.raises(BadInput, match="runs already"):
        room.begin("local", room.running["turn_1"])
    room.end("turn_1")
    room.end("turn_1")
    assert not room.running


async def test_a_proposal_is_open_until_its_round_closes_for_its_tenant_only(open_room, clock):
    room = await open_room()
    made = await proposal(room)
    room.voting.open(made.full_id, "execute", "prime", "Shall we?", clock.monotonic(), room.seats())
    (found,) = room.open_proposals("local")
    assert (found.proposal_id, found.matter, found.closes_at) == (made.full_id, "execute", "2025-12-01T12:01:00Z")
    assert room.open_proposals("work") == []
    clock.advance(60.0)
    room.voting.advance(clock.monotonic(), room.seats())
    assert room.open_proposals("local") == []


def escalation(number, to="person"):
    return EscalationRecord(message_id=f"msg_{number:03}", raised_by="prime", to=to, triggers=["high_risk"], why="why")


async def test_what_went_to_the_person_is_open_until_they_speak_there_again(open_room):
    room = await open_room()
    await room.escalated("local", escalation(1), "s")
    await room.escalated("local", escalation(2), "other")
    await room.escalated("local", escalation(3, to="prime"), "s")
    assert [one.message_id for one in room.escalations("local")] == ["msg_001", "msg_002"]
    assert room.escalations("work") == []
    await room.resolved("local", "s")
    assert [one.message_id for one in room.status("local").escalations] == ["msg_002"]


async def test_open_escalations_outlive_the_daemon_and_answered_ones_do_not(open_room):
    room = await open_room()
    for number in (1, 2):
        await room.escalated("local", escalation(number), f"s{number}")
    await room.resolved("local", "s1")
    again = await open_room()
    assert again.escalations("local") == [msgspec.structs.replace(escalation(2), session_id="s2")]


async def test_only_the_last_open_escalations_are_shown(open_room):
    room = await open_room()
    for number in range(25):
        await room.escalated("local", escalation(number), "s")
    shown = [one.message_id for one in room.escalations("local")]
    assert shown == [f"msg_{number:03}" for number in range(5, 25)]
    assert (await open_room()).escalations("local") == room.escalations("local")


async def test_a_change_of_state_is_said_to_all(open_room, clock):
    room = await open_room()
    room.models["lite"].state = "failed"
    for _ in range(4):
        clock.advance(30.0)
        await beaten(room)
    assert room.role_states()[1].reason == "lite: failed"
    last = (await said(room, HOUSE, heartbeats=False))[-1]
    assert last.content == "Lite is inactive: no heartbeat for 120 s (lite: failed)."
