"""Ranking is pure: the order of the pool does not matter, boosts only lift, and the parts add up."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaiad.archive.finding import ranking

WEIGHTS = ranking.Weights(
    bm25=1.0,
    words=0.5,
    window=0.9,
    before=0.2,
    dense=0.8,
    near=0.4,
    session=0.3,
    session_dense=0.2,
    name=0.25,
    own=0.1,
    when=0.2,
    number=0.2,
    names=0.2,
    substance=0.3,
    spread=0.02,
    time=0.25,
    match=0.25,
    neighbour_1=0.5,
    neighbour_2=0.25,
)
share = st.floats(0, 1, width=32)
pages = st.lists(
    st.tuples(
        st.floats(0, 30, width=32), st.floats(0, 20, width=32), share, share, st.integers(0, 3), share, share, share
    ),
    min_size=1,
    max_size=30,
)


def make_pool(rows):
    lexical, near, dense, dense_near, session, named, period, matched = (
        list(column) for column in zip(*rows, strict=True)
    )
    lexical, dense = np.array(lexical, np.float32), np.array(dense, np.float32)
    return ranking.CandidatePool(
        positions=np.arange(len(rows), dtype=np.int64),
        lexical=lexical,
        words=dense,
        window=np.minimum(lexical, 1),
        before=np.array(near, np.float32),
        session_words=lexical,
        dense=dense,
        near=np.array(dense_near, np.float32),
        session=np.array(session, np.int32),
        substance=dense,
        named=np.array(named, np.float32),
        in_period=np.array(period, np.float32),
        matched=np.array(matched, np.float32),
    )


@given(pages)
def test_parts_add_up_to_the_total(rows):
    fused = ranking.fuse(make_pool(rows), WEIGHTS)
    assert np.sum(list(fused.parts.values()), axis=0) == pytest.approx(fused.total, rel=1e-5, abs=1e-4)
    assert np.all(np.isfinite(fused.total))


@given(pages, share)
def test_further_parts_are_added_and_named(rows, more):
    fused = ranking.fuse(make_pool(rows), WEIGHTS)
    part = np.full(len(rows), more, np.float32)
    found = ranking.with_parts(fused, {"when": part})
    assert found.total == pytest.approx(fused.total + part, abs=1e-5)
    assert found.parts == {**fused.parts, "when": part}


@given(pages, st.randoms())
def test_the_order_of_the_pool_does_not_matter(rows, random):
    order = list(range(len(rows)))
    random.shuffle(order)
    one, other = ranking.fuse(make_pool(rows), WEIGHTS), ranking.fuse(make_pool([rows[n] for n in order]), WEIGHTS)
    assert other.total == pytest.approx(one.total[order], abs=1e-5)
    total = np.round(one.total, 3)
    first = ranking.order_by_score(total, np.arange(len(rows))).tolist()
    second = ranking.order_by_score(total[order], np.array(order)).tolist()
    assert [order[n] for n in second] == first


@given(pages, st.integers(0, 29), st.sampled_from([5, 6, 7]))
def test_a_boost_lifts_its_page_and_no_other_and_removes_none(rows, chosen, boost):
    chosen %= len(rows)
    before = ranking.fuse(make_pool(rows), WEIGHTS).total
    lifted = [(*row[:boost], 1.0, *row[boost + 1 :]) if n == chosen else row for n, row in enumerate(rows)]
    after = ranking.fuse(make_pool(lifted), WEIGHTS).total
    assert len(after) == len(before)
    assert after[chosen] >= before[chosen] - 1e-6
    others = np.arange(len(rows)) != chosen
    assert after[others] == pytest.approx(before[others], abs=1e-6)


@given(st.lists(st.floats(0, 10, width=32), min_size=1, max_size=40), st.integers(1, 50))
def test_best_positions_are_those_of_a_plain_sort(values, count):
    scores = np.array(values, np.float32)
    expected = sorted((n for n, value in enumerate(values) if value > 0), key=lambda n: (-values[n], n))[:count]
    assert ranking.best_positions(scores, count).tolist() == expected


@given(st.lists(st.tuples(st.floats(0, 10, width=32), st.integers(0, 2)), min_size=1, max_size=30))
def test_smoothing_adds_neighbours_of_the_same_packet_only(rows):
    rows = sorted(rows, key=lambda row: row[1])
    scores, packet = np.array([row[0] for row in rows], np.float32), [row[1] for row in rows]
    links = [np.array([packet[n] == packet[n + step] for n in range(len(rows) - step)], np.float32) for step in (1, 2)]
    found = ranking.smooth(scores, *links, 0.5, 0.25)
    for n in range(len(rows)):
        near = sum(
            weight * scores[m]
            for step, weight in ((1, 0.5), (2, 0.25))
            for m in (n - step, n + step)
            if 0 <= m < len(rows) and packet[m] == packet[n]
        )
        assert found[n] == pytest.approx(scores[n] + near, rel=1e-4, abs=1e-4)


@given(
    st.lists(st.tuples(st.floats(0, 10, width=32), st.integers(0, 9)), min_size=1, max_size=40),
    st.sampled_from([(0.5, 0.25), (0.0, 0.3), (0.0, 0.0)]),
    st.data(),
)
def test_smoothing_some_pages_gives_them_the_same_as_smoothing_all_to_the_last_bit(rows, shares, data):
    rows = sorted(rows, key=lambda row: row[1])
    scores, packet = np.array([row[0] for row in rows], np.float32), [row[1] for row in rows]
    links = [np.array([packet[n] == packet[n + step] for n in range(len(rows) - step)], np.float32) for step in (1, 2)]
    positions = np.array(sorted(data.draw(st.sets(st.integers(0, len(rows) - 1)))), np.int64)
    found = ranking.smooth_at(scores, positions, *links, *shares)
    assert np.array_equal(found, ranking.smooth(scores, *links, *shares)[positions])


def test_unknown_cosines_say_nothing():
    assert ranking.above_mean(np.array([np.nan, np.nan], np.float32)).tolist() == [0, 0]
    assert ranking.above_mean(np.array([0.2, np.nan, 0.8], np.float32)).tolist() == pytest.approx([0, 0, 1])


def test_a_session_counts_by_its_best_page():
    best = ranking.best_of_session(np.array([1, 3, 2], np.float32), np.array([7, 7, 9], np.int32))
    assert best.tolist() == [3, 3, 2]


def test_a_page_loses_for_each_better_one_of_its_session_three_at_most():
    total = np.array([0.9, 0.8, 0.7, 0.6, 0.5, 0.4], np.float32)
    session = np.array([1, 1, 0, 1, 1, 1], np.int32)
    positions = np.arange(6, dtype=np.int64)
    assert ranking.spread(total, positions, session, 0.5) == pytest.approx([0, -0.5, 0, -1, -1.5, -1.5])
    assert len(ranking.spread(total[:0], positions[:0], session[:0], 0.5)) == 0
