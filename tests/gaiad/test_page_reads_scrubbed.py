"""What the page reads is scrubbed by whichever road it comes, and nobody else's is (decision 16)."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gaiad.bench.daemon_process import BenchDaemon, running_daemon
from gaiad.client.connection import ServerEvent
from gaiad.intake.routes import table
from tests.makers.page import Page, events_until
from tests.makers.scripted_home import scripted_home

ADDRESS = "jane.doe@example.org"
KEPT = f"The keeper of the lantern is {ADDRESS} and nobody else. The lantern hangs in the old mill."
SCRIPT = rf"""
[[reply]]
match = 'Vote yes, no or abstain'
text = '{{"vote": "yes", "confidence": 0.9, "reason": "It is for\n{ADDRESS}"}}'
[[reply]]
match = 'Review the proposed command'
text = '{{"verdict": "accept", "reason": "as {ADDRESS} asked"}}'
[[reply]]
match = 'the plan, step by step'
text = 'VERIFY: {{"outcome": "success", "summary": "It is done."}}'
[[reply]]
match = 'think step by step'
text = 'PLAN: {{"steps": ["Ask {ADDRESS}"]}}'
[[reply]]
match = 'errors, gaps and risks'
text = 'PLAN: {{"confidence": 0.86, "steps": ["Ask {ADDRESS}"]}}'
[[reply]]
match = 'Answer the user now[\s\S]*delete the old log'
text = '''EXECUTE: {{"argv": ["touch", "{ADDRESS}.txt"], "why": "{ADDRESS} said so"}}
RESPONSE: I would do that one thing.'''
[[reply]]
text = "RESPONSE: {KEPT}"
"""
ROUTED = ("/chat", "/sessions/show", "/research")
WITHOUT_STORED_WORDS = (
    "/status", "/metrics", "/backup", "/restore", "/config", "/config/reload", "/doctor",
    "/models", "/models/load", "/models/unload", "/models/pin", "/models/probe", "/models/catalogue", "/models/use",
    "/forget/undo", "/feedback/given",
)  # fmt: skip
FOR_PROGRAMS = (
    "/v1/models", "/v1/models/{model}", "/v1/chat/completions", "/v1/responses", "/v1/embeddings", "/mcp", "/mcp/call",
)  # fmt: skip
"""Refused to the page and every other channel."""
SIGNED = ("/rfc/propose", "/rfc/review", "/rfc/vote", "/rfc/merge", "/rfc/show", "/rfc/list", "/stability")


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BenchDaemon]:
    home = scripted_home(tmp_path_factory.mktemp("scrubbed"), SCRIPT)
    with running_daemon(home=home) as running:
        yield running


@pytest.fixture(scope="module")
def turn(daemon: BenchDaemon) -> dict[str, Any]:
    """A turn on the command line, whose words are remembered as they were said."""
    answer: dict[str, Any] = daemon.client.post("/chat", {"message": "Who keeps the lantern?", "session_id": "s1"})
    assert ADDRESS in answer["answer"]
    return answer


@pytest.fixture(scope="module")
def page(daemon: BenchDaemon) -> Page:
    return Page(daemon)


def test_only_these_answers_are_not_scrubbed_as_a_whole() -> None:
    assert {one.path for one in table() if one.plain} == {*ROUTED, *WITHOUT_STORED_WORDS, *FOR_PROGRAMS, *SIGNED}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/search", {"query": "lantern keeper", "explain": True, "include_chats": True}),
        ("/packets/show", {"packet_id": "{turn}"}),
        ("/sessions/pages", {"session_id": "s1"}),
        ("/cognition/show", {"packet": "{turn}"}),
        ("/cognition/list", {"session_id": "s1"}),
        ("/turns/show", {"turn": "{turn}"}),
        ("/turns/list", {"session_id": "s1"}),
    ],
)
def test_what_is_stored_comes_scrubbed_to_the_page_and_whole_to_its_owner(
    daemon: BenchDaemon, page: Page, turn: dict[str, Any], path: str, body: dict[str, Any]
) -> None:
    asked = {key: turn["turn_id"] if value == "{turn}" else value for key, value in body.items()}
    assert ADDRESS in json.dumps(daemon.client.post(path, asked))
    answer = page.post(path, **asked)
    assert answer.status == 200
    assert ADDRESS.encode() not in answer.body
    assert b"keeper of the lantern is [e-mail]" in answer.body
    (taken,) = answer.json["redactions"]
    assert taken["kind"] == "email"
    assert taken["count"] >= 1


def test_a_page_of_a_packet_says_that_it_was_scrubbed_and_ids_hashes_and_places_stay(
    daemon: BenchDaemon, page: Page, turn: dict[str, Any]
) -> None:
    whole = daemon.client.post("/packets/show", {"packet_id": turn["turn_id"]})
    shown = page.post("/packets/show", packet_id=turn["turn_id"]).json
    assert [one.get("redacted", False) for one in shown["pages"]] == [ADDRESS in one["text"] for one in whole["pages"]]
    for one, other in zip(shown["pages"], whole["pages"], strict=True):
        assert {**one, "text": ""} == {**other, "text": ""} | ({"redacted": True} if "redacted" in one else {})
    assert shown["packet"]["sha256"] == whole["packet"]["sha256"]


def test_what_a_person_said_stays_as_it_was_said(daemon: BenchDaemon, page: Page) -> None:
    daemon.client.post("/chat", {"message": f"Is it {ADDRESS}?", "session_id": "s2"})
    (record,) = page.post("/turns/list", session_id="s2").json["turns"]
    assert record["message"] == f"Is it {ADDRESS}?"
    assert ADDRESS not in json.dumps({**record, "message": ""})


def test_an_original_is_not_for_the_page(daemon: BenchDaemon, page: Page, turn: dict[str, Any]) -> None:
    answer = page.post("/packets/export", packet_id=turn["turn_id"])
    assert answer.status == 403
    assert "gaiad packets export" in answer.json["message"]
    assert ADDRESS.encode() not in answer.body


@pytest.fixture(scope="module")
def proposed(daemon: BenchDaemon) -> None:
    """A command was proposed, agreed to and waits: the council has talked."""
    request = {"message": "Please delete the old log files in the folder.", "depth": "full", "persona": "engineer"}
    assert daemon.client.post("/chat", request)["status"] == "AWAITING_APPROVAL"


def test_a_command_that_waits_is_shown_exactly_and_what_is_said_of_it_scrubbed(
    daemon: BenchDaemon, page: Page, proposed: None
) -> None:
    (whole,) = daemon.client.post("/approvals/list", {})["approvals"]
    (shown,) = page.post("/approvals/list").json["approvals"]
    assert (shown["command"], shown["sha256"]) == (["touch", f"{ADDRESS}.txt"], whole["sha256"])
    assert ADDRESS not in json.dumps({**shown, "command": []})
    assert ADDRESS in whole["votes"][0]["reason"]


def test_the_councils_log_is_scrubbed_and_its_json_stays_json(daemon: BenchDaemon, page: Page, proposed: None) -> None:
    log = page.post("/council/log", limit=100)
    assert ADDRESS.encode() not in log.body
    votes = [one for one in log.json["messages"] if one["type"] == "VOTE"]
    assert json.loads(votes[0]["content"])["reason"] == "It is for\n[e-mail]"
    assert votes[0]["redacted"]
    whole = daemon.client.council.log("local", "", 100, heartbeats=False)
    assert [one["full_id"] for one in whole if one["type"] == "VOTE"] == [one["full_id"] for one in votes]


def test_the_hub_and_the_followed_log_tell_the_page_scrubbed(daemon: BenchDaemon, page: Page, proposed: None) -> None:
    def of_command(event: ServerEvent) -> bool:
        return event.event == "approvals"

    for path in ("/events?after=0", "/events?after=0&tenant=local"):
        told = page.follow("GET", path, of_command)
        assert any("VOTE" in json.dumps(one.data) for one in told)
        assert told[-1].data["data"]["command"] == ["touch", f"{ADDRESS}.txt"]
        told[-1].data["data"]["command"] = []
        assert ADDRESS not in json.dumps([one.data for one in told])
    told = page.follow("POST", "/council/log", lambda event: event.event == "following", limit=100)
    assert any("[e-mail]" in json.dumps(one.data) for one in told)
    assert ADDRESS not in json.dumps([one.data for one in told])
    owners = daemon.client.events(0)
    assert any(ADDRESS in json.dumps(one.data["data"].get("votes", "")) for one in events_until(owners, of_command))


# ------------------------------------------------------------------------------------------------------------ research


@pytest.fixture
def packet(daemon: BenchDaemon, make_packet: Callable[..., bytes]) -> str:
    document = {"name": "mill.xml", "content": make_packet("TP-MILL", KEPT, "The mill").decode()}
    daemon.client.post("/ingest", {"documents": [document], "wait": True})
    return "TP-MILL"


def test_the_page_follows_its_own_run_from_the_beginning_as_often_as_it_is_loaded(page: Page, packet: str) -> None:
    run = page.post("/research/start", query="Who is the keeper of the lantern in the mill?").json["research_id"]
    for _ in range(2):
        told = page.follow("GET", f"/research/{run}/events", lambda event: event.event in ("result", "error"))
        assert [told[0].event, told[-1].event] == ["started", "result"]
        assert [int(one.id) for one in told] == list(range(1, len(told) + 1))
        assert ADDRESS not in json.dumps([one.data for one in told])
        quoted = [one for one in told[-1].data["citations"] if "[e-mail]" in one["quote"]]
        assert quoted
        assert all(one["redacted"] for one in quoted)
    assert page.post(f"/research/{run}/cancel").json == {"research_id": run, "cancelled": False}


def test_kept_runs_are_shown_scrubbed(daemon: BenchDaemon, page: Page, packet: str) -> None:
    answer = daemon.client.post("/research", {"query": f"Who is the keeper of the lantern, {ADDRESS}?"})
    run = answer["research_id"]
    assert ADDRESS in json.dumps(answer)
    for path in ("/research", f"/research/{run}", f"/research/{run}/sources/src_001"):
        assert ADDRESS in json.dumps(daemon.client.get(path))
        shown = page.get(path)
        assert shown.status == 200
        assert ADDRESS.encode() not in shown.body
    shown = page.get(f"/research/{run}").json
    whole = daemon.client.get(f"/research/{run}")
    assert shown["payload"]["metadata"]["researchID"] == run
    assert shown["result"]["source_packets"] == whole["result"]["source_packets"]
    assert [one["sha256"] for one in shown["result"]["citations"]] == [
        one["sha256"] for one in whole["result"]["citations"]
    ]


def test_the_steps_of_a_streamed_run_are_scrubbed_too(page: Page, packet: str) -> None:
    question = f"Who is the keeper of the lantern, {ADDRESS}?"
    told = page.follow("POST", "/research", lambda event: event.event in ("result", "error"), query=question)
    assert told[-1].event == "result"
    assert ADDRESS not in json.dumps([one.data for one in told])


# -------------------------------------------------------------------------------------------------------- the settings


def test_what_was_taken_out_is_counted_and_logged_by_kind_alone(
    daemon: BenchDaemon, page: Page, turn: dict[str, Any]
) -> None:
    before = daemon.status()["counters"].get("redactions", 0)
    taken = page.post("/packets/show", packet_id=turn["turn_id"]).json["redactions"]
    assert daemon.status()["counters"]["redactions"] == before + sum(one["count"] for one in taken)
    lines = [line for line in Path(f"{daemon.home}.log").read_text().splitlines() if "redacted" in line]
    assert any("channel=web_chat" in line and "email=" in line for line in lines)
    assert not any(ADDRESS in line for line in lines)


def test_with_redaction_off_the_page_has_everything_as_it_is(
    daemon: BenchDaemon, page: Page, turn: dict[str, Any]
) -> None:
    settings = daemon.home / "config.toml"
    shipped = settings.read_text()
    settings.write_text(f"{shipped}\n[redaction]\nchannels = {{web_chat = false}}\n")
    daemon.client.post("/config/reload", {})
    try:
        asked = {"packet_id": turn["turn_id"]}
        assert page.post("/packets/show", **asked).json == daemon.client.post("/packets/show", asked)
        assert page.post("/packets/export", **asked).body == daemon.client.original(turn["turn_id"], "local")
    finally:
        settings.write_text(shipped)
        daemon.client.post("/config/reload", {})
    assert ADDRESS.encode() not in page.post("/packets/show", packet_id=turn["turn_id"]).body
