"""Packing loses nothing and shrinks; quotas refuse what is optional first; a tree is written whole and read back."""

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from gaiad.base.clock import FrozenClock
from gaiad.base.errors import BadInput, Conflict, NotFound
from gaiad.base.ports import RequestContext
from gaiad.context.bodies import ROW_BYTES, DamagedBody, file_of
from gaiad.context.retention import QuotaReached
from gaiad.context.store import ContextStore
from gaiad.context.upkeep import ContextUpkeep
from gaiad.store.home_databases import HomeDatabases
from gaiad.wire.context import RecordQuery, StateQuery
from gaiad.wire.context_keeping import ContinuationStorage
from gaiad.wire.context_reviews import ReviewQuery
from tests.makers.context import change_body, make_service, output, output_body, review, state

OTHER = RequestContext("other")


@pytest.fixture
def upkeep(databases: HomeDatabases, clock: FrozenClock) -> ContextUpkeep:
    return ContextUpkeep(databases, clock)


@pytest.fixture
async def filled(store: ContextStore, call: RequestContext) -> ContextStore:
    await store.add(state(), call)
    for number in range(60):
        primary = {"text": f"finding {number} of the survey", "hypothesis": {"id": f"h{number}", "text": "it melts"}}
        await store.add(output(f"t{number}", primary=primary, own={"step": number}), call)
    await store.add(output("large", primary="ice " * ROW_BYTES), call)
    await store.add(review(1), call)
    await store.add(output("new", at="2026-01-10T10:00:00Z"), call)
    return store


async def everything(store: ContextStore, call: RequestContext) -> list[Any]:
    rows = [row for kind in ("state", "output", "review")
            for row in await store.find(kind, RecordQuery(limit=1000), call)]  # type: ignore[arg-type]  # fmt: skip
    return [(row, (await store.record(row.id, call)).record) for row in rows]


async def test_packed_iterations_are_smaller_and_read_by_every_query(
    filled: ContextStore, upkeep: ContextUpkeep, databases: HomeDatabases, clock: FrozenClock, call: RequestContext
) -> None:
    clock.advance(45 * 86_400)
    before, answers = await everything(filled, call), []
    for _ in range(2):
        answers.append(
            (
                await filled.state(StateQuery(request_type="full"), call),
                await filled.feedback(ReviewQuery(), call),
                await filled.find("output", RecordQuery(hypothesis_id="h7"), call),
            )
        )
        wanted = await upkeep.clean_up(30, call, dry_run=True)
        done = await upkeep.clean_up(30, call, dry_run=False)
    assert answers[0] == answers[1]
    assert await everything(filled, call) == before
    assert (wanted.bodies, done.bodies) == (0, 0)
    large = next(row for row, _ in before if row.task_id == "large")
    assert not file_of(databases.folder("local"), large.sha256).exists()
    used = await filled.used(call)
    assert used.stored_bytes < 0.4 * used.json_bytes


async def test_a_dry_run_says_what_would_be_packed_and_packs_nothing(
    filled: ContextStore, upkeep: ContextUpkeep, clock: FrozenClock, call: RequestContext
) -> None:
    clock.advance(45 * 86_400)
    dry, used = await upkeep.clean_up(30, call, dry_run=True), await filled.used(call)
    assert (dry.iterations, dry.bodies, used.stored_bytes < used.json_bytes) == (1, 63, True)
    done = await upkeep.clean_up(30, call, dry_run=False)
    assert (done.bodies, done.json_bytes, done.damaged) == (dry.bodies, dry.json_bytes, [])
    (new,) = await filled.find("output", RecordQuery(task_id="new"), call)
    kept = (await filled.used(call)).stored_bytes - done.stored_bytes
    assert 0 < kept <= new.bytes


async def test_damage_is_left_and_named_when_packing_and_in_packs(
    filled: ContextStore, upkeep: ContextUpkeep, databases: HomeDatabases, clock: FrozenClock, call: RequestContext
) -> None:
    clock.advance(45 * 86_400)
    (bad, *_) = await filled.find("output", RecordQuery(task_id="t5"), call)
    await change_body(databases, bad.sha256)
    done = await upkeep.clean_up(30, call, dry_run=False)
    assert done.damaged == [bad.sha256]
    (good,) = await filled.find("output", RecordQuery(task_id="t6"), call)
    assert (await filled.record(good.id, call)).record["task_id"] == "t6"
    await databases.write("local", lambda c: c.execute("UPDATE context_packs SET body = x'00'").rowcount)
    with pytest.raises(DamagedBody):
        await filled.record(good.id, call)
    (new,) = await filled.find("output", RecordQuery(task_id="new"), call)
    assert (await filled.record(new.id, call)).row.id == new.id


async def test_a_quota_warns_then_refuses_what_is_optional_first(
    databases: HomeDatabases, clock: FrozenClock, store: ContextStore, call: RequestContext
) -> None:
    service = make_service(store, databases, clock)
    await service.add(state(), call)
    size = (await store.used(call)).stored_bytes
    assert service.problems(None) == []
    for part, words in ((0.85, "gaiad context quota"), (0.97, "at 100 periodic updates are refused")):
        store.quota_bytes = int(size / part)
        await store.used(call)
        assert words in service.problems(["local"])[0]
    assert service.problems(["other"]) == []
    with pytest.raises(QuotaReached, match="a periodic update is refused"):
        await service.add(state("2025-12-02T10:00:00Z"), call)
    store.quota_bytes = int((size + 600) / 1.05)
    await service.add(output("small"), call)
    with pytest.raises(QuotaReached, match="a record is refused"):
        await service.add(output("big", primary=[sha256(str(n).encode()).hexdigest() for n in range(100)]), call)
    partial = {"rows": [sha256(str(n).encode()).hexdigest() for n in range(100)]}
    wanted = ContinuationStorage(agent_type="generation", task_id="t", partial_state=partial)
    with pytest.raises(QuotaReached, match="a record is refused"):
        await store.store_continuation(wanted, call)
    assert len(await everything(store, call)) == 2


async def test_an_import_stops_at_the_quota_and_goes_on_later(
    filled: ContextStore, databases: HomeDatabases, upkeep: ContextUpkeep, tmp_path: Path, call: RequestContext
) -> None:
    await upkeep.write_tree(tmp_path / "tree", {}, call)
    upkeep.quota_bytes = 2000
    with pytest.raises(QuotaReached):
        await upkeep.read_tree(tmp_path / "tree", OTHER)
    upkeep.quota_bytes = 0
    report = await upkeep.read_tree(tmp_path / "tree", OTHER)
    assert (report.outputs + report.states + report.reviews + report.known, report.known) == (64, 0)


async def test_a_tree_is_read_back_as_it_was(
    filled: ContextStore, upkeep: ContextUpkeep, call: RequestContext, tmp_path: Path
) -> None:
    await filled.add(state("2026-01-11T10:00:00Z", "mud"), call)
    await filled.roll_back("system", 1, call)
    written = await upkeep.write_tree(tmp_path / "tree", {"gaiad": "0", "context": {"active_days": 30}}, call)
    assert (written.states, written.outputs, written.reviews) == (2, 62, 1)
    names = {path.relative_to(tmp_path / "tree").as_posix() for path in (tmp_path / "tree").rglob("*.json")}
    assert {
        "iterations/iteration_001/system_state.json",
        "iterations/iteration_001/meta_review.json",
        "iterations/iteration_002/system_state.json",
        "aggregates/effectiveness_metrics.json",
        "aggregates/pattern_history.json",
        "aggregates/research_progress.json",
        "configuration/system_config.json",
        "configuration/retention_policy.json",
    } <= names
    read = await upkeep.read_tree(tmp_path / "tree", OTHER)
    assert (read.states, read.outputs, read.reviews, read.known) == (2, 62, 1, 0)
    assert await everything(filled, OTHER) == await everything(filled, call)
    query = StateQuery(request_type="full")
    assert (await filled.state(query, OTHER)).content == (await filled.state(query, call)).content
    again = await upkeep.read_tree(tmp_path / "tree", OTHER)
    assert (again.states, again.outputs, again.known) == (0, 0, 65)
    with pytest.raises(Conflict, match="not empty"):
        await upkeep.write_tree(tmp_path / "tree", {}, call)
    with pytest.raises(NotFound):
        await upkeep.write_tree(tmp_path / "none", {}, RequestContext("third"))


async def test_every_file_of_a_tree_fits_the_schema_that_is_exported_with_it(
    filled: ContextStore, upkeep: ContextUpkeep, call: RequestContext, tmp_path: Path
) -> None:
    await filled.checkpoint("test", {}, call)
    tree = tmp_path / "tree"
    await upkeep.write_tree(tree, {"context": {}}, call)
    kinds = {
        "state_update": "iterations/*/system_state.json",
        "agent_output": "iterations/*/agent_outputs/*.json",
        "meta_review": "iterations/*/meta_review.json",
        "checkpoint": "checkpoints/*.json",
        "manifest": "manifest.json",
        **{
            name: f"aggregates/{name}.json"
            for name in ("effectiveness_metrics", "pattern_history", "research_progress")
        },
    }
    assert {path.stem for path in (tree / "configuration" / "schemas").iterdir()} == set(kinds)
    for name, pattern in kinds.items():
        schema = json.loads((tree / "configuration" / "schemas" / f"{name}.json").read_bytes())
        files = [json.loads(path.read_bytes()) for path in tree.glob(pattern)]
        assert files
        for content in files:
            jsonschema.validate(content, schema)
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({"unknown": 1}, schema)


async def test_a_tree_of_another_program_is_read_by_its_folders(
    store: ContextStore, upkeep: ContextUpkeep, call: RequestContext, tmp_path: Path
) -> None:
    outputs = tmp_path / "iterations" / "iteration_007" / "agent_outputs"
    outputs.mkdir(parents=True)
    (outputs / "one.json").write_text(json.dumps(output_body()))
    assert (await upkeep.read_tree(tmp_path, call)).outputs == 1
    assert (await store.find("output", RecordQuery(), call))[0].iteration == 7


async def test_a_tree_that_does_not_fit_stores_nothing(
    filled: ContextStore, upkeep: ContextUpkeep, call: RequestContext, tmp_path: Path
) -> None:
    with pytest.raises(BadInput, match="iterations/"):
        await upkeep.read_tree(tmp_path, OTHER)
    await upkeep.write_tree(tmp_path / "tree", {}, call)
    path = next((tmp_path / "tree").glob("iterations/*/agent_outputs/*.json"))
    content = path.read_bytes()
    path.write_bytes(content.replace(b"task_id", b"task_ix"))
    with pytest.raises(BadInput, match=f"{path.name}: does not match its hash"):
        await upkeep.read_tree(tmp_path / "tree", OTHER)
    manifest = tmp_path / "tree" / "manifest.json"
    manifest.write_bytes(manifest.read_bytes().replace(b"iterations/iteration_001/meta", b"../../etc/meta"))
    path.write_bytes(content)
    with pytest.raises(BadInput, match="outside the export"):
        await upkeep.read_tree(tmp_path / "tree", OTHER)
    manifest.unlink()
    path.write_bytes(b"[" * 100_000)
    with pytest.raises(BadInput, match="cannot be read as a output"):
        await upkeep.read_tree(tmp_path / "tree", OTHER)
    assert await filled.find("output", RecordQuery(), OTHER) == []
