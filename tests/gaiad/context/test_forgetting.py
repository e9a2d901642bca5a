"""Records that quote a deleted packet are gone from rows, files, packs, sums and checkpoints; the others stay whole."""

from functools import partial
from hashlib import sha256

import pytest

from gaiad.base.clock import FrozenClock
from gaiad.base.errors import NotFound
from gaiad.base.ports import RequestContext
from gaiad.context.bodies import ROW_BYTES
from gaiad.context.forgetting import forget_quoting
from gaiad.context.store import ContextStore
from gaiad.context.upkeep import ContextUpkeep
from gaiad.store.home_databases import HomeDatabases
from gaiad.wire.context import RecordQuery, StateQuery
from gaiad.wire.context_keeping import ContinuationRequest, ContinuationStorage
from gaiad.wire.context_reviews import TrendQuery
from tests.makers.context import output, review, state

NAME = "tp-20251130-zqgone"


async def forget(databases: HomeDatabases, *, dry_run: bool = False) -> int:
    work = partial(forget_quoting, databases.body_folders)
    count, files = await databases.write(
        "local", lambda c: work(c, "local", lambda text: NAME in text, dry_run=dry_run)
    )
    for path in files:
        path.unlink()
    return count


def on_disk(databases: HomeDatabases, word: bytes) -> bool:
    """Whether a word is anywhere in the tenant's folder, once every body is unpacked."""
    databases.file("local").empty_log()
    return any(word in path.read_bytes() for path in databases.folder("local").rglob("*") if path.is_file())


@pytest.mark.parametrize("packed", [False, True])
async def test_what_quotes_goes_and_the_rest_stays(
    store: ContextStore, databases: HomeDatabases, clock: FrozenClock, call: RequestContext, *, packed: bool
) -> None:
    noise = [sha256(f"{number}".encode()).hexdigest() for number in range(ROW_BYTES // 32)]
    await store.add(state(), call)
    kept = await store.add(output("kept", own={"step": 1}, primary={"hypothesis_id": "h1"}), call)
    quoted = {"text": f"As {NAME} says", "hypothesis": {"id": "h2", "parent_id": "h1"}}
    await store.add(output("quotes", own={"step": 1}, primary=quoted), call)
    await store.add(output("large", "ranking", primary=[NAME, *noise]), call)
    await store.add(output("states", own={"seen": NAME}), call)
    await store.add(state("2025-12-02T10:00:00Z", focus=f"more of {NAME}"), call)
    token = (await store.store_continuation(
        ContinuationStorage(agent_type="generation", task_id="t", partial_state={"at": NAME}, expires_in_s=10**7), call
    )).continuation_token  # fmt: skip
    await store.checkpoint("test", {}, call)
    if packed:
        clock.advance(45 * 86_400)
        await ContextUpkeep(databases, clock).clean_up(1, call, dry_run=False)
    assert await forget(databases, dry_run=True) == 6
    assert await forget(databases) == 6
    rows = await store.find("output", RecordQuery(), call)
    assert [row.id for row in rows] == [kept.id]
    assert (await store.record(kept.id, call)).record["task_id"] == "kept"
    found = await store.state(StateQuery(request_type="full"), call)
    assert (found.complete, found.content.agent_states) == (True, {"generation": {"step": 1}})
    assert found.content.system_state["orchestration_state"]["strategic_focus"] == "ice cores"
    assert [one["hypothesis_id"] for one in found.content.hypothesis_data] == ["h1"]
    trends = await store.trends(TrendQuery(), call)
    assert [(one.agent_type, one.outputs) for one in trends.effectiveness] == [("generation", 1)]
    assert (trends.iterations[0].outputs, trends.iterations[0].states) == (1, 1)
    with pytest.raises(Exception, match="is not here"):
        await store.continued(ContinuationRequest(task_id="t", continuation_token=token), call)
    with pytest.raises(NotFound, match="no checkpoint has been made yet"):
        await store.recovery("", call)
    used = await store.used(call)
    assert not on_disk(databases, NAME.encode())
    assert used.json_bytes == sum(
        size
        for (size,) in await databases.read(
            "local", lambda c: c.execute("SELECT size FROM context_bodies WHERE place <> 'part'").fetchall(), []
        )
    )


async def test_a_state_shared_with_a_deleted_output_is_kept(
    store: ContextStore, databases: HomeDatabases, call: RequestContext
) -> None:
    await store.add(output("quotes", own={"step": 1}, primary=NAME), call)
    await store.add(output("kept", own={"step": 1}), call)
    await store.add(review(), call)
    assert await forget(databases) == 1
    assert (await store.state(StateQuery(request_type="partial"), call)).content.agent_states == {
        "generation": {"step": 1}
    }
    assert await forget(databases) == 0
