"""Feedback over a real socket on a real archive: said, listed and taken back within the caller's tenants."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from gaiad.archive.archive import LocalArchive
from gaiad.base.errors import NotFound
from gaiad.base.ports import RequestContext
from gaiad.intake.memory_routes import table
from gaiad.store.backup import read_manifest
from gaiad.wire.memory import FeedbackQuery


@pytest.fixture
async def api(
    service: Any, serving: Any, archive: LocalArchive, make_packet: Callable[..., bytes]
) -> AsyncIterator[aiohttp.ClientSession]:
    await archive.ingest_documents(
        [("a.xml", make_packet()), ("b.xml", make_packet(packet_id="TP-2"))], RequestContext()
    )
    await archive.ingest_documents([("c.xml", make_packet(packet_id="TP-3"))], RequestContext("work"))
    service.feedback = archive.feedback
    async with serving(table()) as session:
        yield session


async def post(api: aiohttp.ClientSession, path: str, **body: object) -> tuple[int, Any]:
    response = await api.post(path, json=body)
    return response.status, await response.json()


async def listed(api: aiohttp.ClientSession, **body: object) -> list[tuple[str, str, str]]:
    _, answer = await post(api, "/feedback/list", **body)
    return [(row["packet_id"], row["verdict"], row["query"]) for row in answer["feedback"]]


async def test_what_was_said_is_listed_and_the_last_word_holds(api: aiohttp.ClientSession) -> None:
    status, row = await post(api, "/feedback", packet_id="TP-1", verdict="useful", query="  the   lantern ")
    assert (status, row["packet_id"], row["verdict"], row["query"]) == (200, "TP-1", "useful", "the lantern")
    await post(api, "/feedback", packet_id="TP-1", verdict="not-useful", query="the lantern")
    await post(api, "/feedback", packet_id="TP-2", verdict="useful")
    await post(api, "/feedback", packet_id="TP-3", verdict="useful", tenant="work")
    assert await listed(api) == [("TP-1", "not-useful", "the lantern"), ("TP-2", "useful", "")]
    assert await listed(api, tenant="work") == [("TP-3", "useful", "")]
    assert await post(api, "/feedback/reset", packet_id="TP-1", query="another") == (200, {"removed": 0})
    assert await post(api, "/feedback/reset", packet_id="TP-1", query=" the lantern") == (200, {"removed": 1})
    await post(api, "/feedback", packet_id="TP-1", verdict="useful", query="the lantern")
    assert await post(api, "/feedback/reset", packet_id="TP-1") == (200, {"removed": 1})
    assert await post(api, "/feedback/reset") == (200, {"removed": 1})
    assert await listed(api) == []
    assert await listed(api, tenant="work") == [("TP-3", "useful", "")]


async def test_what_cannot_be_meant_is_refused_by_name(api: aiohttp.ClientSession) -> None:
    status, answer = await post(api, "/feedback", packet_id="TP-3", verdict="useful")
    assert status == 404
    assert "'TP-3'" in answer["message"]
    status, answer = await post(api, "/feedback", packet_id="TP-1", verdict="splendid")
    assert status == 400
    assert "splendid" in answer["message"]
    status, answer = await post(api, "/feedback", packet_id="TP-1", verdict="useful", query="x" * 4001)
    assert status == 400
    assert "4001" in answer["message"]
    assert await listed(api) == []


async def test_a_backup_holds_it(api: aiohttp.ClientSession, archive: LocalArchive, tmp_path: Path) -> None:
    await post(api, "/feedback", packet_id="TP-1", verdict="useful")
    await archive.backup(tmp_path / "copy")
    assert next(file.path for file in read_manifest(tmp_path / "copy").files) == "tenants/local/tenant.db"
    await post(api, "/feedback/reset")
    await archive.restore(tmp_path / "copy")
    assert await listed(api) == [("TP-1", "useful", "")]


async def test_what_was_said_for_each_question_is_told_in_their_order(api: aiohttp.ClientSession) -> None:
    await post(api, "/feedback", packet_id="TP-1", verdict="useful", query="the lantern")
    await post(api, "/feedback", packet_id="TP-2", verdict="not-useful", query="the lantern")
    await post(api, "/feedback", packet_id="TP-2", verdict="useful")
    asked = [
        {"query": "the harbour", "packet_ids": ["TP-1"]},
        {"query": " the\nlantern ", "packet_ids": ["TP-2", "TP-1", "TP-0"]},
        {"query": "", "packet_ids": ["TP-1", "TP-2"]},
    ]
    told = [{}, {"TP-1": "useful", "TP-2": "not-useful"}, {"TP-2": "useful"}]
    assert await post(api, "/feedback/given", judged=asked) == (200, {"given": told})
    assert await post(api, "/feedback/given", judged=asked, tenant="work") == (200, {"given": [{}, {}, {}]})


async def test_what_a_channel_does_not_see_it_hears_no_verdict_on(
    api: aiohttp.ClientSession, archive: LocalArchive
) -> None:
    await post(api, "/feedback", packet_id="TP-1", verdict="useful")
    blind = RequestContext().without({"harbour"}, ())
    assert await archive.feedback.newest(10, blind) == []
    with pytest.raises(NotFound) as hidden:
        await archive.feedback.give("TP-1", "useful", "", blind)
    with pytest.raises(NotFound) as unknown:
        await archive.feedback.give("TP-0", "useful", "", blind)
    assert hidden.value.message.replace("TP-1", "TP-0") == unknown.value.message
    assert len(await archive.feedback.newest(10, RequestContext())) == 1
    judged = [FeedbackQuery(query="", packet_ids=["TP-1"])]
    assert await archive.feedback.given(judged, blind) == [{}]
    assert await archive.feedback.given(judged, RequestContext()) == [{"TP-1": "useful"}]


async def test_what_a_channel_does_not_see_it_takes_no_verdict_back_on(
    api: aiohttp.ClientSession, archive: LocalArchive, make_packet: Callable[..., bytes]
) -> None:
    await archive.ingest_documents([("d.xml", make_packet(packet_id="TP-4", tags="light"))], RequestContext())
    for packet_id in ("TP-1", "TP-2", "TP-4"):
        await post(api, "/feedback", packet_id=packet_id, verdict="useful")
    blind = RequestContext().without({"harbour"}, ())
    assert await archive.feedback.reset("TP-1", blind) == 0
    assert await archive.feedback.reset("TP-1", blind, "") == 0
    assert await archive.feedback.reset("", blind) == 1
    assert sorted(packet_id for packet_id, _, _ in await listed(api)) == ["TP-1", "TP-2"]
    assert await archive.feedback.reset("", RequestContext()) == 2
