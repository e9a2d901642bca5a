"""What the lexical index holds in memory: bounded, and the words asked about most recently stay."""

import numpy as np
import pytest

from gaiad.archive.finding import lexical
from gaiad.archive.finding.lexical import IndexState, LexicalIndex, Postings
from gaiad.archive.finding.query_terms import Stemmer, parse_query
from gaiad.archive.storing.catalogue import CatalogueReader


def postings(count):
    return Postings(np.arange(count, dtype=np.int64), np.ones(count, np.float32))


def test_the_postings_used_last_stay(monkeypatch):
    monkeypatch.setattr(lexical, "_CACHED_POSTINGS", 10)
    held = IndexState(())
    for word in ("harbour", "lantern"):
        held.keep(word, postings(4))
    assert held.known("harbour") is not None
    held.keep("violin", postings(4))
    assert [word for word in ("harbour", "lantern", "violin") if held.known(word)] == ["harbour", "violin"]
    held.keep("everywhere", postings(11))
    assert held.known("everywhere") is None
    assert held.known("violin") is not None


def test_scores_are_the_same_with_and_without_what_is_held(shelf):
    for number in range(6):
        shelf.packet(f"tp-{number}", [f"the harbour lamp {number}", "a violin in the harbour", "nothing of note"])
    index, stemmer, catalogues = LexicalIndex(20_000), Stemmer(), CatalogueReader()

    def score(connection):
        return index.score(connection, parse_query("harbour violin", stemmer), catalogues.current(connection)).scores

    fresh = shelf.tenant.file.read(score)
    assert np.count_nonzero(fresh) == 12
    assert np.array_equal(shelf.tenant.file.read(score), fresh)
    index.forget()
    assert np.array_equal(shelf.tenant.file.read(score), fresh)
    shelf.packet("tp-new", ["another violin"])
    assert np.count_nonzero(shelf.tenant.file.read(score)) == 13
    stemmer.close()


@pytest.mark.parametrize("query", ["databases of the house", "harbour house", "database harbour", "paid house"])
def test_terms_too_common_for_the_budget_score_by_their_own_stem(shelf, query):
    for number in range(3):
        shelf.packet(f"tp-{number}", [f"the house in the harbour {number}", "a house", "a house was paid for"])
    shelf.packet("tp-rare", ["the database of the house", "databases in the harbour"])
    stemmer, catalogues = Stemmer(), CatalogueReader()

    def scored(budget):
        def score(connection):
            terms, catalogue = parse_query(query, stemmer), catalogues.current(connection)
            return LexicalIndex(budget).score(connection, terms, catalogue).terms

        return {pages.word: pages.positions.tolist() for pages in shelf.tenant.file.read(score)}

    whole, narrow = scored(20_000), scored(1)
    first = min(whole, key=lambda word: len(whole[word]))
    assert len(whole) == 2
    assert narrow[first] == whole[first]
    for word in set(whole) - {first}:
        assert narrow[word] == [place for place in whole[word] if place in whole[first]]
        assert narrow[word]
    stemmer.close()
