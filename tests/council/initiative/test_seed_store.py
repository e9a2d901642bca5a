"""Thoughts and what was spent on them stay over restarts, each tenant's in its own file."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from council.initiative.seed_store import Seed, SeedStore
from gaiad.base.clock import FrozenClock
from gaiad.base.errors import BadInput, Conflict, NotFound
from gaiad.base.ids import IdMaker
from gaiad.store.home_databases import HomeDatabases

DAY = "2025-12-01"


@pytest.fixture
async def files(tmp_path: Path) -> AsyncIterator[HomeDatabases]:
    made = HomeDatabases(tmp_path)
    yield made
    made.close()


@pytest.fixture
def store(files: HomeDatabases, clock: FrozenClock) -> SeedStore:
    return SeedStore(files, clock, IdMaker(clock), most_open=3, thought_characters=60)


async def test_a_thought_is_kept_with_its_turn(store: SeedStore) -> None:
    seed = await store.add("local", " Ask about the tram. ", "turn_1")
    assert (seed.text, seed.state, seed.turn_id, seed.added_at) == (
        "Ask about the tram.",
        "open",
        "turn_1",
        "2025-12-01T12:00:00Z",
    )
    assert await store.find("local", seed.seed_id) == seed
    assert await store.listed("local") == [seed]


async def test_the_same_thought_in_other_clothes_is_kept_once(store: SeedStore) -> None:
    first = await store.add("local", "Ask about the tram.", "turn_1")
    assert await store.add("local", "ask   about the TRAM!", "turn_2") == first
    assert (await store.add("work", "Ask about the tram.", "turn_3")).seed_id != first.seed_id, "another tenant's own"
    assert await store.open_by_tenant() == {"local": 1, "work": 1}


async def test_a_thought_without_words_is_refused(store: SeedStore) -> None:
    with pytest.raises(BadInput, match=r"'…' of turn 'turn_1' has no word"):
        await store.add("local", "…", "turn_1")


async def test_one_too_many_is_dropped_and_says_why(store: SeedStore) -> None:
    for number in range(3):
        await store.add("local", f"thought {number}", "turn_1")
    seed = await store.add("local", "thought 3", "turn_1")
    assert (seed.state, seed.reason) == ("dropped", "3 thoughts wait already, and no more than 3 may")


async def test_a_tenant_sees_its_own_only(store: SeedStore, tmp_path: Path) -> None:
    seed = await store.add("work", "Ask about the tram.", "turn_1")
    assert await store.listed("local") == []
    with pytest.raises(NotFound, match="gaiad council seeds"):
        await store.find("local", seed.seed_id)
    assert [path.name for path in (tmp_path / "tenants").iterdir()] == ["work"], "looking makes no file"


async def test_the_oldest_goes_first_and_tenants_take_turns(store: SeedStore, clock: FrozenClock) -> None:
    for tenant, text in (("b", "b one"), ("b", "b two"), ("a", "a one"), ("c", "c one")):
        await store.add(tenant, text, "turn_1")
    order = []
    while (seed := await store.next_open()) is not None:
        clock.advance(1)
        order.append(seed.text)
        await store.settle(await store.begin(seed, DAY, 0), "dropped", "dropped", "", 0)
    assert order == ["a one", "b one", "c one", "b two"]


async def test_a_taken_thought_is_not_taken_twice(store: SeedStore) -> None:
    seed = await store.add("local", "Ask about the tram.", "turn_1")
    await store.begin(seed, DAY, 100)
    with pytest.raises(Conflict, match="is taken and cannot become taken"):
        await store.begin(seed, DAY, 100)
    assert await store.tokens_on(DAY) == 100, "the refused run holds nothing"
    assert await store.next_open() is None


async def test_a_run_holds_its_tokens_until_it_says_what_it_spent(store: SeedStore) -> None:
    seed = await store.add("local", "Ask about the tram.", "turn_1")
    run = await store.begin(seed, DAY, 600)
    assert await store.tokens_on(DAY) == 600
    await store.propose(seed, "Ask which tram.")
    ended = await store.settle(run, "passed", "passed", "by majority", 130, proposal_id="msg_1")
    assert (await store.tokens_on(DAY), await store.tokens_on("2025-12-02")) == (130, 0)
    assert (ended.state, ended.proposal, ended.proposal_id, ended.reason) == (
        "passed",
        "Ask which tram.",
        "msg_1",
        "by majority",
    )
    last = await store.last_run()
    assert last is not None
    assert (last.outcome, last.tokens) == ("passed", 130)


@pytest.mark.parametrize("developed", [False, True])
async def test_what_a_stop_cut_off_is_open_again_and_paid_in_full(
    store: SeedStore, files: HomeDatabases, tmp_path: Path, clock: FrozenClock, developed: bool
) -> None:
    seed = await store.add("local", "Ask about the tram.", "turn_1")
    await store.begin(seed, DAY, 600)
    if developed:
        await store.propose(seed, "Ask which tram.")
    files.close()
    again = HomeDatabases(tmp_path)
    later = SeedStore(again, clock, IdMaker(clock), most_open=3, thought_characters=60)
    assert await later.recover() == 1
    assert await later.recover() == 0
    found = await later.next_open()
    assert found is not None
    assert (found.seed_id, found.state, bool(found.proposal)) == (seed.seed_id, "open", developed)
    assert await later.tokens_on(DAY) == 600
    last = await later.last_run()
    assert last is not None
    assert last.outcome == "interrupted"
    again.close()


async def test_runs_are_found_by_time_in_all_tenants(store: SeedStore, clock: FrozenClock) -> None:
    seeds: list[Seed] = [await store.add(tenant, "Ask.", "turn_1") for tenant in ("a", "b")]
    first = await store.begin(seeds[1], DAY, 1)
    clock.advance(60)
    second = await store.begin(seeds[0], DAY, 2)
    assert await store.runs_since("2025-12-01T12:00:00Z") == [first, second]
    assert await store.runs_since("2025-12-01T12:00:30Z") == [second]
