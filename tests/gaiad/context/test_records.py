"""What is stored comes back byte for byte, once, with its history; what does not fit is refused."""

import asyncio
import hashlib
from typing import Any

import msgspec
import pytest

from gaiad.base.errors import BadInput, Conflict, NotFound
from gaiad.base.ports import RequestContext
from gaiad.context.bodies import MAX_BODY_BYTES, ROW_BYTES, DamagedBody, file_of
from gaiad.context.store import ContextStore
from gaiad.store.home_databases import HomeDatabases
from gaiad.wire.context import AgentOutput, MetaReviewStorage, RecordQuery, StateQuery, StateUpdate
from tests.makers.context import change_body, output, output_body, review, review_body, state, state_body


async def test_each_kind_comes_back_as_it_was_sent_with_its_hash(store: ContextStore, call: RequestContext) -> None:
    for record, body in ((state(), state_body()), (output(), output_body()), (review(), review_body())):
        acknowledged = await store.add(record, call)
        found = await store.record(acknowledged.id, call)
        assert found.record == body
        content = msgspec.json.encode(body, order="sorted")
        assert (acknowledged.sha256, acknowledged.bytes) == (hashlib.sha256(content).hexdigest(), len(content))
        assert (acknowledged.place, found.row.sha256) == ("row", acknowledged.sha256)


async def test_the_same_record_again_is_a_duplicate(store: ContextStore, call: RequestContext) -> None:
    first, again = await store.add(output(own={"step": 1}), call), await store.add(output(own={"step": 1}), call)
    assert again == msgspec.structs.replace(first, duplicate=True)
    assert len(await store.find("output", RecordQuery(), call)) == 1
    assert len(await store.versions("agent:generation", 10, call)) == 1


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (StateUpdate, state_body(extra=1)),
        (StateUpdate, state_body(update_type="weekly")),
        (StateUpdate, {**state_body(), "system_statistics": {"total_hypotheses": 1}}),
        (AgentOutput, {**output_body(), "version": 1}),
        (AgentOutput, output_body(confidence=1.5)),
        (MetaReviewStorage, review_body(0)),
    ],
)
def test_what_does_not_fit_is_refused(kind: type, body: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(msgspec.json.encode(body), type=kind)


async def test_times_tasks_and_sizes_are_checked_before_anything_is_stored(
    store: ContextStore, call: RequestContext
) -> None:
    with pytest.raises(BadInput, match="timestamp = 'soon'"):
        await store.add(state("soon"), call)
    with pytest.raises(BadInput, match=r"in_flight_tasks\[1\]"):
        await store.add(state(checkpoint_data={"in_flight_tasks": [{"task_id": "a"}, {"name": "b"}]}), call)
    with pytest.raises(BadInput, match="at most"):
        await store.add(output(primary="x" * MAX_BODY_BYTES), call)
    assert await store.find("output", RecordQuery(), call) == []


async def test_a_large_body_is_a_file_and_damage_is_named(
    store: ContextStore, databases: HomeDatabases, call: RequestContext
) -> None:
    big, small = await store.add(output("big", primary="x" * ROW_BYTES), call), await store.add(output("small"), call)
    path = file_of(databases.folder("local"), big.sha256)
    assert (big.place, path.stat().st_mode & 0o777) == ("file", 0o600)
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)
    with pytest.raises(DamagedBody, match=path.name):
        await store.record(big.id, call)
    assert (await store.record(small.id, call)).row.id == small.id
    assert (await store.add(output("big", primary="x" * ROW_BYTES), call)).duplicate
    assert (await store.record(big.id, call)).row.id == big.id


async def test_a_flipped_bit_in_the_database_is_named_and_the_rest_is_read(
    store: ContextStore, databases: HomeDatabases, call: RequestContext
) -> None:
    await store.add(state(), call)
    await store.add(output(own={"step": 1}), call)
    await store.add(output("t2", "ranking", own={"elo": 7}), call)
    (version,) = await store.versions("agent:ranking", 1, call)
    await change_body(databases, version.sha256)
    found = await store.state(StateQuery(request_type="partial"), call)
    assert found.content.agent_states == {"generation": {"step": 1}, "ranking": {}}
    assert found.content.system_state == state_body()
    assert not found.complete
    assert found.damaged[0].startswith("agent_states.ranking: ")


async def test_a_review_ends_its_iteration(store: ContextStore, call: RequestContext) -> None:
    assert (await store.add(output("a"), call)).iteration == 1
    assert (await store.add(review(3), call)).iteration == 3
    assert (await store.add(output("b"), call)).iteration == 4
    rows = await store.find("output", RecordQuery(first_iteration=4), call)
    assert [row.task_id for row in rows] == ["b"]


async def test_records_are_found_by_time_agent_task_and_hypothesis(store: ContextStore, call: RequestContext) -> None:
    for hour in range(3):
        at = f"2025-12-01T1{hour}:00:00Z"
        await store.add(output(f"t{hour}", primary={"hypothesis_id": f"h{hour % 2}"}, at=at), call)
    await store.add(output("other", "ranking"), call)

    async def found(**fields: Any) -> list[str]:
        return [row.task_id for row in await store.find("output", RecordQuery(**fields), call)]

    assert await found(agent_type="generation") == ["t2", "t1", "t0"]
    assert await found(since="2025-12-01T11:00:00Z", until="2025-12-01T12:00:00Z") == ["t1"]
    assert await found(hypothesis_id="h0") == ["t2", "t0"]
    assert await found(task_id="other") == ["other"]
    assert await found(limit=1) == ["t2"]


async def test_versions_as_of_and_rollback_lose_nothing(store: ContextStore, call: RequestContext) -> None:
    for hour, focus in ((10, "ice"), (11, "mud"), (12, "sand")):
        await store.add(state(f"2025-12-01T{hour}:00:00Z", focus), call)

    async def focus_at(as_of: str = "") -> str:
        found = await store.state(StateQuery(request_type="full", as_of=as_of), call)
        return str(found.content.system_state["orchestration_state"]["strategic_focus"])

    assert [await focus_at(f"2025-12-01T{hour}:30:00Z") for hour in (10, 11)] == ["ice", "mud"]
    made = await store.roll_back("system", 1, call)
    assert (made.version, made.restored_from, await focus_at()) == (4, 1, "ice")
    assert [one.version for one in await store.versions("system", 10, call)] == [4, 3, 2, 1]
    with pytest.raises(Conflict):
        await store.roll_back("system", 4, call)
    with pytest.raises(NotFound):
        await store.roll_back("system", 9, call)
    assert (await store.add(state("2025-12-01T13:00:00Z", "clay"), call)).version == 5


async def test_tenants_see_nothing_of_each_other(store: ContextStore, call: RequestContext) -> None:
    kept = await store.add(output(), call)
    await store.add(output("t9"), RequestContext("other"))
    with pytest.raises(NotFound):
        await store.record(kept.id, RequestContext("other"))
    with pytest.raises(NotFound):
        await store.record(kept.id, RequestContext("third"))


async def test_many_writers_at_once_lose_nothing(store: ContextStore, call: RequestContext) -> None:
    made = await asyncio.gather(*(store.add(output(f"t{n}", own={"n": n}), call) for n in range(100)))
    assert sorted(one.version for one in made) == list(range(1, 101))
    assert len({one.id for one in made}) == 100
