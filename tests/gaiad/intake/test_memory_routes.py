"""The routes of JIT's memory API over a real socket and archive: bodies, refusals, and tenants that never meet."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import aiohttp
import msgspec
import pytest
from aiohttp import web

from gaiad.archive.archive import LocalArchive
from gaiad.base.clock import FrozenClock
from gaiad.base.config import load_config
from gaiad.base.home import Home
from gaiad.base.metrics import Metrics
from gaiad.intake.auth import Caller
from gaiad.intake.memory_routes import table
from gaiad.models.tokens.word_tokenizer import WordTokenizer
from gaiad.service.memory import MemoryApi

INGEST, BUILD = "/memory/ingest_session", "/memory/build_context"


class OneDoor:
    """Everybody is the same caller."""

    def __init__(self) -> None:
        self.who = Caller(name="somebody", owner=False, tenants=frozenset({"garden", "work", "empty"}))

    def check(self, request: web.Request) -> None:
        """Nobody is refused."""

    def caller(self, request: web.Request) -> Caller:
        return self.who

    def under_way(self, caller: Caller) -> AbstractContextManager[None]:
        return nullcontext()


class Api:
    """Posts to the routes; `switch` turns them off."""

    def __init__(self, session: aiohttp.ClientSession, door: OneDoor) -> None:
        self._session = session
        self.door = door
        self.on = True

    async def post(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        response = await self._session.post(path, json=body)
        return response.status, await response.json()


@pytest.fixture
async def api(
    service: Any, home: Home, serving: Any, clock: FrozenClock, open_archive: Callable[..., Awaitable[LocalArchive]]
) -> AsyncIterator[Api]:
    archive = await open_archive(home.root)
    door, settings = (
        OneDoor(),
        {on: load_config(environment={"MEMORY_GAM_ENABLED": str(int(on))}) for on in (True, False)},
    )
    http = msgspec.structs.replace(service.config.http, request_timeout_s=60.0)
    service.config = msgspec.structs.replace(service.config, http=http)
    async with serving(table(), door) as session:
        made = Api(session, door)
        service.memory = MemoryApi(
            archive, clock, Metrics(), lambda: settings[made.on], lambda: WordTokenizer(clock), lambda: None
        )
        yield made


def talk(secret: str, **fields: Any) -> dict[str, Any]:
    turns = [
        {"role": "user", "content": f"The password of the lamp is {secret}. Ada {secret} keeps it."},
        {"role": "assistant", "content": f"Noted: we decided that {secret} opens the lamp."},
    ]
    return {"turns": turns, "title": f"Lamp {secret}", "sessionId": "s", "agentId": "bot", **fields}


async def test_null_is_a_field_left_out(api: Api) -> None:
    nothing = dict.fromkeys(("agentId", "title", "description", "classification", "policyTags", "metadata"))
    turn = {"role": "user", "content": "The lamp is tulip.", "timestamp": None, "metadata": {"kept": None}}
    status, made = await api.post(INGEST, {"tenantId": "work", "sessionId": None, "turns": [turn], **nothing})
    assert status == 200, made
    assert (status, made) == await api.post(INGEST, {"tenantId": "work", "turns": [turn]})
    asked = {"tenantId": "work", "request": "What is the lamp?"}
    for budgets in (None, {"maxPages": None, "maxReflectionDepth": None, "maxOutputTokens": None}):
        fields = {"agentId": None, "sessionId": None, "mode": None, "budgets": budgets}
        assert (await api.post(BUILD, {**asked, **fields}))[0] == 200
    status, said = await api.post(BUILD, {"tenantId": "work", "request": None})
    assert (status, "request" in said["message"]) == (400, True)
    status, said = await api.post(INGEST, {"tenantId": "work", "turns": [None]})
    assert (status, "turns[0]" in said["message"]) == (400, True)


async def test_a_session_is_taken_in_and_a_briefing_built_in_the_seeds_names(api: Api) -> None:
    status, made = await api.post(INGEST, {"tenantId": "work", **talk("tulip", policyTags=["no-export"])})
    assert status == 200
    assert list(made) == ["sessionId", "memo", "pages"]
    assert [page["header"]["policyTags"] for page in made["pages"]] == [["no-export"]] * 2
    status, built = await api.post(BUILD, {"tenantId": "work", "request": "What is the password of the lamp?"})
    assert status == 200
    assert "tulip" in built["keyFacts"][0]
    assert built["evidence"][0]["policyTags"] == ["no-export"]
    assert built["evidence"][0]["pageId"] in {page["id"] for page in made["pages"]}


@pytest.mark.parametrize("path", [INGEST, BUILD])
async def test_without_a_tenant_nothing_is_done(api: Api, path: str) -> None:
    body = talk("tulip") if path == INGEST else {"request": "lamp?"}
    status, error = await api.post(path, body)
    assert (status, error["code"]) == (400, "bad_input")
    assert "tenantId" in error["message"]
    status, error = await api.post(path, {"tenantId": "", **body})
    assert status == 400
    assert "tenantId is empty" in error["message"]


@pytest.mark.parametrize(
    ("path", "fields", "named"),
    [
        (INGEST, {"turns": []}, "turns"),
        (INGEST, {"turns": [{"role": "user"}]}, "content"),
        (INGEST, {"turns": [{"role": "user", "content": "x", "timestamp": "noon"}]}, "turns[0].timestamp"),
        (INGEST, {"turns": [{"role": "user", "content": "x"}], "session_id": "s"}, "session_id"),
        (BUILD, {}, "request"),
        (BUILD, {"request": " "}, "empty"),
        (BUILD, {"request": "lamp?", "mode": "magic"}, "mode"),
        (BUILD, {"request": "lamp?", "budgets": {"maxPages": 0}}, "maxPages"),
        (BUILD, {"request": "lamp?", "budgets": {"pages": 3}}, "pages"),
    ],
)
async def test_what_does_not_fit_is_refused_by_its_name(api: Api, path: str, fields: Any, named: str) -> None:
    status, error = await api.post(path, {"tenantId": "work", **fields})
    assert status == 400
    assert named in error["message"]


@pytest.mark.parametrize("path", [INGEST, BUILD])
async def test_a_foreign_tenant_and_the_page_are_refused(api: Api, path: str) -> None:
    body = {"tenantId": "secret", **(talk("tulip") if path == INGEST else {"request": "lamp?"})}
    assert (await api.post(path, body))[0] == 403
    api.door.who = Caller(name="page", owner=True, channel="web_chat")
    assert (await api.post(path, body))[0] == 403


@pytest.mark.parametrize("path", [INGEST, BUILD])
async def test_while_off_both_answer_503(api: Api, path: str) -> None:
    api.on = False
    status, error = await api.post(path, {"tenantId": "work"})
    assert (status, error["code"]) == (503, "unavailable")
    assert "MEMORY_GAM_ENABLED" in error["message"]


async def test_no_answer_to_one_tenant_holds_a_word_of_another(api: Api) -> None:
    """The same ids, agents, words and pages asked for in both, and in a tenant that has nothing."""
    secrets = {"garden": "tulip", "work": "anvil", "empty": "nothing"}
    answers: dict[str, list[dict[str, Any]]] = {tenant: [] for tenant in secrets}
    pages: list[str] = []
    for tenant in ("garden", "work"):
        labels = {"classification": [f"{secrets[tenant]}-only"], "metadata": {"of": secrets[tenant]}}
        status, made = await api.post(INGEST, {"tenantId": tenant, **talk(secrets[tenant], **labels)})
        assert status == 200
        answers[tenant].append(made)
        pages += [page["id"] for page in made["pages"]]
        assert [page["sequence"] for page in made["pages"]] == [0, 1]
    asked = ["What is the password of the lamp?", "Who keeps the lamp?", "List all packets", "What about Ada?", *pages]
    for tenant in secrets:
        for request in asked:
            for mode in ("hybrid", "bm25"):
                body = {"tenantId": tenant, "request": request, "mode": mode, "sessionId": "s", "agentId": "bot"}
                status, built = await api.post(BUILD, body)
                assert status == 200
                answers[tenant].append(built)
    for tenant, built in answers.items():
        told = json.dumps(built)
        assert (secrets[tenant] in told) == (tenant != "empty")
        for other in secrets.keys() - {tenant}:
            assert secrets[other] not in told
    assert not any(one["evidence"] for one in answers["empty"])
