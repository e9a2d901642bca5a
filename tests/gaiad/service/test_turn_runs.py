"""Turns that run by themselves: begun once, followed by anyone who may, broken off, forgotten, ended at a stop."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import msgspec
import pytest

from gaiad.base.clock import SystemClock
from gaiad.base.errors import BadInput, Cancelled, Conflict, NotFound, Unavailable
from gaiad.base.ports import RequestContext
from gaiad.intake.exchange import error_body
from gaiad.service.turn_runs import TurnRuns
from gaiad.wire.chat import ChatRequest
from tests.makers.talk import Talk


@pytest.fixture
async def talk() -> Talk:
    return Talk()


@pytest.fixture
async def runs(talk: Talk) -> Any:
    made = TurnRuns(talk, SystemClock("UTC"), error_body, at_once=3, kept=2)
    yield made
    await made.stop(0.0)


def ask(message: str = "hello", key: str = "", channel: Any = "web_chat") -> ChatRequest:
    return ChatRequest(message=message, session_id="s", idempotency_key=key, channel=channel)


async def events(runs: TurnRuns, turn_id: str, after: int = 0, channel: Any = None, tenant: str = "local") -> list[Any]:
    """(number, name, data) of all of it, data as builtins."""
    followed = await runs.follow(turn_id, after, RequestContext(tenant=tenant), channel)
    async with asyncio.timeout(30):
        return [(number, name, msgspec.json.decode(msgspec.json.encode(data))) async for number, name, data in followed]


async def test_a_turn_goes_on_though_nobody_listens_and_is_told_whole_to_who_comes_late(
    runs: TurnRuns, talk: Talk
) -> None:
    started = await runs.start(ask(), RequestContext())
    assert [row.message for row in runs.running(RequestContext(), None)] == ["hello"]
    talk.say(started.turn_id, "One. ", "Two.", "")
    found = await events(runs, started.turn_id)
    assert [(number, name) for number, name, _ in found] in (
        [(1, "turn"), (3, "delta"), (4, "done")],
        [(1, "turn"), (2, "delta"), (3, "delta"), (4, "done")],
    )
    assert found[-1][2]["answer"] == "One. Two."
    assert runs.running(RequestContext(), None) == []
    assert (await events(runs, started.turn_id))[1:] == [(3, "delta", {"text": "One. Two."}), found[-1]]


async def test_who_asks_after_the_last_event_is_told_it_once_more(runs: TurnRuns, talk: Talk) -> None:
    """Its reader may have broken off in the very moment."""
    started = await runs.start(ask(), RequestContext())
    talk.say(started.turn_id, "Hi.", "")
    assert [name for _, name, _ in await events(runs, started.turn_id)][-1] == "done"
    assert [(number, name) for number, name, _ in await events(runs, started.turn_id, 3)] == [(3, "done")]


async def test_the_same_key_is_the_same_turn_also_when_asked_twice_at_once(runs: TurnRuns, talk: Talk) -> None:
    first, second = await asyncio.gather(
        runs.start(ask(key="k"), RequestContext()), runs.start(ask(key="k"), RequestContext())
    )
    assert first == second
    with pytest.raises(Conflict, match="'k' came with another message"):
        await runs.start(ask("something else", key="k"), RequestContext())
    talk.say("k", "Hi.", "")
    await events(runs, "k")
    assert await runs.start(ask(key="k"), RequestContext()) == first
    assert len(talk.taken) == 1


async def test_a_turn_that_came_to_nothing_is_taken_again_under_its_key(runs: TurnRuns, talk: Talk) -> None:
    await runs.start(ask(key="k"), RequestContext())
    talk.say("k", "It began", Unavailable("the model is away"))
    assert (await events(runs, "k"))[-1][1:] == (
        "error", {"code": "unavailable", "message": "the model is away", "retry_after_s": 1.0}
    )  # fmt: skip
    await runs.start(ask(key="k"), RequestContext())
    talk.say("k", "Hi.", "")
    assert (await events(runs, "k"))[-1][2]["answer"] == "Hi."


async def test_an_error_that_nobody_expected_is_told_without_its_words(runs: TurnRuns, talk: Talk) -> None:
    started = await runs.start(ask(), RequestContext())
    talk.say(started.turn_id, ValueError("a secret of the inside"))
    _, name, body = (await events(runs, started.turn_id))[-1]
    assert (name, body["code"]) == ("error", "internal")
    assert "secret" not in body["message"]


async def test_what_goes_wrong_after_the_answer_is_in_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    class Stumbling(Talk):
        async def chat(self, request: ChatRequest, call: RequestContext) -> AsyncGenerator[tuple[str, object], None]:
            async for event in super().chat(request, call):
                yield event
            raise RuntimeError("it could not be read ahead")

    talk = Stumbling()
    runs = TurnRuns(talk, SystemClock("UTC"), error_body)
    started = await runs.start(ask(), RequestContext())
    talk.say(started.turn_id, "Hi.", "")
    assert [name for _, name, _ in await events(runs, started.turn_id)] == ["turn", "delta", "done"]
    logged = capsys.readouterr()
    assert "turn_failed_after_its_answer" in logged.out + logged.err
    assert "it could not be read ahead" in logged.out + logged.err


async def test_all_that_run_keep_no_more_than_their_bound_together(talk: Talk) -> None:
    """The one with the most gives up its oldest; every end is told."""
    runs = TurnRuns(talk, SystemClock("UTC"), error_body, running_bytes=100_000)
    many, few = await runs.start(ask(), RequestContext()), await runs.start(ask(), RequestContext())
    talk.say(few.turn_id, *["word "] * 50)
    talk.say(many.turn_id, *["word "] * 2000)
    async with asyncio.timeout(30):
        while sum(run.events.bytes for run in runs._runs.values()) <= 80_000:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    await asyncio.sleep(0.2)
    assert 80_000 < sum(run.events.bytes for run in runs._runs.values()) <= 100_000
    for turn in (many, few):
        talk.say(turn.turn_id, "")
    assert [name for _, name, _ in await events(runs, few.turn_id)] == ["turn", "delta", "done"]
    first, *_, last = await events(runs, many.turn_id)
    assert (first[1], last[1]) == ("missed", "done")
    await asyncio.sleep(0)
    assert runs._held_bytes == 0


async def test_a_refusal_comes_before_anything_begins(runs: TurnRuns) -> None:
    with pytest.raises(BadInput, match="message is empty"):
        await runs.start(ask(""), RequestContext())
    assert runs.running(RequestContext(), None) == []


async def test_broken_off_it_ends_with_a_word_for_each_reader(runs: TurnRuns, talk: Talk) -> None:
    started = await runs.start(ask(), RequestContext())
    talk.say(started.turn_id, "It began")
    reading = asyncio.create_task(events(runs, started.turn_id))
    await asyncio.sleep(0.01)
    assert await runs.cancel(started.turn_id, RequestContext())
    assert talk.taken[0].cancelled
    _, name, body = (await reading)[-1]
    assert (name, body["code"]) == ("error", "cancelled")
    assert "interrupted" in body["message"]
    assert not await runs.cancel(started.turn_id, RequestContext())
    assert not await runs.cancel("turn_of_nobody", RequestContext())


async def test_broken_off_before_its_first_word_it_ends_too(runs: TurnRuns) -> None:
    started = await runs.start(ask(), RequestContext())
    assert await runs.cancel(started.turn_id, RequestContext())
    assert [name for _, name, _ in await events(runs, started.turn_id)] == ["error"]


async def test_another_tenant_neither_sees_nor_breaks_off_a_turn(runs: TurnRuns) -> None:
    started = await runs.start(ask(), RequestContext(tenant="work"))
    assert runs.running(RequestContext(), None) == []
    assert not await runs.cancel(started.turn_id, RequestContext())
    with pytest.raises(NotFound):
        await runs.follow(started.turn_id, 0, RequestContext(), None)
    assert [row.turn_id for row in runs.running(RequestContext(tenant="work"), None)] == [started.turn_id]


async def test_the_page_sees_only_what_was_said_on_the_page(runs: TurnRuns, talk: Talk) -> None:
    """What was begun elsewhere comes to it from memory alone, as its own channel may have it."""
    here, there = await runs.start(ask(), RequestContext()), await runs.start(ask(channel="cli_chat"), RequestContext())
    assert [row.turn_id for row in runs.running(RequestContext(), "web_chat")] == [here.turn_id]
    assert len(runs.running(RequestContext(), None)) == 2
    with pytest.raises(NotFound):
        await runs.follow(there.turn_id, 0, RequestContext(), "web_chat")
    talk.say(there.turn_id, "Hi.", "")
    await events(runs, there.turn_id)
    ((_, name, body),) = await events(runs, there.turn_id, channel="web_chat")
    assert (name, body["notes"]) == ("done", ["web_chat"])


async def test_the_last_ended_turns_are_kept_and_those_before_come_from_memory(runs: TurnRuns, talk: Talk) -> None:
    for number in range(4):
        started = await runs.start(ask(key=f"k{number}"), RequestContext())
        talk.say(started.turn_id, str(number), "")
        await events(runs, started.turn_id)
    assert [len(await events(runs, f"k{number}", 7)) for number in (0, 1)] == [1, 1]
    (alone,) = await events(runs, "k1", 7)
    assert (alone[0], alone[1], alone[2]["answer"]) == (8, "done", "1")
    assert [name for _, name, _ in await events(runs, "k3")] == ["turn", "delta", "done"]


async def test_one_that_came_to_nothing_before_is_told_as_an_error_event(runs: TurnRuns, talk: Talk) -> None:
    talk.remembered["t"] = Cancelled("turn 't' ended without an answer: gaiad ended")
    assert [(name, body["code"]) for _, name, body in await events(runs, "t")] == [("error", "cancelled")]


async def test_no_more_are_begun_than_can_be_taken_at_once(runs: TurnRuns, talk: Talk) -> None:
    started = [await runs.start(ask(), RequestContext()) for _ in range(3)]
    with pytest.raises(Unavailable, match="3 turns are already running"):
        await runs.start(ask(), RequestContext())
    talk.say(started[0].turn_id, "")
    await events(runs, started[0].turn_id)
    await runs.start(ask(), RequestContext())


async def test_at_a_stop_a_turn_may_come_to_its_end_and_the_others_are_broken_off(talk: Talk) -> None:
    runs = TurnRuns(talk, SystemClock("UTC"), error_body)
    quick, slow = await runs.start(ask(), RequestContext()), await runs.start(ask(), RequestContext())
    await asyncio.sleep(0)
    stopping = asyncio.create_task(runs.stop(0.2))
    await asyncio.sleep(0.01)
    with pytest.raises(Unavailable, match="is stopping"):
        await runs.start(ask(), RequestContext())
    talk.say(quick.turn_id, "Hi.", "")
    talk.say(slow.turn_id, "It began")
    await asyncio.wait_for(stopping, 30)
    assert (await events(runs, quick.turn_id))[-1][1] == "done"
    assert (await events(runs, slow.turn_id))[-1][1] == "error"
    assert talk.remembered[slow.turn_id].answer == "It began"  # type: ignore[union-attr]


async def test_a_model_that_never_waits_does_not_keep_the_others_waiting(talk: Talk) -> None:
    runs = TurnRuns(talk, SystemClock("UTC"), error_body)
    started = await runs.start(ask(), RequestContext())
    talk.say(started.turn_id, *["word "] * 20_000, "")
    rounds = 0
    while runs.running(RequestContext(), None):
        await asyncio.sleep(0)
        rounds += 1
    assert rounds > 5, "the loop went round while it wrote"
    await runs.stop(0.0)
