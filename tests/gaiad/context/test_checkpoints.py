"""Recovery points are verified, fall back by name, and lose nothing; tokens are good for their task alone."""

import json
from typing import Any

import pytest

import gaiad
from gaiad.base.clock import FrozenClock
from gaiad.base.errors import Conflict, Forbidden, NotFound
from gaiad.base.ports import RequestContext
from gaiad.context import checkpoints
from gaiad.context.store import ContextStore
from gaiad.service.context import ContextService
from gaiad.store.home_databases import HomeDatabases
from gaiad.wire.context import StateQuery
from gaiad.wire.context_keeping import ContinuationRequest, ContinuationStorage
from tests.makers.context import change_body, make_service, output, review, state


@pytest.fixture
def service(store: ContextStore, databases: HomeDatabases, clock: FrozenClock) -> ContextService:
    return make_service(store, databases, clock)


async def current(store: ContextStore, call: RequestContext) -> dict[str, Any]:
    return (await store.state(StateQuery(request_type="partial"), call)).content.agent_states


async def test_recovery_names_what_was_in_flight_and_has_no_output(
    service: ContextService, call: RequestContext
) -> None:
    tasks = [{"task_id": "done-later", "n": 1}, {"task_id": "open", "n": 2}]
    await service.add(output("early", own={"step": 1}), call)
    added = await service.add(
        state(update_type="checkpoint", checkpoint_data={"in_flight_tasks": tasks, "recovery_metadata": {"seed": 7}}),
        call,
    )
    await service.add(output("done-later", own={"step": 2}), call)
    found = await service.store.recovery("", call)
    assert found.checkpoint_id == added.checkpoint_id
    assert found.active_tasks == [tasks[1]]
    assert found.completed_work.finished_since == ["done-later"]
    assert found.completed_work.outputs_by_agent == {"generation": 1}
    assert bytes(found.resume_points["agent:generation"]) == b'{"step":1}'
    assert (found.recovery_metadata, found.system_configuration["gaiad"]) == ({"seed": 7}, gaiad.__version__)
    assert (found.data_integrity.verified, found.data_integrity.bodies) == (True, 2)


async def test_a_damaged_checkpoint_falls_back_to_the_one_before_by_name(
    service: ContextService, databases: HomeDatabases, call: RequestContext
) -> None:
    made = []
    for step in range(3):
        await service.add(output(f"t{step}", own={"step": step}), call)
        made.append(await service.checkpoint("test", call))
    (newest, *_) = await service.store.versions("agent:generation", 1, call)
    await change_body(databases, newest.sha256)
    await databases.write(
        "local",
        lambda c: (
            c.execute("UPDATE context_checkpoints SET body = x'7b7d' WHERE id = ?", (made[1].checkpoint_id,)).rowcount
        ),
    )
    found = await service.store.recovery("", call)
    assert found.checkpoint_id == made[0].checkpoint_id
    assert [one.checkpoint_id for one in found.data_integrity.passed_over] == [
        made[2].checkpoint_id,
        made[1].checkpoint_id,
    ]
    assert "manifest" in found.data_integrity.passed_over[1].problem
    rows = await service.store.checkpoints(3, call)
    assert [bool(row.damaged) for row in rows] == [False, True, False]
    with pytest.raises(NotFound):
        await service.store.recovery("ckpt_none", call)


async def test_when_none_is_whole_it_says_so(
    service: ContextService, databases: HomeDatabases, call: RequestContext
) -> None:
    with pytest.raises(NotFound, match="no checkpoint"):
        await service.store.recovery("", call)
    await service.add(output(own={"step": 1}), call)
    await service.checkpoint("test", call)
    (version,) = await service.store.versions("agent:generation", 1, call)
    await change_body(databases, version.sha256)
    with pytest.raises(Conflict, match="no checkpoint is whole"):
        await service.store.recovery("", call)
    await service.add(output("r", "ranking", own={"elo": 1}), call)
    made = await service.checkpoint("test", call)
    assert made.components == 1
    assert made.damaged[0].startswith("agent:generation: ")
    assert list((await service.store.recovery("", call)).resume_points) == ["agent:ranking"]


async def test_one_damaged_component_does_not_stop_the_others(
    service: ContextService, databases: HomeDatabases, call: RequestContext
) -> None:
    for step in range(2):
        await service.add(output(f"t{step}", own={"step": step}), call)
    await service.add(output("r", "ranking", own={"elo": 1}), call)
    await service.checkpoint("test", call)
    newest, before = await service.store.versions("agent:generation", 2, call)
    await change_body(databases, newest.sha256)
    found = await service.store.recovery("", call)
    assert [json.loads(bytes(state)) for state in found.resume_points.values()] == [{"step": 0}, {"elo": 1}]
    assert found.data_integrity.damaged == ["agent:generation: version 2 is damaged; version 1 stands in for it"]
    assert not found.data_integrity.verified
    restored = await service.restore("", call)
    assert restored.restored == {"agent:generation": 3}
    await change_body(databases, before.sha256)
    found = await service.store.recovery("", call)
    assert list(found.resume_points) == ["agent:ranking"]
    assert found.data_integrity.damaged[0].startswith("agent:generation: ")


async def test_a_restore_goes_back_and_can_be_undone(service: ContextService, call: RequestContext) -> None:
    await service.add(output("a", own={"step": 1}), call)
    first = await service.checkpoint("test", call)
    await service.add(output("b", own={"step": 2}), call)
    await service.add(output("c", "ranking", own={"elo": 1}), call)
    done = await service.restore(first.checkpoint_id, call)
    assert done.restored == {"agent:generation": 3}
    assert await current(service.store, call) == {"generation": {"step": 1}, "ranking": {"elo": 1}}
    back = await service.restore(done.before, call)
    assert back.restored == {"agent:generation": 4}
    assert await current(service.store, call) == {"generation": {"step": 2}, "ranking": {"elo": 1}}


async def test_an_interval_makes_one_only_when_something_changed(service: ContextService, call: RequestContext) -> None:
    await service.checkpoint_all()
    await service.add(review(), call)
    await service.checkpoint_all()
    await service.checkpoint_all()
    await service.add(output("a", own={"step": 1}), call)
    await service.add(output("b", own={"step": 2}), call)
    await service.checkpoint_all()
    await service.store.roll_back("agent:generation", 1, call)
    await service.checkpoint_all()
    await service.checkpoint_all()
    assert len(await service.store.checkpoints(100, call)) == 3


async def test_the_oldest_manifests_go(
    service: ContextService, call: RequestContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "KEPT", 3)
    await service.add(output(own={"step": 1}), call)
    made = [(await service.checkpoint("test", call)).checkpoint_id for _ in range(5)]
    assert [row.checkpoint_id for row in await service.store.checkpoints(100, call)] == made[:1:-1]


async def keep(store: ContextStore, call: RequestContext, task: str = "t", **fields: Any) -> str:
    wanted = ContinuationStorage(agent_type="generation", task_id=task, partial_state={"page": 12}, **fields)
    return (await store.store_continuation(wanted, call)).continuation_token


async def resume(store: ContextStore, call: RequestContext, token: str, task: str = "t") -> Any:
    return await store.continued(ContinuationRequest(task_id=task, continuation_token=token), call)


async def test_a_token_resumes_its_task_also_after_a_restart(
    store: ContextStore, databases: HomeDatabases, clock: FrozenClock, call: RequestContext
) -> None:
    token = await keep(store, call)
    clock.advance(86_400)
    found = await resume(ContextStore(databases, clock, None), call, token)
    assert (found.partial_state, found.agent_type) == ({"page": 12}, "generation")


async def test_a_token_that_is_not_good_is_refused_in_words(
    store: ContextStore, clock: FrozenClock, call: RequestContext
) -> None:
    other = RequestContext("other")
    with pytest.raises(Forbidden, match="holds nothing"):
        await resume(store, other, "x")
    token, foreign = await keep(store, call), await keep(store, other)
    short = await keep(store, call, "short", expires_in_s=10)
    for bad, task, words in (
        (foreign, "t", "another, or altered"),
        (token, "u", "another, or altered"),
        (token[:-2] + ("A" if token[-2] != "A" else "B") + token[-1], "t", "another, or altered"),
        (token.replace(token.split(".")[2], "9" * 14), "t", "another, or altered"),
        ("ctn1.a.b.c", "t", "exactly as it was given"),
        ("é" * 9, "t", "exactly as it was given"),
    ):
        with pytest.raises(Forbidden, match=words):
            await resume(store, call, bad, task)
    clock.advance(11)
    with pytest.raises(Forbidden, match="expired at"):
        await resume(store, call, short, "short")
    await keep(store, call)
    with pytest.raises(Forbidden, match="stale"):
        await resume(store, call, token)


async def test_an_output_with_a_token_must_be_of_its_task(store: ContextStore, call: RequestContext) -> None:
    token = await keep(store, call, "task-1")
    assert (await store.add(output("task-1", token=token), call)).id
    with pytest.raises(Forbidden):
        await store.add(output("task-2", token=token), call)
