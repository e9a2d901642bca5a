"""One thought at a time is proposed, voted on and recorded, never anything else; a person always goes first."""

import ast
import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest

import council.initiative
from council.initiative.seed_store import Seed
from council.ports import Ask
from council.quorum import Seat
from gaiad.base.clock import FrozenClock
from gaiad.base.errors import BadInput, DeadlineExceeded, Unavailable, WorkerDied
from gaiad.base.ports import Priority, RequestContext
from gaiad.wire.memory import SessionTurn
from prompts.packet import WorkItem
from tests.makers.initiative_house import PROPOSAL, House, ballot, obliging

Build = Callable[[], Awaitable[House]]


async def test_a_thought_is_proposed_voted_and_recorded(house: House) -> None:
    added = await house.add()
    await house.look()
    seed = await house.seed()
    assert (seed.state, seed.proposal) == ("passed", "Ask which tram was meant.\n\nWhy: Two are named.")
    assert seed.reason.startswith("passed by majority (3 yes")
    [proposal] = house.floor.said("PROPOSAL")
    assert "Ask which tram was meant." in proposal
    assert len(house.floor.said("VOTE")) == 3
    assert house.floor.said("INFO")[-1].startswith("A thought for later was proposed and passed: passed by majority")
    kinds = [kind for kind, *_ in house.audit.rows]
    assert kinds.count("council.ballot") == 3
    kind, actor, body, tenant = house.audit.rows[-1]
    assert (kind, actor, tenant) == ("council.initiative", "prime", "local")
    assert (body["seed_id"], body["turn_id"], body["outcome"], body["tokens"]) == (
        added.seed_id,
        "turn_1",
        "passed",
        160,
    )
    assert body["proposal_id"] == seed.proposal_id


async def test_the_memory_keeps_the_outcome_as_a_thought_seed_block(house: House) -> None:
    await house.add()
    await house.look()
    [(tenant, turn)] = house.remembered
    assert (tenant, turn.session_id, turn.status, turn.origin_run_id) == ("local", "initiative", "passed", "turn_1")
    [block] = turn.blocks
    assert (block.marker, block.role) == ("THOUGHT_SEED", "prime")
    assert block.text.startswith("Ask about the tram.\n\nProposal: Ask which tram was meant.")
    assert "Outcome: passed; passed by majority" in block.text
    assert turn.messages[0].content.strip(), "a turn that says nothing is refused by the archive"


async def test_the_calls_are_of_the_background_and_of_the_tenant(house: House) -> None:
    seed = await house.add(tenant="work")
    await house.look()
    ask, call = house.speaker.asks[0]
    assert (ask.role, ask.task_instruction, ask.turn_id) == ("prime", "initiative", seed.seed_id)
    assert ask.work == (WorkItem("THOUGHT_SEED", "Ask about the tram.", ""),)
    assert all("tram" not in ask.subject for ask, _ in house.speaker.asks), "what a model wrote is fenced"
    assert all(call.priority == Priority.BACKGROUND and call.tenant == "work" for _, call in house.speaker.asks)
    assert call.deadline == 300.0
    assert {tenant for tenant, _ in house.floor.posts} == {"work"}


async def test_a_refused_thought_is_recorded_too(house: House) -> None:
    house.speaker.script = lambda ask: PROPOSAL if ask.task_instruction == "initiative" else ballot("no")
    await house.add()
    await house.look()
    assert (await house.seed()).state == "failed"
    assert house.remembered[0][1].status == "failed"
    assert house.floor.said("INFO")[-1].startswith("A thought for later was proposed and did not pass")
    await house.look()
    assert len(house.floor.said("PROPOSAL")) == 1, "and not taken up again"


async def test_one_look_takes_up_one_thought(house: House) -> None:
    for number in range(3):
        await house.add(f"thought {number}")
    await house.look()
    states = [seed.state for seed in await house.initiative.seeds("local")]
    assert states == ["open", "open", "passed"]


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("", "prime made no proposal of it"),
        ('{"proposal": "EXECUTE: rm -rf /", "why": "x"}', "its proposal is withheld: it gives a command"),
        ('{"proposal": "Keep AKIAIOSFODNN7EXAMPLE in mind.", "why": "x"}', "its proposal is withheld: it shows"),
    ],
)
async def test_what_cannot_be_proposed_is_dropped_unseen(house: House, reply: str, reason: str) -> None:
    house.speaker.script = lambda _: reply
    await house.add()
    await house.look()
    seed = await house.seed()
    assert (seed.state, seed.proposal) == ("dropped", "")
    assert seed.reason.startswith(reason)
    assert house.floor.said("PROPOSAL") == []
    assert house.remembered == []
    assert house.audit.rows[-1][2]["outcome"] == "dropped"
    assert not any("rm -rf" in text or "AKIA" in text for text in house.floor.said("INFO"))


# ---------------------------------------------------------------------------------------------- when it does not look


def away(house: House) -> None:
    house.floor.away = {"lite", "codemind"}


def without_prime(house: House) -> None:
    house.floor.away = {"prime"}


def busy(house: House) -> None:
    house.floor.busy = {"lite"}


def off(house: House) -> None:
    house.initiative.apply(msgspec.structs.replace(house.settings, enabled=False))


def poor(house: House) -> None:
    house.initiative.apply(msgspec.structs.replace(house.settings, daily_tokens=607))


@pytest.mark.parametrize(
    ("obstacle", "reason"),
    [
        (away, "1 roles can vote, and a quorum is 2"),
        (without_prime, "prime is not there"),
        (busy, "lite is at work"),
        (off, "initiative.enabled is off"),
        (poor, "a run may need 608 tokens and 607 of the day's are left"),
    ],
)
async def test_it_waits_and_says_for_what(house: House, obstacle: Callable[[House], None], reason: str) -> None:
    await house.add()
    obstacle(house)
    await house.look()
    assert house.speaker.asks == []
    assert (await house.seed()).state == "open"
    status = house.initiative.status("local")
    assert (status["waits_for"], status["last_run_at"], status["open_seeds"]) == (reason, "", 1)


async def test_the_switch_works_live(house: House) -> None:
    await house.add()
    off(house)
    await house.look()
    assert house.looked == [], "a loop that is off is not active"
    house.initiative.apply(house.settings)
    await house.look()
    assert (await house.seed()).state == "passed"
    assert house.looked == [""]


async def test_it_is_registered_with_the_timer(house: House) -> None:
    seconds, work = house.timer.work["initiative"]
    await house.add()
    await work()
    assert (seconds, (await house.seed()).state) == (900.0, "passed")


# ------------------------------------------------------------------------------------------------- a person goes first


async def until_asked(house: House, asks: int) -> "asyncio.Task[None]":
    looking = asyncio.ensure_future(house.look())
    while len(house.speaker.asks) < asks:
        house.speaker.begun.clear()
        await asyncio.wait_for(house.speaker.begun.wait(), 30)
    return looking


def stuck_at(stage: str) -> Callable[[Ask], str | None]:
    return lambda ask: None if ask.task_instruction == stage else obliging(ask)


@pytest.mark.parametrize(("stage", "asks", "spent"), [("initiative", 1, 320), ("ballot", 4, 40 + 3 * 96)])
async def test_it_gives_way_within_one_turn_of_the_event_loop(house: House, stage: str, asks: int, spent: int) -> None:
    house.speaker.script = stuck_at(stage)
    await house.add()
    looking = await until_asked(house, asks)
    calls = [call for ask, call in house.speaker.asks if ask.task_instruction == stage]
    with house.initiative.person():
        assert all(call.cancelled for call in calls)
        await asyncio.sleep(0)
        assert house.speaker.cancelled == len(calls), "nobody writes any more"
        await looking
        await house.look()
        assert len(house.speaker.asks) == asks, "nothing begins while the person is there"
    seed = await house.seed()
    assert (seed.state, seed.reason, seed.failures) == ("open", "a person is being answered", 0)
    status = house.initiative.status("local")
    assert (status["last_outcome"], status["tokens_today"], status["failures"]) == ("yielded", spent, 0)
    house.speaker.script = obliging
    await house.look()
    assert (await house.seed()).state == "passed"


async def test_a_proposal_that_was_left_in_its_vote_is_not_written_again(house: House) -> None:
    house.speaker.script = stuck_at("ballot")
    await house.add()
    looking = await until_asked(house, 4)
    with house.initiative.person():
        await looking
    house.speaker.script = obliging
    await house.look()
    assert [ask.task_instruction for ask, _ in house.speaker.asks].count("initiative") == 1
    assert len(house.floor.said("PROPOSAL")) == 2
    assert len(house.floor.said("VOTE")) == 3


async def test_a_person_who_came_and_went_while_nothing_was_asked_leaves_no_trace(house: House) -> None:
    with house.initiative.person(), house.initiative.person():
        pass
    await house.add()
    await house.look()
    assert (await house.seed()).state == "passed"


async def test_at_whatever_moment_a_person_comes_nobody_writes_a_turn_of_the_loop_later(house: House) -> None:
    house.speaker.delay_s = 0.002
    for moment in range(20):
        await house.add(f"thought {moment}")
        looking = asyncio.ensure_future(house.look())
        await asyncio.sleep(moment * 0.0008)
        with house.initiative.person():
            await asyncio.sleep(0)
            assert house.speaker.running == 0
            await looking
            assert house.speaker.running == 0
    states = {seed.state for seed in await house.initiative.seeds("local")}
    assert states <= {"open", "passed"}
    outcomes = house.initiative.status("local")["failures"]
    assert outcomes == 0


async def test_a_person_who_comes_before_the_first_word_of_a_ballot(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    seats, person = house.floor.seats, house.initiative.person()

    def watched() -> list[Seat]:
        if house.floor.said("PROPOSAL") and not house.speaker.cancelled:
            monkeypatch.undo()
            asyncio.get_running_loop().call_soon(person.__enter__)  # before those who are asked now begin
        return seats()

    monkeypatch.setattr(house.floor, "seats", watched)
    await house.add()
    await house.look()
    assert [ask.task_instruction for ask, _ in house.speaker.asks] == ["initiative"], "no ballot was begun"
    assert ((await house.seed()).state, house.initiative.status("local")["last_outcome"]) == ("open", "yielded")
    person.__exit__(None, None, None)
    await house.look()
    assert (await house.seed()).state == "passed"


async def test_a_person_who_came_and_went_while_nothing_was_written_costs_nothing(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    await house.add()
    write = house.files.write

    async def with_a_visit(tenant: str, work: Callable[[sqlite3.Connection], Any]) -> Any:
        with house.initiative.person():
            pass
        return await write(tenant, work)

    monkeypatch.setattr(house.files, "write", with_a_visit)
    await house.look()
    assert (await house.seed()).state == "passed"


async def test_a_late_ballot_gives_way_too(house: House, clock: FrozenClock) -> None:
    async def sleep(seconds: float) -> None:
        """Time runs while a round is open; what comes late is waited for without end."""
        if seconds >= 20:
            await asyncio.Event().wait()
        clock.advance(seconds)
        await asyncio.sleep(0)

    house.sleep = sleep
    house.speaker.script = lambda ask: None if ask.role == "lite" else obliging(ask)
    await house.add()
    await asyncio.wait_for(house.look(), 30)
    assert (await house.seed()).state == "passed"
    assert house.speaker.running == 1, "lite still writes its ballot"
    with house.initiative.person():
        await asyncio.sleep(0)
        assert house.speaker.running == 0
    assert house.initiative.status("local")["tokens_today"] == 120 + 96, "the late ballot counts in full"


async def test_switching_off_stops_a_run(house: House) -> None:
    house.speaker.script = stuck_at("initiative")
    await house.add()
    looking = await until_asked(house, 1)
    off(house)
    await looking
    assert ((await house.seed()).state, house.speaker.cancelled) == ("open", 1)


async def test_a_second_look_meanwhile_does_nothing(house: House) -> None:
    house.speaker.script = stuck_at("initiative")
    await house.add("one")
    await house.add("two")
    looking = await until_asked(house, 1)
    await house.look()
    assert len(house.speaker.asks) == 1
    with house.initiative.person():
        await looking


async def test_looks_at_the_same_moment_are_one(house: House) -> None:
    for number in range(3):
        await house.add(f"thought {number}")
    await asyncio.gather(house.look(), house.look(), house.look())
    assert [seed.state for seed in await house.initiative.seeds("local")] == ["open", "open", "passed"]


async def test_closing_ends_a_run_and_what_it_left_is_told(house: House, build: Build) -> None:
    house.speaker.script = stuck_at("ballot")
    await house.add()
    looking = await until_asked(house, 4)
    looking.cancel()  # as the timer does to what it runs
    await asyncio.wait_for(house.stack.aclose(), 30)
    later = await build()
    assert (await later.seed()).state == "open"
    assert later.initiative.status("local")["last_outcome"] == "yielded"
    await later.look()
    assert (await later.seed()).state == "passed"


# --------------------------------------------------------------------------------------------------------------- faults


@pytest.mark.parametrize("error", [WorkerDied("the worker died"), DeadlineExceeded("too slow"), BadInput("too long")])
async def test_failures_are_counted_seen_and_end(house: House, error: Exception) -> None:
    house.speaker.script = lambda _: error
    await house.add()
    for run in range(1, 4):
        await house.look()
        assert house.initiative.status("local")["failures"] == run
    seed = await house.seed()
    assert (seed.state, seed.failures) == ("dropped", 3)
    assert seed.reason == f"its runs failed 3 times, the last time so: {error}"
    assert house.looked == [str(error), str(error), seed.reason]
    assert house.floor.said("INFO")[-1].startswith("A thought for later could not be developed")


async def test_a_model_that_is_away_is_no_fault_of_the_thought(house: House) -> None:
    house.speaker.script = lambda _: Unavailable("asleep")
    await house.add()
    for _ in range(5):
        await house.look()
    assert ((await house.seed()).state, (await house.seed()).failures) == ("open", 0)
    assert house.initiative.status("local")["failures"] == 5


async def test_a_fault_of_ours_is_raised_and_counted(house: House) -> None:
    house.speaker.script = lambda _: ZeroDivisionError("ours")
    await house.add()
    with pytest.raises(ZeroDivisionError):
        await house.look()
    assert ((await house.seed()).state, (await house.seed()).failures) == ("open", 1)
    assert house.initiative.status("local")["failures"] == 1
    assert house.looked == ["it ended by a fault in gaiad"]


async def test_failures_are_those_of_the_last_day(house: House, clock: FrozenClock) -> None:
    house.speaker.script = lambda _: Unavailable("asleep")
    await house.add()
    await house.look()
    clock.advance(24 * 3600 + 1)
    assert house.initiative.status("local")["failures"] == 0


async def test_a_vote_that_cannot_be_remembered_is_held_again(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    async def full(turn: SessionTurn, call: RequestContext) -> str:
        raise Unavailable("the disk is full")

    monkeypatch.setattr(house, "remember_turn", full)
    await house.add()
    await house.look()
    seed = await house.seed()
    assert (seed.state, seed.reason) == ("open", "the disk is full")


async def test_without_a_quorum_at_the_count_the_thought_waits(house: House) -> None:
    def script(ask: Ask) -> str:
        if ask.task_instruction == "ballot":
            house.floor.away = {"lite", "codemind"}
        return obliging(ask)

    house.speaker.script = script
    await house.add()
    await house.look()
    seed = await house.seed()
    assert seed.state == "open"
    assert "no quorum" in seed.reason
    assert house.remembered == []
    assert house.initiative.status("local")["last_outcome"] == "no_quorum"


# ------------------------------------------------------------------------------------------------------ days and budget


async def test_simulated_days_never_spend_more_than_the_day_has(build: Build, clock: FrozenClock) -> None:
    """Three days of looks, a restart in each: calls that die, persons who come, one row of every day within budget."""
    spent: dict[str, int] = {}
    daily, number = 3_000, 0
    for _ in range(6):
        house = await build()
        house.initiative.apply(msgspec.structs.replace(house.settings, daily_tokens=daily))
        house.speaker.tokens = 90
        for hour in range(12):
            number += 1
            await house.add(f"thought {number}")
            house.speaker.script = obliging if hour % 3 else (lambda _: WorkerDied("gone"))
            before, day = len(house.speaker.asks), clock.now().date().isoformat()
            await house.look()
            asks = house.speaker.asks[before:]
            written = sum(ask.max_tokens if hour % 3 == 0 else min(90, ask.max_tokens) for ask, _ in asks)
            spent[day] = spent.get(day, 0) + written
            status = house.initiative.status("local")
            assert spent[day] <= status["tokens_today"] <= daily
            clock.advance(3600)
        await house.stack.aclose()
    assert set(spent) == {"2025-12-01", "2025-12-02", "2025-12-03", "2025-12-04"}
    assert spent["2025-12-02"] > daily - 608, "and it uses what it has"


async def test_the_day_is_the_users(tmp_path: Path) -> None:
    clock = FrozenClock(datetime(2025, 12, 1, 10, 59, tzinfo=UTC), ZoneInfo("Pacific/Auckland"))
    house = await House(tmp_path, clock).open()
    await house.add("one")
    await house.look()
    assert house.initiative.status("local")["tokens_today"] == 160
    clock.advance(60)  # midnight in Auckland
    assert house.initiative.status("local")["tokens_today"] == 0
    await house.stack.aclose()


async def test_status_is_what_the_contract_says_and_stays_over_a_restart(house: House, build: Build) -> None:
    await house.add("one")
    await house.add("two")
    await house.add("another's", tenant="work")
    await house.look()
    await house.stack.aclose()
    status = (await build()).initiative.status("local")
    assert status == {
        "enabled": True,
        "last_run_at": "2025-12-01T12:00:00Z",
        "last_outcome": "passed",
        "tokens_today": 160,
        "daily_tokens": 20_000,
        "open_seeds": 1,
        "failures": 0,
        "waits_for": "",
    }


def test_it_has_nothing_to_execute_with() -> None:
    """No module of it imports what could run, send or write anything besides its own table."""
    allowed = {"council", "constants", "gaiad"}
    folder = Path(council.initiative.__file__).parent
    for path in folder.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            roots = {name.split(".")[0] for name in names}
            assert not roots & {"subprocess", "os", "shutil", "socket", "router", "pathlib"}, path.name
            ours = {name for name in names if name.split(".")[0] in allowed}
            assert not any(word in name for name in ours for word in ("execut", "shell", "channel")), path.name


async def test_a_seed_is_told_as_the_turn_wrote_it(house: House) -> None:
    seed: Seed = await house.add("Nested thoughts are\nkept as they are.")
    assert seed.text == "Nested thoughts are\nkept as they are."
