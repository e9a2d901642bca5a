"""Vectors in the database: the durable truth behind every index file. One space per embedder fingerprint.

A page waits for its vector while it is active and has none in the space: the queue is a query, a crash loses nothing.
"""

import sqlite3
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from gaiad.base.errors import NotFound
from gaiad.store.database import chunks, marks

Vectors = NDArray[np.float32]
Ids = NDArray[np.int64]
_STORED = np.dtype("<f2")
_CHUNK_ROWS = 4_096
_TO_EMBED = (
    "SELECT p.id, p.speaker, p.heading, p.text, coalesce(b.text, '') FROM pages p LEFT JOIN pages b"
    " ON b.packet = p.packet AND b.sequence = p.sequence - 1 AND b.section = p.section AND b.speaker <> ''"
)
CONTEXT_CHARS = 200
"""Of what was said before a page, embedded with it (measured on conversations: recall in the first ten +.009)."""


def open_space(connection: sqlite3.Connection, fingerprint: str, dimension: int, now_ms: int) -> int:
    """The id of the space called `fingerprint`, made when it is new."""
    connection.execute(
        "INSERT INTO vector_spaces (fingerprint, dimension, created_ms) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
        (fingerprint, dimension, now_ms),
    )
    return space_called(connection, fingerprint)


def space_called(connection: sqlite3.Connection, fingerprint: str) -> int:
    """The id of the space called `fingerprint`. Raises NotFound."""
    row = connection.execute("SELECT id FROM vector_spaces WHERE fingerprint = ?", (fingerprint,)).fetchone()
    if row is None:
        raise NotFound(f"no vector space is called {fingerprint!r}; its embedder has not embedded anything here yet")
    return int(row[0])


def spaces(connection: sqlite3.Connection) -> list[tuple[int, str, int, int]]:
    """(id, fingerprint, dimension, vectors) of every space, oldest first."""
    return connection.execute(
        "SELECT s.id, s.fingerprint, s.dimension, (SELECT count(*) FROM vectors v WHERE v.space = s.id)"
        " FROM vector_spaces s ORDER BY s.id"
    ).fetchall()


def drop_space(connection: sqlite3.Connection, space: int) -> None:
    """Delete a space with all its vectors."""
    connection.execute("DELETE FROM vectors WHERE space = ?", (space,))
    connection.execute("DELETE FROM vector_spaces WHERE id = ?", (space,))
    connection.execute("DELETE FROM changes WHERE name = ?", (written_mark(space),))


def storable(vectors: Vectors) -> NDArray[np.bool_]:
    """Which rows are finite as they are stored."""
    fits: NDArray[np.bool_] = np.abs(vectors).max(axis=1, initial=0) <= np.finfo(_STORED).max
    return fits


def to_stored(vectors: Vectors) -> list[bytes]:
    """Rows as they are stored: float16, little endian."""
    return [row.tobytes() for row in np.ascontiguousarray(vectors, _STORED)]


def from_stored(bodies: Sequence[bytes], dimension: int) -> Vectors:
    """Stored rows as float32, brought back to length 1 after the rounding. Shape (len(bodies), dimension)."""
    if not bodies:
        return np.zeros((0, dimension), np.float32)
    matrix = np.frombuffer(b"".join(bodies), _STORED).reshape(len(bodies), dimension).astype(np.float32)
    matrix /= np.maximum(np.linalg.norm(matrix, axis=1, keepdims=True), 1e-12)
    return matrix


def store_vectors(
    connection: sqlite3.Connection, space: int, pages: Sequence[int], bodies: Sequence[bytes], texts: Sequence[str] = ()
) -> list[int]:
    """Write the vectors of pages that still exist and are active; returns those pages' ids.

    `texts` are what the vectors were made of: a page that says something else by now gets none, and waits for its own.
    """
    stored = []
    now = texts_to_embed(connection, pages) if texts else {}
    made_of = dict(zip(pages, texts, strict=True)) if texts else {}
    for page, body in zip(pages, bodies, strict=True):
        if now.get(page) != made_of.get(page):
            continue
        changed = connection.execute(
            "INSERT INTO vectors (space, page, body) SELECT ?, id, ? FROM pages WHERE id = ? AND active = 1"
            " ON CONFLICT (space, page) DO UPDATE SET body = excluded.body",
            (space, body, page),
        )
        if changed.rowcount:
            stored.append(page)
    return stored


def live_pages(connection: sqlite3.Connection, space: int) -> Ids:
    """Ids, rising, of active pages that have a vector in the space."""
    with_vector = _ids(
        connection, "SELECT page FROM vectors INDEXED BY vectors_by_page WHERE space = ? ORDER BY page", space
    )
    inactive = _ids(connection, "SELECT id FROM pages WHERE active = 0")
    return np.setdiff1d(with_vector, inactive, assume_unique=True)


def read_vectors(
    connection: sqlite3.Connection, space: int, pages: Ids, dimension: int
) -> Iterator[tuple[Ids, Vectors]]:
    """The vectors of `pages` (rising ids), in chunks."""
    for begin in range(0, len(pages), _CHUNK_ROWS):
        chunk = pages[begin : begin + _CHUNK_ROWS]
        wanted = set(chunk.tolist())
        rows = connection.execute(
            "SELECT page, body FROM vectors WHERE space = ? AND page BETWEEN ? AND ? ORDER BY page",
            (space, int(chunk[0]), int(chunk[-1])),
        )
        found = [(page, body) for page, body in rows if page in wanted and len(body) == dimension * _STORED.itemsize]
        yield np.array([page for page, _ in found], np.int64), from_stored([body for _, body in found], dimension)


def pending_pages(
    connection: sqlite3.Connection, space: int, after: int, limit: int, aside: Sequence[int] = ()
) -> list[tuple[int, str]]:
    """(page id, text to embed) of active pages with ids above `after` that wait for a vector, oldest first.

    Without those set `aside`, which are few.

    The text is `embedded_text`. A change of it needs a migration that renames the spaces: theirs are other vectors.
    """
    rows = connection.execute(
        f"{_TO_EMBED} WHERE p.id > ? AND p.active = 1 AND p.id NOT IN ({marks(aside)})"
        " AND NOT EXISTS (SELECT 1 FROM vectors v WHERE v.space = ? AND v.page = p.id) ORDER BY p.id LIMIT ?",
        (after, *aside, space, limit),
    ).fetchall()
    return [(row[0], embedded_text(*row[1:])) for row in rows]


def texts_to_embed(connection: sqlite3.Connection, pages: Sequence[int]) -> dict[int, str]:
    """The `embedded_text` of pages by id, as they are now; none for a page that is gone."""
    found: dict[int, str] = {}
    for some in chunks(pages):
        rows = connection.execute(f"{_TO_EMBED} WHERE p.id IN ({marks(some)})", some)
        found.update((row[0], embedded_text(*row[1:])) for row in rows)
    return found


def embedded_text(speaker: str, heading: str, text: str, before: str = "") -> str:
    """What of a page is embedded. What somebody says: the end of what was said `before`, then who says what.

    Other text: topic and date in words, then the words themselves. A short answer means nothing without what it
    answers; topic and date are alike on all pages of a conversation and would drown what they say.
    """
    if not speaker:
        return f"{heading}: {text}" if heading else text
    said = text if text.startswith(f"{speaker}: ") else f"{speaker}: {text}"
    return f"{before[-CONTEXT_CHARS:]}\n{said}" if before else said


def page_names(connection: sqlite3.Connection, pages: Sequence[int]) -> dict[int, str]:
    """The page ids that people see, by row id."""
    found: dict[int, str] = {}
    for some in chunks(pages):
        found.update(connection.execute(f"SELECT id, page_id FROM pages WHERE id IN ({marks(some)})", some))
    return found


def delete_orphans(connection: sqlite3.Connection) -> None:
    """Drop vectors of pages that are no longer searched."""
    connection.execute("DELETE FROM vectors WHERE page IN (SELECT id FROM pages WHERE active = 0)")


def written_mark(space: int) -> str:
    """The name under which `changes` remembers that an index file of the space was written."""
    return f"vectors:{space}"


def _ids(connection: sqlite3.Connection, statement: str, *values: int) -> Ids:
    return np.fromiter((row[0] for row in connection.execute(statement, values)), np.int64)
