"""What the index metadata says of packets: classification, policy tags and more (JIT), given along with each page."""

import sqlite3
from collections import defaultdict
from collections.abc import Iterable

Labels = dict[str, list[str]]
_KEYS = ("tag", "agent", "classification", "policy_tag", "origin_run", "request_intent")
_CHUNK = 500


def labels_of(connection: sqlite3.Connection, packets: Iterable[int]) -> defaultdict[int, Labels]:
    """By row of `packets` and then by key, in the order it was written; [] for a key that a packet has not."""
    found: defaultdict[int, Labels] = defaultdict(lambda: {key: [] for key in _KEYS})
    wanted = sorted(packets)
    for start in range(0, len(wanted), _CHUNK):
        chunk = wanted[start : start + _CHUNK]
        rows = connection.execute(
            f"SELECT packet, key, value FROM metadata WHERE packet IN ({', '.join('?' * len(chunk))})"
            f" AND key IN ({', '.join('?' * len(_KEYS))}) ORDER BY rowid",
            (*chunk, *_KEYS),
        )
        for packet, key, value in rows:
            found[packet][key].append(value)
    return found
