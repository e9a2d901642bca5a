"""A real archive over the shipped sample packets, and a small one in memory whose pages a test writes itself."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import gaiad
from gaiad.archive.archive import LocalArchive
from gaiad.base.clock import FrozenClock, SystemClock
from gaiad.base.config import load_config
from gaiad.base.errors import NotFound
from gaiad.base.ports import RequestContext
from gaiad.research.loop import Researcher
from gaiad.research.words import normalise, stem, stems
from gaiad.wire.schemas import (
    Explanation,
    Facets,
    Focus,
    Hit,
    PacketFilter,
    PacketSummary,
    Page,
    ResearchRequest,
    ResearchResult,
    RetrieverScore,
    SearchRequest,
    SearchResponse,
)
from tests.makers.archives import OwnArchive

SAMPLES = Path(gaiad.__file__).parent / "samples"
NOW = datetime(2025, 12, 15, 12, tzinfo=UTC)
Ask = Callable[..., Any]


@pytest.fixture(scope="session")
def sample_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with every sample packet ingested, once."""
    home = tmp_path_factory.mktemp("samples")

    async def fill() -> None:
        archive = OwnArchive(home, load_config((), {}), SystemClock("UTC"))
        await archive.start()
        outcomes = await archive.ingest_files(sorted(SAMPLES.glob("*.*")), RequestContext())
        await archive.close()
        assert {outcome.outcome for outcome in outcomes} == {"accepted"}

    asyncio.run(fill())
    return home


@pytest.fixture
async def samples(sample_home: Path, tmp_path: Path) -> AsyncIterator[LocalArchive]:
    home = shutil.copytree(sample_home, tmp_path / "home")
    archive = OwnArchive(home, load_config((), {}), SystemClock("UTC"))
    await archive.start()
    yield archive
    await archive.close()


@pytest.fixture
def ask(samples: LocalArchive) -> Ask:
    """Ask the sample packets on 15 December 2025."""
    researcher = Researcher(samples, FrozenClock(NOW), load_config((), {}).research)

    async def research(query: str, **fields: Any) -> ResearchResult:
        result = await researcher.research(ResearchRequest(query=query, **fields), RequestContext())
        await check(result, samples)
        return result

    return research


async def check(result: ResearchResult, archive: LocalArchive) -> None:
    """What must hold of any answer: every citation verifies, every inline id is real and cited."""
    for citation in result.citations:
        (page,) = await archive.pages([citation.page_id], RequestContext())
        assert page.text[citation.start : citation.end] == citation.quote
        assert page.packet_id == citation.packet_id
        assert f"[Packet: {citation.packet_id}]" in result.answer
    assert result.source_packets == list(dict.fromkeys(citation.packet_id for citation in result.citations))
    assert 0 <= result.iterations_used <= result.max_iterations


class MemoryArchive:
    """ports.Archive over pages in a list: word overlap for BM25, and the cosines a test gives by page id."""

    def __init__(
        self, pages: Sequence[Page], cosines: dict[str, float] | None = None, models: Sequence[str] = ()
    ) -> None:
        self.stored = {page.page_id: page for page in pages}
        self.cosines = cosines or {}
        self.models = models
        self.searches: list[SearchRequest] = []

    async def search(self, request: SearchRequest, call: RequestContext) -> SearchResponse:
        self.searches.append(request)
        wanted = stems(request.query)
        found = []
        for page in self.stored.values():
            overlap = len(wanted & stems(f"{page.text} {page.topic}"))
            cosine = self.cosines.get(page.page_id)
            holds = all(phrase.lower() in page.text.lower() for phrase in request.phrases)
            if holds and (overlap or cosine is not None):
                found.append((overlap + (cosine or 0.0), overlap, cosine, page))
        found.sort(key=lambda row: -row[0])
        return SearchResponse(hits=[_hit(*row) for row in found[: request.limit]], took_ms=0.0)

    async def pages(self, page_ids: Sequence[str], call: RequestContext) -> list[Page]:
        if missing := [page_id for page_id in page_ids if page_id not in self.stored]:
            raise NotFound(f"no page {missing[0]}")
        return [self.stored[page_id] for page_id in page_ids]

    async def section_pages(self, packet_id: str, focus: Focus, call: RequestContext) -> list[Page]:
        return [page for page in self.stored.values() if page.packet_id == packet_id]

    async def list_packets(self, request: PacketFilter, call: RequestContext) -> list[PacketSummary]:
        since, until = request.filters.since, request.filters.until
        then = [p for p in self.stored.values() if since <= p.timestamp and (not until or p.timestamp < until)]
        return await self.packet_summaries(list(dict.fromkeys(p.packet_id for p in then)), call)

    async def packet_summaries(self, packet_ids: Sequence[str], call: RequestContext) -> list[PacketSummary]:
        first = {page.packet_id: page for page in reversed(self.stored.values())}
        return [_summary(first[packet_id]) for packet_id in packet_ids]

    async def facets(self, call: RequestContext) -> Facets:
        packets = {page.packet_id for page in self.stored.values()}
        moments = sorted(page.timestamp for page in self.stored.values()) or ["", ""]
        first, last = moments[0], moments[-1]
        models = dict.fromkeys(self.models, 1)
        return Facets(models=models, packets=len(packets), pages=len(self.stored), first=first, last=last)

    async def document_frequency(self, words: Sequence[str], call: RequestContext) -> dict[str, int]:
        texts = [stems(f"{page.text} {page.topic}") for page in self.stored.values()]
        return {word: sum(stem(normalise(word)) in text for text in texts) for word in words}

    async def similarity(self, query: str, texts: Sequence[str], call: RequestContext) -> list[float]:
        return []


def _hit(score: float, overlap: int, cosine: float | None, page: Page) -> Hit:
    retrievers = {"bm25": RetrieverScore(rank=1, score=float(overlap))} if overlap else {}
    if cosine is not None:
        retrievers["dense"] = RetrieverScore(rank=1, score=cosine)
    return Hit(
        page_id=page.page_id,
        packet_id=page.packet_id,
        session_id=page.session_id,
        score=score,
        excerpt=page.text[:80],
        timestamp=page.timestamp,
        topic=page.topic,
        retrievers=[],
        explanation=Explanation(retrievers=retrievers, boosts={}, matched_terms=[]),
    )


def _summary(page: Page) -> PacketSummary:
    return PacketSummary(
        packet_id=page.packet_id,
        revision=1,
        timestamp=page.timestamp,
        topic=page.topic,
        dialect="generic",
        integrity="unverifiable",
        model=page.model,
        session_id=page.session_id,
        pages=1,
        bytes=len(page.text),
        sha256="",
    )


def make_page(text: str, packet_id: str = "tp-1", **fields: Any) -> Page:
    """A page of body/content with a readable id."""
    values: dict[str, Any] = {
        "page_id": f"{packet_id}/{fields.get('sequence', 0)}",
        "session_id": "",
        "sequence": 0,
        "section": "content",
        "path": "body/content",
        "start": 0,
        "end": len(text.encode()),
        "timestamp": "2025-11-27T03:37:15Z",
    }
    return Page(packet_id=packet_id, text=text, **{**values, **fields})


@pytest.fixture
def page() -> Callable[..., Page]:
    return make_page


@pytest.fixture
def memory() -> type[MemoryArchive]:
    return MemoryArchive
