"""How a run tells the way its question was read."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gaiad.base.clock import FrozenClock
from gaiad.base.config import load_config
from gaiad.base.errors import Unavailable
from gaiad.base.ports import RequestContext
from gaiad.cli.research_text import run_text
from gaiad.research.loop import Researcher
from gaiad.research.payload.kept_runs import KeptRuns
from gaiad.store.home_databases import HomeDatabases
from gaiad.wire.research import ResearchRun
from gaiad.wire.schemas import Facets, PacketFilter, PacketSummary, ResearchRequest

STUDY = PacketSummary(
    packet_id="tp-study",
    revision=1,
    timestamp="2025-11-14T09:30:00Z",
    topic="The MIT study",
    dialect="generic",
    integrity="unverifiable",
    model="",
    session_id="",
    pages=0,
    bytes=0,
    sha256="",
)


class OnePacket:
    """An archive of one packet without pages; `broken` lets a search fail."""

    broken = False

    async def facets(self, call: RequestContext) -> Facets:
        return Facets(topics={STUDY.topic: 1}, packets=1, first=STUDY.timestamp, last=STUDY.timestamp)

    async def list_packets(self, request: PacketFilter, call: RequestContext) -> list[PacketSummary]:
        if self.broken:
            raise Unavailable("the disk is gone")
        return []

    async def document_frequency(self, words: Any, call: RequestContext) -> dict[str, int]:
        return dict.fromkeys(words, 0)


@pytest.fixture
async def runs(tmp_path: Path) -> AsyncIterator[KeptRuns]:
    clock = FrozenClock(datetime(2025, 12, 15, 12, tzinfo=UTC))
    files = HomeDatabases(tmp_path)
    yield KeptRuns(OnePacket(), files, clock)  # type: ignore[arg-type]
    files.close()


async def told(runs: KeptRuns, archive: Any, query: str) -> str:
    clock = FrozenClock(datetime(2025, 12, 15, 12, tzinfo=UTC))
    config = load_config(environment={}).research
    try:
        await Researcher(archive, clock, config, runs).research(ResearchRequest(query=query), RequestContext())
    except Unavailable:
        assert archive.broken
    (row,) = await runs.newest(RequestContext(), 10)
    kept: ResearchRun = await runs.run(row.research_id, RequestContext())
    return " ".join(run_text(kept, 1000).split())


async def test_the_story_says_how_the_question_was_read(runs: KeptRuns) -> None:
    story = await told(
        runs,
        OnePacket(),
        "Show me packets with critical thinking of at least 0.9 and sycophancy below 0.3 before November 14, 2025",
    )
    assert (
        "Read as: listing question; until 2025-11-14T00:00:00Z; date text before November 14, 2025; "
        "metrics sycophancy_level to 0.3, critical_thinking from 0.9; order relevance; focus full_context"
    ) in story


async def test_a_run_without_an_end_says_nothing_of_it(runs: KeptRuns) -> None:
    archive = OnePacket()
    archive.broken = True
    story = await told(runs, archive, "List packets before November 14, 2025")
    assert "It was failed: the disk is gone" in story
