"""Delivery: in order, once, whatever fails; a dead address and a full line hold up nobody else."""

import asyncio
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gaiad.base.clock import FrozenClock
from gaiad.base.errors import Unavailable
from gaiad.ledger.delivery_log import DeliveryLog
from gaiad.store.home_databases import HomeDatabases
from gaiad.wire.council import Parcel
from router.deliver import Deliverer, DeliveryLimits
from tests.makers.unsure_outside import UnsureOutside
from tests.makers.waiting import until

CLOCK = FrozenClock(datetime(2025, 12, 1, 12, 0, tzinfo=UTC))
LIMITS = DeliveryLimits(timeout_s=0.01, most_waiting=40, first_pause_s=0.0, longest_pause_s=0.001)
FAULTS = ("lost", "silent", "hangs", "stuck", "broken")


def parcel(text, block=0, piece=0, *, turn="turn_1", address="a", tenant="local"):
    return Parcel(
        id=f"{turn}.{block}.{piece}.{address}.{tenant}",
        tenant=tenant,
        channel="discord_chat",
        address=address,
        turn_id=turn,
        block=block,
        piece=piece,
        marker="RESPONSE",
        text=text,
    )


async def until_settled(deliverer, log):
    """Nothing waits and nothing runs."""
    for _ in range(60_000):
        if not await log.waiting("discord_chat") and not deliverer._lines:
            return
        await asyncio.sleep(0.001)
    raise AssertionError(f"{await log.waiting('discord_chat')} still wait")


@pytest.fixture
async def log(tmp_path):
    opened = DeliveryLog(HomeDatabases(tmp_path), CLOCK)
    yield opened
    opened._databases.close()


@pytest.fixture
async def house(log):
    """(outside, deliverer, notes) with the log of this test."""
    outside, notes = UnsureOutside(), []
    deliverer = Deliverer(outside, log, LIMITS, notes.append)
    yield outside, deliverer, notes
    await deliverer.stop()


async def test_what_is_handed_over_arrives_in_order_with_a_receipt(house, log):
    outside, deliverer, _ = house
    await deliverer.put([parcel("one", 0, 0), parcel("two", 0, 1), parcel("three", 1, 0)])
    await until(lambda: len(outside.said) == 3)
    await until_settled(deliverer, log)
    assert outside.texts() == ["one", "two", "three"]
    first, second = await log.receipts("local", "turn_1")
    assert (first.state, first.pieces, first.outside_ids, first.attempts) == ("delivered", 2, ["1", "2"], 2)
    assert (second.state, second.block, second.outside_ids) == ("delivered", 1, ["3"])


@pytest.mark.parametrize("fault", FAULTS)
async def test_after_a_failure_of_any_kind_it_is_there_once(house, log, fault):
    outside, deliverer, notes = house
    outside.faults = [fault]
    await deliverer.put([parcel("one"), parcel("one", 0, 1)])
    await until_settled(deliverer, log)
    assert outside.texts() == ["one", "one"]
    (receipt,) = await log.receipts("local", "turn_1")
    assert (receipt.state, receipt.attempts, receipt.reason) == ("delivered", 3, "")
    assert notes[0]
    assert notes[-1] == ""


async def test_what_was_sent_without_trouble_is_not_looked_for(house, log):
    outside, deliverer, _ = house
    await deliverer.put([parcel("one")])
    await until_settled(deliverer, log)
    assert (outside.looked, outside.sends) == (0, 1)


async def test_what_the_outside_refuses_is_not_tried_again_and_the_next_goes_on(house, log):
    outside, deliverer, _ = house
    outside.faults = ["refused"]
    await deliverer.put([parcel("bad"), parcel("good", 1)])
    await until_settled(deliverer, log)
    assert outside.texts() == ["good"]
    bad, good = await log.receipts("local", "turn_1")
    assert (bad.state, bad.reason, bad.attempts) == ("refused", "the outside does not want it", 1)
    assert good.state == "delivered"


async def test_the_same_blocks_handed_over_twice_are_sent_once(house, log):
    outside, deliverer, _ = house
    await deliverer.put([parcel("one")])
    await until_settled(deliverer, log)
    await deliverer.put([parcel("one")])
    await until_settled(deliverer, log)
    assert outside.texts() == ["one"]


async def test_a_dead_address_holds_up_no_other(tmp_path, log):
    class HalfDead(UnsureOutside):
        async def send(self, parcel):
            if parcel.address == "dead":
                await asyncio.Event().wait()
            return await super().send(parcel)

    outside, notes = HalfDead(), []
    limits = DeliveryLimits(timeout_s=30.0, most_waiting=40)
    deliverer = Deliverer(outside, log, limits, notes.append)
    await deliverer.put([parcel("never", address="dead")])
    await deliverer.put([parcel("now", turn="turn_2", address="alive")])
    await until(lambda: outside.texts("alive") == ["now"])
    await deliverer.stop()


async def test_a_full_line_refuses_a_whole_turn_and_keeps_what_it_has(tmp_path, log):
    outside = UnsureOutside()
    outside.faults = ["lost"] * 1000
    limits = DeliveryLimits(timeout_s=1.0, most_waiting=3, first_pause_s=30.0)
    deliverer = Deliverer(outside, log, limits, lambda words: None)
    await deliverer.put([parcel("one"), parcel("two", 1)])
    with pytest.raises(Unavailable, match="4 messages would be queued for discord_chat, more than the limit of 3"):
        await deliverer.put([parcel("three", turn="turn_2"), parcel("four", 1, turn="turn_2")])
    assert await log.waiting("discord_chat") == 2
    assert await log.receipts("local", "turn_2") == []
    await deliverer.stop()


async def test_a_reconnection_ends_the_pause(log):
    outside = UnsureOutside()
    outside.faults = ["lost"]
    limits = DeliveryLimits(timeout_s=1.0, most_waiting=3, first_pause_s=60.0)
    deliverer = Deliverer(outside, log, limits, lambda words: None)
    await deliverer.put([parcel("one")])
    await until(lambda: outside.sends == 1 and not outside.faults)
    await asyncio.sleep(0.05)
    assert outside.said == []
    deliverer.try_again()
    await until_settled(deliverer, log)
    assert outside.texts() == ["one"]
    await deliverer.stop()


async def test_an_error_that_nobody_foresaw_ends_no_line_and_stands_in_the_receipt_until_it_is_sent(log):
    outside, notes = UnsureOutside(), []
    outside.faults = ["broken"]
    limits = DeliveryLimits(timeout_s=1.0, most_waiting=3, first_pause_s=60.0)
    deliverer = Deliverer(outside, log, limits, notes.append)
    await deliverer.put([parcel("one")])
    await until(lambda: notes)
    (receipt,) = await log.receipts("local", "turn_1")
    assert (receipt.state, receipt.reason) == ("waiting", "unexpected RuntimeError: Session is closed")
    assert "Session is closed" in notes[0]
    deliverer.try_again()
    await until_settled(deliverer, log)
    assert outside.texts() == ["one"]
    assert notes[-1] == ""
    await deliverer.stop()


async def test_words_said_aside_take_half_of_the_places_at_most(log):
    outside = UnsureOutside()
    outside.faults = ["lost"] * 1000
    limits = DeliveryLimits(timeout_s=1.0, most_waiting=4, first_pause_s=30.0)
    deliverer = Deliverer(outside, log, limits, lambda words: None)
    await deliverer.put([parcel("busy", turn="aside_1")], is_aside=True)
    await deliverer.put([parcel("busy", turn="aside_2")], is_aside=True)
    with pytest.raises(Unavailable, match="3 messages would be queued for discord_chat, more than the limit of 2"):
        await deliverer.put([parcel("busy", turn="aside_3")], is_aside=True)
    await deliverer.put([parcel("the answer"), parcel("its end", 1)])
    assert await log.waiting("discord_chat") == 4
    await deliverer.stop()


async def test_a_stop_lets_what_can_go_out_go_out_and_waits_for_nothing_else(log):
    class HalfDead(UnsureOutside):
        async def send(self, parcel):
            if parcel.address == "dead":
                raise Unavailable("no connection", 0.0)
            await asyncio.sleep(0.05)
            return await super().send(parcel)

    outside, notes = HalfDead(), []
    limits = DeliveryLimits(timeout_s=30.0, most_waiting=40, first_pause_s=60.0)
    deliverer = Deliverer(outside, log, limits, notes.append)
    await deliverer.put([parcel("never", address="dead")])
    await until(lambda: notes)
    await deliverer.put([parcel("first", turn="turn_2"), parcel("last words", 1, turn="turn_2")])
    began = asyncio.get_running_loop().time()
    await deliverer.stop(120.0)
    assert asyncio.get_running_loop().time() - began < 60.0
    assert outside.texts() == ["first", "last words"]
    assert await log.waiting("discord_chat") == 1


async def test_what_an_earlier_life_left_is_sent_at_the_start_and_its_text_goes_then(log):
    await log.add([parcel("from before")], 10)
    await log.add([parcel("other", tenant="work")], 10)
    outside = UnsureOutside()
    deliverer = Deliverer(outside, log, LIMITS, lambda words: None)
    await deliverer.start()
    await until_settled(deliverer, log)
    assert sorted(outside.texts()) == ["from before", "other"]
    rows = await log._rows("local", "SELECT text FROM deliveries", ())
    assert rows == [("",)]
    await deliverer.stop()


async def test_what_comes_at_the_moment_a_line_runs_empty_is_sent(tmp_path):
    class Late(DeliveryLog):
        async def next(self, channel, tenant, address):
            found = await super().next(channel, tenant, address)
            if found is None and late:
                await deliverer.put([late.pop()])
            return found

    outside, late = UnsureOutside(), [parcel("late", turn="turn_2")]
    log = Late(HomeDatabases(tmp_path), CLOCK)
    deliverer = Deliverer(outside, log, LIMITS, lambda words: None)
    await deliverer.put([parcel("one")])
    await until(lambda: outside.texts() == ["one", "late"])
    await deliverer.stop()
    log._databases.close()


MOVES = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(1, 3), st.sampled_from("ab")),
        st.tuples(st.just("fault"), st.sampled_from(FAULTS), st.just("")),
        st.tuples(st.just("restart"), st.integers(0, 3), st.just("")),
        st.tuples(st.just("reconnect"), st.just(0), st.just("")),
        st.tuples(st.just("wait"), st.integers(1, 4), st.just("")),
    ),
    min_size=1,
    max_size=12,
)


@settings(max_examples=60)
@given(moves=MOVES)
def test_any_order_of_failures_restarts_and_reconnects_delivers_each_block_once_in_order(moves):
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_live(Path(folder), moves))


async def _live(folder, moves):
    outside, wanted, turns = UnsureOutside(), {"a": [], "b": []}, 0
    log = DeliveryLog(HomeDatabases(folder), CLOCK)
    deliverer = Deliverer(outside, log, LIMITS, lambda words: None)
    for kind, what, address in moves:
        if kind == "put":
            turns += 1
            texts = [f"same {piece % 2}" for piece in range(what)]  # equal texts must not be taken for each other
            wanted[address] += texts
            turn = f"turn_{turns}"
            await deliverer.put([parcel(text, n, turn=turn, address=address) for n, text in enumerate(texts)])
        elif kind == "fault":
            outside.faults.append(what)
        elif kind == "reconnect":
            deliverer.try_again()
        elif kind == "wait":
            await asyncio.sleep(0.002 * what)
        else:
            for _ in range(what):
                await asyncio.sleep(0)
            await deliverer.stop()
            log._databases.close()
            log = DeliveryLog(HomeDatabases(folder), CLOCK)
            deliverer = Deliverer(outside, log, LIMITS, lambda words: None)
            await deliverer.start()
    await until_settled(deliverer, log)
    assert {address: outside.texts(address) for address in "ab"} == wanted
    states = {receipt.state for n in range(turns) for receipt in await log.receipts("local", f"turn_{n + 1}")}
    assert states <= {"delivered"}
    await deliverer.stop()
    log._databases.close()
