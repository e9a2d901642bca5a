"""Receipts: durable before anything is sent, one row a message, and nothing of the text once it is out."""

import pytest

from gaiad.base.errors import Unavailable
from gaiad.ledger.delivery_log import DeliveryLog
from gaiad.store.home_databases import HomeDatabases
from gaiad.wire.council import Parcel


def parcel(block=0, piece=0, turn="turn_1", address="a", channel="discord_chat", tenant="local"):
    return Parcel(
        id=f"{turn}.{channel}.{block}.{piece}",
        tenant=tenant,
        channel=channel,
        address=address,
        turn_id=turn,
        block=block,
        piece=piece,
        marker="RESPONSE",
        text=f"text {block}.{piece}",
        after="77",
    )


@pytest.fixture
async def log(tmp_path, clock):
    opened = DeliveryLog(HomeDatabases(tmp_path), clock)
    yield opened
    opened._databases.close()


async def test_what_waits_survives_and_comes_in_the_order_it_was_added(tmp_path, clock, log):
    await log.add([parcel(0, 0, "turn_9"), parcel(0, 1, "turn_9")], 10)
    await log.add([parcel(0, 0, "turn_1")], 10)
    log._databases.close()
    again = DeliveryLog(HomeDatabases(tmp_path), clock)
    order = []
    while found := await again.next("discord_chat", "local", "a"):
        order.append((found.parcel, found.tried))
        await again.delivered(found.parcel, "1")
    assert order == [(parcel(0, 0, "turn_9"), False), (parcel(0, 1, "turn_9"), False), (parcel(0, 0), False)]
    again._databases.close()


async def test_one_that_was_begun_was_tried(log):
    await log.add([parcel()], 10)
    await log.begin(parcel())
    found = await log.next("discord_chat", "local", "a")
    assert found is not None
    assert found.tried
    await log.failed(parcel(), "no connection")
    (receipt,) = await log.receipts("local", "turn_1")
    assert (receipt.state, receipt.attempts, receipt.reason) == ("waiting", 1, "no connection")


async def test_what_is_settled_is_not_changed_by_a_late_word(log):
    await log.add([parcel()], 10)
    await log.delivered(parcel(), "501")
    await log.refused(parcel(), "too late")
    await log.failed(parcel(), "too late")
    (receipt,) = await log.receipts("local", "turn_1")
    assert (receipt.state, receipt.outside_ids, receipt.reason) == ("delivered", ["501"], "")
    assert await log.next("discord_chat", "local", "a") is None
    assert await log.known(parcel()) == {"501"}


async def test_tenants_channels_and_addresses_are_apart(log):
    await log.add([parcel()], 10)
    await log.add([parcel(channel="other_chat")], 10)
    await log.add([parcel(tenant="work", address="b")], 10)
    assert await log.places("discord_chat") == [("local", "a"), ("work", "b")]
    assert await log.waiting("discord_chat") == 2
    assert await log.next("discord_chat", "local", "b") is None
    assert [receipt.channel for receipt in await log.receipts("local", "turn_1")] == ["discord_chat", "other_chat"]


async def test_more_than_may_wait_is_refused_whole_but_what_is_there_already_is_no_more(log):
    await log.add([parcel(n) for n in range(3)], 3)
    await log.add([parcel(n) for n in range(3)], 2)
    with pytest.raises(Unavailable, match="4 messages would be queued for discord_chat, more than the limit of 3"):
        await log.add([parcel(3)], 3)
    assert await log.waiting("discord_chat") == 3


async def test_a_block_that_is_refused_in_part_is_refused(log):
    await log.add([parcel(0, 0), parcel(0, 1)], 10)
    await log.delivered(parcel(0, 0), "1")
    await log.refused(parcel(0, 1), "not allowed")
    (receipt,) = await log.receipts("local", "turn_1")
    assert (receipt.state, receipt.pieces, receipt.outside_ids, receipt.reason) == ("refused", 2, ["1"], "not allowed")


async def test_a_turn_that_went_nowhere_has_no_receipts_and_makes_no_file(tmp_path, log):
    assert await log.receipts("local", "turn_1") == []
    assert not list(tmp_path.rglob("*.db"))
