import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import numpy as np
import pytest

from gaiad.archive.archive import LocalArchive
from gaiad.base.errors import BadInput, Cancelled, NotFound, Unavailable
from gaiad.base.ports import Priority, RequestContext
from gaiad.wire.schemas import Filters, MetricRange, PacketFilter, SearchRequest
from gaiad.wire.status import ModelStatus

Make = Callable[..., bytes]
Open = Callable[..., Awaitable[LocalArchive]]


class Embedder:
    """Unit vectors that depend on the text's length only: enough to see who was embedded."""

    fingerprint, dimension = "by-length", 4

    def __init__(self) -> None:
        self.texts: list[str] = []

    async def embed(self, texts: Sequence[str], call: RequestContext) -> Any:
        self.texts += texts
        rows = np.array([[1.0, len(text) % 7, len(text) % 5, 1.0] for text in texts], np.float32)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    def status(self) -> ModelStatus:
        return ModelStatus(role="embedder", kind="test", path_or_url="", state="ready", pid=0, reason="")


async def drain(archive: LocalArchive) -> int:
    total = 0
    while done := await archive.drain_vectors(RequestContext(priority=Priority.BACKGROUND)):
        total += done
    return total


async def test_a_tenant_whose_pages_cannot_be_embedded_keeps_no_other_from_its_vectors(
    open_archive: Open, call: RequestContext, make_packet: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedder = Embedder()
    archive = await open_archive(embedder=embedder)
    other = RequestContext(tenant="other")
    await archive.ingest_documents([("a.xml", make_packet(content="Words that no model takes."))], call)
    await archive.ingest_documents([("b.xml", make_packet(content="Plain words."))], other)
    embed = embedder.embed

    async def refusing(texts: Sequence[str], call: RequestContext) -> Any:
        if any("no model takes" in text for text in texts):
            raise BadInput("too strange")
        return await embed(texts, call)

    monkeypatch.setattr(embedder, "embed", refusing)
    for _ in range(2):
        with pytest.raises(BadInput, match="too strange"):
            await archive.drain_vectors(RequestContext(priority=Priority.BACKGROUND))
    assert any("Plain words" in text for text in embedder.texts)


async def test_vectors_follow_from_the_queue_and_a_revision_takes_its_own(
    open_archive: Open, call: RequestContext, make_packet: Make
) -> None:
    embedder = Embedder()
    archive = await open_archive(embedder=embedder)
    await archive.ingest_documents([("a.xml", make_packet())], call)
    counts = await archive.counts()
    assert (counts["queue"], counts["vectors"]) == (counts["pages"], 0)
    assert await drain(archive) == counts["pages"]
    assert any("27 November 2025" in text for text in embedder.texts)
    counts = await archive.counts()
    assert (counts["queue"], counts["vectors"]) == (0, counts["pages"])
    await archive.ingest_documents([("b.xml", make_packet(content="Another telling."))], call)
    counts = await archive.counts()
    assert (counts["queue"], counts["vectors"]) == (counts["pages"], 0)
    await drain(archive)
    before = await archive.counts()
    await archive.close()
    again = await open_archive(embedder=embedder)
    assert await again.counts() == before
    assert (await again.sweep([], call))["problems"] == []
    assert again.degraded() == []


async def test_without_an_embedder_nothing_waits(open_archive: Any, call: RequestContext, make_packet: Make) -> None:
    archive = await open_archive()
    await archive.ingest_documents([("a.xml", make_packet())], call)
    assert await archive.drain_vectors(call) == 0
    assert (await archive.counts())["queue"] == 0
    await archive.close()
    embedder = Embedder()
    again = await open_archive(embedder=embedder)
    assert await drain(again) == (await again.counts())["pages"] == len(embedder.texts)


async def test_packets_are_listed_by_time_and_filtered_exactly(
    archive: LocalArchive, call: RequestContext, make_packet: Make
) -> None:
    documents = [
        ("1.xml", make_packet("P1", timestamp="2025-01-01T00:00:00Z", model="alpha", topic="Rivers", tags="water")),
        ("2.xml", make_packet("P2", timestamp="2025-02-01T00:00:00Z", model="beta", topic="Rivers and rain", tags="x")),
        ("3.xml", make_packet("P3", timestamp="2025-03-01T00:00:00Z", model="Alpha", topic="Stones", tags="WATER")),
    ]
    await archive.ingest_documents(documents, call)

    async def listed(order: str = "latest", limit: int = 50, offset: int = 0, **filters: Any) -> list[str]:
        request = PacketFilter(filters=Filters(**filters), order=order, limit=limit, offset=offset)  # type: ignore[arg-type]
        return [summary.packet_id for summary in await archive.list_packets(request, call)]

    assert await listed() == ["P3", "P2", "P1"]
    assert await listed("earliest") == ["P1", "P2", "P3"]
    assert await listed(limit=1, offset=1) == ["P2"]
    assert await listed(since="2025-02-01T00:00:00Z", until="2025-03-01T00:00:00Z") == ["P2"]
    assert await listed(models=["ALPHA"]) == ["P3", "P1"]
    assert await listed(topics=["rivers"]) == ["P2", "P1"]
    assert await listed(tags=["Water"]) == ["P3", "P1"]
    assert await listed(packet_ids=["P2", "nope"]) == ["P2"]
    assert await listed(metrics=[MetricRange(name="critical_thinking", minimum=0.95)]) == []
    assert await listed(metrics=[MetricRange(name="critical_thinking", minimum=0.9, maximum=0.9)]) == ["P3", "P2", "P1"]
    assert await listed(tags=["'; DROP TABLE packets; --"]) == []
    with pytest.raises(BadInput, match="yesterday"):
        await listed(since="yesterday")


async def test_a_packet_is_shown_whole_and_its_sections_by_focus(
    archive: LocalArchive, call: RequestContext, make_packet: Make
) -> None:
    data = make_packet()
    await archive.ingest_documents([("a.xml", data)], call)
    detail = await archive.packet_detail("TP-1", call)
    assert detail.fields["metrics"] == {"critical_thinking": 0.9}
    assert detail.fields["timestamp"] == "2025-11-27T09:30:00Z"
    assert list(detail.fields["tags"]) == ["light", "harbour"]
    assert detail.source == "a.xml"
    assert detail.received_at == "2025-12-01T12:00:00Z"
    assert detail.packet.pages == len(detail.pages)
    assert [page.sequence for page in detail.pages] == list(range(len(detail.pages)))
    technical = await archive.section_pages("TP-1", "technical_content", call)
    behaviour = await archive.section_pages("TP-1", "behavioral_state", call)
    assert any("harbour" in page.text and page.section == "content" for page in technical)
    assert {page.section for page in behaviour} == {"behavior"}
    assert await archive.section_pages("TP-1", "full_context", call) == detail.pages
    content = next(page for page in technical if page.section == "content")
    assert data[content.start : content.end].decode() == content.text
    assert await archive.original("TP-1", call) == (data, "application/xml")
    ids = [detail.pages[1].page_id, detail.pages[0].page_id]
    assert [page.page_id for page in await archive.pages(ids, call)] == ids
    assert [line.packet_id for line in await archive.packet_summaries(["TP-1"], call)] == ["TP-1"]


async def test_unknown_ids_are_not_found_and_name_themselves(archive: LocalArchive, call: RequestContext) -> None:
    for wanted in (
        archive.packet_detail("nope", call),
        archive.original("nope", call),
        archive.pages(["nope"], call),
        archive.packet_summaries(["nope"], call),
        archive.section_pages("nope", "full_context", call),
    ):
        with pytest.raises(NotFound, match="nope"):
            await wanted


async def test_names_that_could_leave_the_home_are_no_tenants(archive: LocalArchive, call: RequestContext) -> None:
    for name in ("../x", "", "A", "a/b", "x" * 65):
        with pytest.raises(BadInput, match="tenant"):
            await archive.ingest_documents([("a.xml", b"<a/>")], RequestContext(tenant=name))
    assert archive.tenants() == ["local"]


async def test_a_closed_archive_and_a_cancelled_call_say_so(
    open_archive: Open, call: RequestContext, make_packet: Make
) -> None:
    archive = await open_archive()
    gone = RequestContext()
    gone.cancel()
    with pytest.raises(Cancelled):
        await archive.facets(gone)
    await archive.close()
    with pytest.raises(Unavailable, match="closed"):
        await archive.facets(call)
    with pytest.raises(Unavailable, match="closed"):
        await archive.ingest_documents([("a.xml", make_packet())], call)


async def test_a_hung_embedder_leaves_the_words(open_archive: Open, call: RequestContext, make_packet: Make) -> None:
    class Hung(Embedder):
        async def embed(self, texts: Sequence[str], call: RequestContext) -> Any:
            if call.priority == Priority.PERSON:
                await asyncio.Event().wait()
            return await super().embed(texts, call)

    archive = await open_archive(embedder=Hung())
    await archive.ingest_documents([("a.xml", make_packet())], call)
    await drain(archive)
    found = await archive.search(SearchRequest(query="lantern"), call)
    assert {hit.packet_id for hit in found.hits} == {"TP-1"}
    assert found.degraded == ["embedder: no vector of the question within 400 ms; searched by words only"]
