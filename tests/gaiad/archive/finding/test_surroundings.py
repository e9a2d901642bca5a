"""What stands around a page is counted as if its window were one text, whatever comes after it later."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaiad.archive.finding import ranking, surroundings
from gaiad.archive.finding.lexical import TermPages
from gaiad.archive.storing.catalogue import Catalogue, Version


def make_catalogue(packets, lengths, sessions=None):
    count = len(packets)
    packet = np.array(packets, np.int64)
    session = np.array(sessions if sessions is not None else packets, np.int32)
    length = np.array(lengths, np.float32)
    links = [(packet[step:] == packet[:-step]).astype(np.float32) for step in (1, 2)]
    return Catalogue(
        version=Version(count, 0, 0, 0, 0),
        ids=np.arange(1, count + 1, dtype=np.int64),
        packet=packet,
        sequence=np.zeros(count, np.int32),
        section=np.zeros(count, np.uint8),
        speaker=np.zeros(count, np.int32),
        session=session,
        timestamp_ms=np.zeros(count, np.int64),
        length=length,
        asks=np.zeros(count, np.uint8),
        active=np.ones(count, np.bool_),
        link_1=links[0],
        link_2=links[1],
        by_id=np.arange(-1, count, dtype=np.int32),
        session_length=np.bincount(session, length).astype(np.float32),
        speakers=("",),
        mean_length=float(length.mean()),
        active_count=count,
    )


rows = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 400), st.integers(0, 4)), min_size=3, max_size=25)


@given(rows, st.randoms())
def test_a_window_has_the_words_that_any_page_of_it_has(rows, random):
    rows.sort(key=lambda row: row[0])
    catalogue = make_catalogue([row[0] for row in rows], [row[1] for row in rows])
    terms, weights = [], (1.7, 0.4)
    for number, weight in enumerate(weights):
        counts = np.array([row[2] & (1 + number) for row in rows], np.float32)
        places = np.flatnonzero(counts)
        terms.append(TermPages(f"word{number}", places, counts[places], weight))
    positions = np.array(sorted(random.sample(range(len(rows)), random.randint(1, len(rows)))), np.int64)
    windows = [
        [n for n in range(max(0, at - 2), min(len(rows), at + 3)) if rows[n][0] == rows[at][0]] for at in positions
    ]
    expected = [
        sum(weight * any(rows[n][2] & (1 + number) for n in window) for number, weight in enumerate(weights)) / 2.1
        for window in windows
    ]
    assert surroundings.window_shares(terms, catalogue, positions) == pytest.approx(np.array(expected), abs=1e-5)


def test_a_speakers_name_tells_no_window_from_another_unless_it_is_all_that_is_asked():
    catalogue = replace(make_catalogue([0, 0, 0, 1], [100] * 4), speakers=("", "Ada Lovelace"))
    name = TermPages("ada", np.array([0, 1, 2, 3]), np.ones(4, np.float32), 0.1)
    pears = TermPages("pears", np.array([3]), np.ones(1, np.float32), 2.0)
    everywhere = np.arange(4)
    assert surroundings.window_shares([name, pears], catalogue, everywhere).tolist() == [0.0, 0.0, 0.0, 1.0]
    assert surroundings.window_shares([name], catalogue, everywhere).tolist() == [1.0] * 4


def test_a_page_with_any_of_the_words_has_half_of_them_at_least():
    rare = TermPages("rare", np.array([1, 2]), np.ones(2, np.float32), 3.0)
    common = TermPages("common", np.array([2, 3]), np.ones(2, np.float32), 1.0)
    assert surroundings.own_shares([rare, common], np.arange(4)).tolist() == [0.0, 0.875, 1.0, 0.625]
    assert surroundings.own_shares([], np.arange(2)).tolist() == [0.0, 0.0]


def test_what_stands_before_counts_where_it_asks_inside_the_packet_only():
    catalogue = replace(make_catalogue([0, 0, 0, 1, 1], [10] * 5), asks=np.array([1, 0, 1, 2, 0], np.uint8))
    lexical = np.array([1, 2, 4, 8, 16], np.float32)
    found = surroundings.before_scores(lexical, catalogue, np.arange(5))
    assert found.tolist() == [0, 1, 0, 0, 8]


def test_a_session_is_one_document_among_all():
    catalogue = make_catalogue([0, 1, 2, 3], [10] * 4, sessions=[0, 0, 1, 2])
    here = TermPages("here", np.array([0, 1]), np.array([1, 2], np.float32), 1.0)
    everywhere = TermPages("everywhere", np.arange(4), np.ones(4, np.float32), 1.0)
    found = surroundings.session_scores([here], catalogue, np.arange(4))
    assert found[0] == found[1] > 0
    assert found[2:].tolist() == [0, 0]
    both = surroundings.session_scores([here, everywhere], catalogue, np.arange(4))
    assert both[0] > both[2] > 0


def test_nothing_is_scored_for_no_candidates():
    catalogue = make_catalogue([0, 0, 0], [10] * 3)
    term = TermPages("word", np.array([0]), np.ones(1, np.float32), 1.0)
    nothing = np.zeros(0, np.int64)
    assert len(surroundings.window_shares([term], catalogue, nothing)) == 0
    assert len(surroundings.session_scores([term], catalogue, nothing)) == 0


@given(st.integers(1, 5000), st.integers(0, 255))
def test_substance_lies_between_nothing_and_all(length, asks):
    told = ranking.substance(np.array([length], np.float32), np.array([asks], np.uint8))[0]
    plain = ranking.substance(np.array([length], np.float32), np.array([0], np.uint8))[0]
    assert 0 <= told <= plain <= 1
