"""Tenants of one daemon, what each was told by it, and how each of its routes is asked: nothing of another may come."""

import http.client
import json
import re
import threading
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

TENANTS = ("anna", "bert", "cleo")
CANARY = {"anna": "zirconweed", "bert": "quartzfern", "cleo": "opalmoss"}
PACKETS, SESSIONS = ("tp-1", "tp-2", "tp-3", "tp-4"), ("s-1", "s-2", "s-3")
COMMON = "the lantern of the harbour is lit at dusk"
UNKNOWN = {
    "packet": "tp-none",
    "session": "s-none",
    "page": "0123456789abcdef-0000",
    "job": "job_01M81EH6YVDAAAKM98JQAD4X2N",
    "turn": "turn_01M81EH6YVDAAAKM98JQAD4X2N",
    "run": "res_01M81EH6YVDAAAKM98JQAD4X2N",
    "sent": "cog_01M81EH6YVDAAAKM98JQAD4X2N",
    "approval": "apr_01M81EH6YVDAAAKM98JQAD4X2N",
    "record": "ctx_01M81EH6YVDAAAKM98JQAD4X2N",
}
_MADE = re.compile(r"\b(?:[0-9a-f]{16}-[0-9]{4}|(?P<kind>job|turn|res|cog)_[0-9A-Z]{26})\b")
_KINDS = {"job": "job", "turn": "turn", "res": "run", "cog": "sent", None: "page"}
_VOLATILE = re.compile(
    r'"(took_ms|uptime_s|memory_bytes|[a-z_]*_at|latencies|counters|jobs)":("[^"]*"|\{[^{}]*(\{[^{}]*\}[^{}]*)*\}|[^,}]*)'
)


class Rule(NamedTuple):
    """How a route is asked: `of` is the kind of id it takes, which stands for ID in path, query and body.

    `names` is where it says the tenant: "tenant" or "tenantId" in the body, "query", "" where the token alone decides.
    """

    of: str = ""
    body: dict[str, Any] | None = None
    query: str = ""
    names: str = "tenant"
    endless: bool = False


def _by_id(of: str, key: str, names: str = "tenant", **more: Any) -> Rule:
    return Rule(of, {key: "ID", **more}, names=names)


LISTED = Rule(body={})
PAYLOAD = json.loads((Path(__file__).parents[1] / "data" / "research_payload_example.json").read_text(encoding="utf-8"))
QUERY = Rule(names="query")
CALLED = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/call",
    "params": {"name": "search", "arguments": {"query": COMMON}},
}
OUTPUT: dict[str, Any] = {
    "agent_type": "generation",
    "task_id": "t-1",
    "timestamp": "2025-11-27T09:30:00Z",
    "results": {"primary_output": COMMON, "confidence_score": 0.5, "resource_consumed": 1.0},
}
RULES = {
    "GET /healthz": Rule(names=""),
    "GET /status": QUERY,
    "GET /metrics": QUERY,
    "POST /ingest": Rule(body={"documents": [{"name": "x.json", "content": "{"}]}),
    "GET /jobs": QUERY,
    "GET /jobs/{job_id}": Rule("job", names="query"),
    "GET /jobs/{job_id}/outcomes": Rule("job", names="query"),
    "POST /jobs/{job_id}/cancel": Rule("job", body={}, names="query"),
    "POST /search": Rule(
        "page", {"query": COMMON, "adjacent": 3, "explain": True, "mode": "page_id", "page_ids": ["ID"]}
    ),
    "POST /research": Rule("packet", {"query": "When is the lantern lit?", "filters": {"packet_ids": ["ID"]}}),
    "POST /packets/list": Rule("session", {"filters": {"session_ids": ["ID"]}}),
    "POST /packets/show": _by_id("packet", "packet_id"),
    "POST /packets/export": _by_id("packet", "packet_id"),
    "POST /packets/verify": Rule("packet", {"packet_ids": ["ID"]}),
    "POST /packets/timeline": Rule("session", {"filters": {"session_ids": ["ID"]}}),
    "POST /import": Rule(body={"paths": ["/nowhere"]}),
    "POST /forget": Rule("packet", {"packet_ids": ["ID"], "dry_run": True}),
    "POST /forget/undo": Rule(body={"forget_id": "fgt_none"}),
    "GET /forget": QUERY,
    "GET /quarantine": QUERY,
    "POST /quarantine/show": Rule(body={"id": 1}),
    "POST /quarantine/retry": Rule(body={"id": 1}),
    "POST /quarantine/drop": Rule(body={"id": 1}),
    "GET /events": Rule(names="query", endless=True),
    "POST /generate": Rule(body={"role": "lite", "messages": [{"role": "user", "content": COMMON}]}, names=""),
    "GET /models": Rule(names=""),
    "POST /chat": Rule("session", {"message": "When is the lantern lit?", "session_id": "ID"}),
    "POST /cognition/render": Rule("session", {"message": "When is the lantern lit?", "session_id": "ID"}),
    "POST /cognition/show": _by_id("turn", "packet"),
    "POST /cognition/list": Rule("session", {"session_id": "ID"}),
    "POST /cognition/replay": _by_id("sent", "packet"),
    "GET /personas": Rule(names=""),
    "POST /sessions/list": LISTED,
    "POST /sessions/show": _by_id("session", "session_id"),
    "POST /sessions/pages": _by_id("session", "session_id"),
    "POST /sessions/rename": _by_id("session", "session_id", title="Of another name"),
    "POST /council/status": LISTED,
    "POST /council/log": Rule(body={"limit": 1000, "heartbeats": False}),
    "POST /turns/show": _by_id("turn", "turn"),
    "POST /turns/rate": _by_id("turn", "turn", rating="up"),
    "POST /turns/list": Rule("session", {"session_id": "ID"}),
    "POST /turns/start": Rule(
        "session", {"message": "Is the lantern lit?", "session_id": "ID", "idempotency_key": "k"}
    ),
    "GET /turns/events": Rule("turn", query="turn=ID", names="query"),
    "POST /turns/cancel": _by_id("turn", "turn"),
    "GET /turns/running": QUERY,
    "POST /approvals/list": LISTED,
    "POST /approvals/approve": _by_id("approval", "id", sha256="0" * 64),
    "POST /approvals/deny": _by_id("approval", "id"),
    "POST /research/start": Rule("packet", {"query": "When is it lit?", "filters": {"packet_ids": ["ID"]}}),
    "POST /research/{research_id}/cancel": Rule("run", body={}),
    "POST /research/{research_id}/forget": Rule("run", body={}),
    "POST /research/{research_id}/review": Rule("run", body={}),
    "POST /research/{research_id}/contradictions": Rule("run", body={"contradiction_id": "none", "status": "open"}),
    "POST /research/import": Rule(body={"payload": PAYLOAD}),
    "GET /research": QUERY,
    "GET /research/{research_id}": Rule("run", names="query"),
    "GET /research/{research_id}/events": Rule("run", names="query"),
    "GET /research/{research_id}/sources/{source_id}": Rule("run", names="query"),
    "POST /memory/ingest_session": Rule(
        "session", {"sessionId": "ID", "turns": [{"role": "user", "content": COMMON}]}, names="tenantId"
    ),
    "POST /memory/build_context": Rule("page", {"request": "Look at page ID and the lantern"}, names="tenantId"),
    "POST /council/seeds": LISTED,
    "POST /feedback": _by_id("packet", "packet_id", verdict="useful"),
    "POST /feedback/list": LISTED,
    "POST /feedback/given": Rule("packet", {"judged": [{"query": "", "packet_ids": ["ID"]}]}),
    "POST /feedback/reset": _by_id("packet", "packet_id"),
    "POST /context/state": Rule(body={"state": {}}, names="query"),
    "POST /context/outputs": Rule(body=OUTPUT, names="query"),
    "POST /context/reviews": Rule(body={"iteration": 1}, names="query"),
    "POST /context/rollback": Rule(body={"component": "system", "version": 1}),
    "POST /context/checkpoints": LISTED,
    "POST /context/restore": Rule(body={"checkpoint_id": "none"}),
    "POST /context/continuations": Rule(body={"task": "t", "state": {}}, names="query"),
    "POST /context/continuations/resume": Rule(body={"token": "none", "task": "t"}, names="query"),
    "POST /context/export": Rule(body={"directory": "/nowhere"}),
    "POST /context/import": Rule(body={"directory": "/nowhere"}),
    "POST /context/cleanup": Rule(body={"dry_run": True}),
    "GET /context/quota": QUERY,
    "GET /context/checkpoints": QUERY,
    "GET /context/recovery": QUERY,
    "GET /context/state": QUERY,
    "GET /context/states": QUERY,
    "GET /context/outputs": QUERY,
    "GET /context/reviews": QUERY,
    "GET /context/records/{record_id}": Rule("record", names="query"),
    "GET /context/versions": QUERY,
    "GET /context/feedback": QUERY,
    "POST /context/feedback/strike": Rule(body={"number": 1}),
    "GET /context/trends": QUERY,
    "GET /context/lineage/{hypothesis_id}": Rule("record", names="query"),
    "GET /context/similar": QUERY,
    "GET /v1/models": Rule(names=""),
    "GET /v1/models/{model}": Rule(names=""),
    "POST /v1/chat/completions": Rule(
        body={"model": "gaiad", "messages": [{"role": "user", "content": COMMON}]}, names=""
    ),
    "POST /v1/responses": Rule(body={"model": "gaiad", "input": COMMON}, names=""),
    "POST /v1/embeddings": Rule(body={"model": "embedder", "input": COMMON}, names=""),
    "POST /mcp": Rule(body=CALLED, names=""),
    "POST /mcp/call": Rule("packet", body={"kind": "tool", "name": "fetch", "arguments": {"id": "ID"}}),
}
MAKES = {"POST /chat", "POST /turns/start", "POST /memory/ingest_session", "POST /research/start", "POST /research"}
"""Routes that make something under whatever name they are given: no two answers are alike."""


class House:
    """A daemon, and what each tenant was told by it."""

    def __init__(self, url: str) -> None:
        self._parts = urlsplit(url)
        self.known: dict[str, dict[str, list[str]]] = {name: {} for name in TENANTS}
        self.told: dict[str, str] = {}
        self._pairs = 0
        for name in TENANTS:
            self.own(name, "approval", UNKNOWN["approval"])

    def own(self, tenant: str, kind: str, name: str) -> None:
        kept = self.known[tenant].setdefault(kind, [])
        if name not in kept:
            kept.append(name)

    def ids(self, tenant: str, kind: str) -> list[str]:
        return self.known[tenant].get(kind, [])

    def foreign(self, tenant: str, kind: str) -> list[str]:
        """Ids of others that this tenant does not have too."""
        mine = set(self.ids(tenant, kind))
        return [name for other in TENANTS if other != tenant for name in self.ids(other, kind) if name not in mine]

    def ask(self, tenant: str, route: str, name: str = "", claimed: str = "", **more: Any) -> tuple[int, str]:
        """Status and body, looked through for what is another's. `claimed` is the tenant it says, else its own."""
        known, method, path = RULES[route], *route.split()
        path = re.sub(r"\{source_id\}", "src_1", path)
        path = re.sub(r"\{\w+\}", quote(name, safe=""), path)
        said = claimed or tenant
        query = "&".join(part for part in (known.query, f"tenant={said}" if known.names == "query" else "") if part)
        body = None if known.body is None else json.dumps({**known.body, **more})
        if body is not None and known.names in ("tenant", "tenantId"):
            body = json.dumps({**json.loads(body), known.names: said})
        path, body = f"{path}?{query}".replace("ID", quote(name, safe="")), body and re.sub(r"\bID\b", name, body)
        status, answer = self.send(tenant, method, path, body, endless=known.endless)
        self.look_through(tenant, answer, name)
        return status, answer

    def send(self, tenant: str, method: str, path: str, body: str | None, *, endless: bool = False) -> tuple[int, str]:
        connection = http.client.HTTPConnection(self._parts.hostname or "", self._parts.port, timeout=120)
        try:
            headers = {"Authorization": f"Bearer token-of-{tenant}-0000", "Content-Type": "application/json"}
            if path.startswith("/mcp?"):
                headers["Accept"] = "application/json, text/event-stream"
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            return response.status, (response.readline() if endless else response.read()).decode("utf-8", "replace")
        finally:
            connection.close()

    def look_through(self, tenant: str, answer: str, said: str) -> None:
        """Nothing in it is another tenant's; ids the daemon made are from now on his who was told them first."""
        for other in TENANTS:
            assert other == tenant or CANARY[other] not in answer, f"{tenant} read {other}'s words: {answer[:2000]}"
        for found in _MADE.finditer(answer):
            name = found.group()
            if name in (said, *UNKNOWN.values()):
                continue
            owner = self.told.setdefault(name, tenant)
            assert owner == tenant, f"{tenant} was told {name}, which is {owner}'s: {answer[:2000]}"
            self.own(tenant, _KINDS[found["kind"]], name)

    # -- what tenants do

    def keep(self, tenant: str, packet_id: str, words: str) -> None:
        content = f"{CANARY[tenant]}: {COMMON}. {words} {CANARY[tenant]}."
        document = {"name": f"{packet_id}.json", "content": json.dumps(_packet(packet_id, content, CANARY[tenant]))}
        status, _ = self.ask(tenant, "POST /ingest", documents=[document])
        assert status == 200
        self.own(tenant, "packet", packet_id)

    def say(self, tenant: str, session_id: str, words: str) -> None:
        message = f"{words}: what do we know of {CANARY[tenant]} and the lantern?"
        assert self.ask(tenant, "POST /chat", session_id, message=message)[0] == 200
        self.own(tenant, "session", session_id)

    def hand_over(self, tenant: str, session_id: str, words: str) -> None:
        turns = [{"role": "user", "content": f"{words}. {CANARY[tenant]} {n}: {COMMON}."} for n in range(3)]
        assert self.ask(tenant, "POST /memory/ingest_session", session_id, turns=turns)[0] == 200
        self.own(tenant, "session", session_id)

    def report(self, tenant: str) -> None:
        results = {**OUTPUT["results"], "primary_output": f"{CANARY[tenant]}: {COMMON}"}
        status, answer = self.ask(tenant, "POST /context/outputs", results=results)
        assert status == 200
        self.own(tenant, "record", json.loads(answer)["id"])

    def run(self, tenant: str, *, by_itself: bool) -> None:
        body = {"query": f"When is the lantern of {CANARY[tenant]} lit?", "filters": {}}
        assert self.ask(tenant, "POST /research/start" if by_itself else "POST /research", **body)[0] == 200

    def next_pair(self, of: str) -> tuple[str, str]:
        """Each of the pairs in its turn; the other has an id of the kind that the first has not."""
        self._pairs += 1
        tenant, other = (TENANTS[(self._pairs + step) % len(TENANTS)] for step in (0, 1))
        if of == "session":
            self.hand_over(other, f"s-of-{self._pairs}", "Noon")
        return tenant, other

    # -- what must hold

    def read_own(self, tenant: str, route: str, name: str) -> None:
        status, _ = self.ask(tenant, route, name)
        assert status < 500 or (status == 503 and route in ("POST /generate", "POST /v1/embeddings"))

    def reach_for(self, tenant: str, route: str, name: str) -> None:
        """Another's id is answered as one that nobody has; where a name makes something, it makes it here alone."""
        foreign, of = self.ask(tenant, route, name), RULES[route].of
        if route not in MAKES:
            assert _alike(foreign, name) == _alike(self.ask(tenant, route, UNKNOWN[of]), UNKNOWN[of]), route
        elif of == "session":
            self.own(tenant, "session", name)

    def claim(self, tenant: str, route: str, other: str, name: str) -> None:
        """Who says that he is another is refused before anything else."""
        status, answer = self.ask(tenant, route, name, claimed=other)
        assert status == 403, (route, status, answer)


def _packet(packet_id: str, content: str, topic: str) -> dict[str, Any]:
    return {
        "packet_id": packet_id,
        "timestamp": "2025-11-27T09:30:00Z",
        "topic": f"On {topic}",
        "content": content,
        "tags": [topic],
    }


def _alike(answer: tuple[int, str], name: str) -> tuple[int, str]:
    """An answer without the id it was asked for, and without what differs from one moment to the next."""
    status, text = answer
    text = text.replace(name, "ID").replace(json.dumps(name)[1:-1], "ID")
    return status, _MADE.sub("MADE", _VOLATILE.sub("", text))


class Follower(threading.Thread):
    """Hears the daemon's events as one tenant, for as long as there are any."""

    def __init__(self, house: House, tenant: str) -> None:
        super().__init__(daemon=True)
        self._house = house
        self._tenant = tenant
        self._heard = bytearray()
        self._status = 0
        self.start()

    def run(self) -> None:
        parts = self._house._parts
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port)
        try:
            connection.request("GET", "/events", headers={"Authorization": f"Bearer token-of-{self._tenant}-0000"})
            response = connection.getresponse()
            self._status = response.status
            while line := response.readline():
                self._heard += line
        except OSError:  # the daemon has gone
            return
        finally:
            connection.close()

    def look_through(self) -> None:
        """Once the daemon has gone."""
        self.join(timeout=120)
        assert self._status == 200
        self._house.look_through(self._tenant, self._heard.decode("utf-8", "replace"), "")
