"""`tests.bench vectors`: each engine by its narrowest good setting, on the same vectors; what is missing is told."""

import sys
from types import ModuleType

import numpy as np
import pytest

from tests.bench import vectors
from tests.bench.vectors import Tuned, measure_vectors, tune


def scanning(module, folder, ids, matrix, count, _scan_max):
    """An engine of two settings: one that finds nothing, and an exact scan."""
    assert module.__name__ == "made_store"
    assert not folder.exists()
    yield "blind", lambda query: []
    yield "scan", lambda query: ids[np.argsort(-(matrix @ query), kind="stable")[:count]].tolist()


@pytest.fixture
def engines(monkeypatch):
    monkeypatch.setitem(sys.modules, "made_store", ModuleType("made_store"))
    monkeypatch.setattr(vectors, "ENGINES", {"made_store": scanning, "no_such_store": scanning})
    monkeypatch.setattr(vectors, "_QUERIES", 8)
    monkeypatch.setattr(vectors, "_ROUNDS", 2)


def test_engines_are_asked_about_the_same_vectors(engines):
    rows = {row.what.strip(): row for row in measure_vectors(pages=200)}
    assert rows["gaiad, exact, one query"].value > 0
    assert rows["made_store, scan, one query"].value > 0
    assert rows["made_store to gaiad"].value > 0
    assert "no_such_store is not here; to compare: pip install no_such_store" in rows
    assert next(row.value for row in rows.values() if row.unit == "vectors") >= 200


def test_the_narrowest_setting_that_finds_enough_is_taken():
    asked = []

    def answering(name, answer):
        def ask(query):
            asked.append(name)
            return answer

        return name, ask

    settings = [answering("narrow", [1]), answering("middle", [1, 2]), answering("wide", [1, 2])]
    found = tune("engine", settings, np.zeros((3, 2), np.float32), [{1, 2}] * 3)
    assert isinstance(found, Tuned)
    assert (found.setting, found.recall, asked) == ("middle", 1.0, ["narrow"] * 3 + ["middle"] * 3)
    assert tune("engine", settings[:1], np.zeros((1, 2), np.float32), [{1, 2}]).recall == 0.5
