"""What a tenant knows by name, counted in current packets; the query interface recognises these names.

Every turn of a conversation adds a packet, so what came since the last count is counted alone and added.
"""

import sqlite3
import threading
from collections import Counter
from collections.abc import Collection, Mapping

from gaiad.archive.finding.filters import add_functions, check_filters, not_hidden, packet_conditions
from gaiad.archive.reading.pages import SPEAKING_ROLES
from gaiad.archive.storing.catalogue import Version, read_version
from gaiad.base.clock import from_epoch_ms, to_iso
from gaiad.wire.schemas import Facets, Filters, Timeline


def load_facets(connection: sqlite3.Connection, after: int = 0, hidden: Collection[str] = ()) -> Facets:
    """Counts of models, topics, tags and people over current packets, most frequent first, and the span of time.

    Only packets whose row is behind `after` count, and none with a label that is `hidden`.
    """
    shown, shown_packet = not_hidden("id", hidden), not_hidden("packet", hidden)
    packets, first, last = connection.execute(
        f"SELECT count(*), min(timestamp_ms), max(timestamp_ms) FROM packets WHERE current = 1 AND id > ?{shown}",
        (after,),
    ).fetchone()
    models: Counter[str] = Counter()
    for original, current, count in connection.execute(
        "SELECT original_model, current_model, count(*) FROM packets"
        f" WHERE current = 1 AND id > ?{shown} GROUP BY 1, 2",
        (after,),
    ):
        models.update({model: count for model in {original, current} if model})
    topics = connection.execute(
        f"SELECT topic, count(*) FROM packets WHERE current = 1 AND topic <> '' AND id > ?{shown} GROUP BY topic",
        (after,),
    ).fetchall()
    return Facets(
        models=_ranked(models),
        topics=_ranked(dict(topics)),
        tags=_ranked(_metadata(connection, "tag", after, shown_packet)),
        people=_ranked(_people(connection, after, shown_packet)),
        packets=packets,
        pages=connection.execute(
            f"SELECT count(*) FROM pages WHERE active = 1 AND packet > ?{shown_packet}", (after,)
        ).fetchone()[0],
        first=to_iso(from_epoch_ms(first)) if packets else "",
        last=to_iso(from_epoch_ms(last)) if packets else "",
    )


def add_facets(one: Facets, more: Facets) -> Facets:
    """The counts of two sets of packets that share none; a name keeps the spelling `one` has for it."""
    spans = [(each.first, each.last) for each in (one, more) if each.packets]
    return Facets(
        models=_ranked(Counter(one.models) + Counter(more.models)),
        topics=_ranked(Counter(one.topics) + Counter(more.topics)),
        tags=_ranked(_added(one.tags, more.tags)),
        people=_ranked(_added(one.people, more.people)),
        packets=one.packets + more.packets,
        pages=one.pages + more.pages,
        first=min((first for first, _ in spans), default="", key=_moment),
        last=max((last for _, last in spans), default="", key=_moment),
    )


class FacetCache:
    """Facets of the newest state: new packets are added, all are counted again after others changed or went.

    Without what is `hidden`. Safe from any thread.
    """

    def __init__(self, hidden: Collection[str] = ()) -> None:
        self._hidden = hidden
        self._lock = threading.Lock()
        self._held: tuple[Version, Facets] | None = None

    def get(self, connection: sqlite3.Connection) -> Facets:
        version = read_version(connection)
        with self._lock:
            if self._held is None or not _only_new_packets(self._held[0], version):
                self._held = (version, load_facets(connection, 0, self._hidden))
            elif self._held[0] != version:
                known, facets = self._held
                self._held = (version, add_facets(facets, load_facets(connection, known.last_packet, self._hidden)))
            return self._held[1]


def _only_new_packets(old: Version, new: Version) -> bool:
    """Whether nothing that was counted has changed; pages are added to new packets only."""
    return (
        (old.pages, old.active, old.packets) == (new.pages, new.active, new.packets)
        and old.last_packet <= new.last_packet
        and (old.last_page == new.last_page or old.last_packet < new.last_packet)
    )


def _metadata(connection: sqlite3.Connection, key: str, after: int, shown: str) -> dict[str, int]:
    source, condition = _metadata_behind(after)
    rows = connection.execute(
        f"SELECT min(value), count(DISTINCT packet) FROM {source} JOIN packets ON packets.id = packet AND current = 1"
        f" WHERE key = :key AND value <> '' {condition}{shown} GROUP BY value",
        {"key": key, "after": after},
    ).fetchall()
    return dict(rows)


def _people(connection: sqlite3.Connection, after: int, shown: str) -> dict[str, int]:
    """People the packets name, and the speakers of their pages."""
    source, condition = _metadata_behind(after)
    rows = connection.execute(
        "SELECT name, count(DISTINCT packet) FROM ("
        f" SELECT value AS name, packet FROM {source} JOIN packets ON packets.id = packet AND current = 1"
        f" WHERE key = 'person' AND value <> '' {condition}{shown}"
        f" UNION SELECT speaker, packet FROM pages WHERE active = 1 AND speaker <> '' AND packet > :after{shown}"
        ") GROUP BY name COLLATE NOCASE",
        {"after": after},
    ).fetchall()
    return dict(rows)


def _metadata_behind(after: int) -> tuple[str, str]:
    """Table and condition: a few new packets are looked up one by one, all of them by key."""
    return ("metadata INDEXED BY metadata_by_packet", "AND packet > :after") if after else ("metadata", "")


def _added(one: Mapping[str, int], more: Mapping[str, int]) -> dict[str, int]:
    """Sums by name, ASCII letters of either case alike, as the database compares them."""
    spelled = {_lower(name): name for name in one}
    total = dict(one)
    for name, count in more.items():
        known = spelled.setdefault(_lower(name), name)
        total[known] = total.get(known, 0) + count
    return total


def _lower(name: str) -> str:
    return "".join(each.lower() if each.isascii() else each for each in name)


def _moment(text: str) -> str:
    """Times as text in order: 12:00:00.500Z is after 12:00:00Z."""
    return text.removesuffix("Z")


def _ranked(counts: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


MOST = 40  # names per facet


def timeline(connection: sqlite3.Connection, filters: Filters) -> Timeline:
    """Current revisions that pass `filters`. Raises BadInput for a filter that cannot be read."""
    check_filters(filters)
    add_functions(connection)
    condition, values = packet_conditions(filters)
    chosen = f"FROM packets WHERE packets.current = 1 AND {condition}"

    def counts(sql: str) -> dict[str, int]:
        return dict(connection.execute(sql, values).fetchall())

    def by_column(column: str, fewest: int = 1) -> dict[str, int]:
        return counts(
            f"SELECT {column}, count(*) AS n {chosen} AND {column} <> '' GROUP BY 1 HAVING n >= {fewest}"
            f" ORDER BY n DESC, 1 LIMIT {MOST}"
        )

    def by_metadata(key: str, without: Collection[str] = ("",)) -> dict[str, int]:
        left_out = ", ".join(f"'{each}'" for each in sorted(without))
        return counts(
            f"SELECT min(value), count(DISTINCT packet) AS n FROM metadata"
            f" WHERE key = '{key}' AND value COLLATE NOCASE NOT IN ({left_out})"
            f" AND packet IN (SELECT packets.id {chosen}) GROUP BY value ORDER BY n DESC, 1 LIMIT {MOST}"
        )

    months = counts(
        f"SELECT strftime('%Y-%m', timestamp_ms / 1000, 'unixepoch') AS month, count(*) {chosen} GROUP BY 1"
    )
    return Timeline(
        packets=sum(months.values()),
        months=dict(sorted(months.items())),
        dialects=by_column("dialect"),
        models=by_column("original_model"),
        topics=by_column("topic", fewest=2),
        tags=by_metadata("tag"),
        people=by_metadata("person", {"", *SPEAKING_ROLES}),
    )
