"""The routes of kept runs: whose runs a caller sees. What the page reads of them is tested with a daemon."""

from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from gaiad.base.errors import NotFound
from gaiad.base.ports import RequestContext
from gaiad.intake.auth import Caller
from gaiad.intake.research_routes import table
from gaiad.wire.research import RunRow


class OneDoor:
    """Everybody is the same caller."""

    def __init__(self) -> None:
        self.who = Caller(name="somebody", owner=False, tenants=frozenset({"garden", "work"}))

    def check(self, request: web.Request) -> None:
        """Nobody is refused."""

    def caller(self, request: web.Request) -> Caller:
        return self.who

    def under_way(self, caller: Caller) -> AbstractContextManager[None]:
        return nullcontext()


def row(number: int, tenant: str) -> RunRow:
    return RunRow(
        research_id=f"res_{number}",
        tenant=tenant,
        query="?",
        started_at="",
        status="complete",
        outcome="SUCCESS",
        confidence=0.9,
        sources=1,
        contradictions=0,
        iterations=1,
    )


class Runs:
    """Kept runs by tenant."""

    kept = (row(1, "garden"), row(2, "work"), row(3, "garden"), row(4, "secret"))

    async def newest(self, call: RequestContext, limit: int, *, to_review: bool = False) -> list[RunRow]:
        return [] if to_review else [one for one in self.kept[::-1] if one.tenant == call.tenant][:limit]

    async def run(self, research_id: str, call: RequestContext) -> Any:
        for one in self.kept:
            if (one.research_id, one.tenant) == (research_id, call.tenant):
                return _Found(one)
        raise NotFound(f"no run {research_id}")


class _Found(dict[str, Any]):
    def __init__(self, run: RunRow) -> None:
        super().__init__(run=run)
        self.run = run


@pytest.fixture
def door() -> OneDoor:
    return OneDoor()


@pytest.fixture
async def api(service: Any, serving: Any, door: OneDoor) -> AsyncIterator[aiohttp.ClientSession]:
    service.research_runs = Runs()
    async with serving(table(), door) as session:
        yield session


async def ids(api: aiohttp.ClientSession, query: str = "") -> list[str]:
    response = await api.get(f"/research{query}")
    assert response.status == 200
    return [one["research_id"] for one in (await response.json())["runs"]]


async def test_a_caller_sees_the_runs_of_its_tenants_newest_first(api: aiohttp.ClientSession) -> None:
    assert await ids(api) == ["res_3", "res_2", "res_1"]
    assert await ids(api, "?limit=2") == ["res_3", "res_2"]
    assert await ids(api, "?tenant=work") == ["res_2"]
    assert await ids(api, "?review=1") == []
    assert (await api.get("/research?tenant=secret")).status == 403


async def test_a_run_is_found_in_whichever_tenant_it_is(api: aiohttp.ClientSession) -> None:
    assert (await (await api.get("/research/res_2")).json())["run"]["tenant"] == "work"
    assert (await api.get("/research/res_4")).status == 404
    assert (await api.get("/research/res_2?tenant=garden")).status == 404


@pytest.mark.parametrize("query", ["limit=0", "limit=1001", "limit=many", "review=2"])
async def test_what_makes_no_sense_is_refused(api: aiohttp.ClientSession, query: str) -> None:
    assert (await api.get(f"/research?{query}")).status == 400
