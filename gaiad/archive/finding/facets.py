"""What a tenant knows by name, counted in current packets; the query interface recognises these names."""

import sqlite3
import threading
from collections import Counter

from gaiad.archive.storing.catalogue import Version, read_version
from gaiad.clock import from_epoch_ms, to_iso
from gaiad.schemas import Facets


def load_facets(connection: sqlite3.Connection) -> Facets:
    """Counts of models, topics, tags and people over current packets, most frequent first, and the span of time."""
    packets, first, last = connection.execute(
        "SELECT count(*), min(timestamp_ms), max(timestamp_ms) FROM packets WHERE current = 1"
    ).fetchone()
    models: Counter[str] = Counter()
    for original, current, count in connection.execute(
        "SELECT original_model, current_model, count(*) FROM packets WHERE current = 1 GROUP BY 1, 2"
    ):
        models.update({model: count for model in {original, current} if model})
    topics = connection.execute(
        "SELECT topic, count(*) FROM packets WHERE current = 1 AND topic <> '' GROUP BY topic"
    ).fetchall()
    return Facets(
        models=_ranked(models),
        topics=_ranked(Counter(dict(topics))),
        tags=_ranked(_metadata(connection, "tag")),
        people=_ranked(_people(connection)),
        packets=packets,
        pages=connection.execute("SELECT count(*) FROM pages WHERE active = 1").fetchone()[0],
        first=to_iso(from_epoch_ms(first)) if packets else "",
        last=to_iso(from_epoch_ms(last)) if packets else "",
    )


class FacetCache:
    """Facets of the newest state, counted again only after packets came, went or changed. Safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: tuple[Version, Facets] | None = None

    def get(self, connection: sqlite3.Connection) -> Facets:
        version = read_version(connection)
        with self._lock:
            if self._held is None or self._held[0] != version:
                self._held = (version, load_facets(connection))
            return self._held[1]


def _metadata(connection: sqlite3.Connection, key: str) -> Counter[str]:
    rows = connection.execute(
        "SELECT min(value), count(DISTINCT packet) FROM metadata JOIN packets ON packets.id = packet AND current = 1"
        " WHERE key = ? AND value <> '' GROUP BY value",
        (key,),
    ).fetchall()
    return Counter(dict(rows))


def _people(connection: sqlite3.Connection) -> Counter[str]:
    """People the packets name, and the speakers of their pages."""
    rows = connection.execute(
        "SELECT name, count(DISTINCT packet) FROM ("
        " SELECT value AS name, packet FROM metadata JOIN packets ON packets.id = packet AND current = 1"
        " WHERE key = 'person' AND value <> ''"
        " UNION SELECT speaker, packet FROM pages WHERE active = 1 AND speaker <> ''"
        ") GROUP BY name COLLATE NOCASE",
    ).fetchall()
    return Counter(dict(rows))


def _ranked(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
