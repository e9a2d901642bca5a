"""`GET /metrics`: JIT's names, gaiad's own numbers as `status` has them, and nobody's tenants."""

import re
from collections.abc import Iterator
from typing import Any

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from gaiad.base.home import Home
from gaiad.base.metrics import BOUNDS_MS
from gaiad.intake.application import build_app, start_listener
from gaiad.intake.auth import TokenCheck, TokenFile
from gaiad.intake.doors import TcpDoor
from gaiad.intake.routes import table
from gaiad.intake.sockets import listen_tcp, url_of

OF_WORK = "a-token-for-work"
JIT = (
    "gam_ingest_latency_ms_count",
    "gam_build_context_latency_ms_count",
    'gam_retrieval_hits_total{tool="bm25"}',
    'gam_retrieval_hits_total{tool="dense"}',
    'gam_retrieval_hits_total{tool="page_id"}',
    "gam_pages_used",
    "gam_reflection_steps",
    "gam_context_tokens_out",
)


@pytest.fixture
async def url(service: Any, home: Home) -> Any:
    tokens = TokenFile(home.token)
    tokens.load()
    home.token.write_text(home.token.read_text() + f"{OF_WORK} work\n")
    tokens.load()
    tcp = listen_tcp("127.0.0.1", 0)
    runner = await start_listener(
        build_app(service, TcpDoor(TokenCheck(tokens, tcp.getsockname()[1], [])), table()), tcp, 0.5
    )
    yield url_of(tcp)
    await runner.cleanup()


async def read(url: str, token: str = OF_WORK, query: str = "?tenant=work") -> tuple[int, str, str]:
    async with (
        aiohttp.ClientSession(url, headers={"Authorization": f"Bearer {token}"}) as session,
        session.get(f"/metrics{query}") as response,
    ):
        return response.status, response.headers["Content-Type"], await response.text()


def samples(text: str) -> dict[str, float]:
    """Every line by name and labels, as a reader of the format reads it."""
    return dict(_lines(text))


def _lines(text: str) -> Iterator[tuple[str, float]]:
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = ",".join(f'{name}="{value}"' for name, value in sorted(sample.labels.items()))
            yield sample.name + (f"{{{labels}}}" if labels else ""), sample.value


async def test_jits_names_are_there_from_the_start(url: str) -> None:
    status, kind, text = await read(url)
    assert (status, kind) == (200, "text/plain; version=0.0.4; charset=utf-8")
    found = samples(text)
    assert {name: found[name] for name in JIT} == dict.fromkeys(JIT, 0.0)


async def test_the_numbers_are_those_of_status(url: str, service: Any) -> None:
    metrics = service.metrics
    metrics.count("gam_pages_used", 7)
    metrics.count('gam_retrieval_hits_total{tool="dense"}', 3)
    metrics.count("turns", 2)
    for took_ms in (0.5, 3.0, 70_000.0):
        metrics.observe_ms("search_hybrid", took_ms)
    metrics.observe_ms("gam_ingest_latency_ms", 5.0)
    found = samples((await read(url))[2])
    assert found["gam_pages_used"] == 7
    assert found['gam_retrieval_hits_total{tool="dense"}'] == 3
    assert found["gaiad_turns_total"] == metrics.counters()["turns"]
    of_search = {
        re.findall(r'le="([^"]+)"', name)[0]: count
        for name, count in found.items()
        if name.startswith("gaiad_latency_ms_bucket") and 'operation="search_hybrid"' in name
    }
    assert list(of_search) == [f"{bound}.0" for bound in BOUNDS_MS] + ["+Inf"]
    assert (of_search["1.0"], of_search["4.0"], of_search["60000.0"], of_search["+Inf"]) == (1, 2, 2, 3)
    assert found['gaiad_latency_ms_sum{operation="search_hybrid"}'] == 70_003.5
    assert (found["gam_ingest_latency_ms_count"], found["gam_ingest_latency_ms_sum"]) == (1, 5.0)
    assert found['gam_ingest_latency_ms_bucket{le="8.0"}'] == 1


async def test_it_is_behind_the_same_door_as_status(url: str) -> None:
    assert (await read(url, "not-a-token-of-ours"))[0] == 401
    assert (await read(url, query="?tenant=local"))[0] == 403
    status, _, text = await read(url, query="")
    assert status == 200
    assert "work" not in text
