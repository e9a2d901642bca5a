"""The queue under what goes on beside it: pages rewritten while they are embedded, a bad vector, a close."""

import asyncio

import numpy as np
import pytest

from gaiad.archive.dense import vector_index, vector_queue
from gaiad.archive.storing.records import index_pages, unindex_pages
from gaiad.base.errors import BadInput
from gaiad.base.ports import RequestContext


def rewrite(shelf, page, old, new):
    """Give a page other words, as a reindex does: its row stays, its vector goes."""

    def write(connection):
        unindex_pages(connection, [(page, old, "", "")])
        connection.execute("DELETE FROM vectors WHERE page = ?", (page,))
        connection.execute("UPDATE pages SET text = ? WHERE id = ?", (new, page))
        index_pages(connection, [(page, new, "", "")])

    shelf.tenant.file.write(write)
    shelf.spaces.forget([page])


async def test_a_page_rewritten_while_it_is_embedded_waits_for_the_vector_of_its_new_words(
    shelf, embedder, monkeypatch
):
    (page, _) = shelf.packet("tp-1", ["the old words", "others"])
    embed = embedder.embed

    async def meanwhile(texts, call):
        if not embedder.texts:
            await asyncio.to_thread(rewrite, shelf, page, "the old words", "bread and butter")
        return await embed(texts, call)

    monkeypatch.setattr(embedder, "embed", meanwhile)
    assert await shelf.spaces.drain(embedder, RequestContext(), 10) == 2
    assert shelf.spaces.count() == 1
    assert await shelf.embed_all(embedder) == 1
    found, cosines = shelf.spaces.current.search(embedder.vector("bread and butter"), 1)
    assert (found.tolist(), round(float(cosines[0]), 2)) == ([page], 1.0)


@pytest.fixture
def poisoned(embedder, monkeypatch):
    """An embedder that makes NaN of any text with the word poison."""
    embed = embedder.embed

    async def bad(texts, call):
        rows = await embed(texts, call)
        rows[["poison" in text for text in texts]] = np.nan
        return rows

    monkeypatch.setattr(embedder, "embed", bad)
    return embedder


async def test_a_page_that_embeds_to_nan_is_left_aside_and_named(shelf, poisoned):
    (_, page, _) = shelf.packet("tp-1", ["fine one", "poison", "fine two"])
    shelf.packet("tp-2", ["more"])
    (name,) = shelf.tenant.file.read(lambda c: c.execute("SELECT page_id FROM pages WHERE id = ?", (page,)).fetchone())
    assert await shelf.embed_all(poisoned, 2) == 4
    assert (shelf.spaces.count(), shelf.spaces.pending_count()) == (3, 0)
    assert name in shelf.spaces.problems[0]
    rewrite(shelf, page, "poison", "bread")
    assert await shelf.embed_all(poisoned) == 1
    assert (shelf.spaces.count(), shelf.spaces.problems) == (4, [])


async def test_a_model_that_makes_nan_of_many_pages_is_told_of(shelf, poisoned, monkeypatch):
    monkeypatch.setattr(vector_queue, "_ASIDE_MAX", 3)
    shelf.packet("tp-1", ["fine", *(f"poison {number}" for number in range(9))])
    with pytest.raises(BadInput, match="check its model"):
        await shelf.embed_all(poisoned)
    assert shelf.spaces.count() == 1


async def test_a_build_that_died_is_tried_again_later_and_told_of_until_one_lives(make_shelf, embedder, monkeypatch):
    shelf = make_shelf(exact_scan_max=5)
    shelf.packet("tp-1", [f"page {number}" for number in range(20)])
    died = []

    def die(*_):
        died.append(1)
        raise vector_index.NotBuilt("building ended with status -9 (killed)")

    async def look():
        await shelf.spaces.drain(embedder, RequestContext(), 20)
        await shelf.spaces._tasks.wait()

    with monkeypatch.context() as patched:
        patched.setattr(vector_index.BaseBuild, "run", die)
        await look()
        await look()
    assert (len(died), shelf.spaces.serving.kind) == (1, "exact")
    await look()
    assert "killed" in shelf.spaces.problems[0]
    shelf.clock.advance(3600)
    await look()
    assert (shelf.spaces.serving.kind, shelf.spaces.problems) == ("hnsw", [])


async def test_a_drain_that_ends_while_the_archive_closes_starts_no_build(make_shelf, embedder, monkeypatch):
    shelf = make_shelf(exact_scan_max=5)
    shelf.packet("tp-1", [f"page {number}" for number in range(20)])
    embed, inside, go_on, builds = embedder.embed, asyncio.Event(), asyncio.Event(), []

    async def waiting(texts, call):
        inside.set()
        await go_on.wait()
        return await embed(texts, call)

    async def stop():
        await stop_tasks()
        go_on.set()

    stop_tasks = shelf.spaces._tasks.stop
    monkeypatch.setattr(embedder, "embed", waiting)
    monkeypatch.setattr(shelf.spaces._tasks, "stop", stop)
    monkeypatch.setattr(vector_index.VectorIndex, "build_base", lambda _: builds.append(1))
    async with asyncio.TaskGroup() as group:
        group.create_task(shelf.spaces.drain(embedder, RequestContext(), 20))
        await inside.wait()
        group.create_task(shelf.spaces.close())
    await shelf.spaces._tasks.wait()
    assert (shelf.spaces.count(), builds) == (20, [])


def test_a_build_stopped_before_its_child_begins_has_none(tmp_path, monkeypatch):
    build = vector_index.BaseBuild()
    build.stop()
    monkeypatch.setattr(vector_index.subprocess, "Popen", lambda *_, **__: pytest.fail("a child began"))
    with pytest.raises(vector_index.NotBuilt, match="is closing"):
        build.run(tmp_path / "tenant.db", 1, "f", tmp_path)
