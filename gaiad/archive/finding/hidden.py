"""What a channel may not see: packets with a label that `memory.exclude` names for it (JIT, policy tags).

A label is a classification, a policy tag or a tag of a packet, letters A to Z of either case alike. To a call that may
not see it, what is hidden is not there: it is found, listed and counted as little as what never was.
"""

import sqlite3
from collections.abc import Collection

from gaiad.store.chunks import chunks, marks

Labels = Collection[str]
_KEYS = "('classification', 'policy_tag', 'tag')"


def hidden_rows(labels: Labels) -> str:
    """SQL that selects the rows of `packets` with one of the labels, which stand in it as hexadecimal digits."""
    wanted = ", ".join(f"CAST(x'{label.encode('utf-8', 'surrogatepass').hex()}' AS TEXT)" for label in sorted(labels))
    return f"SELECT packet FROM metadata WHERE key IN {_KEYS} AND value IN ({wanted})"


def not_hidden(column: str, labels: Labels) -> str:
    """A condition to add to others: the row of `packets` named by `column` is not hidden; "" without labels."""
    return f" AND {column} NOT IN ({hidden_rows(labels)})" if labels else ""


def hidden_ids(connection: sqlite3.Connection, labels: Labels, ids: Collection[str]) -> set[str]:
    """Those of these packet and page ids that exist and are hidden, in any revision."""
    found: set[str] = set()
    for chunk in chunks(sorted(ids)):
        wanted, rows = marks(chunk), hidden_rows(labels)
        known = connection.execute(
            f"SELECT packet_id FROM packets WHERE packet_id IN ({wanted}) AND id IN ({rows})"
            f" UNION SELECT page_id FROM pages WHERE page_id IN ({wanted}) AND packet IN ({rows})",
            (*chunk, *chunk),
        )
        found.update(each for (each,) in known)
    return found


def hidden_frequency(connection: sqlite3.Connection, labels: Labels, stem: str) -> int:
    """On how many hidden pages the word stands. By its postings: a match would stem the stem again."""
    (count,) = connection.execute(
        "SELECT count(DISTINCT doc) FROM pages_postings WHERE term = ?"
        f" AND doc IN (SELECT id FROM pages WHERE active = 1 AND packet IN ({hidden_rows(labels)}))",
        (stem,),
    ).fetchone()
    return int(count)
