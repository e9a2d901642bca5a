"""Votes in a real room, log and audit: what was decided can be read again, and the chain of the audit holds."""

import asyncio
from datetime import UTC, datetime

import msgspec
import pytest

from council.balloting import Balloting
from council.envelope import read_envelope
from council.limits import council_limits
from council.quorum import council_rules
from council.roles import role_table
from council.room import Room
from gaiad.base.clock import FrozenClock
from gaiad.base.errors import WorkerDied
from gaiad.base.events import EventHub
from gaiad.base.ports import RequestContext
from gaiad.ledger.audit import verify_home
from gaiad.ledger.council_log import CouncilLog
from gaiad.store.home_databases import HomeDatabases
from gaiad.wire.council import HOUSE
from tests.makers.audits import open_audit
from tests.makers.council import ROLES, MadeSpeaker, ballot


class Model:
    """A member that is awake and has room."""

    kind, state, has_room, heard_at = "gguf", "ready", True, None

    def __init__(self, name):
        self.name = name

    async def beat(self, call):
        return 1.0


@pytest.fixture
async def house(tmp_path):
    clock, limits = FrozenClock(datetime(2025, 12, 1, 12, 0, tzinfo=UTC)), council_limits()
    log, audit, hub = (
        CouncilLog(HomeDatabases(tmp_path), clock),
        open_audit(tmp_path, clock),
        EventHub(clock),
    )
    room = Room(
        {role: Model(role) for role in ROLES}, log, hub, clock, table=role_table(), rules=council_rules(), limits=limits
    )
    await room.start()
    for _ in range(20):
        room.pulse.tick()
        await asyncio.sleep(0)
    speaker = MadeSpeaker(clock, prime=ballot(), lite=ballot("no"), codemind=ballot("abstain", 0.4))
    balloting = Balloting(room, speaker, room.voting, audit, clock, limits.voting)
    yield room, balloting, speaker, log, hub, tmp_path
    await balloting.close()
    await room.close()
    log._databases.close()
    audit.close()


async def said(log, tenant):
    kept = [read_envelope(one.body) for one in await log.after(tenant, "", 1000)]
    return [one for one in kept if one.type not in ("HEARTBEAT", "INFO")]


async def test_a_vote_stands_in_the_log_and_in_the_audit_as_it_was(house) -> None:
    room, balloting, _, log, hub, home = house
    decision, record = await balloting.decide(
        "local", "execute", "lite", "Run `ls`?", RequestContext(), turn_id="turn_1"
    )
    assert (decision.passed, decision.tally.ground) == (True, "prime"), "Prime decides the tie"
    paper, *votes = await said(log, "local")
    assert (paper.type, paper.full_id) == ("PROPOSAL", record.proposal_id)
    assert {vote.sender: msgspec.json.decode(vote.content)["vote"] for vote in votes} == {
        "prime": "yes", "lite": "no", "codemind": "abstain",
    }  # fmt: skip
    assert {vote.parent_id for vote in votes} == {paper.msg_id}
    published = [event.data["full_id"] for event in hub.since(0) if event.kind == "council"]
    assert set(published) >= {paper.full_id, *(vote.full_id for vote in votes)}
    assert room.open_proposals("local") == []
    verdict = verify_home(home)
    assert (verdict.ok, verdict.rows) == (True, 5)


async def test_an_open_proposal_is_seen_and_a_failing_role_costs_nothing(house) -> None:
    room, balloting, speaker, _, _, home = house
    asked, gate = asyncio.Event(), asyncio.Event()
    speaker.words["codemind"] = WorkerDied("codemind: its worker ended")
    say = speaker.say

    async def slowly(ask, call):
        asked.set()
        await gate.wait()
        return await say(ask, call)

    speaker.say = slowly
    voting = asyncio.get_running_loop().create_task(
        balloting.decide(HOUSE, "governance", "prime", "Another tone", RequestContext())
    )
    await asked.wait()
    (seen,) = room.open_proposals("local")
    assert (seen.matter, seen.proposer, seen.subject, seen.ballots) == ("governance", "prime", "Another tone", 0)
    gate.set()
    decision, record = await voting
    assert (decision.passed, decision.tally.silent) == (True, ("codemind",))
    assert "its worker ended" in record.reason
    assert verify_home(home).ok
