from datetime import UTC, datetime, timedelta

import pytest

from gaiad.base.clock import FrozenClock
from gaiad.base.errors import BadInput, GaiadError
from gaiad.base.ids import IdMaker, lowest
from gaiad.ledger.council_log import CouncilLog
from gaiad.store.home_databases import HomeDatabases
from gaiad.wire.council import HOUSE, EscalationRecord, OpenEscalation, StoredMessage

NOON = datetime(2025, 12, 1, 12, tzinfo=UTC)


@pytest.fixture
async def log(tmp_path):
    one = CouncilLog(HomeDatabases(tmp_path), FrozenClock(NOON))
    yield one
    one._databases.close()


def message(number, type="INFO", turn=""):
    return StoredMessage(full_id=f"msg_{number:04}", type=type, turn_id=turn, body=b'{"n":%d}' % number)


def ids(messages):
    return [int(one.full_id.removeprefix("msg_")) for one in messages]


async def fill(log):
    """Odd ones are the tenant's, even ones the house's; every fourth is a heartbeat; one is another tenant's."""
    for number in range(1, 13):
        kind = "HEARTBEAT" if number % 4 == 0 else "INFO"
        await log.add(HOUSE if number % 2 == 0 else "local", message(number, kind))
    await log.add("work", message(50))


async def test_a_tenant_reads_its_own_and_the_houses_messages_in_one_order(log):
    await fill(log)
    assert ids(await log.after("local", "", 100)) == list(range(1, 13))
    assert ids(await log.after("work", "", 100)) == [2, 4, 6, 8, 10, 12, 50]
    assert ids(await log.after(HOUSE, "", 100)) == [2, 4, 6, 8, 10, 12]


async def test_reading_on_after_each_answer_gives_every_message_once(log):
    await fill(log)
    found, last = [], ""
    while more := await log.after("local", last, 5):
        found += ids(more)
        last = more[-1].full_id
    assert found == list(range(1, 13))


async def test_the_newest_come_first(log):
    await fill(log)
    assert ids(await log.newest("local", 4)) == [12, 11, 10, 9]


async def test_heartbeats_are_left_out_on_request_without_taking_places(log):
    await fill(log)
    assert ids(await log.newest("local", 4, heartbeats=False)) == [11, 10, 9, 7]
    assert ids(await log.after("local", "msg_0003", 3, heartbeats=False)) == [5, 6, 7]


async def test_a_message_comes_back_as_it_was_said(log):
    said = message(1, "PROPOSAL", "turn_1")
    await log.add("local", said)
    await log.add("local", message(2))
    assert await log.after("local", "", 1) == [said]
    assert await log.of_turn("local", "turn_1") == [said]
    assert await log.of_turn("local", "") == []


async def test_a_message_is_never_written_over(log):
    await log.add("local", message(1, "INFO"))
    with pytest.raises(GaiadError):
        await log.add("local", message(1, "VOTE"))
    assert [one.type for one in await log.newest("local", 5)] == ["INFO"]


async def test_old_heartbeats_go_and_everything_else_stays(log):
    assert await log.prune_heartbeats("msg_9999") == 0
    await fill(log)
    assert await log.prune_heartbeats("msg_0008") == 1
    assert ids(await log.after("local", "", 100)) == [1, 2, 3, 5, 6, 7, 8, 9, 10, 11, 12]


def test_the_lowest_id_of_a_moment_parts_what_was_made_before_it_from_the_rest():
    clock = FrozenClock(NOON)
    maker = IdMaker(clock)
    before = maker.make("msg")
    clock.advance(0.001)
    border = lowest(NOON + timedelta(milliseconds=1), "msg")
    assert before < border <= maker.make("msg")


def escalation(number):
    return EscalationRecord(
        message_id=f"msg_{number:04}", raised_by="prime", to="person", triggers=["high_risk"], why="the risk is high"
    )


async def test_escalations_are_open_until_their_session_is_answered_also_after_a_restart(log, tmp_path):
    for number, tenant, session in ((1, "local", "a"), (2, "local", "b"), (3, "work", "a")):
        await log.add_escalation(tenant, session, escalation(number))
    await log.answer_escalations("local", "a")
    log._databases.close()
    again = CouncilLog(HomeDatabases(tmp_path), FrozenClock(NOON))
    assert await again.open_escalations(10) == [
        OpenEscalation(tenant="local", session_id="b", record=escalation(2)),
        OpenEscalation(tenant="work", session_id="a", record=escalation(3)),
    ]
    assert again._databases.tenants() == ["local", "work"]
    again._databases.close()


async def test_the_last_open_escalations_are_given_oldest_first(log):
    for number in range(5):
        await log.add_escalation("local", "s", escalation(number))
    assert [one.record.message_id for one in await log.open_escalations(2)] == ["msg_0003", "msg_0004"]


@pytest.mark.parametrize("tenant", ["", "..", "../x", "a/b", ".hidden", "a\0b"])
async def test_a_tenant_that_would_leave_the_folder_is_refused(log, tmp_path, tenant):
    with pytest.raises(BadInput, match="tenant"):
        await log.add(tenant, message(1))
    with pytest.raises(BadInput, match="tenant"):
        await log.after(tenant, "", 5)
    assert not [*tmp_path.rglob("*.db")]
