"""The file governance keeps in a home, `<home>/governance.db`: RFCs, and what self-reflection is judged by."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TypeVar

from gaiad.errors import Conflict
from gaiad.store.database import Migration, connect, refuse_newer, translate
from gaiad.store.file import DatabaseFile

DATABASE_NAME = "governance.db"
APPLICATION_ID = 0x67616967  # "gaig"
MIGRATION_1: Migration = """
CREATE TABLE rfcs (
    rfc_id     TEXT PRIMARY KEY,
    short_id   TEXT NOT NULL,
    state      TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    body       BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX rfcs_by_short_id ON rfcs (short_id);
CREATE TABLE reflections (
    at_ms      INTEGER NOT NULL,
    stage      TEXT NOT NULL,
    outcome    TEXT NOT NULL,
    confidence REAL
);
CREATE INDEX reflections_by_time ON reflections (at_ms);
CREATE TABLE spans (
    name     TEXT NOT NULL,
    since_ms INTEGER NOT NULL,
    until_ms INTEGER NOT NULL,
    gap_ms   INTEGER NOT NULL,
    ended    TEXT NOT NULL DEFAULT ''
);
CREATE INDEX spans_by_name ON spans (name, until_ms);
"""
T = TypeVar("T")


def open_database(home: Path) -> DatabaseFile:
    """Open or make it. Raises Conflict for a newer or foreign one."""
    return DatabaseFile.open(home / DATABASE_NAME, [MIGRATION_1], APPLICATION_ID, readers=1)


def read_offline(home: Path, work: Callable[[sqlite3.Connection], T]) -> T | None:
    """`work` on a home's governance.db, whether a daemon runs or not; None where there is none yet.

    Raises Conflict for one that is newer, foreign or damaged.
    """
    path = home / DATABASE_NAME
    if not path.is_file():
        return None
    refuse_newer(path, len([MIGRATION_1]))
    try:
        with closing(connect(path, read_only=True)) as connection:
            (owner,) = connection.execute("PRAGMA application_id").fetchone()
            if owner != APPLICATION_ID:
                raise Conflict(f"{path} is not the governance of a gaiad; move it away and restore the right one")
            connection.execute("BEGIN")
            return work(connection)
    except sqlite3.Error as error:
        raise translate(error, path) from error
