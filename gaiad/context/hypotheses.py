"""Which hypotheses an output names, and the line that a hypothesis comes from.

An output names a hypothesis by `hypothesis_id`, anywhere in its results. It defines one where an object under
`hypothesis`, or in a list under `hypotheses`, has an `id`; that object's `parent_id` and `parent_ids` are its parents.
"""

import sqlite3
from collections.abc import Iterator
from typing import Any, NamedTuple

from gaiad.base.clock import iso_of_ms
from gaiad.base.errors import NotFound
from gaiad.wire.context_reviews import Ancestor, Lineage

_MOST = 1000
_LONGEST = 200


class Named(NamedTuple):
    """Ids that an output names; those it defines; (child, parent)."""

    mentioned: frozenset[str]
    defined: frozenset[str]
    parents: frozenset[tuple[str, str]]


def named_in(results: Any) -> Named:
    """The hypotheses in an output's results; at most 1,000 of each kind, in the order of their places."""
    mentioned: dict[str, None] = {}
    defined: dict[str, None] = {}
    parents: dict[tuple[str, str], None] = {}
    for value in _objects(results):
        mentioned |= dict.fromkeys(_ids(value.get("hypothesis_id")))
        for hypothesis in definitions_in(value):
            (own,) = _ids(hypothesis["id"])
            mentioned[own] = defined[own] = None
            for parent in (*_ids(hypothesis.get("parent_id")), *_ids(hypothesis.get("parent_ids"))):
                parents[own, parent] = mentioned[parent] = None
    return Named(frozenset(list(mentioned)[:_MOST]), frozenset(list(defined)[:_MOST]), frozenset(list(parents)[:_MOST]))


def definitions_in(value: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The hypotheses that an object holds as such."""
    one, several = value.get("hypothesis"), value.get("hypotheses")
    for found in (one, *(several if isinstance(several, list) else ())):
        if isinstance(found, dict) and _ids(found.get("id")):
            yield found


def definition(results: Any, hypothesis: str) -> dict[str, Any] | None:
    """The object that defines this hypothesis in an output's results."""
    return next((d for v in _objects(results) for d in definitions_in(v) if d["id"] == hypothesis), None)


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    """Every object in a JSON value, outer ones first."""
    waiting = [value]
    for found in waiting:  # grows while it is read
        if isinstance(found, dict):
            yield found
            waiting += found.values()
        elif isinstance(found, list):
            waiting += found


def _ids(value: Any) -> list[str]:
    found = value if isinstance(value, list) else [value]
    return [one for one in found if isinstance(one, str) and 0 < len(one) <= _LONGEST]


def count_named(connection: sqlite3.Connection, named: Named, record: int, at_ms: int) -> None:
    """Keep what an output names, within the transaction that stores it."""
    for name in sorted(named.mentioned):
        defines = record if name in named.defined else 0
        connection.execute(
            "INSERT INTO context_hypotheses VALUES (?1, ?2, ?2, 1, ?3) ON CONFLICT (hypothesis) DO UPDATE SET"
            " first_ms = min(first_ms, ?2), last_ms = max(last_ms, ?2), mentions = mentions + 1,"
            " defined_by = max(defined_by, ?3)",
            (name, at_ms, defines),
        )
        connection.execute("INSERT INTO context_mentions VALUES (?, ?)", (name, record))
    connection.executemany("INSERT INTO context_parents VALUES (?, ?) ON CONFLICT DO NOTHING", sorted(named.parents))


def uncount_named(connection: sqlite3.Connection, named: Named, record: int) -> None:
    """Take out what a deleted output named."""
    for name in named.mentioned:
        connection.execute(
            "UPDATE context_hypotheses SET mentions = mentions - 1,"
            " defined_by = CASE defined_by WHEN ?2 THEN 0 ELSE defined_by END WHERE hypothesis = ?1",
            (name, record),
        )
        query = "DELETE FROM context_hypotheses WHERE hypothesis = ? AND mentions = 0"
        if connection.execute(query, (name,)).rowcount:
            connection.execute("DELETE FROM context_parents WHERE child = ?1 OR parent = ?1", (name,))


def lineage(connection: sqlite3.Connection, hypothesis: str) -> Lineage:
    """Ancestors, itself and descendants, eldest first. Raises NotFound."""
    if _ancestor(connection, hypothesis, 0) is None:
        raise NotFound(f"no output names a hypothesis {hypothesis!r}")
    found = {hypothesis: 0}
    for step, column, wanted in ((-1, "parent", "child"), (1, "child", "parent")):
        waiting = [hypothesis]
        for name in waiting:  # grows while it is read
            if len(found) > _MOST:
                break
            query = f"SELECT {column} FROM context_parents WHERE {wanted} = ? ORDER BY {column}"
            for (other,) in connection.execute(query, (name,)).fetchall():
                if other not in found:
                    found[other] = found[name] + step
                    waiting.append(other)
    names = sorted(found, key=lambda name: (found[name], name))[:_MOST]
    line = [one for name in names if (one := _ancestor(connection, name, found[name])) is not None]
    return Lineage(hypothesis_id=hypothesis, line=line, complete=len(found) <= _MOST)


def _ancestor(connection: sqlite3.Connection, name: str, generation: int) -> Ancestor | None:
    row = connection.execute(
        "SELECT first_ms, mentions, coalesce((SELECT id FROM context_records WHERE number = defined_by), '')"
        " FROM context_hypotheses WHERE hypothesis = ?",
        (name,),
    ).fetchone()
    if row is None:
        return None
    parents = connection.execute("SELECT parent FROM context_parents WHERE child = ? ORDER BY parent", (name,))
    return Ancestor(
        hypothesis_id=name,
        generation=generation,
        parents=[parent for (parent,) in parents],
        first_at=iso_of_ms(row[0]),
        mentions=row[1],
        record_id=row[2],
    )
