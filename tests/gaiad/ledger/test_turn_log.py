from datetime import UTC, datetime

import pytest

from gaiad.base.clock import FrozenClock
from gaiad.base.errors import BadInput, Conflict, NotFound
from gaiad.base.ids import short
from gaiad.ledger import turn_log
from gaiad.ledger.turn_log import CUT_OFF, RUNNING, TurnLog
from gaiad.store.home_databases import HomeDatabases
from gaiad.wire.council import StageRecord, TurnRecord


@pytest.fixture
async def log(tmp_path):
    one = TurnLog(HomeDatabases(tmp_path), FrozenClock(datetime(2025, 12, 1, tzinfo=UTC)))
    yield one
    one._databases.close()


def record(number, status="answered", session="s", stages=()):
    return TurnRecord(
        turn_id=f"turn_{number:04}", session_id=session, depth="full", stages=list(stages), votes=[], status=status
    )


ACT = StageRecord(
    stage="act", role="prime", packet_id="cog_1", tokens=9, cached_tokens=700, ms=81.5, verdict="ok", confidence=0.8
)


async def test_a_turn_is_found_by_its_id_and_by_the_digits_shown_for_it(log):
    kept = record(1, stages=[ACT])
    await log.put("local", kept)
    assert await log.find("local", "turn_0001") == kept
    assert await log.find("local", short("turn_0001")) == kept


async def test_a_running_turn_is_written_again_and_an_ended_one_is_not(log):
    await log.put("local", record(1, RUNNING))
    await log.put("local", record(1, RUNNING, stages=[ACT]))
    await log.put("local", record(1, "answered", stages=[ACT]))
    for status in (RUNNING, "failed"):
        with pytest.raises(Conflict, match="turn 'turn_0001' has ended already"):
            await log.put("local", record(1, status))
    assert await log.newest("local", 5) == [record(1, "answered", stages=[ACT])]


async def test_digits_that_fit_several_name_them(log, monkeypatch):
    monkeypatch.setattr(turn_log, "short", lambda _: "aaaaaaaa")
    await log.put("local", record(1))
    await log.put("local", record(2))
    with pytest.raises(BadInput, match="2 turns match these digits; give the full id: turn_0001, turn_0002"):
        await log.find("local", "aaaaaaaa")


async def test_an_unknown_or_foreign_turn_is_not_found_with_the_remedy(log):
    await log.put("work", record(1))
    for name in ("turn_0001", short("turn_0001"), ""):
        with pytest.raises(NotFound, match="`gaiad turns list` shows the newest"):
            await log.find("local", name)


async def test_the_newest_come_first_of_all_or_of_one_session(log):
    for number, session in enumerate(("a", "b", "a", "b"), 1):
        await log.put("local", record(number, session=session))
    assert [one.turn_id[-1] for one in await log.newest("local", 3)] == ["4", "3", "2"]
    assert [one.turn_id[-1] for one in await log.newest("local", 3, "a")] == ["3", "1"]


async def test_turns_that_an_earlier_life_left_running_are_told_as_cut_off(log, tmp_path):
    await log.put("local", record(1, RUNNING, stages=[ACT]))
    await log.put("local", record(2))
    await log.put("work", record(3, RUNNING))
    log._databases.close()
    again = TurnLog(HomeDatabases(tmp_path), FrozenClock(datetime(2025, 12, 2, tzinfo=UTC)))
    assert await again.end_cut_off() == 2
    assert await again.end_cut_off() == 0
    found = await again.find("local", "turn_0001")
    assert (found.status, found.ended_at, found.stages) == (CUT_OFF, "2025-12-02T00:00:00Z", [ACT])
    assert await again.find("local", "turn_0002") == record(2)
    again._databases.close()


async def test_looking_makes_no_file(log, tmp_path):
    assert await log.newest("nobody", 5) == []
    assert log._databases.tenants() == []
    assert not [*tmp_path.rglob("*.db")]


async def test_an_answer_is_rated_once_it_is_there(log):
    await log.put("local", record(1, RUNNING))
    with pytest.raises(Conflict, match="has not ended yet"):
        await log.rate("local", "turn_0001", "up")
    await log.put("local", record(1, stages=[ACT]))
    assert (await log.rate("local", short("turn_0001"), "down")).rating == "down"
    found = await log.find("local", "turn_0001")
    assert (found.rating, found.stages) == ("down", [ACT])
    await log.rate("local", "turn_0001", "")
    assert await log.find("local", "turn_0001") == record(1, stages=[ACT])
    with pytest.raises(NotFound):
        await log.rate("local", "turn_0002", "up")
