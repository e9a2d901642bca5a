"""What is forgotten for good comes back by no route: each is asked for it with every id that was ever given out.

A new route without a rule fails in `test_every_route_is_asked_or_named_here`.
"""

import http.client
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from gaiad.bench.daemon_process import BenchDaemon, running_daemon
from gaiad.intake.mcp_routes import TOOLS
from gaiad.intake.routes import table
from gaiad.wire.ingest import ImportRequest
from tests.makers.exports import chatgpt, chatgpt_node
from tests.makers.tenants_house import OUTPUT, RULES, TENANTS, House

OWNERS = {
    "GET /config", "GET /doctor", "GET /models/catalogue", "GET /stability", "POST /rfc/list", "POST /sweep",
    "POST /reindex",
}  # fmt: skip
NOT_ASKED = {
    "POST /backup", "POST /restore", "POST /stop", "POST /config/reload", "POST /models/load", "POST /models/unload",
    "POST /models/probe", "POST /models/use", "POST /models/pin", "POST /rfc/propose", "POST /rfc/review",
    "POST /rfc/vote", "POST /rfc/merge", "POST /rfc/show",
}  # fmt: skip
"""Routes of the owner that give back nothing of a tenant's memory, or would end the test."""
TOOLS_ASKED: dict[str, dict[str, Any]] = {
    "search": {"query": "lantern of the harbour"},
    "fetch": {"id": "ID"},
    "ask": {"question": "When is the lantern of the harbour lit?"},
    "briefing": {"request": "The lantern of the harbour"},
    "recent": {},
    "context_state": {},
    "context_feedback": {},
    "context_recovery": {},
}
QUESTION = "When is the lantern of the harbour lit?"
SECRETS = {"packet": "bismuthfern", "import": "telluriumoak", "conversation": "rhodiumelm", "everything": "osmiumbirch"}
TENANT_OF = {"packet": "anna", "import": "bert", "conversation": "cleo", "everything": "anna"}


def test_every_route_is_asked_or_named_here() -> None:
    assert {f"{route.method} {route.path}" for route in table()} == {*RULES, *OWNERS, *NOT_ASKED}
    assert {name for name, tool in TOOLS.items() if not tool.writes} == set(TOOLS_ASKED)


class Kept(NamedTuple):
    daemon: BenchDaemon
    house: House
    folder: Path


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kept]:
    folder = tmp_path_factory.mktemp("forgotten")
    home = folder / "h"
    home.mkdir(mode=0o700)
    (home / "token").write_text(
        "\n".join(["the-owners-own-token", *(f"token-of-{name}-0000 {name}" for name in TENANTS)])
    )
    (home / "token").chmod(0o600)
    with running_daemon("embedder.kind=none", "memory.gam_enabled=true", home=home) as daemon:
        yield Kept(daemon, House(str(daemon.status()["url"])), folder)
        daemon.client.backup(folder / "backup")
    for path in (path for place in ("h", "backup", "h.log") for path in [folder / place, *(folder / place).rglob("*")]):
        stored = path.read_bytes() if path.is_file() else b""
        assert [word for word in SECRETS.values() if word.encode() in stored] == [], path


def sentence(secret: str) -> str:
    return f"The lantern of the harbour is lit at dusk by the {secret}."


def bring_in(kept: Kept, way: str, tenant: str, secret: str) -> dict[str, Any]:
    """Store the word in that way; what `POST /forget` is asked to delete."""
    house, packet_id = kept.house, f"tp-{secret}"[:9]
    if way == "import":
        path = kept.folder / "conversations.json"
        nodes = (chatgpt_node("q", "root", "user", QUESTION), chatgpt_node("a", "q", "assistant", sentence(secret)))
        path.write_text(json.dumps([chatgpt(*nodes, title=f"On the {secret}", conversation_id="c-9")]))
        job = kept.daemon.client.import_paths(ImportRequest(paths=[str(path)], tenant=tenant))
        deadline = time.monotonic() + 60
        while kept.daemon.client.job(job.job_id).state != "done":
            assert time.monotonic() < deadline
            time.sleep(0.05)
        path.unlink()
        house.own(tenant, "packet", "chatgpt-c-9")
        return {"import_id": job.job_id}
    if way == "conversation":
        house.hand_over(tenant, "s-gone", sentence(secret))
        house.ask(tenant, "POST /chat", "s-gone", message=f"Remember: {sentence(secret)}")
        return {"session_ids": ["s-gone"]}
    document = {
        "packet_id": packet_id,
        "timestamp": "2025-11-27T09:30:00Z",
        "topic": f"On the {secret}",
        "content": sentence(secret),
        "tags": [secret],
    }
    house.ask(tenant, "POST /ingest", documents=[{"name": f"{packet_id}.json", "content": json.dumps(document)}])
    house.own(tenant, "packet", packet_id)
    if way == "packet":
        return {"packet_ids": [packet_id]}
    house.ask(tenant, "POST /ingest", documents=[{"name": "x.json", "content": f'{{"broken": "{secret}'}])
    return {"everything": True}


def talk_of_it(house: House, tenant: str) -> str:
    """Have it quoted by whatever quotes; all that was answered."""
    packets = house.ids(tenant, "packet")
    body = {"session_id": "s-asking", "message": QUESTION}
    answers = [house.ask(tenant, "POST /chat", "s-asking", **body, depth=depth) for depth in ("fast", "fast", "full")]
    answers += [
        house.ask(tenant, "POST /turns/start", "s-other", message=QUESTION, idempotency_key=f"k-{len(packets)}")
    ]
    answers += [
        house.ask(tenant, route, query=QUESTION, filters={}) for route in ("POST /research", "POST /research/start")
    ]
    answers += [house.ask(tenant, "POST /memory/build_context", request=QUESTION)]
    answers += [house.ask(tenant, route) for route in ("POST /v1/chat/completions", "POST /v1/responses", "POST /mcp")]
    for packet in packets:
        answers += [house.ask(tenant, "POST /feedback", packet), house.ask(tenant, "POST /packets/show", packet)]
    read = ("GET /research", "POST /turns/list", "POST /cognition/list", "GET /jobs", "POST /sessions/list")
    answers += [house.ask(tenant, route, "s-asking") for route in read]
    return "\n".join(text for _, text in answers)


def events_from_the_start(house: House, tenant: str) -> str:
    """What the event stream replays to a reader that saw only its first event."""
    connection = http.client.HTTPConnection(house._parts.hostname or "", house._parts.port, timeout=1)
    heard = b""
    try:
        headers = {"Authorization": f"Bearer token-of-{tenant}-0000", "Last-Event-ID": "1"}
        connection.request("GET", f"/events?tenant={tenant}", headers=headers)
        response = connection.getresponse()
        while line := response.readline():
            heard += line
    except TimeoutError:
        return heard.decode("utf-8", "replace")
    finally:
        connection.close()
    return heard.decode("utf-8", "replace")


@pytest.mark.parametrize("way", SECRETS)
def test_no_route_gives_back_what_was_forgotten(kept: Kept, way: str) -> None:
    house, tenant, secret = kept.house, TENANT_OF[way], SECRETS[way]
    asked = bring_in(kept, way, tenant, secret)
    assert secret in talk_of_it(house, tenant)
    for packet in house.ids(tenant, "packet")[-1:]:  # the newest
        results = {**OUTPUT["results"], "primary_output": f"{sentence(secret)} [Packet: {packet}]"}
        house.own(tenant, "record", json.loads(house.ask(tenant, "POST /context/outputs", results=results)[1])["id"])
    time.sleep(1.0)  # turns and runs that go on by themselves
    kept.daemon.client.post("/forget", {**asked, "now": True, "tenant": tenant})
    told = {"GET /events, from the start": events_from_the_start(house, tenant)}
    for route in sorted(RULES):
        if route in ("GET /events", "POST /forget", "POST /forget/undo", "POST /research/import"):
            continue
        for name in house.ids(tenant, RULES[route].of) or [""]:
            told[f"{route} {name}"] = house.ask(tenant, route, name)[1]
    for tool, arguments in TOOLS_ASKED.items():
        for name in house.ids(tenant, "packet"):
            call = json.dumps({"kind": "tool", "name": tool, "arguments": arguments, "tenant": tenant}).replace(
                "ID", name
            )
            status, told[f"{tool} {name}"] = house.send(tenant, "POST", "/mcp/call", call)
            assert status == (404 if tool == "fetch" else 200), told[f"{tool} {name}"]
    for route in sorted(OWNERS):
        method, path = route.split()
        own = kept.daemon.client
        told[route] = json.dumps(own.get(path) if method == "GET" else own.post(path, {}))
    told["after"] = talk_of_it(house, tenant)
    leaks = [
        f"{route}: {answer[max(0, answer.find(secret) - 300) :][:600]}"
        for route, answer in told.items()
        if secret in answer
    ]
    assert not leaks, "\n".join(leaks)
