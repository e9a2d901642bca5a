"""The catalogue follows what its reader's snapshot sees, forwards and back, and reads pages only where it must."""

import sqlite3
from dataclasses import fields

import numpy as np
import pytest

from gaiad.archive.storing.catalogue import CatalogueReader
from gaiad.base.errors import GaiadError


def same(one, other):
    return all(np.array_equal(getattr(one, field.name), getattr(other, field.name)) for field in fields(one))


def test_a_search_of_an_older_snapshot_leaves_the_newer_catalogue_in_place(shelf, monkeypatch):
    shelf.packet("tp-1", [("transcript", "Ada", "Hello there."), ("transcript", "Ben", "Good day.")])
    reader, reads = CatalogueReader(), []
    read = reader._read_pages
    monkeypatch.setattr(reader, "_read_pages", lambda connection, after: reads.append(after) or read(connection, after))

    def meanwhile(connection):
        before = CatalogueReader().current(connection)
        pages = shelf.packet("tp-2", [("transcript", "Cleo", "Something new?")])
        shelf.retire(pages)
        newer = shelf.tenant.file.read(reader.current)
        assert len(newer) == 3
        older = reader.current(connection)
        assert older.version == before.version
        assert older.positions(np.array(pages, np.int64)).tolist() == []
        assert older.ids.tolist() == before.ids.tolist()
        assert [older.speakers[code] for code in older.speaker] == ["Ada", "Ben"]
        assert older.active_count == 2
        assert shelf.tenant.file.read(reader.current) is newer

    shelf.tenant.file.read(meanwhile)
    assert reads == [0]


def test_pages_switched_off_make_a_newer_catalogue(shelf):
    pages = shelf.packet("tp-1", ["one", "two"])
    reader = CatalogueReader()
    assert shelf.tenant.file.read(reader.current).active_count == 2
    shelf.retire(pages[:1])
    assert shelf.tenant.file.read(reader.current).active_count == 1


def test_a_read_broken_off_leaves_no_codes_of_another_catalogue(shelf, monkeypatch):
    pages = shelf.packet("tp-1", [("transcript", "Ada", "Hello there."), ("transcript", "Ben", "Good day.")])
    reader = CatalogueReader()
    shelf.tenant.file.read(reader.current)
    shelf.packet("tp-2", [("transcript", "Cleo", "Something new?")])

    def broken(connection, after):
        raise sqlite3.OperationalError("interrupted")

    def meanwhile(connection):
        expected = CatalogueReader().current(connection)
        shelf.tenant.file.write(lambda c: c.execute("UPDATE pages SET text = 'Hi.' WHERE id = ?", (pages[0],)))
        with monkeypatch.context() as patched:
            patched.setattr(reader, "_read_pages", broken)
            with pytest.raises(GaiadError, match="interrupted"):
                shelf.tenant.file.read(reader.current)
        assert same(reader.current(connection), expected)

    shelf.tenant.file.read(meanwhile)
