"""The steps of one search that need the database: candidates of each retriever, and the rows behind the hits.

`search.py` decides which of them a mode takes and in what order; nothing here ranks beyond one retriever's own score.
"""

import sqlite3
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from gaiad.archive.finding.filters import Mask, add_functions, packet_conditions
from gaiad.archive.finding.lexical import LexicalScores
from gaiad.archive.finding.query_terms import QueryTerm
from gaiad.archive.storing.catalogue import Catalogue, Positions, section_code
from gaiad.base.clock import iso_of_ms
from gaiad.base.errors import NotFound
from gaiad.store.database import chunks, marks
from gaiad.wire.schemas import Filters

Scores = NDArray[np.float32]
MAX_PEOPLE = 64
_SUMMARY = section_code("summary")
_COLUMNS = (
    "SELECT p.id, p.page_id, k.packet_id, k.session_id, p.text, p.timestamp_ms, k.topic, p.section, p.speaker,"
    " coalesce(nullif(k.current_model, ''), k.original_model), p.packet, p.sequence"
)
_ROW = f"{_COLUMNS} FROM pages p JOIN packets k ON k.id = p.packet WHERE "
_AT_PLACES = (  # CROSS: place by place in the index of packet and sequence, which IN (VALUES ...) would scan whole
    f"{_COLUMNS} FROM places CROSS JOIN pages p ON p.packet = places.packet AND p.sequence = places.sequence"
    " JOIN packets k ON k.id = p.packet"
)


@dataclass(frozen=True, slots=True)
class PageRow:
    """What a hit shows of a page."""

    id: int
    page_id: str
    packet_id: str
    session_id: str
    text: str
    timestamp_ms: int
    topic: str
    section: str
    speaker: str
    model: str
    packet: int
    sequence: int

    @property
    def timestamp(self) -> str:
        return iso_of_ms(self.timestamp_ms)


def rows_by_id(connection: sqlite3.Connection, ids: Sequence[int]) -> dict[int, PageRow]:
    """The rows of pages that exist, by id."""
    found: dict[int, PageRow] = {}
    for some in chunks(ids):
        for row in connection.execute(f"{_ROW} p.id IN ({marks(some)})", some):
            found[row[0]] = PageRow(*row)
    return found


def texts(connection: sqlite3.Connection, ids: Sequence[int]) -> list[str]:
    """The texts of pages by id, in order; "" for one that is gone."""
    found: dict[int, str] = {}
    for some in chunks(ids):
        found.update(connection.execute(f"SELECT id, text FROM pages WHERE id IN ({marks(some)})", some))
    return [found.get(one, "") for one in ids]


def ids_by_page_id(connection: sqlite3.Connection, page_ids: Sequence[str]) -> list[int]:
    """Row ids in the order asked for, once each. Raises NotFound for an unknown page."""
    found = []
    for page_id in dict.fromkeys(page_ids):
        row = connection.execute("SELECT id FROM pages WHERE page_id = ?", (page_id,)).fetchone()
        if row is None:
            raise NotFound(f"no page is called {page_id!r} in this tenant; search hits show page ids")
        found.append(int(row[0]))
    return found


def neighbours(connection: sqlite3.Connection, rows: Collection[PageRow], reach: int) -> dict[int, list[PageRow]]:
    """By page id, the pages up to `reach` steps before and after it in its packet, in reading order, without itself."""
    steps = [*range(-reach, 0), *range(1, reach + 1)]
    known = {(row.packet, row.sequence): row for row in rows}
    places = [(row.packet, row.sequence + step) for row in rows for step in steps]
    for some in chunks([place for place in dict.fromkeys(places) if place not in known]):
        pairs = ", ".join(["(?, ?)"] * len(some))
        found = connection.execute(
            f"WITH places (packet, sequence) AS (VALUES {pairs}) {_AT_PLACES}", [*chain.from_iterable(some)]
        )
        known.update({(row.packet, row.sequence): row for row in (PageRow(*fields) for fields in found)})
    return {
        row.id: [known[place] for step in steps if (place := (row.packet, row.sequence + step)) in known]
        for row in rows
    }


def metadata_scores(
    connection: sqlite3.Connection, catalogue: Catalogue, terms: Sequence[QueryTerm], mask: Mask
) -> tuple[Scores, list[str]]:
    """For one page a packet: how many query words its id, topic, models, summary or metadata hold (GAM 2, mode A).

    Without words every packet that has a passing page counts 1. The page is a summary's where there is one, else the
    first that passes.
    """
    scores = np.zeros(len(catalogue), np.float32)
    passing = np.flatnonzero(mask)
    if not len(passing):
        return scores, []
    representative = _representatives(catalogue, passing)
    if not terms:
        scores[representative] = 1.0
        return scores, []
    add_functions(connection)
    size = int(catalogue.packet.max()) + 1
    counts, matched = np.zeros(size, np.float32), []
    for term in terms:
        packets = _packets_with_word(connection, term.word)
        packets = packets[packets < size]
        if len(packets):
            counts[packets] += 1
            matched.append(term.word)
    scores[representative] = counts[catalogue.packet[representative]]
    return scores, matched


def named_pages(
    catalogue: Catalogue,
    lexical: LexicalScores,
    terms: Sequence[QueryTerm],
    people: Sequence[str],
    positions: Positions,
) -> Scores:
    """1 for pages spoken by a person the query names, 0.5 for pages whose text names one.

    A person is named when any word of a speaker's name is a word of the query, or of `people`.
    """
    asked = {word.casefold() for name in people[:MAX_PEOPLE] for word in name.split()}
    words = {term.word for term in terms} | asked
    speaks = np.array(
        [bool(name) and not words.isdisjoint(name.casefold().split()) for name in catalogue.speakers] or [False],
        np.bool_,
    )
    names = asked | {
        word for name, yes in zip(catalogue.speakers, speaks, strict=False) if yes for word in name.casefold().split()
    }
    mentioned = np.zeros(len(catalogue), np.bool_)
    for term in lexical.terms:
        if term.word in names:
            mentioned[term.positions] = True
    return np.where(speaks[catalogue.speaker[positions]], 1.0, np.where(mentioned[positions], 0.5, 0.0)).astype(
        np.float32
    )


def preferences(filters: Filters) -> list[tuple[str, list[str | int | float]]]:
    """An SQL condition on packets for each kind of preference given, time aside."""
    kinds = (
        Filters(models=filters.models),
        Filters(topics=filters.topics),
        Filters(tags=filters.tags),
        Filters(metrics=filters.metrics),
        Filters(packet_ids=filters.packet_ids),
        Filters(session_ids=filters.session_ids),
    )
    return [packet_conditions(kind, with_time=False) for kind in kinds if kind != Filters()]


def _representatives(catalogue: Catalogue, passing: Positions) -> Positions:
    """One passing position per packet: a summary page first, then the first in reading order."""
    from_summary = catalogue.section[passing] != _SUMMARY
    order = np.lexsort((catalogue.sequence[passing], from_summary, catalogue.packet[passing]))
    ordered = passing[order]
    packets = catalogue.packet[ordered]
    first = np.concatenate(([True], packets[1:] != packets[:-1]))
    return ordered[first]


def _packets_with_word(connection: sqlite3.Connection, word: str) -> NDArray[np.int64]:
    rows = connection.execute(
        "SELECT id FROM packets WHERE current = 1 AND ("
        " instr(folded(packet_id), :word) OR instr(folded(topic), :word) OR instr(folded(summary), :word)"
        " OR instr(folded(original_model), :word) OR instr(folded(current_model), :word)"
        " OR id IN (SELECT packet FROM metadata WHERE instr(folded(value), :word) OR instr(folded(key), :word)))",
        {"word": word.casefold()},
    )
    return np.fromiter((row[0] for row in rows), np.int64)
