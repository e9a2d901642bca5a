"""Earlier states like a given one, by the vectors of their summaries (exact scan, kept in memory between queries)."""

import sqlite3
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gaiad.base.errors import NotFound
from gaiad.context.records import ROW, row_of
from gaiad.wire.context_reviews import SimilarState

Vectors = NDArray[np.float32]


class StateVectors(NamedTuple):
    """Row numbers of states, and their vectors in the same order: shape (len(numbers), dimension)."""

    numbers: list[int]
    matrix: Vectors


def count_states(connection: sqlite3.Connection) -> int:
    """From the kept sums."""
    return int(connection.execute("SELECT coalesce(sum(states), 0) FROM context_iterations").fetchone()[0])


def without_vector(connection: sqlite3.Connection, fingerprint: str, limit: int) -> list[tuple[int, str]]:
    """States that have no vector of this space: (number, summary), the newest first."""
    query = (
        "SELECT number, summary FROM context_records AS r WHERE kind = 'state' AND NOT EXISTS (SELECT 1 FROM"
        " context_vectors WHERE fingerprint = ? AND record = r.number) ORDER BY number DESC LIMIT ?"
    )
    return connection.execute(query, (fingerprint, limit)).fetchall()


def add_vectors(connection: sqlite3.Connection, fingerprint: str, numbers: list[int], vectors: Vectors) -> None:
    """Keep vectors of states; one that is there stays."""
    rows = [
        (fingerprint, number, vector.astype("<f2").tobytes()) for number, vector in zip(numbers, vectors, strict=True)
    ]
    connection.executemany("INSERT INTO context_vectors VALUES (?, ?, ?) ON CONFLICT DO NOTHING", rows)


def load_vectors(connection: sqlite3.Connection, fingerprint: str, known: StateVectors | None) -> StateVectors:
    """All vectors of this space; only those that `known` lacks are read."""
    have = set(known.numbers) if known else set()
    numbers = [
        n for (n,) in connection.execute("SELECT record FROM context_vectors WHERE fingerprint = ?", (fingerprint,))
    ]
    if known is not None and len(numbers) == len(have):
        return known
    fresh = [number for number in numbers if number not in have]
    query = "SELECT body FROM context_vectors WHERE fingerprint = ? AND record = ?"
    bodies = [connection.execute(query, (fingerprint, number)).fetchone()[0] for number in fresh]
    matrix = np.frombuffer(b"".join(bodies), "<f2").reshape(len(bodies), -1).astype(np.float32)
    if known is None:
        return StateVectors(fresh, matrix)
    return StateVectors([*known.numbers, *fresh], np.concatenate([known.matrix, matrix]))


def state_named(connection: sqlite3.Connection, state: str) -> tuple[int, str]:
    """Row number and summary of a state, the current one for "". Raises NotFound."""
    query = "SELECT number, summary FROM context_records WHERE kind = 'state'"
    row = (
        connection.execute(f"{query} AND id = ?", (state,)).fetchone()
        if state
        else connection.execute(f"{query} ORDER BY number DESC LIMIT 1").fetchone()
    )
    if row is None:
        raise NotFound(f"no state is called {state!r}" if state else "no state has been stored yet")
    return int(row[0]), str(row[1])


def most_similar(
    connection: sqlite3.Connection, vectors: StateVectors, wanted: Vectors, limit: int, leave_out: int = 0
) -> list[SimilarState]:
    """The states nearest to a vector of length 1, nearest first; `leave_out` is a row number."""
    if not vectors.numbers:
        return []
    scores = vectors.matrix @ wanted
    order = np.argsort(-scores, kind="stable")[: limit + 1]
    found = [(vectors.numbers[i], float(scores[i])) for i in order if vectors.numbers[i] != leave_out][:limit]
    query = f"SELECT {ROW}, (SELECT size FROM context_bodies AS b WHERE b.sha256 = r.sha256) FROM context_records AS r"
    rows = [connection.execute(f"{query} WHERE number = ?", (number,)).fetchone() for number, _ in found]
    return [
        SimilarState(row=row_of(row[:-1], row[-1]), similarity=round(score, 6))
        for row, (_, score) in zip(rows, found, strict=True)
    ]
