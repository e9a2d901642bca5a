"""`gaiad bench answers`: whether `gaiad ask` cites the packets that hold the answer, and knows when none does.

The real archive and researcher in this process, one archive a conversation, a packet a session, no generating model.
Beside the labelled questions, a hundred about people and things that stand nowhere are asked of every archive.
"""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from gaiad.bench import answers_scores as scores
from gaiad.bench.answers_archive import AskedOnce
from gaiad.bench.answers_data import UNKNOWN, Asked, labelled, strangers
from gaiad.bench.answers_scores import Answered
from gaiad.bench.retrieval import table
from gaiad.bench.retrieval_archive import filled, own_embedder
from gaiad.bench.retrieval_data import Collection, conversation_files, fingerprint, read_conversations
from gaiad.clock import SystemClock
from gaiad.config import Config, ResearchConfig, load_config
from gaiad.errors import BadInput
from gaiad.ports import Archive, Call, Embedder
from gaiad.research.loop import Researcher
from gaiad.schemas import ResearchRequest

THRESHOLDS = (0.0, 0.4, 0.6, 0.8, 0.9, 1.0)
"""Of `[research] citation_threshold`, for the curve; the configured one is measured besides."""
AT_ONCE = 2
"""Conversations under way: searches of one wait for the embedding worker, and the other has the processor."""


def run_answers(sources: Sequence[Path], *, as_json: bool) -> None:
    """Measure and print, as JSON or as a line a measure. Raises BadInput, NotFound."""
    found = measure_answers(sources)
    if as_json:
        print(msgspec.json.encode(found).decode())
        return
    for name in ("curve", "bands"):
        place = found if name == "curve" else found["confidence"]
        key = "threshold" if name == "curve" else "from"
        place[name] = {str(row[key]): {one: row[one] for one in row if one != key} for row in place[name]}
    for line in table(found):
        print(line)


def measure_answers(sources: Sequence[Path], config: Config | None = None) -> dict[str, Any]:
    """The figures for LoCoMo's files, or folders of them; blocks for minutes. Raises BadInput, NotFound."""
    began = time.perf_counter()
    collections = [collection for source in sources for collection in read_conversations(source)]
    if not any(asked.single for collection in collections for asked in labelled(collection)):
        raise BadInput(f"{', '.join(map(str, sources))}: no question has its evidence in one session")
    settings = config or load_config()
    files = [file for source in sources for file in conversation_files(source)]
    outcome = asyncio.run(_run(collections, settings))
    configured = settings.research.citation_threshold
    return {
        "dataset": [file.name for file in files],
        "sha256": fingerprint(files),
        "archives": len(collections),
        "threshold": configured,
        **scores.summary(outcome.rows[configured]),
        "unknown_left_out": outcome.left_out,
        "curve": [
            {"threshold": at, **scores.citing([row for row in rows if row.asked.single])}
            for at, rows in sorted(outcome.rows.items())
        ],
        "took_s": round(time.perf_counter() - began, 1),
    }


class Outcome:
    """Answers by threshold: all questions at the configured one, those with a single packet at the others."""

    def __init__(self) -> None:
        self.rows: dict[float, list[Answered]] = {}
        self.left_out = 0

    def add(self, other: "Outcome") -> None:
        self.left_out += other.left_out
        for at, rows in other.rows.items():
            self.rows.setdefault(at, []).extend(rows)


async def _run(collections: Sequence[Collection], config: Config) -> Outcome:
    """Some conversations at a time, their answers in order: while one waits for its vectors another is asked."""
    turns = asyncio.Semaphore(AT_ONCE)
    outcome = Outcome()
    async with own_embedder(config) as embedder:

        async def in_turn(collection: Collection) -> Outcome:
            async with turns:
                return await _asked(collection, config, embedder)

        for one in await asyncio.gather(*(in_turn(collection) for collection in collections)):
            outcome.add(one)
    return outcome


async def _asked(collection: Collection, config: Config, embedder: Embedder | None) -> Outcome:
    """One conversation's answers; says on stderr when it is at its end, for all of them take minutes."""
    began, outcome = time.perf_counter(), Outcome()
    configured = config.research.citation_threshold
    async with filled(collection, config, embedder) as one:
        archive = AskedOnce(one.archive)
        questions = labelled(collection) + await _unknown(archive, outcome)
        for at in sorted({configured, *THRESHOLDS}, key=lambda value: value != configured):
            settings = msgspec.structs.replace(config.research, citation_threshold=at)
            asked = questions if at == configured else [one for one in questions if one.single]
            outcome.rows[at] = [row async for row in _answers(archive, asked, settings)]
    took_s = time.perf_counter() - began
    print(f"{collection.name}: {len(questions)} questions asked in {took_s:.0f} s", file=sys.stderr)
    return outcome


async def _unknown(archive: Archive, outcome: Outcome) -> list[Asked]:
    """Those of the hundred that nothing in this archive speaks of; the others are counted."""
    asked = strangers()
    words = await archive.document_frequency([word for one in asked for word in one.words], Call())
    fitting = [one for one in asked if not any(words[word] for word in one.words)]
    outcome.left_out += len(asked) - len(fitting)
    return [Asked(one.text, UNKNOWN) for one in fitting]


async def _answers(archive: Archive, asked: Sequence[Asked], settings: ResearchConfig) -> AsyncIterator[Answered]:
    """Each question as `gaiad ask` puts it, on the day of the archive's newest packet."""
    newest = (await archive.facets(Call())).last
    researcher = Researcher(archive, SystemClock("UTC"), settings)
    for one in asked:
        result = await researcher.research(ResearchRequest(query=one.text, now=newest), Call(), keep=False)
        yield Answered(
            asked=one,
            status=result.status,
            cited=tuple(result.source_packets),
            confidence=result.confidence,
            iterations=result.iterations_used,
            took_ms=result.took_ms,
        )
