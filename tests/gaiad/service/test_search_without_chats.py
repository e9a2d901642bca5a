"""A search leaves out what gaiad's models wrote in chats, unless it is asked for."""

from types import SimpleNamespace

import pytest

from gaiad.base.metrics import Metrics
from gaiad.base.ports import RequestContext
from gaiad.service.service import Service
from gaiad.wire.schemas import Hit, SearchRequest, SearchResponse


def hit(page_id: str, packet_id: str, speaker: str = "") -> Hit:
    return Hit(
        page_id=page_id,
        packet_id=packet_id,
        session_id="s",
        score=1.0,
        excerpt="x",
        timestamp="",
        topic="",
        retrievers=["bm25"],
        speaker=speaker,
    )


HITS = [
    hit("p1", "turn_1", "assistant"),
    hit("p2", "turn_1", "user"),
    hit("p3", "tp-1", "assistant"),
    hit("p4", "tp-2"),
]


class Archive:
    def __init__(self) -> None:
        self.asked: list[SearchRequest] = []

    async def search(self, request: SearchRequest, call: RequestContext) -> SearchResponse:
        self.asked.append(request)
        return SearchResponse(hits=HITS[: request.limit], took_ms=1.0)


@pytest.mark.parametrize(
    ("request_", "found"),
    [
        (SearchRequest(query="x"), ["p2", "p3", "p4"]),
        (SearchRequest(query="x", limit=2), ["p2", "p3"]),
        (SearchRequest(query="x", limit=2, include_chats=True), ["p1", "p2"]),
        (SearchRequest(mode="page_id", page_ids=["p1"], limit=1), ["p1"]),
    ],
)
async def test_what_gaiad_wrote_is_found_only_where_it_is_asked_for(request_: SearchRequest, found: list[str]) -> None:
    service = SimpleNamespace(archive=Archive(), metrics=Metrics())
    response = await Service.search(service, request_, RequestContext())  # type: ignore[arg-type]
    assert [one.page_id for one in response.hits] == found


async def test_a_limit_that_is_none_is_left_to_the_archive_to_refuse() -> None:
    service = SimpleNamespace(archive=Archive(), metrics=Metrics())
    await Service.search(service, SearchRequest(query="x", limit=0), RequestContext())  # type: ignore[arg-type]
    assert service.archive.asked[0].limit == 0
