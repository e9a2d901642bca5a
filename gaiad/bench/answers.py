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

from gaiad.base.clock import SystemClock
from gaiad.base.config import Config, ResearchConfig, load_config
from gaiad.base.errors import BadInput
from gaiad.base.ports import Archive, Embedder, RequestContext
from gaiad.bench import answers_scores as scores
from gaiad.bench.answers_questions import is_question_file, measure_questions
from gaiad.bench.answers_scores import UNKNOWN, Answered, Figures, LabelledQuestion, format_sets, labelled, strangers
from gaiad.bench.retrieval_archive import LastTrail, filled, own_embedder
from gaiad.bench.retrieval_data import Collection, conversation_files, fingerprint, read_conversations
from gaiad.research.loop import Researcher
from gaiad.wire.schemas import ResearchRequest

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
