import asyncio

import pytest

from gaiad.base.clock import SystemClock
from gaiad.base.errors import Cancelled, DeadlineExceeded
from gaiad.base.ports import RequestContext
from gaiad.models.supervision.protocol import Delta, Pong
from gaiad.models.supervision.queueing import Pending, look_again_s

CLOCK = SystemClock("UTC")
LOOK_S = 0.02


def piece(tokens):
    return Delta(id=1, text=f"<{tokens}>", tokens=tokens)


async def test_pieces_come_together_and_once_and_the_answer_ends_them():
    pending = Pending(1)
    pending.add(piece(1))
    pending.add(piece(2))
    assert [each.tokens for each in await pending.more(RequestContext(), CLOCK, LOOK_S)] == [1, 2]
    pending.add(piece(3))
    pending.answer.set_result(Pong(id=1))
    pending.add(piece(4))
    assert [each.tokens for each in await pending.more(RequestContext(), CLOCK, LOOK_S)] == [3], (
        "what came before the answer"
    )
    assert await pending.more(RequestContext(), CLOCK, LOOK_S) == []


async def test_a_piece_wakes_whoever_waits_at_once():
    pending = Pending(1)
    asyncio.get_running_loop().call_later(0.05, pending.add, piece(1))
    async with asyncio.timeout(30):
        assert len(await pending.more(RequestContext(), CLOCK, 600.0)) == 1


async def test_an_answer_without_text_wakes_too():
    pending = Pending(1)
    asyncio.get_running_loop().call_later(0.05, pending.answer.set_result, Pong(id=1))
    async with asyncio.timeout(30):
        assert await pending.more(RequestContext(), CLOCK, 600.0) == []


async def test_a_cancel_is_seen_at_the_next_look():
    call, pending = RequestContext(), Pending(1)
    asyncio.get_running_loop().call_later(0.05, call.cancel)
    async with asyncio.timeout(30):
        with pytest.raises(Cancelled):
            await pending.more(call, CLOCK, LOOK_S)


async def test_a_deadline_is_kept_though_the_next_look_is_far():
    pending = Pending(1)
    async with asyncio.timeout(30):
        with pytest.raises(DeadlineExceeded):
            await pending.more(RequestContext(deadline=CLOCK.monotonic() + 0.1), CLOCK, 600.0)


def test_the_next_look_is_at_the_deadline_and_never_in_the_past():
    now = CLOCK.monotonic()
    assert look_again_s(RequestContext(), CLOCK, 0.5) == 0.5
    assert look_again_s(RequestContext(deadline=now + 60), CLOCK, 0.5) == 0.5
    assert 0 < look_again_s(RequestContext(deadline=now + 0.2), CLOCK, 0.5) <= 0.2
    assert 0 < look_again_s(RequestContext(deadline=now - 5), CLOCK, 0.5) < 0.01
