"""The FTS5 index over active pages. It keeps no text of its own: a row is taken out with the values it went in.

`index_pages` and `unindex_pages` run inside the writer's transaction, so index and pages never disagree.
"""

import sqlite3
from collections.abc import Iterable

IndexedRow = tuple[int, str, str, str]
"""(pages.id, text, speaker, heading)"""


def index_pages(connection: sqlite3.Connection, rows: Iterable[IndexedRow]) -> None:
    """Make active pages searchable by their words; a page must not be in the index already."""
    connection.executemany("INSERT INTO pages_text (rowid, text, speaker, heading) VALUES (?, ?, ?, ?)", rows)


def unindex_pages(connection: sqlite3.Connection, rows: Iterable[IndexedRow]) -> None:
    """Take pages out, with exactly the values they were indexed with, before those change or go."""
    connection.executemany(
        "INSERT INTO pages_text (pages_text, rowid, text, speaker, heading) VALUES ('delete', ?, ?, ?, ?)", rows
    )


def rebuild(connection: sqlite3.Connection) -> None:
    """Throw the index away and make it anew from the active pages."""
    connection.execute("INSERT INTO pages_text (pages_text) VALUES ('rebuild')")


def check(connection: sqlite3.Connection) -> str:
    """ "" when every active page is indexed and nothing else is; otherwise what is wrong. Works on a reader."""
    (missing,) = connection.execute(
        "SELECT count(*) FROM pages p WHERE p.active = 1"
        " AND NOT EXISTS (SELECT 1 FROM pages_text_docsize d WHERE d.id = p.id)"
    ).fetchone()
    (surplus,) = connection.execute(
        "SELECT count(*) FROM pages_text_docsize d"
        " WHERE NOT EXISTS (SELECT 1 FROM pages p WHERE p.id = d.id AND p.active = 1)"
    ).fetchone()
    if missing or surplus:
        return f"text index: {missing} active pages are missing and {surplus} entries have no active page"
    return ""


def check_contents(connection: sqlite3.Connection) -> str:
    """`check`, then FTS5's own comparison of every posting with the pages' text. Needs the writing connection."""
    problem = check(connection)
    if problem:
        return problem
    try:
        connection.execute("INSERT INTO pages_text (pages_text, rank) VALUES ('integrity-check', 1)")
    except sqlite3.DatabaseError as error:
        return f"text index: does not match the pages ({error})"
    return ""
