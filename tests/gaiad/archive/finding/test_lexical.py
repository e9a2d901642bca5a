"""What the lexical index holds in memory: bounded, and the words asked about most recently stay."""

import numpy as np

from gaiad.archive.finding import lexical
from gaiad.archive.finding.lexical import Held, LexicalIndex, Postings
from gaiad.archive.finding.query_terms import Stemmer, parse_query
from gaiad.archive.storing.catalogue import CatalogueReader


def postings(count):
    return Postings(np.arange(count, dtype=np.int64), np.ones(count, np.float32))


def test_the_postings_used_last_stay(monkeypatch):
    monkeypatch.setattr(lexical, "_CACHED_POSTINGS", 10)
    held = Held(())
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
