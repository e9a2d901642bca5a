import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from gaiad.base.clock import SystemClock
from gaiad.base.ports import RequestContext
from gaiad.context.bodies import ROW_BYTES, file_of
from gaiad.context.store import ContextStore
from gaiad.store.home_databases import HomeDatabases
from gaiad.store.secondary import BODIES
from tests.makers.context import output


@pytest.fixture
def databases(tmp_path: Path) -> Iterator[HomeDatabases]:
    opened = HomeDatabases(tmp_path / "home", second=tmp_path / "second")
    yield opened
    opened.close()


def large(task: str) -> dict[str, str]:
    return {"text": f"{task} " * ROW_BYTES}


async def test_a_large_body_that_is_damaged_is_read_from_the_second_place_and_put_back(
    store: ContextStore, databases: HomeDatabases, call: RequestContext
) -> None:
    made = await store.add(output("t1", primary=large("t1")), call)
    first, second = (file_of(folder, made.sha256) for folder in databases.body_folders("local"))
    whole = second.read_bytes()
    assert first.read_bytes() == whole
    first.write_bytes(b"damaged")
    assert (await store.record(made.id, call)).record["task_id"] == "t1"
    assert first.read_bytes() == whole


async def test_a_folder_that_takes_no_body_is_left_for_the_second_place_and_filled_again(
    store: ContextStore, databases: HomeDatabases, call: RequestContext, tmp_path: Path
) -> None:
    await store.add(output("t0"), call)
    home = tmp_path / "home" / "tenants" / "local"
    (home / BODIES).write_text("not a folder")
    made = await store.add(output("t1", primary=large("t1")), call)
    assert (await store.record(made.id, call)).record["task_id"] == "t1"
    file = databases.file("local")
    assert file.path == tmp_path / "second" / "tenants" / "local" / "tenant.db"
    assert "Not a directory" in " ".join(databases.problems())
    (home / BODIES).unlink()
    assert file._secondary is not None
    file._secondary._retry_at = 0.0
    await store.add(output("t2"), call)
    assert not databases.problems()
    databases.close()
    shutil.rmtree(tmp_path / "second")
    alone = HomeDatabases(tmp_path / "home")
    assert (await ContextStore(alone, SystemClock(), None).record(made.id, call)).record["task_id"] == "t1"
    alone.close()
