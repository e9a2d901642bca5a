from datetime import UTC, datetime

import msgspec
import pytest

from gaiad.base.clock import FrozenClock
from gaiad.base.errors import BadInput, NotFound
from gaiad.ledger.turn_log import CallRecord, CognitionLog
from gaiad.store.home_databases import HomeDatabases


@pytest.fixture
async def log(tmp_path):
    one = CognitionLog(HomeDatabases(tmp_path), FrozenClock(datetime(2025, 12, 1, tzinfo=UTC)))
    yield one
    one._databases.close()


def record(number, short="aaaaaaaa", turn="turn_1", session="s"):
    return CallRecord(
        full_id=f"cog_{number:04}", short_id=short, turn_id=turn, session_id=session, body=b'{"n":%d}' % number
    )


async def test_a_record_is_found_by_each_of_its_names(log):
    await log.add("local", record(1, "12345678", "turn_9"))
    for name in ("cog_0001", "12345678", "turn_9"):
        assert await log.find("local", name) == record(1, "12345678", "turn_9")


async def test_a_turn_is_its_last_call(log):
    for number in (1, 2, 3):
        await log.add("local", record(number, short=f"0000000{number}"))
    assert (await log.find("local", "turn_1")).full_id == "cog_0003"


async def test_digits_that_fit_several_name_them(log):
    await log.add("local", record(1, turn="a"))
    await log.add("local", record(2, turn="b"))
    with pytest.raises(BadInput, match=r"2 packets .* cog_0002, cog_0001"):
        await log.find("local", "aaaaaaaa")


async def test_another_tenants_packet_is_not_found(log):
    await log.add("work", record(1))
    with pytest.raises(NotFound, match="no Cognition Packet is called 'cog_0001'"):
        await log.find("local", "cog_0001")


async def test_the_newest_come_first_of_all_or_of_one_session(log):
    for number, session in enumerate(("a", "b", "a", "b"), 1):
        await log.add("local", record(number, session=session))
    assert [one.full_id for one in await log.newest("local", 3)] == ["cog_0004", "cog_0003", "cog_0002"]
    assert [one.full_id for one in await log.newest("local", 3, "a")] == ["cog_0003", "cog_0001"]


async def test_what_was_added_outlives_the_log(log, tmp_path):
    await log.add("local", record(1))
    log._databases.close()
    again = CognitionLog(HomeDatabases(tmp_path), FrozenClock(datetime(2025, 12, 1, tzinfo=UTC)))
    assert (await again.find("local", "cog_0001")).body == b'{"n":1}'
    assert again._databases.tenants() == ["local"]
    again._databases.close()


@pytest.mark.parametrize("tenant", ["", "..", "../x", "a/b", ".hidden", "a\0b"])
async def test_a_tenant_that_would_leave_the_folder_is_refused(log, tmp_path, tenant):
    with pytest.raises(BadInput, match="tenant"):
        await log.add(tenant, record(1))
    with pytest.raises(BadInput, match="tenant"):
        await log.newest(tenant, 5)
    assert not [*tmp_path.rglob("*.db")]


async def test_looking_makes_no_file(log, tmp_path):
    assert await log.newest("nobody", 5) == []
    with pytest.raises(NotFound):
        await log.find("nobody", "cog_0001")
    assert not [*tmp_path.rglob("*.db")]


async def test_a_turn_is_its_last_call_that_carries_the_session_on(log):
    for number, model in ((1, "print-1"), (2, "print-1"), (3, "")):
        await log.add("local", msgspec.structs.replace(record(number, short=f"0000000{number}"), model=model))
    assert (await log.find("local", "turn_1")).full_id == "cog_0002"
