"""What the person's verdicts on packets add to a ranking: a bounded share of each page's own score.

A verdict for a question counts in full when the same is asked again, less the fewer words the two share, and a quarter
elsewhere; one on the packet itself counts half everywhere. A page gains or loses at most `share` of its own score, so
a page that says little to the question stays below one that says clearly more, whatever was said of either.
"""

import sqlite3
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gaiad.archive.finding.query_terms import QueryTerm, Stemmer, parse_query
from gaiad.archive.storing import feedback
from gaiad.archive.storing.catalogue import Catalogue

Scores = NDArray[np.float32]
GENERAL = 0.5
"""What a verdict without a question counts."""
ELSEWHERE = 0.25
"""What a verdict for a question counts where none of its words is asked for."""


class FeedbackVote(NamedTuple):
    """One verdict: the words (stems) of the question it was given for, None without one, and +1 or -1."""

    stems: frozenset[str] | None
    sign: int


class Opinions(NamedTuple):
    """What is thought of packets for one search, by row id, from -1 to 1; `share` is what that may move a score by."""

    share: float
    by_packet: Mapping[int, float]


NO_OPINIONS = Opinions(0.0, {})


def strength(verdict: FeedbackVote, asked: frozenset[str]) -> float:
    """How much a verdict counts for a search for these words, from 0 to 1."""
    if verdict.stems is None:
        return GENERAL
    either = len(verdict.stems | asked)
    similar = len(verdict.stems & asked) / either if either else 0.0
    return ELSEWHERE + (1.0 - ELSEWHERE) * similar


def opinion(verdicts: Iterable[FeedbackVote], asked: frozenset[str]) -> float:
    """All verdicts on a packet together, from -1 to 1."""
    return max(-1.0, min(1.0, sum(verdict.sign * strength(verdict, asked) for verdict in verdicts)))


def added(total: Scores, packets: NDArray[np.int64], opinions: Opinions) -> Scores:
    """What each page's score moves by; `packets` are the row ids of the pages' packets."""
    if not opinions.share or not opinions.by_packet:
        return np.zeros(len(total), np.float32)
    thought = np.array([opinions.by_packet.get(packet, 0.0) for packet in packets.tolist()], np.float32)
    moved: Scores = (np.float32(opinions.share) * thought * total).astype(np.float32)
    return moved


class FeedbackShelf:
    """A tenant's verdicts, read again when they have changed, and found among the packets again when those have.

    Safe from any thread.
    """

    def __init__(self, stemmer: Stemmer, share: float) -> None:
        self._stemmer = stemmer
        self._share = share
        self._lock = threading.Lock()
        self._version = -1
        self._packets: tuple[int, int] = (-1, -1)
        self._said: dict[str, list[FeedbackVote]] = {}
        self._verdicts: dict[int, list[FeedbackVote]] = {}

    def opinions(self, connection: sqlite3.Connection, catalogue: Catalogue, terms: Sequence[QueryTerm]) -> Opinions:
        """What is thought of packets for a search for `terms`."""
        if not self._share:
            return NO_OPINIONS
        verdicts = self._current(connection, catalogue)
        asked = frozenset(stem for term in terms for stem in term.stems)
        return Opinions(self._share, {packet: opinion(said, asked) for packet, said in verdicts.items()})

    def _current(self, connection: sqlite3.Connection, catalogue: Catalogue) -> dict[int, list[FeedbackVote]]:
        version = feedback.version(connection)
        packets = (catalogue.version.last_packet, catalogue.version.packets)
        with self._lock:
            if (version, packets) != (self._version, self._packets):
                if version != self._version:  # a question has up to thousands of characters: not for every new packet
                    self._said = self._read(connection)
                rows = feedback.current_rows(connection).items()
                self._verdicts = {row: self._said[packet_id] for packet_id, row in rows if packet_id in self._said}
                self._version, self._packets = version, packets
            return self._verdicts

    def _read(self, connection: sqlite3.Connection) -> dict[str, list[FeedbackVote]]:
        found: dict[str, list[FeedbackVote]] = {}
        for packet_id, query, useful in feedback.stored(connection):
            terms = parse_query(query, self._stemmer)
            stems = frozenset(stem for term in terms for stem in term.stems) if terms else None
            found.setdefault(packet_id, []).append(FeedbackVote(stems, 1 if useful else -1))
        return found
