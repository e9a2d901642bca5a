"""`memory.exclude` on a real daemon: what a label keeps from the page is not there for it by any road, nor in what was
made of it elsewhere; the command line sees everything.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gaiad.base.errors import GaiadError
from gaiad.bench.daemon_process import BenchDaemon, running_daemon
from tests.makers.page import Answered, Page
from tests.makers.scripted_home import scripted_home

CANARY = "under the ninth stone of the quarry"
SHUT = f"The zirconium key of the vault is hidden {CANARY}."
OPEN = "The zirconium lantern of the harbour hangs in the old mill."
QUESTION = "Where is the zirconium key of the vault hidden?"
SETTINGS = """
[embedder]
kind = "none"
[memory]
gam_enabled = true
exclude = {web_chat = ["SECRET"], memory_api = ["secret"]}
[redaction]
channels = {web_chat = false}
"""
SCRIPT = rf"""
[[reply]]
match = 'Vote yes, no or abstain'
text = '{{"vote": "yes", "confidence": 0.9, "reason": "as asked"}}'
[[reply]]
match = 'Review the proposed command'
text = '{{"verdict": "accept", "reason": "as asked"}}'
[[reply]]
match = 'the plan, step by step'
text = 'VERIFY: {{"outcome": "success", "summary": "It is done, {CANARY}."}}'
[[reply]]
match = 'think step by step'
text = 'PLAN: {{"steps": ["Look {CANARY}"]}}'
[[reply]]
match = 'errors, gaps and risks'
text = 'PLAN: {{"confidence": 0.86, "steps": ["Look {CANARY}"]}}'
[[reply]]
match = 'Answer the user now[\s\S]*delete the old log'
text = '''EXECUTE: {{"argv": ["touch", "found.txt"], "why": "it was asked"}}
RESPONSE: I would look {CANARY}.'''
[[reply]]
text = "RESPONSE: {SHUT}"
"""
WISH = "Please delete the old log files in the folder."


def words(answer: Answered) -> str:
    return answer.body.decode()


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BenchDaemon]:
    home = tmp_path_factory.mktemp("excluded") / "h"
    home.mkdir(mode=0o700)
    (home / "config.toml").write_text(SETTINGS)
    with knowing(home) as running:
        yield running


@contextmanager
def knowing(home: Path) -> Iterator[BenchDaemon]:
    """A daemon that remembers a hidden page and an open one."""
    with running_daemon(home=home) as running:
        for session, words, labels in (("vault", SHUT, ["secret"]), ("harbour", OPEN, [])):
            turns = [{"role": "user", "content": words}]
            body = {"tenantId": "local", "sessionId": session, "turns": turns, "policyTags": labels}
            running.client.post("/memory/ingest_session", body)
        yield running


@pytest.fixture(scope="module")
def page(daemon: BenchDaemon) -> Page:
    return Page(daemon)


@pytest.fixture(scope="module")
def turn(daemon: BenchDaemon) -> dict[str, Any]:
    """A turn on the command line that was given the hidden page, and says it."""
    answer: dict[str, Any] = daemon.client.post("/chat", {"message": QUESTION, "session_id": "talk"})
    assert CANARY in answer["answer"]
    return answer


def test_search_and_research_find_it_on_the_command_line_alone(daemon: BenchDaemon, page: Page) -> None:
    found = daemon.client.post("/search", {"query": "zirconium"})["hits"]
    assert {hit["session_id"] for hit in found} == {"vault", "harbour"}
    hits = page.post("/search", query="zirconium").json["hits"]
    assert [hit["session_id"] for hit in hits] == ["harbour"]
    answered = daemon.client.post("/research", {"query": QUESTION})
    assert (answered["status"], CANARY in answered["answer"]) == ("SUCCESS", True)
    asked = page.post("/research", query=QUESTION)
    assert (asked.status, CANARY in words(asked)) == (200, False)
    kept = page.get(f"/research/{answered['research_id']}")
    assert (kept.status, CANARY in words(kept)) == (404, False)
    for more in ("/events", "/sources/src_001"):
        told = page.get(f"/research/{answered['research_id']}{more}")
        assert (told.status, "tp-" in words(told), QUESTION[:-1] in words(told)) == (404, False, False), more
    listed = {run["research_id"] for run in page.get("/research").json["runs"]}
    assert (asked.json["research_id"] in listed, answered["research_id"] in listed) == (True, False)
    assert page.post(f"/research/{answered['research_id']}/review").status == 404
    assert page.post(f"/research/{answered['research_id']}/forget").status == 404
    assert daemon.client.get(f"/research/{answered['research_id']}")["result"]["status"] == "SUCCESS"
    assert page.get(f"/research/{asked.json['research_id']}").status == 200


def test_what_became_of_a_hidden_file_is_told_to_the_command_line_alone(daemon: BenchDaemon, page: Page) -> None:
    document = {
        "name": "vault-plan.json",
        "content": '{"packet_id": "tp-vault-plan", "tags": ["secret"], "content": "x"}',
    }
    job = daemon.client.post("/ingest", {"documents": [document], "wait": True})["job"]["job_id"]
    (told,) = daemon.client.get(f"/jobs/{job}/outcomes")["outcomes"]
    assert (told["packet_id"], told["outcome"]) == ("tp-vault-plan", "accepted")
    assert page.get(f"/jobs/{job}/outcomes").json == {"outcomes": []}


def test_packets_and_sessions_are_as_if_it_were_not_there(daemon: BenchDaemon, page: Page) -> None:
    (pages,) = daemon.client.post("/sessions/pages", {"session_id": "vault"})["pages"]
    packet, hidden = pages["metadata"]["packet_id"], pages["id"]
    assert pages["header"]["policyTags"] == ["secret"]
    listed = words(page.post("/packets/list"))
    assert packet not in listed
    for path, body in (
        ("/packets/show", {"packet_id": packet}),
        ("/packets/verify", {"packet_ids": [packet]}),
        ("/search", {"mode": "page_id", "page_ids": [hidden]}),
    ):
        refused = page.post(path, **body)
        assert (refused.status, CANARY in words(refused)) == (404, False), path
    assert page.post("/sessions/pages", session_id="vault").json["pages"] == []
    assert page.post("/sessions/show", session_id="vault").json["turns"] == []
    assert "vault" not in words(page.post("/sessions/list"))


def test_an_answer_takes_over_the_label_of_what_it_was_given(
    daemon: BenchDaemon, page: Page, turn: dict[str, Any]
) -> None:
    said = daemon.client.post("/sessions/pages", {"session_id": "talk"})["pages"]
    assert {tuple(one["policyTags"]) for one in said} == {("secret",)}
    for path, body in (
        ("/sessions/list", {}),
        ("/sessions/show", {"session_id": "talk"}),
        ("/turns/list", {}),
        ("/cognition/list", {}),
        ("/council/log", {"limit": 1000}),
    ):
        answer = page.post(path, **body)
        assert (answer.status, CANARY in words(answer), turn["turn_id"] in words(answer)) == (200, False, False), path
    assert page.post("/turns/show", turn=turn["turn_id"]).status == 404
    assert page.post("/cognition/show", packet=turn["turn_id"]).status == 404
    assert words(page.get(f"/turns/events?turn={turn['turn_id']}")).count(CANARY) == 0


def test_a_turn_on_the_page_neither_finds_nor_remembers_it(
    daemon: BenchDaemon, page: Page, turn: dict[str, Any]
) -> None:
    for session_id in ("talk", "anew"):
        answer = page.post("/chat", message=QUESTION, session_id=session_id)
        assert (answer.status, CANARY in words(answer)) == (200, False)
    (mine,) = daemon.client.post("/sessions/pages", {"session_id": "anew", "limit": 1})["pages"]
    assert "policyTags" not in mine["header"]
    assert CANARY in daemon.client.post("/chat", {"message": QUESTION, "session_id": "cli"})["answer"]


def test_the_turn_after_an_approved_command_takes_over_the_label_too(tmp_path: Path) -> None:
    with knowing(scripted_home(tmp_path, SCRIPT, more=SETTINGS)) as daemon:
        page = Page(daemon)
        daemon.client.post("/chat", {"message": QUESTION, "session_id": "talk", "depth": "fast"})
        asked = {"message": WISH, "session_id": "talk", "depth": "full", "persona": "engineer"}
        assert daemon.client.post("/chat", asked)["status"] == "AWAITING_APPROVAL"
        (waiting,) = daemon.client.post("/approvals/list", {})["approvals"]
        for path, more in (("/approvals/approve", {"sha256": waiting["sha256"]}), ("/approvals/deny", {})):
            assert page.post(path, id=waiting["id"], **more).status == 404
        assert daemon.client.post("/approvals/list", {})["approvals"] == [waiting]
        approved = daemon.client.post("/approvals/approve", {"id": waiting["id"], "sha256": waiting["sha256"]})
        assert (approved["state"], CANARY in approved["note"]) == ("unverified", True)
        said = daemon.client.post("/sessions/pages", {"session_id": "talk"})["pages"]
        of_it = [one["header"] for one in said if one["metadata"]["packet_id"] == approved["continuation"]]
        assert of_it
        assert {tuple(one["policyTags"]) for one in of_it} == {("secret",)}
        assert CANARY not in words(page.post("/search", query=CANARY))
        assert page.post("/turns/show", turn=approved["continuation"]).status == 404
        assert page.post("/approvals/list", all=True).json["approvals"] == []


def test_a_list_takes_over_the_label_of_what_stands_far_down_in_it(daemon: BenchDaemon, page: Page) -> None:
    for number in range(12):
        said = f"The alabaster shelf {number} holds {'the ninth idol' if number == 10 else 'jars'}."
        labels = ["secret"] if number == 10 else []
        turns = [{"role": "user", "content": said}]
        body = {"tenantId": "local", "sessionId": f"shelf-{number}", "turns": turns, "policyTags": labels}
        daemon.client.post("/memory/ingest_session", body)
    asked = {"message": "List all packets about the alabaster shelf", "session_id": "shelves"}
    answer = daemon.client.post("/chat", asked)
    assert "the ninth idol" in answer["answer"]
    kept = daemon.client.post("/sessions/pages", {"session_id": "shelves"})["pages"]
    assert {tuple(one["header"]["policyTags"]) for one in kept} == {("secret",)}
    for path, body in (
        ("/search", {"query": "alabaster idol", "limit": 50}),
        ("/sessions/show", {"session_id": "shelves"}),
        ("/sessions/pages", {"session_id": "shelves"}),
    ):
        told = page.post(path, **body)
        assert (told.status, "the ninth idol" in words(told)) == (200, False), path


def test_a_briefing_has_a_list_of_its_own_and_a_reload_takes_it_up(daemon: BenchDaemon, page: Page) -> None:
    asked = {"tenantId": "local", "request": QUESTION}
    assert CANARY not in str(daemon.client.post("/memory/build_context", asked))
    settings = daemon.home / "config.toml"
    settings.write_text(SETTINGS.replace("exclude =", "exclude = {} #"))
    try:
        assert daemon.client.reload_config().changed == ["memory.exclude"]
        assert CANARY in str(daemon.client.post("/memory/build_context", asked))
        assert CANARY in words(page.post("/search", query="zirconium"))
    finally:
        settings.write_text(SETTINGS)
        daemon.client.reload_config()
    assert CANARY not in words(page.post("/search", query="zirconium"))


def test_what_is_said_later_in_a_labelled_session_has_its_labels(daemon: BenchDaemon, page: Page) -> None:
    said = {"The museum guard has a dog.": ["secret"], "The museum guard is called Alfons.": []}
    for words_said, labels in said.items():
        turns = [{"role": "user", "content": words_said}]
        body = {"tenantId": "local", "sessionId": "museum", "turns": turns, "policyTags": labels}
        made = daemon.client.post("/memory/ingest_session", body)
        assert [one["header"].get("policyTags") for one in made["pages"]] == [["secret"]]
    assert "Alfons" in str(daemon.client.post("/search", {"query": "museum guard"}))
    for path, asked in (
        ("/search", {"query": "museum guard Alfons"}),
        ("/sessions/show", {"session_id": "museum"}),
        ("/sessions/pages", {"session_id": "museum"}),
    ):
        told = page.post(path, **asked)
        assert (told.status, "Alfons" in words(told)) == (200, False), path
    briefing = {"tenantId": "local", "request": "What is the museum guard called?"}
    assert "Alfons" not in str(daemon.client.post("/memory/build_context", briefing))


def test_the_memo_of_a_session_leaves_out_what_the_memory_api_does_not_see(daemon: BenchDaemon) -> None:
    made = {}
    for said, labels in (("Vera Lund opens the gate.", []), ("Otto Berg keeps the key.", ["secret"])):
        turns = [{"role": "user", "content": said}]
        body = {"tenantId": "local", "sessionId": "gate", "turns": turns, "classification": labels}
        made = daemon.client.post("/memory/ingest_session", body)
    assert ("Vera Lund" in made["memo"], "Otto Berg" in made["memo"]) == (True, False)
    assert len(made["pages"]) == 1, "its own words the caller has"


def test_a_channel_that_there_is_not_is_refused(daemon: BenchDaemon) -> None:
    settings = daemon.home / "config.toml"
    settings.write_text(SETTINGS.replace("web_chat = [", "web = ["))
    try:
        with pytest.raises(GaiadError, match=r"memory\.exclude"):
            daemon.client.reload_config()
    finally:
        settings.write_text(SETTINGS)
