"""`gaiad bench answers`: whether `gaiad ask` cites the packets that hold the answer, and knows when none does.

The real archive and researcher in this process, one archive a conversation, a packet a session, no generating model.
Beside the labelled questions, a hundred about people and things that stand nowhere are asked of every archive.

A set of questions is a JSON file, a list of {"q", "packet", "all", "any"} or {"q", "none": true}; `packet` may be the
beginning of an id. Its records are in the folder beside `questions/` that has the file's name, or in the one given
after a colon: `packets.json:../packets`. A folder without packets at its top is imported as `gaiad import` does it.
"""

import asyncio
import re
import sys
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from gaiad.base.clock import SystemClock
from gaiad.base.config import Config, ResearchConfig, load_config
from gaiad.base.errors import BadInput, NotFound
from gaiad.base.ports import Archive, Embedder, RequestContext
from gaiad.bench import answers_scores as scores
from gaiad.bench.answers_scores import (
    PAGES_SEEN,
    SURE,
    UNKNOWN,
    Answered,
    Figures,
    LabelledQuestion,
    calibration_error,
    format_sets,
    labelled,
    rank_of,
    strangers,
)
from gaiad.bench.retrieval_archive import LastTrail, filled, own_embedder
from gaiad.bench.retrieval_data import Collection, conversation_files, fingerprint, read_conversations
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


AT_ONCE = 2
"""Conversations under way: searches of one wait for the embedding worker, and the other has the processor."""


def run_answers(sources: Sequence[Path], *, as_json: bool) -> None:
    """Measure and print a table a set, or all as JSON. Raises BadInput, NotFound."""
    asked = [str(source) for source in sources if is_question_file(str(source))]
    conversations = [source for source in sources if str(source) not in asked]
    config = load_config()
    sets: dict[str, Figures] = measure_questions(asked, config) if asked else {}
    found = measure_answers(conversations, config) if conversations else {}
    if as_json:
        print(msgspec.json.encode(found | {"sets": sets}).decode())
        return
    if found:
        sets = {"conversations": msgspec.convert(found["figures"], Figures), **sets}
    print(format_sets(sets))


def measure_answers(sources: Sequence[Path], config: Config | None = None) -> dict[str, Any]:
    """The figures for LoCoMo's files, or folders of them; blocks for minutes. Raises BadInput, NotFound."""
    began = time.perf_counter()
    collections = [collection for source in sources for collection in read_conversations(source)]
    if not any(asked.single for collection in collections for asked in labelled(collection)):
        raise BadInput(f"{', '.join(map(str, sources))}: no question has its evidence in one session")
    settings = config or load_config()
    files = [file for source in sources for file in conversation_files(source)]
    rows, left_out = asyncio.run(_run(collections, settings))
    return {
        "dataset": [file.name for file in files],
        "sha256": fingerprint(files),
        "archives": len(collections),
        "threshold": settings.research.citation_threshold,
        "figures": msgspec.to_builtins(scores.conversation_figures(rows)),
        **scores.summary(rows),
        "unknown_left_out": left_out,
        "took_s": round(time.perf_counter() - began, 1),
    }


async def _run(collections: Sequence[Collection], config: Config) -> tuple[list[Answered], int]:
    """All answers in order, and how many unknown questions were left out. Some conversations at a time: while one
    waits for its vectors another is asked."""
    turns = asyncio.Semaphore(AT_ONCE)
    async with own_embedder(config) as embedder:

        async def in_turn(collection: Collection) -> tuple[list[Answered], int]:
            async with turns:
                return await _asked(collection, config, embedder)

        found = await asyncio.gather(*(in_turn(collection) for collection in collections))
    return [row for rows, _ in found for row in rows], sum(left_out for _, left_out in found)


async def _asked(collection: Collection, config: Config, embedder: Embedder | None) -> tuple[list[Answered], int]:
    """One conversation's answers; says on stderr when it is done, for all of them take minutes."""
    began = time.perf_counter()
    async with filled(collection, config, embedder) as one:
        unknown, left_out = await _unknown(one.archive)
        questions = labelled(collection) + unknown
        rows = [row async for row in _answers(one.archive, questions, config.research)]
    took_s = time.perf_counter() - began
    print(f"{collection.name}: {len(questions)} questions asked in {took_s:.0f} s", file=sys.stderr)
    return rows, left_out


async def _unknown(archive: Archive) -> tuple[list[LabelledQuestion], int]:
    """Those of the hundred that nothing in this archive speaks of, and how many others there are."""
    asked = strangers()
    words = await archive.document_frequency([word for one in asked for word in one.words], RequestContext())
    fitting = [one for one in asked if not any(words[word] for word in one.words)]
    return [LabelledQuestion(one.text, UNKNOWN) for one in fitting], len(asked) - len(fitting)


async def _answers(
    archive: Archive, asked: Sequence[LabelledQuestion], settings: ResearchConfig
) -> AsyncIterator[Answered]:
    """Each question as `gaiad ask` puts it, on the day of the archive's newest packet."""
    newest = (await archive.facets(RequestContext())).last
    kept = LastTrail()
    researcher = Researcher(archive, SystemClock("UTC"), settings, kept)
    for one in asked:
        result = await researcher.research(ResearchRequest(query=one.text, now=newest), RequestContext())
        yield Answered(
            asked=one,
            status=result.status,
            cited=tuple(result.source_packets),
            confidence=result.confidence,
            iterations=result.iterations_used,
            took_ms=result.took_ms,
            found=tuple(page.packet_id for page in kept.pages()),
        )
