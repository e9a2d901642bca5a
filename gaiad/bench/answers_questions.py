"""Answers to questions whose right answer is known by regular expressions, over a folder of records.

A set is a JSON file, a list of {"q", "packet", "all", "any"} or {"q", "none": true}; `packet` may be the beginning of
an id. The records are in the folder beside `questions/` that has the file's name, or in the one given after a colon:
`packets.json:../packets`. A folder without packets at its top is imported as `gaiad import` does it.
"""

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import msgspec

from gaiad.base.clock import SystemClock
from gaiad.base.config import Config
from gaiad.base.errors import BadInput, NotFound
from gaiad.base.ports import Embedder, RequestContext
from gaiad.bench.answers_scores import PAGES_SEEN, SURE, Figures, calibration_error, rank_of
from gaiad.bench.retrieval_archive import LastTrail, filled, own_embedder
from gaiad.bench.retrieval_data import Collection
from gaiad.research.loop import Researcher
from gaiad.wire.schemas import ResearchRequest, ResearchResult

_MARK = re.compile(r"\[Packet: [^\]\n]*\]")


class Expected(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A question; every pattern of `all`, and one of `any`, is in a right answer. `none`: nothing answers it."""

    q: str
    packet: str = ""
    all: tuple[str, ...] = ()
    any: tuple[str, ...] = ()
    none: bool = False

    def right(self, answer: str) -> bool:
        """Whether a text answers it."""

        def matches(pattern: str) -> bool:
            return re.search(pattern, answer, re.IGNORECASE | re.DOTALL | re.MULTILINE) is not None

        return not self.none and all(map(matches, self.all)) and (not self.any or any(map(matches, self.any)))

    def is_of(self, packet_ids: Sequence[str]) -> bool:
        """Whether one of them is, or begins with, the packet that answers it."""
        return bool(self.packet) and any(one.startswith(self.packet) for one in packet_ids)


class AnswerOutcome(msgspec.Struct, frozen=True):
    """A question and the answer to it."""

    expected: Expected
    result: ResearchResult
    found: tuple[tuple[str, str], ...] = ()
    """(packet id, text) of each page found, best first."""

    @property
    def told_nothing(self) -> bool:
        return self.result.status in ("NOT_FOUND", "CLARIFY")

    @property
    def words(self) -> str:
        """The answer without its citation marks, which hold ids that a pattern may match."""
        return _MARK.sub("", self.result.answer)

    @property
    def is_right(self) -> bool:
        return not self.told_nothing and self.expected.right(self.words)

    @property
    def right_packet(self) -> bool:
        return self.expected.is_of(self.result.source_packets)

    @property
    def sure(self) -> bool:
        return self.result.status == "SUCCESS" and self.result.confidence >= SURE

    @property
    def rank(self) -> int:
        """Of the right packet among those found, 0 when it is not there."""
        ids = [packet_id for packet_id, _ in self.found]
        return rank_of({one for one in ids if self.expected.is_of([one])}, ids)

    @property
    def all_seen(self) -> bool:
        """Whether the best pages hold all of the answer."""
        return self.expected.right("\n".join(text for _, text in self.found[:PAGES_SEEN]))


def is_question_file(source: str) -> bool:
    """Whether a source is a file of questions with patterns, alone or with a folder after a colon."""
    file = Path(source.partition(":")[0])
    return file.suffix == ".json" and file.is_file() and b'"q"' in file.read_bytes()[:2000]


def measure_questions(sources: Sequence[str], config: Config) -> dict[str, Figures]:
    """The figures of each set by its name; blocks for minutes. Raises BadInput, NotFound."""

    async def run() -> dict[str, Figures]:
        async with own_embedder(config) as embedder:
            return {Path(one.partition(":")[0]).stem: figures(await ask_all(one, config, embedder)) for one in sources}

    return asyncio.run(run())


def split_source(source: str) -> tuple[Path, Path]:
    """The file of questions and the folder of records. Raises NotFound."""
    name, _, folder = source.partition(":")
    file = Path(name)
    records = file.parent / folder if folder else file.parent.parent / file.stem
    for path in (file, records):
        if not path.exists():
            raise NotFound(f"{path}: no such file or folder; give QUESTIONS.json or QUESTIONS.json:RECORDS")
    return file, records


def read_expected(file: Path) -> list[Expected]:
    """The questions of a file. Raises BadInput."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=list[Expected])
    except msgspec.DecodeError as error:
        raise BadInput(f"{file}: not a list of questions ({error})") from error


async def ask_all(source: str, config: Config, embedder: Embedder | None) -> list[AnswerOutcome]:
    """Every question of the set, asked of an archive with its records only. Raises BadInput, NotFound."""
    file, records = split_source(source)
    paths = sorted(path for path in records.iterdir() if path.suffix in (".xml", ".json"))
    collection = Collection(file.stem, [(path.name, path.read_bytes()) for path in paths], [])
    async with filled(collection, config, embedder, refused=True, imported=[] if paths else [records]) as one:
        newest = (await one.archive.facets(RequestContext())).last
        kept = LastTrail()
        researcher = Researcher(one.archive, SystemClock("UTC"), config.research, kept)
        outcomes = []
        for each in read_expected(file):
            result = await researcher.research(ResearchRequest(query=each.q, now=newest), RequestContext())
            found = [(page.packet_id, page.text) for page in kept.pages()]
            outcomes.append(AnswerOutcome(each, result, tuple(found)))
        return outcomes


def figures(outcomes: Sequence[AnswerOutcome]) -> Figures:
    """The figures of one set."""
    asked = [one for one in outcomes if not one.expected.none]
    unknown = [one for one in outcomes if one.expected.none]
    return Figures(
        questions=len(asked),
        right=sum(one.is_right for one in asked),
        right_packet=sum(one.right_packet for one in asked),
        not_found=sum(one.told_nothing for one in asked),
        sure=sum(one.sure for one in outcomes),
        wrong_and_sure=sum(one.sure and not one.is_right for one in outcomes),
        unknown=len(unknown),
        unknown_told=sum(one.told_nothing for one in unknown),
        first=sum(one.rank == 1 for one in asked),
        mrr=round(sum(1 / one.rank for one in asked if one.rank) / len(asked), 4) if asked else 0.0,
        all_at_10=sum(one.all_seen for one in asked),
        miscalibration=calibration_error(
            [(one.result.confidence, one.is_right) for one in outcomes if not one.told_nothing]
        ),
        words=median([len(one.words.split()) for one in asked]) if asked else 0,
    )
