"""The units of packets as arrays, so that a question is held against hundreds of them in a millisecond or two.

A `PacketUnits` is read once a packet and kept by the pages it was read from; only what the question changes is computed
for each question: which terms a unit covers.
"""

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from gaiad.base.text import words_of
from gaiad.research.scoring import IN_PATH, KINDS, Question, Wants, holds_type, weights
from gaiad.research.units import FRONT_MATTER, Kind, Unit, units_of
from gaiad.research.words import lowered, stem, stop_words
from gaiad.wire.schemas import Page

Floats = NDArray[np.float32]
Place = tuple[float, float]
"""How well a page was found, against the best of all, and its cosine."""
_SHELF_PACKETS = 512
NAME_MIN = 5
"""Letters that a field's name and another form of the word begin with."""
_UNASKED = 6.0
"""What a field of the front matter loses in score (log odds) where the question does not name it."""


class _Ragged:
    """A list of numbers for each unit, flat, for a maximum over each."""

    def __init__(self, rows: Sequence[Sequence[int]]) -> None:
        self.flat = np.array([number for row in rows for number in row], np.intp)
        lengths = np.array([len(row) for row in rows], np.intp)
        self._filled = np.flatnonzero(lengths)
        self._starts = (np.cumsum(lengths) - lengths)[self._filled]
        self._units = len(rows)

    def best(self, values: Floats) -> Floats:
        """Shape (..., units) of the best of `values` (..., numbers) over each unit's own; 0 for a unit with none."""
        found = np.zeros((*values.shape[:-1], self._units), np.float32)
        if len(self.flat):
            found[..., self._filled] = np.maximum.reduceat(values[..., self.flat], self._starts, axis=-1)
        return found


class PacketUnits:
    """The units of one packet's pages, what occurs in each, and what of their features no question changes."""

    def __init__(self, pages: Sequence[Page]) -> None:
        self.units = units_of(pages)
        own = [_stems(unit.text) for unit in self.units]
        label = [_stems(unit.label) for unit in self.units]
        above = [_stems(f"{unit.path} {unit.page.topic} {unit.page.speaker}") for unit in self.units]
        self._own, self._label, self._above = _postings(own), _postings(label), _postings(above)
        self._names: dict[str, list[str]] = {}
        for name in self._label:
            self._names.setdefault(name[:NAME_MIN], []).append(name)
        self._label_count = np.array([len(row) for row in label], np.float32)
        self._front = np.array([unit.page.path == FRONT_MATTER for unit in self.units], bool)
        numbers: dict[str, int] = {}
        self._pieces = _Ragged(
            [[numbers.setdefault(piece.page.page_id, len(numbers)) for piece in unit.pieces] for unit in self.units]
        )
        self.page_ids = list(numbers)
        self._fixed = np.array(
            [
                (
                    np.log1p(len(mine)) / 4,
                    float(unit.size > 1),
                    float(unit.page.sequence == 0),
                    *(float(unit.kind == kind) for kind in KINDS),
                )
                for unit, mine in zip(self.units, own, strict=True)
            ],
            np.float32,
        ).reshape(len(self.units), 3 + len(KINDS))
        self._types: dict[Wants, Floats] = {}

    def __len__(self) -> int:
        return len(self.units)

    def hold(self, question: Question, places: Mapping[str, Place], packet: float) -> "UnitScores":
        """The units against a question; `packet` is how well this one was found."""
        terms = question.terms
        hit, in_path = np.zeros((2, len(terms), len(self)), bool)
        named = np.zeros(len(self), np.float32)
        for row, term in enumerate(terms):
            for form in term.stems:
                for found, postings in ((hit, self._own), (in_path, self._above)):
                    if form in postings:
                        found[row, postings[form]] = True
            for name in {name for form in term.stems for name in self._names_like(form)}:
                hit[row, self._label[name]] = True
                named[self._label[name]] += 1
        credits = hit.astype(np.float32)
        with_path = np.maximum(credits, np.where(in_path, IN_PATH, 0.0))
        weight = np.array([term.weight for term in terms], np.float32) / question.weight
        label = named / np.maximum(self._label_count, 1)
        rarest = int(np.argmax(weight)) if terms else -1
        found_pages = np.array([places.get(page_id, (0.0, 0.0)) for page_id in self.page_ids], np.float32)
        page, cosine = self._pieces.best(found_pages.reshape(-1, 2).T)
        own, cover = weight @ credits, weight @ with_path
        features = np.column_stack(
            [
                own,
                cover,
                label,
                with_path[rarest] if terms else np.zeros(len(self)),
                self._fixed[:, 0],
                self._type(question.wants),
                self._fixed[:, 1] * question.many,
                page,
                np.full(len(self), packet),
                cosine,
                self._fixed[:, 2:],
            ]
        )
        unasked = _UNASKED * (self._front & (named == 0))
        return UnitScores(self.units, with_path, own, label, cosine, page, features, unasked)

    def _names_like(self, asked: str) -> Iterator[str]:
        """The stems of field names that a stem names, or a verb of theirs: `attendees` by "attended"."""
        for name in self._names.get(asked[:NAME_MIN], ()):
            shorter, longer = sorted((name, asked), key=len)
            near = len(shorter) >= NAME_MIN and len(longer) - len(shorter) <= 2 and longer.startswith(shorter)
            if name == asked or near:
                yield name

    def _type(self, wants: Wants) -> Floats:
        if wants not in self._types:
            self._types[wants] = np.array([holds_type(wants, unit) for unit in self.units], np.float32)
        return self._types[wants]


class UnitScores:
    """The units of a packet held against a question: arrays over the units, and `score` of each."""

    def __init__(
        self,
        units: Sequence[Unit],
        credits: Any,
        own: Any,
        label: Any,
        cosine: Any,
        page: Any,
        features: Any,
        penalty: Any = 0.0,
    ) -> None:
        self.units, self.credits, self.own, self.label = units, credits, own, label
        self.cosine, self.page, self.features = cosine, page, features
        self.score = features @ weights().unit_vector - penalty

    def at(self, number: int) -> "Scored":
        """One of them."""
        own, label, cosine, page, score = (
            float(part[number]) for part in (self.own, self.label, self.cosine, self.page, self.score)
        )
        return Scored(self.units[number], tuple(self.credits[:, number].tolist()), own, label, cosine, page, score)

    def best_of(self, sequence: int, kinds: Sequence[Kind]) -> "Scored | None":
        """The best unit of these kinds on the page with this place in its packet."""
        fit = [at for at, unit in enumerate(self.units) if unit.page.sequence == sequence and unit.kind in kinds]
        return self.at(max(fit, key=lambda at: float(self.score[at]))) if fit else None


class Scored(msgspec.Struct, frozen=True):
    """A unit held against the question: the credit of each term, its own cover, its label's fit, how near and how well
    its page was found, the score, how `near` it is itself (a cosine), and how many it lists of the things that the
    question counts, as "4 risks"."""

    unit: Unit
    credits: tuple[float, ...]
    own: float
    label: float
    cosine: float
    page: float
    score: float
    near: float = 0.0
    counted: str = ""


def ranked(held: Sequence[UnitScores], most: int) -> list[Scored]:
    """The best units of all packets, best first."""
    if not held:
        return []
    scores = np.concatenate([one.score for one in held])
    owner = np.repeat(np.arange(len(held)), [len(one.units) for one in held])
    starts = np.cumsum([0, *(len(one.units) for one in held)])
    best = np.argsort(-scores, kind="stable")[:most]
    return [held[owner[at]].at(int(at - starts[owner[at]])) for at in best]


def _stems(text: str) -> set[str]:
    return {stem(word) for word in lowered(words_of(text)) if word not in stop_words()}


def _postings(rows: Sequence[set[str]]) -> dict[str, NDArray[np.intp]]:
    found: dict[str, list[int]] = {}
    for number, row in enumerate(rows):
        for one in row:
            found.setdefault(one, []).append(number)
    return {one: np.array(numbers, np.intp) for one, numbers in found.items()}


class UnitShelf:
    """Units that were read before, by the pages they were read from; page ids name their content."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, ...], PacketUnits] = OrderedDict()

    def units(self, pages: Sequence[Page]) -> PacketUnits:
        """The units of these pages of one packet."""
        key = tuple(page.page_id for page in pages)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = PacketUnits(pages)
            if len(self._known) > _SHELF_PACKETS:
                self._known.popitem(last=False)
        return found
