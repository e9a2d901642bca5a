"""Exact filters as SQL over packets, and as masks over pages. What passes is decided here and nowhere else.

Values of one kind are alternatives (any model of the list), kinds and metric ranges must all hold. Text compares
without regard to case in any script; models and topics match on a part of the name, or after "=" on the whole; tags,
people and ids match whole.
"""

import re
import sqlite3
from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gaiad.archive.finding.query_terms import Stemmer, quote
from gaiad.archive.storing.catalogue import Catalogue, section_code
from gaiad.base.clock import moment_of, to_epoch_ms
from gaiad.base.errors import BadInput
from gaiad.store.database import chunks, marks
from gaiad.wire.schemas import Filters, Focus

Labels = Collection[str]
_HIDING_KEYS = "('classification', 'policy_tag', 'tag')"


def hidden_rows(labels: Labels) -> str:
    """SQL that selects the rows of `packets` with one of the labels, which stand in it as hexadecimal digits."""
    wanted = ", ".join(f"CAST(x'{label.encode('utf-8', 'surrogatepass').hex()}' AS TEXT)" for label in sorted(labels))
    return f"SELECT packet FROM metadata WHERE key IN {_HIDING_KEYS} AND value IN ({wanted})"


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
    """On how many hidden pages the word is. By its postings: a match would stem the stem again."""
    (count,) = connection.execute(
        "SELECT count(DISTINCT doc) FROM pages_postings WHERE term = ?"
        f" AND doc IN (SELECT id FROM pages WHERE active = 1 AND packet IN ({hidden_rows(labels)}))",
        (stem,),
    ).fetchone()
    return int(count)


PacketLabels = dict[str, list[str]]
_SHOWN_KEYS = ("tag", "agent", "classification", "policy_tag", "origin_run", "request_intent")


def labels_of(connection: sqlite3.Connection, packets: Iterable[int]) -> defaultdict[int, PacketLabels]:
    """By row of `packets` and then by key, in the order it was written; [] for a key that a packet has not.

    By packet: left to choose, SQLite goes through every tag of the tenant (60 ms of a search in a million pages).
    """
    found: defaultdict[int, PacketLabels] = defaultdict(lambda: {key: [] for key in _SHOWN_KEYS})
    for chunk in chunks(sorted(packets)):
        rows = connection.execute(
            f"SELECT packet, key, value FROM metadata INDEXED BY metadata_by_packet WHERE packet IN ({marks(chunk)})"
            f" AND key IN ({marks(_SHOWN_KEYS)}) ORDER BY rowid",
            (*chunk, *_SHOWN_KEYS),
        )
        for packet, key, value in rows:
            found[packet][key].append(value)
    return found


Mask = NDArray[np.bool_]
FOCUS_SECTIONS: dict[Focus, tuple[str, ...]] = {
    "technical_content": ("content", "transcript", "summary", "artifact", "other"),
    "behavioral_state": ("behavior",),
    "full_context": (),
}
MAX_VALUES = 1000
_WHITESPACE = re.compile(r"\s+")


def parse_time(value: str, name: str) -> int | None:
    """Milliseconds since 1970 of an ISO 8601 time, UTC when it names no zone; None for "". Raises BadInput."""
    if not value:
        return None
    try:
        return to_epoch_ms(moment_of(value))
    except ValueError as error:
        raise BadInput(f"{name} = {value!r}: not a time; write it as 2025-11-30 or 2025-11-30T15:45:00Z") from error


def check_filters(filters: Filters) -> None:
    """Raise BadInput, naming value and remedy, for filters that cannot be meant."""
    since, until = parse_time(filters.since, "since"), parse_time(filters.until, "until")
    if since is not None and until is not None and since > until:
        raise BadInput(f"since = {filters.since!r} is after until = {filters.until!r}; exchange them")
    for name in ("models", "topics", "tags", "people", "metrics", "packet_ids", "session_ids", "dialects", "without"):
        if len(getattr(filters, name)) > MAX_VALUES:
            raise BadInput(f"{len(getattr(filters, name))} {name}: give at most {MAX_VALUES} in one filter")
    for metric in filters.metrics:
        if not metric.name.strip():
            raise BadInput("a metric range without a name; name the metric, for example coherence>=0.8")
        if metric.minimum is not None and metric.maximum is not None and metric.minimum > metric.maximum:
            raise BadInput(
                f"metric {metric.name}: minimum {metric.minimum:g} is above maximum {metric.maximum:g}; exchange them"
            )


def has_filters(filters: Filters) -> bool:
    """Whether the filters choose anything; to leave labels out chooses nothing by itself."""
    return filters != Filters(without=filters.without)


def add_functions(connection: sqlite3.Connection) -> None:
    """Teach the connection `folded(text)`: SQLite's own case rules end at ASCII."""
    connection.create_function("folded", 1, lambda text: str(text).casefold(), deterministic=True)


def packet_conditions(filters: Filters, *, with_time: bool = True) -> tuple[str, list[Any]]:
    """An SQL condition on `packets` and its values, "1" when everything passes. Needs `add_functions`.

    The time range holds on packets.timestamp_ms; search leaves it out here and holds it on the pages' own times.
    """
    conditions: list[str] = []
    values: list[Any] = []
    if with_time:
        for value, name, comparison in ((filters.since, "since", ">="), (filters.until, "until", "<")):
            moment = parse_time(value, name)
            if moment is not None:
                conditions.append(f"packets.timestamp_ms {comparison} ?")
                values.append(moment)
    _any_part(conditions, values, ("packets.original_model", "packets.current_model"), filters.models)
    _any_part(conditions, values, ("packets.topic",), filters.topics)
    exact = (("packet_id", filters.packet_ids), ("session_id", filters.session_ids), ("dialect", filters.dialects))
    for column, wanted in exact:
        if wanted:
            conditions.append(f"packets.{column} IN ({', '.join('?' * len(wanted))})")
            values.extend(wanted)
    for key, wanted in (("tag", filters.tags), ("person", filters.people)):
        if wanted:
            alternatives = ", ".join("?" * len(wanted))
            conditions.append(
                f"packets.id IN (SELECT packet FROM metadata WHERE key = '{key}' AND folded(value) IN ({alternatives}))"
            )
            values.extend(name.casefold() for name in wanted)
    for metric in filters.metrics:
        conditions.append(
            "packets.id IN (SELECT packet FROM metadata WHERE number IS NOT NULL AND key LIKE 'metric:%'"
            " AND folded(key) = ? AND number >= ? AND number <= ?)"
        )
        low = float("-inf") if metric.minimum is None else metric.minimum
        high = float("inf") if metric.maximum is None else metric.maximum
        values.extend((f"metric:{metric.name.strip()}".casefold(), low, high))
    if filters.without:
        conditions.append(f"packets.id NOT IN ({hidden_rows(filters.without)})")
    return " AND ".join(conditions) or "1", values


def page_mask(
    connection: sqlite3.Connection,
    catalogue: Catalogue,
    filters: Filters,
    focus: Focus = "full_context",
    phrases: list[str] | None = None,
    stemmer: Stemmer | None = None,
) -> Mask | None:
    """True for the pages that pass, by position; None when all active pages do."""
    if filters == Filters() and focus == "full_context" and not phrases:
        return None
    mask = catalogue.active.copy()
    for value, name, within in ((filters.since, "since", np.greater_equal), (filters.until, "until", np.less)):
        moment = parse_time(value, name)
        if moment is not None:
            mask &= within(catalogue.timestamp_ms, moment)
    sections = FOCUS_SECTIONS[focus]
    if sections:
        mask &= np.isin(catalogue.section, [section_code(name) for name in sections])
    condition, values = packet_conditions(filters, with_time=False)
    if condition != "1":
        mask &= packet_mask(connection, catalogue, condition, values)
    for phrase in phrases or ():
        assert stemmer is not None
        mask &= _phrase_mask(connection, catalogue, phrase, stemmer)
    return mask


def packet_mask(connection: sqlite3.Connection, catalogue: Catalogue, condition: str, values: list[Any]) -> Mask:
    """True for the pages of current packets that meet the condition."""
    add_functions(connection)
    rows = connection.execute(f"SELECT id FROM packets WHERE current = 1 AND {condition}", values).fetchall()
    size = int(catalogue.packet.max(initial=0)) + 1
    wanted = np.zeros(size, np.bool_)
    packets = np.array([row[0] for row in rows], np.int64)
    wanted[packets[packets < size]] = True
    return wanted[catalogue.packet]


def _any_part(conditions: list[str], values: list[Any], columns: tuple[str, ...], wanted: list[str]) -> None:
    if not wanted:
        return
    tests = [
        f"folded({column}) = ?" if part.startswith("=") else f"instr(folded({column}), ?)"
        for part in wanted
        for column in columns
    ]
    conditions.append(f"({' OR '.join(tests)})")
    values.extend(part.removeprefix("=").casefold() for part in wanted for _ in columns)


def _phrase_mask(connection: sqlite3.Connection, catalogue: Catalogue, phrase: str, stemmer: Stemmer) -> Mask:
    """Pages whose text holds the phrase as written, case and runs of white space aside.

    FTS5 finds the pages with the phrase's words in a row; each is then read and compared letter by letter.
    """
    mask = np.zeros(len(catalogue), np.bool_)
    if stemmer.stems([phrase])[0]:
        rows = connection.execute(
            "SELECT id, text FROM pages WHERE active = 1"
            " AND id IN (SELECT rowid FROM pages_text WHERE pages_text MATCH ?)",
            (f"text : {quote(phrase)}",),
        )
    else:
        rows = connection.execute("SELECT id, text FROM pages WHERE active = 1")
    pattern = phrase_pattern(phrase)
    ids = np.array([page for page, text in rows if pattern.search(one_line(text))], np.int64)
    mask[catalogue.positions(ids)] = True
    return mask


def phrase_pattern(phrase: str) -> re.Pattern[str]:
    """Matches the phrase in a text made `one_line`, not inside longer words; white space alone matches anything."""
    wanted = one_line(phrase)
    before = r"(?<!\w)" if wanted[:1].isalnum() else ""
    after = r"(?!\w)" if wanted[-1:].isalnum() else ""
    return re.compile(f"{before}{re.escape(wanted)}{after}")


def one_line(text: str) -> str:
    """Case folded, every run of white space one space, none at the ends."""
    return _WHITESPACE.sub(" ", text.casefold()).strip()
