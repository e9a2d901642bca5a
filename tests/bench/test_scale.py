"""`tests.bench.scale`: the made archive is a real one, recall is held against a real scan, growth is a slope."""

import asyncio

import numpy as np
import pytest

from gaiad.archive.dense import vectors
from gaiad.archive.dense.vector_index import VectorIndex
from gaiad.base.config import load_config
from gaiad.base.errors import BadInput
from gaiad.bench.made_archive import Mixture, Space, add_vectors, make_queries, take_in
from tests.bench import scale
from tests.bench.scale import (
    ALL,
    HYBRID,
    LEXICAL,
    Latency,
    disk_bytes,
    index_vectors,
    nearest,
    queries_by_band,
    recall,
    summary,
)
from tests.makers.archives import open_tenant

SPACE = Space("made", 16)


def point(pages, **p95):
    latencies = [
        Latency(mode=mode, words=words, questions=3, p50_ms=1.0, p95_ms=value, p99_ms=value)
        for mode, value in p95.items()
        for words in (ALL, "rare")
    ]
    return scale.ScalePoint(
        pages=pages,
        vectors=pages,
        ingest_pages_per_s=1.0,
        index="exact",
        index_s=0.1,
        dense_recall_at_10=0.97,
        start_s=1.0,
        daemon_memory_mib=90.0,
        disk_mib=3.0,
        degraded_share=0.25,
        busy=0.5,
        problems=["told"],
        latencies=latencies,
        processor_ms={mode: value / 2 for mode, value in p95.items()},
    )


def test_a_made_archive_is_real_and_grows(tmp_path):
    config, mixture = load_config(), Mixture(SPACE.dimension)
    assert asyncio.run(take_in(tmp_path, config, 0, 12)) > 0
    first = add_vectors(tmp_path, SPACE, mixture)
    assert 100 <= first <= 140
    assert add_vectors(tmp_path, SPACE, mixture) == 0
    asyncio.run(take_in(tmp_path, config, 12, 3))
    second = add_vectors(tmp_path, SPACE, mixture)
    indexed = index_vectors(tmp_path, config, SPACE, mixture, queries=20)
    assert (indexed.kind, indexed.vectors, indexed.recall, indexed.problems) == ("exact", first + second, 1.0, [])
    assert disk_bytes(tmp_path) > 50_000


def test_recall_is_held_against_the_vectors_in_the_database(tmp_path, monkeypatch):
    config, mixture = load_config(), Mixture(SPACE.dimension)
    asyncio.run(take_in(tmp_path, config, 0, 6))
    count = add_vectors(tmp_path, SPACE, mixture)
    tenant = open_tenant(tmp_path)
    try:
        index = VectorIndex(tenant, SPACE.fingerprint, SPACE.dimension, 50_000)
        index.load()
        queries = mixture.draw(5, 99)
        expected = [index.search(query, 7)[0].tolist() for query in queries]
        monkeypatch.setattr(vectors, "_CHUNK_ROWS", 10)  # the best of several pieces
        assert count > 30
        assert [ids.tolist() for ids in nearest(tenant, SPACE, queries, 7)] == expected
        index.forget(expected[0][:1])
        assert expected[0][0] not in index.search(queries[0], count)[0]
    finally:
        tenant.file.close()
    assert recall([{1, 2}, {3}], [{1, 5}, {3}]) == 0.75
    assert recall([], []) == 1.0


def test_made_vectors_are_unit_clustered_and_the_same_again():
    rows = Mixture(64).draw(500, 3)
    assert np.linalg.norm(rows, axis=1) == pytest.approx(1.0, abs=1e-5)
    assert np.array_equal(rows, Mixture(64).draw(500, 3))
    assert not np.array_equal(rows, Mixture(64).draw(500, 4))
    nearest_other = np.sort(rows @ rows.T, axis=1)[:, -2]
    assert np.median(nearest_other) > 0.4


def test_questions_by_band_are_the_same_questions():
    bands = queries_by_band(9, 5)
    assert list(bands) == ["common", "middling", "rare"]
    assert sorted(query for band in bands.values() for query in band) == sorted(make_queries(9, 5))


def test_percentiles_are_of_all_and_of_each_band():
    found = summary(LEXICAL, {"common": [1.0, 2.0, 30.0], "rare": [4.0]})
    assert [(each.words, each.questions, each.p50_ms, each.p99_ms) for each in found] == [
        ("all", 4, 4.0, 30.0),
        ("common", 3, 2.0, 30.0),
        ("rare", 1, 4.0, 4.0),
    ]


def test_growth_is_the_slope_between_the_sizes():
    points = [point(1_000, **{HYBRID: 5.0, LEXICAL: 2.0}), point(10_000, **{HYBRID: 50.0, LEXICAL: 2.0})]
    assert scale.growth(points, scale._p95) == {LEXICAL: 0.0, HYBRID: 1.0}
    assert scale.growth(points, lambda one, mode: one.processor_ms.get(mode)) == {LEXICAL: 0.0, HYBRID: 1.0}
    assert scale.growth(points[:1], scale._p95) == {}


def test_the_table_tells_aims_problems_and_what_was_missing():
    lines = "\n".join(scale.table(point(10_000, **{HYBRID: 50.0})))
    assert "(aim p95 <= 12)" in lines
    assert lines.count("aim p95") == 1
    assert lines.count("25.00  (aim") == 1
    assert "answered without vectors: 25.0%" in lines
    assert "problem: told" in lines


@pytest.mark.parametrize("pages", [5, 99_000_000])
def test_sizes_that_cannot_be_made_are_refused(pages):
    with pytest.raises(BadInput, match=f"{pages} pages"):
        scale.check_sizes([1000, pages])
    assert scale.check_sizes([3000, 10, 10]) == [10, 3000]
