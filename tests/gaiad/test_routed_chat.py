"""What a daemon's turns say on each channel, what it remembers of them, and how other settings take force."""

import json
from collections.abc import Iterator
from hashlib import sha256
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from gaiad.base.errors import ConfigError, Unavailable
from gaiad.bench.daemon_process import BenchDaemon, running_daemon
from gaiad.wire.chat import ChatRequest
from tests.makers.scripted_home import scripted_settings

CONFIG = """
[initiative]
enabled = false
"""
SCRIPT = """
[[reply]]
match = "think step by step"
text = 'PLAN: {"steps": ["Ask keeper@garden.org"]}'
[[reply]]
match = "errors, gaps and risks"
text = 'PLAN: {"confidence": 0.8, "steps": ["Ask keeper@garden.org"]}'
[[reply]]
match = "the plan, step by step"
text = 'VERIFY: {"outcome": "success", "summary": "it is keeper@garden.org"}'
[[reply]]
text = "RESPONSE: The keeper is Jane Doe, keeper@garden.org.\\nTHOUGHT_SEED: Ask what keeper@garden.org grows."
"""
WHOLE = "The keeper is Jane Doe, keeper@garden.org."
SCRUBBED = "The keeper is Jane Doe, [e-mail]."


class House:
    """A daemon with scripted models, and its settings."""

    def __init__(self, home: Path, daemon: BenchDaemon) -> None:
        self.home, self.client = home, daemon.client

    def write(self, *sections: str) -> None:
        (self.home / "config.toml").write_text(
            scripted_settings(self.home / "script.toml") + CONFIG + "\n".join(sections), encoding="utf-8"
        )

    def say(self, channel: str, depth: str = "fast", key: str = "") -> list[tuple[str, Any]]:
        request: Any = {"session_id": channel, "depth": depth, "channel": channel, "idempotency_key": key}
        asked = ChatRequest(message="Who is the keeper?", **request)
        return [(event.event, event.data) for event in self.client.chat_events(asked)]

    def log(self) -> str:
        return (self.home.parent / f"{self.home.name}.log").read_text(encoding="utf-8")


class Browser:
    """Let in by the one-time link; asks as the page does."""

    def __init__(self, house: House) -> None:
        link = urlsplit(house.client.post("/web/link", {})["url"])
        self._connection = HTTPConnection(str(link.hostname), link.port or 80, timeout=60)
        self._connection.request("GET", f"{link.path}?{link.query}")
        answer = self._connection.getresponse()
        answer.read()
        cookie = str(answer.getheader("Set-Cookie")).partition(";")[0]
        self._headers = {"Cookie": cookie, "X-Gaiad": "page", "Origin": f"http://{link.netloc}"}

    def close(self) -> None:
        self._connection.close()

    def post(self, path: str, body: Any) -> Any:
        self._connection.request("POST", path, json.dumps(body), {**self._headers, "Content-Type": "application/json"})
        return json.loads(self._connection.getresponse().read())


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    home = tmp_path / "h"
    home.mkdir(mode=0o700)
    (home / "script.toml").write_text(SCRIPT)
    (home / "config.toml").write_text(scripted_settings(home / "script.toml") + CONFIG)
    with running_daemon("embedder.kind=none", home=home) as daemon:
        yield House(home, daemon)


def heard(events: list[tuple[str, Any]]) -> str:
    return "".join(data["text"] for name, data in events if name == "delta")


def shown_blocks(events: list[tuple[str, Any]]) -> list[tuple[str, str]]:
    return [(data["marker"], data["manner"]) for name, data in events if name == "block"]


def test_each_channel_hears_what_it_may_and_the_memory_keeps_it_whole(house: House) -> None:
    page = house.say("web_chat", "full", "k1")
    assert "keeper@garden.org" not in str(page)
    assert heard(page) == page[-1][1]["answer"] == SCRUBBED
    assert page[-1][1]["redactions"] == [{"kind": "email", "count": 1}]
    assert shown_blocks(page) == [("VERIFY", "show")]
    again = house.say("web_chat", "full", "k1")
    assert [name for name, _ in again] == ["done"], "the same key is the same turn"
    assert (again[-1][1]["answer"], again[-1][1]["turn_id"]) == (SCRUBBED, page[-1][1]["turn_id"])

    terminal = house.say("cli_chat", "full")
    assert heard(terminal) == terminal[-1][1]["answer"] == WHOLE
    assert shown_blocks(terminal) == [("PLAN", "log"), ("PLAN", "log"), ("VERIFY", "show")]
    assert [block["marker"] for block in terminal[-1][1]["blocks"]] == ["PLAN", "RESPONSE", "VERIFY"]

    turns = house.client.post("/sessions/show", {"session_id": "web_chat"})["turns"]
    assert turns[0]["messages"][-1]["content"] == WHOLE
    assert {"marker": "THOUGHT_SEED", "text": "Ask what keeper@garden.org grows.", "role": "prime"} in turns[0][
        "blocks"
    ]
    assert "redacted" in house.log()
    assert "email=" in house.log()
    assert "keeper@garden.org" not in house.log()
    assert house.client.get("/status")["counters"]["redactions"] >= 1


def test_a_browser_gets_it_scrubbed_whatever_it_says_it_is(house: House) -> None:
    browser = Browser(house)
    request = {"message": "Who is the keeper?", "session_id": "s", "depth": "fast", "channel": "cli_chat"}
    answer = browser.post("/chat", request)
    assert (answer["answer"], answer["redactions"]) == (SCRUBBED, [{"kind": "email", "count": 1}])
    turn = browser.post("/sessions/show", {"session_id": "s"})["turns"][0]
    assert [message["content"] for message in turn["messages"]] == ["Who is the keeper?", SCRUBBED]
    assert [block["marker"] for block in turn["blocks"]] == ["RESPONSE"]
    found = browser.post("/research", {"query": "Who did you say is the keeper?"})
    assert "keeper@garden.org" not in found["answer"]
    quoted = [one for one in found["citations"] if "[e-mail]" in one["quote"]]
    assert quoted
    assert all(one["redacted"] for one in quoted)
    stored = [sha256(text.encode()).hexdigest() for text in (WHOLE, "Ask what keeper@garden.org grows.")]
    assert {one["sha256"] for one in quoted} <= set(stored)
    browser.close()


def test_other_routes_and_lists_take_force_at_once_and_faulty_ones_do_not(house: House) -> None:
    house.write(
        '[router]\noverrides = {cli_chat = {VERIFY = "off"}, web_chat = {PLAN = "log"}, '
        'memory = {THOUGHT_SEED = "off"}}',
        '[redaction]\nnames = ["Jane Doe"]\nchannels = {web_chat = false, cli_chat = ["pii"]}',
    )
    report = house.client.post("/config/reload", {})
    assert report["restart_needed"] == []
    assert set(report["changed"]) == {"router.overrides", "redaction.names", "redaction.channels"}
    terminal = house.say("cli_chat", "full")
    assert heard(terminal) == "The keeper is [name], [e-mail]."
    assert shown_blocks(terminal) == [("PLAN", "log"), ("PLAN", "log")]
    assert heard(house.say("web_chat")) == WHOLE
    turns = house.client.post("/sessions/show", {"session_id": "cli_chat"})["turns"]
    assert [block["marker"] for block in turns[0]["blocks"]] == ["PLAN", "RESPONSE", "VERIFY"]
    house.write('[router]\noverrides = {cli_chat = {EXECUTE = "show"}}')
    with pytest.raises(ConfigError, match=r"router\.overrides\.cli_chat\.EXECUTE: only commands go to the shell"):
        house.client.post("/config/reload", {})
    assert heard(house.say("cli_chat")) == "The keeper is [name], [e-mail]."


def test_a_start_with_a_faulty_route_ends_with_the_words(tmp_path: Path) -> None:
    with (
        pytest.raises(Unavailable, match=r"redaction\.channels\.memory: memory, council"),
        running_daemon("embedder.kind=none", "redaction.channels={memory=true}", home=tmp_path / "h"),
    ):
        pass
