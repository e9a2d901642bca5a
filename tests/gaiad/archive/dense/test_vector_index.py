"""Vectors: durable first, checked before they are loaded, exact or approximate, and never of two spaces at once."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import msgspec
import numpy as np
import pytest

from gaiad.archive.dense import hnsw_build, vector_file, vector_index, vectors
from gaiad.archive.dense.vector_index import VectorIndex
from gaiad.base.errors import BadInput, WorkerDied
from gaiad.base.ports import RequestContext
from gaiad.store.database import connect


def fill(shelf, count, packets=4):
    """Store `count` pages over some packets; their ids."""
    return [
        page
        for packet in range(packets)
        for page in shelf.packet(f"tp-{packet}", [f"page {packet} {n}" for n in range(count // packets)])
    ]


def unit_vectors(count, dimension=16, seed=0):
    rows = np.random.default_rng(seed).normal(size=(count, dimension)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def open_index(shelf, exact_scan_max=50_000, fingerprint="f", dimension=16):
    index = VectorIndex(shelf.tenant, fingerprint, dimension, exact_scan_max)
    index.load()
    return index


def brute_force(ids, rows, query, count, allowed=None):
    keep = [n for n, page in enumerate(ids) if allowed is None or page in set(allowed)]
    stored = rows.astype("<f2").astype(np.float32)
    stored /= np.linalg.norm(stored, axis=1, keepdims=True)
    return sorted(((float(stored[n] @ query), ids[n]) for n in keep), reverse=True)[:count]


def test_search_agrees_with_brute_force(shelf):
    ids, rows = fill(shelf, 200), unit_vectors(200)
    index = open_index(shelf)
    index.add(ids, rows)
    for number, query in enumerate(unit_vectors(20, seed=1)):
        allowed = None if number % 2 else ids[number::3]
        found, cosines = index.search(query, 10, allowed)
        expected = brute_force(ids, rows, query, 10, allowed)
        assert found.tolist() == [page for _, page in expected]
        assert cosines == pytest.approx([cosine for cosine, _ in expected], abs=1e-5)


def test_pending_pages_carry_who_when_and_what(shelf):
    shelf.packet("tp-1", [("transcript", "Ada", "Hello there.")], heading="greetings, 3 May 2025")
    index = open_index(shelf)
    assert index.pending(10) == [(1, "Ada: Hello there.")]
    index.add([1], unit_vectors(1))
    assert index.pending(10) == []
    assert (index.pending_count(), index.count) == (0, 1)


def test_what_is_said_is_embedded_with_the_end_of_what_was_said_before(shelf):
    long = "word " * 60 + "and how are you?"
    said = [("transcript", "Ada", long), ("transcript", "Ben", "Ben: Very well."), ("summary", "", "Two met.")]
    shelf.packet("tp-1", said, heading="greetings, 3 May 2025")
    first, second, third = (text for _, text in open_index(shelf).pending(10))
    assert first == f"Ada: {long}"
    assert second == f"{long[-200:]}\nBen: Very well."
    assert third == "greetings, 3 May 2025: Two met."


def test_the_queue_sees_pages_that_lost_their_vector(shelf):
    ids = fill(shelf, 8)
    index = open_index(shelf)
    index.add(ids, unit_vectors(8))
    assert index.pending(10) == []

    def rewrite(connection):
        connection.execute("UPDATE pages SET text = 'changed' WHERE id = 2")
        connection.execute("DELETE FROM vectors WHERE page = 2")

    shelf.tenant.file.write(rewrite)
    index.forget([2])
    assert [page for page, _ in index.pending(10)] == [2]
    assert index.pending_count() == 1


def test_vectors_survive_a_crash_before_any_snapshot(shelf):
    ids, rows = fill(shelf, 40), unit_vectors(40)
    open_index(shelf).add(ids, rows)
    again = open_index(shelf)
    assert (again.count, again.problems) == (40, [])
    assert again.search(rows[7], 1)[0].tolist() == [ids[7]]


def test_a_snapshot_is_loaded_and_what_came_later_is_added(shelf):
    ids, rows = fill(shelf, 40), unit_vectors(40)
    index = open_index(shelf)
    index.add(ids[:20], rows[:20])
    assert index.snapshot() is True
    assert index.snapshot() is False
    index.add(ids[20:], rows[20:])
    shelf.retire(ids[:2])
    again = open_index(shelf)
    assert (again.count, again.problems, again.check()) == (38, [], [])
    assert again.search(rows[30], 1)[0].tolist() == [ids[30]]
    assert ids[0] not in again.search(rows[0], 40)[0]


def test_replaced_vectors_are_the_ones_found(shelf):
    ids, rows = fill(shelf, 8), unit_vectors(8)
    index = open_index(shelf)
    index.add(ids, rows)
    index.add(ids[:1], -rows[:1])
    assert index.count == 8
    assert index.search(-rows[0], 1)[0].tolist() == [ids[0]]
    assert index.search(rows[0], 8)[0].tolist().count(ids[0]) == 1


def test_rows_that_died_are_freed_by_the_snapshot(shelf):
    ids = fill(shelf, 20)
    index = open_index(shelf)
    for seed in range(5):
        index.add(ids, unit_vectors(20, seed=seed))
        index.snapshot()
    index.forget(ids[:1])
    index.snapshot()
    assert index.compare(unit_vectors(1)[0], 5).parts.rows.count == 20
    index.add(ids[:1], unit_vectors(1, seed=9))
    assert index.search(unit_vectors(1, seed=9)[0], 1)[0].tolist() == ids[:1]
    assert index.search(unit_vectors(20, seed=4)[7], 1)[0].tolist() == [ids[7]]
    assert index.check() == []


def test_an_index_file_of_pages_rewritten_since_is_not_used(shelf):
    ids, rows = fill(shelf, 8), unit_vectors(8)
    index = open_index(shelf)
    index.add(ids, rows)
    index.snapshot()

    def replace(connection):
        connection.execute("DELETE FROM pages WHERE id = ?", (ids[-1],))

    shelf.tenant.file.write(replace)
    new = shelf.packet("tp-new", ["another page"])
    again = open_index(shelf)
    assert (again.count, again.problems) == (7, [])
    assert again.search(rows[-1], 8)[0].tolist().count(ids[-1]) == 0
    assert [page for page, _ in again.pending(10)] == new


def test_an_index_that_cannot_be_written_anew_does_not_stop_the_start(make_shelf):
    shelf = make_shelf()
    ids, rows = fill(shelf, 8), unit_vectors(8)
    index = open_index(shelf, 50_000)
    index.add(ids, rows)
    index.snapshot()
    (index.folder / vector_file.MANIFEST).unlink()
    (index.folder / vector_file.MANIFEST).mkdir()
    again = open_index(shelf, 50_000)
    assert again.count == 8
    assert "not written" in again.problems[-1]


def damage_every_region(path):
    body = path.read_bytes()
    for at in {0, len(body) // 3, len(body) // 2, len(body) - 1}:
        yield f"flip {at}", body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :]
    for length in (0, 1, len(body) // 2, len(body) - 1):
        yield f"truncate to {length}", body[:length]
    yield "extended", body + b"\0"
    yield "deleted", None


@pytest.mark.parametrize("exact_scan_max", [1000, 50], ids=["exact", "hnsw"])
@pytest.mark.parametrize("victim", ["rows", "ids", "manifest"])
def test_a_damaged_file_is_noticed_named_and_rebuilt(make_shelf, exact_scan_max, victim):
    shelf = make_shelf()
    ids, rows = fill(shelf, 80), unit_vectors(80)
    index = open_index(shelf, exact_scan_max)
    index.add(ids, rows)
    assert index.build_base() if exact_scan_max == 50 else index.snapshot()
    manifest = vector_file.read_manifest(index.folder)
    files = {"rows": manifest.rows.name, "ids": manifest.ids.name, "manifest": vector_file.MANIFEST}
    good = {path.name: path.read_bytes() for path in index.folder.iterdir()}
    for label, body in damage_every_region(index.folder / files[victim]):
        for path in index.folder.iterdir():
            path.unlink()
        for name, content in good.items():
            (index.folder / name).write_bytes(content)
        path = index.folder / files[victim]
        path.unlink() if body is None else path.write_bytes(body)
        again = open_index(shelf, exact_scan_max)
        assert again.kind == "exact" or label == "extended", label
        if again.problems:
            assert "rebuilt from the database" in again.problems[0], label
        else:
            assert victim == "manifest", label
        assert again.count == 80
        found, _ = again.search(rows[5], 1)
        assert found.tolist() == [ids[5]], label


def test_all_files_deleted_is_noticed(shelf):
    ids = fill(shelf, 8)
    index = open_index(shelf)
    index.add(ids, unit_vectors(8))
    index.snapshot()
    for path in index.folder.iterdir():
        path.unlink()
    again = open_index(shelf)
    assert "missing" in again.problems[0]
    assert again.count == 8
    assert open_index(shelf).problems == []


def test_a_file_of_another_space_is_not_loaded(shelf):
    ids, rows = fill(shelf, 8), unit_vectors(8)
    index = open_index(shelf)
    index.add(ids, rows)
    index.snapshot()
    manifest = vector_file.read_manifest(index.folder)
    forged = msgspec.structs.replace(manifest, fingerprint="other")
    (index.folder / vector_file.MANIFEST).write_bytes(msgspec.json.encode(forged))
    again = open_index(shelf)
    assert "other" in again.problems[0]
    assert again.search(rows[3], 1)[0].tolist() == [ids[3]]


def test_a_check_notices_damage_and_loading_mends_it(shelf):
    ids = fill(shelf, 8)
    index = open_index(shelf)
    index.add(ids, unit_vectors(8))
    index.snapshot()
    assert index.check() == []
    path = index.folder / vector_file.read_manifest(index.folder).rows.name
    path.write_bytes(path.read_bytes()[:-4])
    assert "bytes instead of" in index.check()[0]
    index.load()
    assert index.check() == []


def test_vectors_on_their_way_are_no_damage(shelf, monkeypatch):
    ids = fill(shelf, 8)
    index = open_index(shelf)
    from_stored, compare, compared = vectors.from_stored, np.array_equal, threading.Event()

    def equal(*held):
        result = compare(*held)
        compared.set()
        return result

    def between(*stored):
        monkeypatch.setattr(vectors, "from_stored", from_stored)
        checks.append(pool.submit(index.check))
        assert compared.wait(60)
        return from_stored(*stored)

    checks = []
    monkeypatch.setattr(np, "array_equal", equal)
    monkeypatch.setattr(vectors, "from_stored", between)
    with ThreadPoolExecutor(1) as pool:
        index.add(ids, unit_vectors(8))
    assert [check.result() for check in checks] == [[]]


def test_vectors_of_a_wrong_shape_or_not_finite_are_refused(shelf):
    ids = fill(shelf, 8)
    index = open_index(shelf)
    with pytest.raises(BadInput, match=r"shape \(8, 16\)"):
        index.add(ids, unit_vectors(8, 15))
    with pytest.raises(BadInput, match="NaN"):
        index.add(ids[:1], np.full((1, 16), np.nan, np.float32))
    assert index.count == 0


# ------------------------------------------------------------------------------------------------ above the limit


def test_hnsw_finds_what_an_exact_scan_finds(shelf):
    ids, rows = fill(shelf, 1200), unit_vectors(1200)
    index = open_index(shelf, exact_scan_max=500)
    index.add(ids[:1000], rows[:1000])
    assert index.wants_build
    assert index.build_base()
    assert (index.kind, index.wants_build) == ("hnsw", False)
    index.add(ids[1000:], rows[1000:])
    index.forget(ids[:5])
    hits = wanted = 0
    for number, query in enumerate(unit_vectors(40, seed=3)):
        allowed = None if number % 2 else ids[number % 7 :: 2]
        living = ids[5:] if allowed is None else [page for page in allowed if page not in ids[:5]]
        expected = {page for _, page in brute_force(ids, rows, query, 10, living)}
        found, cosines = index.search(query, 10, allowed)
        assert set(found.tolist()) <= set(living)
        assert np.all(np.diff(cosines) <= 1e-6)
        hits, wanted = hits + len(expected & set(found.tolist())), wanted + len(expected)
    assert hits / wanted >= 0.95
    again = open_index(shelf, exact_scan_max=500)
    assert (again.kind, again.problems, again.count) == ("hnsw", [], 1200)
    assert again.search(rows[1100], 1)[0].tolist() == [ids[1100]]


def test_cosines_of_any_page_are_exact_with_either_base(shelf):
    ids, rows = fill(shelf, 120), unit_vectors(120)
    index = open_index(shelf, exact_scan_max=50)
    index.add(ids[:100], rows[:100])
    query = unit_vectors(1, seed=9)[0]
    asked = np.array([ids[3], ids[110], ids[99], 99_999], np.int64)
    for prepare in (lambda: None, index.build_base, lambda: index.add(ids[100:], rows[100:])):
        prepare()
        found = index.compare(query, 5).of(asked)
        known = index.count == 120
        assert found[[0, 2]] == pytest.approx((rows[[3, 99]].astype("<f2") @ query).astype(float), abs=2e-3)
        assert np.isnan(found[3])
        assert bool(np.isnan(found[1])) is not known


def test_an_index_that_finds_too_little_is_refused(shelf, monkeypatch):
    ids, rows = fill(shelf, 80), unit_vectors(80)
    index = open_index(shelf, exact_scan_max=50)
    index.add(ids, rows)
    monkeypatch.setattr(hnsw_build, "RECALL_FLOOR", 1.1)
    connection = connect(shelf.tenant.file.path, read_only=True)
    assert hnsw_build.build(connection, 1, "f", index.folder) is None
    connection.close()


def test_a_failing_build_leaves_the_exact_scan_and_says_why(shelf, monkeypatch):
    ids, rows = fill(shelf, 80), unit_vectors(80)
    index = open_index(shelf, exact_scan_max=50)
    index.add(ids, rows)
    monkeypatch.setattr("sys.executable", "/bin/false")
    assert index.build_base() is False
    assert "searching 80 vectors exactly" in index.problems[0]
    assert index.wants_build is True
    assert index.search(rows[9], 1)[0].tolist() == [ids[9]]


# ------------------------------------------------------------------------------------------------------- the queue


def test_a_base_that_would_find_too_little_waits_for_more_vectors(shelf, monkeypatch):
    ids, rows = fill(shelf, 120), unit_vectors(120)
    index = open_index(shelf, exact_scan_max=50)
    index.add(ids[:80], rows[:80])

    def refuse(*_):
        raise vector_index.LowRecall("too little")

    monkeypatch.setattr(vector_index.BaseBuild, "run", refuse)
    assert index.build_base() is False
    assert index.wants_build is False
    index.add(ids[80:], rows[80:])
    assert index.wants_build is True


async def test_one_slice_a_call(shelf, embedder):
    fill(shelf, 12)
    assert [await shelf.spaces.drain(embedder, RequestContext(), 5) for _ in range(4)] == [5, 5, 2, 0]
    assert (shelf.spaces.count(), shelf.spaces.pending_count()) == (12, 0)


async def test_a_slice_whose_embedding_failed_waits_for_the_next_call(shelf, embedder):
    fill(shelf, 4)
    embedder.failing = "gone"
    with pytest.raises(WorkerDied):
        await shelf.spaces.drain(embedder, RequestContext(), 5)
    embedder.failing = ""
    assert await shelf.embed_all(embedder) == 4


async def test_a_new_embedder_fills_its_space_while_the_old_one_serves(shelf, embedder, other_embedder):
    fill(shelf, 12)
    await shelf.embed_all(embedder)
    assert await shelf.spaces.drain(other_embedder, RequestContext(), 5) == 5
    old = await shelf.find("page", embedder)
    assert old.degraded == []
    assert "dense" in old.hits[0].retrievers
    new = await shelf.find("page", other_embedder)
    assert "being filled, 5 pages so far" in new.degraded[0]
    await shelf.embed_all(other_embedder)
    assert (await shelf.find("page", other_embedder)).degraded == []
    assert "words only" in (await shelf.find("page", embedder)).degraded[0]
    rows = shelf.tenant.file.read(lambda c: c.execute("SELECT count(*) FROM vectors").fetchone())
    assert rows == (12,)


async def test_a_change_of_embedder_goes_on_after_a_restart(shelf, embedder, other_embedder):
    fill(shelf, 12)
    await shelf.embed_all(embedder)
    await shelf.spaces.drain(other_embedder, RequestContext(), 5)
    shelf.close()
    shelf.reopen()
    shelf.spaces.open(other_embedder)
    assert shelf.spaces.serving.fingerprint == "words-1"
    assert await shelf.embed_all(other_embedder) == 7
    assert [index.fingerprint for index in shelf.spaces.indexes()] == ["words-2"]


async def test_growing_past_the_limit_builds_in_the_background(make_shelf, embedder):
    shelf = make_shelf(exact_scan_max=50)
    fill(shelf, 80)
    await shelf.embed_all(embedder)
    for _ in range(1200):
        if shelf.spaces.serving.kind == "hnsw":
            break
        await asyncio.sleep(0.05)
    assert shelf.spaces.serving.kind == "hnsw"
    assert (await shelf.find("page 2 11", embedder, mode="dense")).hits[0].excerpt == "page 2 11"
    await shelf.spaces.close()
