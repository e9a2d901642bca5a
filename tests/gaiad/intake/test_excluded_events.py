"""`/events` for a caller that does not see everything: what names a hidden packet is left out, the stream goes on."""

import json
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest

from gaiad.archive.archive import LocalArchive
from gaiad.base.config import Config, load_config
from gaiad.base.events import EventHub
from gaiad.base.ports import RequestContext
from gaiad.intake import application
from gaiad.intake.chat_routes import table
from gaiad.service.service import Service
from gaiad.wire.council import HOUSE

END = "the end"


@pytest.fixture
def config() -> Config:
    return load_config((), {}, ('memory.exclude={cli_chat = ["secret"]}',))


@pytest.fixture
async def api(
    service: Any, serving: Any, archive: LocalArchive, make_packet: Callable[..., bytes]
) -> AsyncIterator[aiohttp.ClientSession]:
    """Two tenants, each with a packet that this caller does not see, and one that he does."""
    for tenant in ("local", "work"):
        packets = [(f"{tenant}-shut", "secret"), (f"{tenant}-open", "light")]
        documents = [(f"{name}.xml", make_packet(packet_id=name, tags=tag)) for name, tag in packets]
        await archive.ingest_documents(documents, RequestContext(tenant))

    async def hidden(names: Any, call: RequestContext) -> set[str]:
        asked.append(call.tenant)
        return await Service.hidden(SimpleNamespace(archive=archive), names, call)  # type: ignore[arg-type]

    asked: list[str] = []
    service.hidden, service.asked = hidden, asked
    async with serving(table()) as session:
        yield session


async def told(api: aiohttp.ClientSession, path: str) -> list[str]:
    """What the events of the stream say, `missed` and `error` by their names, up to the one that says the end."""
    said: list[str] = []
    name = ""
    async with api.get(path) as response:
        async for line in response.content:
            field, _, value = line.decode().rstrip("\n").partition(": ")
            if field == "event":
                name = value
            if field != "data" or name == "following":
                continue
            if name in ("missed", "error"):
                said.append(name)
                continue
            said.append(json.loads(value)["data"]["content"])
            if said[-1] == END:
                break
    return said


def say(service: Any, *messages: tuple[str, str]) -> None:
    for tenant, content in messages:
        service.hub.publish("council", tenant, content=content)


@pytest.mark.parametrize("path", ["/events?after=0", "/events?tenant=local&after=0"])
async def test_what_the_house_says_does_not_end_the_stream(api: aiohttp.ClientSession, service: Any, path: str) -> None:
    say(service, (HOUSE, "I am here"), ("local", "see [Packet: local-shut]"), ("local", END))
    assert await told(api, path) == ["I am here", END]
    assert HOUSE not in service.asked


async def test_every_event_is_held_against_its_own_tenant(api: aiohttp.ClientSession, service: Any) -> None:
    say(
        service,
        ("local", "see [Packet: local-open]"),
        ("work", "see [Packet: work-shut]"),
        ("work", "see [Packet: work-open]"),
        ("local", "see [Packet: local-shut]"),
        ("nowhere", "nobody has spoken in it"),
        ("_nobody", "no tenant can be called so"),
        ("local", END),
    )
    shown = [
        "see [Packet: local-open]",
        "see [Packet: work-open]",
        "nobody has spoken in it",
        "no tenant can be called so",
        END,
    ]
    assert await told(api, "/events?after=0") == shown


async def test_a_marker_for_what_was_lost_changes_nothing_for_the_others(
    api: aiohttp.ClientSession, service: Any
) -> None:
    service.hub = EventHub(service.clock, capacity=4)
    say(service, *[("work", "see [Packet: work-open]")] * 3)
    say(service, ("work", "see [Packet: work-shut]"), (HOUSE, "see [Packet: work-shut]"), ("work", END))
    assert await told(api, "/events?tenant=work&after=1") == ["missed", "see [Packet: work-open]", END]


async def test_a_stream_keeps_nothing_of_what_it_has_sent(
    api: aiohttp.ClientSession, service: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    exchanges: list[application.Exchange] = []
    made = application.Exchange.__init__

    def seen(self: application.Exchange, *given: Any, **named: Any) -> None:
        exchanges.append(self)
        made(self, *given, **named)

    monkeypatch.setattr(application.Exchange, "__init__", seen)
    say(service, *[("local", "see [Packet: local-open]")] * 20, ("local", END))
    assert len(await told(api, "/events?after=0")) == 21
    assert [exchange._calls for exchange in exchanges] == [[]]
