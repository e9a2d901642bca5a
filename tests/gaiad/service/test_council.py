"""What is asked of the council, on real files and a real hub: nothing left out, nothing twice, nothing of others."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gaiad.base.clock import FrozenClock
from gaiad.base.errors import BadInput, NotFound
from gaiad.base.ports import RequestContext
from gaiad.wire.council import EscalationRecord
from tests.makers.council_desk import Beating, Desk

LOCAL = RequestContext(tenant="local")


@pytest.fixture
async def desk(tmp_path: Path, clock: FrozenClock) -> AsyncIterator[Any]:
    made: Any = Desk(tmp_path, clock, kept=8)
    yield made
    await made.stack.aclose()


def content(data: object) -> str:
    envelope: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(data))
    return str(envelope["content"])


async def heard(desk: Any, number: int, after: str = "", call: RequestContext = LOCAL, limit: int = 50) -> list[str]:
    """The next pieces of the followed log, each as its content; the mark between stored and live is `|`."""
    found: list[str] = []
    async with aclosing(desk.counsel.follow(call, after, limit, heartbeats=False)) as pieces:
        async for kind, _, data in pieces:
            found.append("|" if kind == "following" else content(data))
            if len(found) == number:
                break
    return found


async def test_the_newest_are_given_oldest_first_and_heartbeats_on_request(desk: Any) -> None:
    await desk.open()
    for number in range(3):
        await desk.say(f"word {number}")
    plain = await desk.counsel.messages(LOCAL, "", 2, heartbeats=False)
    assert [content(one) for one in plain] == ["word 1", "word 2"]
    everything = await desk.counsel.messages(LOCAL, "", 1000, heartbeats=True)
    types = [msgspec.json.decode(one)["type"] for one in everything]
    assert types.count("HEARTBEAT") == 3


async def test_after_takes_a_full_id_or_the_digits_shown(desk: Any) -> None:
    await desk.open()
    first = await desk.say("first")
    await desk.say("second")
    for name in (first.full_id, first.msg_id):
        found = await desk.counsel.messages(LOCAL, name, 10, heartbeats=False)
        assert [content(one) for one in found] == ["second"]
    with pytest.raises(NotFound, match="give its full id"):
        await desk.counsel.messages(LOCAL, "00000000", 10, heartbeats=False)
    with pytest.raises(BadInput, match="full id"):
        await desk.counsel.messages(LOCAL, "yesterday", 10, heartbeats=False)


async def test_digits_of_another_tenant_are_not_found(desk: Any) -> None:
    await desk.open()
    other = await desk.say("another's", tenant="work")
    with pytest.raises(NotFound):
        await desk.counsel.messages(LOCAL, other.msg_id, 10, heartbeats=False)


async def test_following_joins_stored_and_live_without_gap_or_double(desk: Any) -> None:
    await desk.open()
    start = await desk.say("0")
    await desk.say("1")
    reader = asyncio.get_running_loop().create_task(heard(desk, 6, start.full_id))
    for number in range(2, 6):  # while the reader is still reading what is stored
        await desk.say(str(number))
        await desk.say("another's", tenant="work")
    found = await asyncio.wait_for(reader, 30)
    assert [word for word in found if word != "|"] == ["1", "2", "3", "4", "5"]
    assert found.count("|") == 1


async def test_a_reader_slower_than_the_hub_gets_what_the_ring_lost_from_the_log(desk: Any) -> None:
    await desk.open()
    start = await desk.say("0")
    async with aclosing(desk.counsel.follow(LOCAL, start.full_id, 50, heartbeats=False)) as pieces:
        assert (await anext(pieces)).kind == "following"
        for number in range(1, 31):  # the ring keeps 8
            await desk.say(str(number))
        found = [content((await anext(pieces)).data) for _ in range(30)]
        await desk.say("31")
        found.append(content((await asyncio.wait_for(anext(pieces), 30)).data))
    assert found == [str(number) for number in range(1, 32)]


async def test_without_after_the_last_ones_come_first_and_an_empty_log_can_be_gone_on_from(desk: Any) -> None:
    await desk.open(**{role: Beating(role, state="sleeping") for role in ("prime", "lite", "codemind")})
    silent = RequestContext(tenant="silent")
    async with aclosing(desk.counsel.follow(silent, "", 2, heartbeats=False)) as pieces:
        while (piece := await anext(pieces)).kind == "message":
            assert "sleeps" in content(piece.data)
    await desk.say("a", "silent")
    await desk.say("b", "silent")
    assert await heard(desk, 3, piece.full_id, silent) == ["a", "b", "|"]


async def test_status_has_the_initiative_of_the_tenant(desk: Any) -> None:
    await desk.open()
    assert desk.counsel.status(LOCAL).initiative == {"enabled": True, "open_seeds": len("local")}
    assert desk.counsel.status(LOCAL).quorum is True


async def test_a_missing_quorum_is_told_only_where_models_were_given(desk: Any) -> None:
    await desk.open(prime=Beating("big"), lite=Beating("plain", "extractive"), codemind=Beating("plain", "extractive"))
    (words,) = desk.convened.degraded(["local"])
    assert "only prime can vote" in words
    assert "lite has no model that writes (roles.lite)" in words


async def test_no_model_at_all_is_a_choice_and_not_degraded(desk: Any) -> None:
    await desk.open(**{role: Beating("plain", "extractive") for role in ("prime", "lite", "codemind")})
    assert desk.counsel.status(LOCAL).quorum is False
    assert desk.convened.degraded(["local"]) == []


async def test_a_silent_role_is_named_with_its_reason(desk: Any, clock: FrozenClock) -> None:
    models = {role: Beating(role) for role in ("prime", "lite", "codemind")}
    await desk.open(**models)
    assert desk.convened.degraded([]) == []
    models["lite"].state = models["codemind"].state = "failed"
    clock.advance(91)
    await desk.beat()
    (words,) = desk.convened.degraded([])
    assert "only prime can vote" in words
    assert "lite is inactive (lite: failed)" in words


async def test_escalations_wait_in_degraded_for_those_who_may_see_them(desk: Any) -> None:
    await desk.open()
    for number in (1, 2):
        record = EscalationRecord(
            message_id=f"msg_{number}", raised_by="prime", to="person", triggers=["high_risk"], why=f"why {number}"
        )
        await desk.room.escalated("work", record, "ses_1")
    assert desk.convened.degraded(["local"]) == []
    (words,) = desk.convened.degraded(["local", "work"])
    assert words.startswith("2 escalations wait for your word in work: why 2; see `gaiad council status --tenant work`")
    await desk.room.resolved("work", "ses_1")
    assert desk.convened.degraded(["work"]) == []


async def test_old_heartbeats_are_forgotten_and_words_stay(desk: Any, clock: FrozenClock) -> None:
    await desk.open()
    await desk.say("stays")
    convened = desk.convened
    assert await convened.forget_heartbeats(7) == 0
    clock.advance(timedelta(days=8).total_seconds())
    assert await convened.forget_heartbeats(7) == 3
    found = await desk.counsel.messages(LOCAL, "", 100, heartbeats=True)
    assert "stays" in [content(one) for one in found]
