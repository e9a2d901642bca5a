"""The council's room as the daemon opens it: on real models' pool and real files, over one life and the next."""

from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import msgspec

from council.limits import council_limits
from council.roles import role_table
from gaiad.base.clock import FrozenClock
from gaiad.base.config import Config
from gaiad.base.events import EventHub
from gaiad.daemon.assemble import open_pool
from gaiad.daemon.conversations import open_council, with_settings
from gaiad.ledger.audit import AuditLog
from gaiad.ledger.turn_log import CUT_OFF, RUNNING, TurnLog
from gaiad.store.home_databases import HomeDatabases
from gaiad.wire.council import StoredMessage, TurnRecord

TURN = TurnRecord(turn_id="turn_1", session_id="s", depth="full", stages=[], votes=[], status=RUNNING)


async def test_a_turn_that_was_running_is_told_as_cut_off(tmp_path: Path, clock: FrozenClock, config: Config) -> None:
    databases = HomeDatabases(tmp_path)
    await TurnLog(databases, clock).put("local", TURN)
    async with AsyncExitStack() as stack:
        stack.callback(databases.close)
        audit = AuditLog.open(databases.state, clock)
        stack.callback(audit.close)
        pool = await open_pool(stack, tmp_path, config, clock, {})
        hub = EventHub(clock)
        found = await open_council(stack, databases, config, clock, pool, hub, audit, role_table())
        assert (await found.turn_log.find("local", "turn_1")).status == CUT_OFF
        await found.room.pulse.told()
        assert [state.model for state in found.room.role_states()] == ["extractive"] * 3
        await found.room.post("local", sender="lite", role="planner", type="INFO", content="a word")


async def test_a_proposal_that_a_kill_cut_off_is_withdrawn_once(
    tmp_path: Path, clock: FrozenClock, config: Config
) -> None:
    async def live(post: bool) -> list[StoredMessage]:
        async with AsyncExitStack() as stack:
            databases = HomeDatabases(tmp_path)
            stack.callback(databases.close)
            audit = AuditLog.open(databases.state, clock)
            stack.callback(audit.close)
            pool = await open_pool(stack, tmp_path, config, clock, {})
            found = await open_council(stack, databases, config, clock, pool, EventHub(clock), audit, role_table())
            if post:
                say = partial(found.room.post, sender="lite", role="proposer", type="PROPOSAL", turn_id="turn_1")
                ended = await say("local", content="ended")
                for tenant in ("local", "blue"):
                    await say(tenant, content="open")
                await found.room.post(
                    "local", sender="gaiad", role="council", type="INFO", content="{}", turn_id="turn_1", parent=ended
                )
            rows = audit.newest(("council.withdrawn",))
            assert (rows is None) is post
            local, blue = [await found.log.of_turn(tenant, "turn_1") for tenant in ("local", "blue")]
            return sorted(local + blue, key=lambda message: message.full_id)

    assert len(await live(post=True)) == 4
    after = await live(post=False)
    said = [message for message in after if b"withdrawn: gaiad ended" in message.body]
    assert (len(after), len(said)) == (6, 2)
    assert await live(post=False) == after


def test_a_vote_is_open_as_long_as_the_setting_says(config: Config) -> None:
    changed = msgspec.structs.replace(config.council, vote_s=7.0)
    assert with_settings(council_limits(), changed).voting.deadline_s == 7.0
