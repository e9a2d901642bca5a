"""`gaiad sessions`: what is asked of the daemon and what people read."""

import json

import pytest

from gaiad.cli.main import program, run

SESSION = {
    "session_id": "garden",
    "tenant_id": "local",
    "title": "The beds",
    "description": "",
    "agent_id": "",
    "classification": [],
    "policy_tags": [],
    "metadata": {},
    "created_at": "2025-11-30T15:45:00Z",
    "updated_at": "2025-12-01T15:45:00Z",
    "turns": 2,
    "pages": 3,
    "first_message": "Where is it?",
}
TURN = {
    "gaiad_session_turn": 1,
    "session_id": "garden",
    "turn_id": "turn_1",
    "sequence": 0,
    "started_at": "2025-12-01T15:45:00Z",
    "model": "small",
    "status": "SUCCESS",
    "messages": [{"role": "user", "content": "Where \x1b[2Jis it?"}, {"role": "assistant", "content": "In the shed."}],
}
PAGE = {
    "id": "pg_1",
    "sessionId": "garden",
    "tenantId": "local",
    "sequence": 4,
    "rawContent": "Where is it?",
    "memo": "Names: shed.",
    "header": {
        "sessionId": "garden",
        "tenantId": "local",
        "sequence": 4,
        "createdAt": "2025-12-01T15:45:00Z",
        "tags": ["beds"],
        "requestIntent": "question",
    },
}


def gaiad(api, *arguments):
    return run(program, "gaiad", [*arguments, "--home", str(api.home)])


@pytest.fixture
def routes(api):
    api.routes = {
        "POST /sessions/list": {"sessions": [SESSION]},
        "POST /sessions/show": {"session_id": "garden", "turns": [TURN]},
        "POST /sessions/pages": {"session_id": "garden", "pages": [PAGE]},
    }
    return api


def test_the_list_has_a_line_a_session(routes, capsys):
    assert gaiad(routes, "sessions", "list", "--tenant", "work", "--limit", "7") == 0
    assert routes.body("POST /sessions/list") == {"tenant": "work", "limit": 7}
    assert capsys.readouterr().out.splitlines()[1].split() == [
        "garden", "2025-12-01T15:45:00", "2", "3", "The", "beds"
    ]  # fmt: skip
    routes.routes["POST /sessions/list"] = {"sessions": [{**SESSION, "title": ""}]}
    assert gaiad(routes, "sessions", "list") == 0
    assert capsys.readouterr().out.splitlines()[1].endswith("3      Where is it?"), "one without a title"


def test_turns_are_shown_without_control_characters(routes, capsys):
    assert gaiad(routes, "sessions", "show", "garden") == 0
    shown = capsys.readouterr().out
    assert "turn_1" in shown
    assert "  Where [2Jis it?" in shown
    assert "small\n  In the shed." in shown


def test_memos_come_with_the_header_of_their_page(routes, capsys):
    assert gaiad(routes, "sessions", "show", "garden", "--memos", "--after", "3", "--limit", "9") == 0
    assert routes.body("POST /sessions/pages") == {"session_id": "garden", "tenant": "local", "after": 3, "limit": 9}
    shown = capsys.readouterr().out
    for part in ("pg_1", "beds", "question", "Names: shed."):
        assert part in shown
    assert "policy" not in shown


def test_json_is_the_daemons_answer(routes, capsys):
    for arguments, key, value in ((["list"], "sessions", SESSION), (["show", "garden", "--memos"], "pages", PAGE)):
        assert gaiad(routes, "sessions", *arguments, "--json") == 0
        assert json.loads(capsys.readouterr().out)[key] == [value]
    assert gaiad(routes, "sessions", "show", "garden", "--json") == 0
    assert json.loads(capsys.readouterr().out)["turns"][0]["turn_id"] == "turn_1"


@pytest.mark.parametrize("more", [(), ("--memos",)])
def test_an_unknown_session_is_a_failure_with_a_word(api, capsys, more):
    empty = {"session_id": "nobody", "turns": [], "pages": []}
    api.routes = {"POST /sessions/show": empty, "POST /sessions/pages": empty}
    assert gaiad(api, "sessions", "show", "nobody", *more) == 1
    said = capsys.readouterr()
    assert (said.out, said.err) == (
        "",
        "no session is called nobody; see gaiad sessions list\n",
    )
    assert gaiad(api, "--json", "sessions", "show", "nobody", *more) == 1
    assert json.loads(capsys.readouterr().out)["session_id"] == "nobody"


def test_no_page_above_a_number_is_no_failure(api):
    api.routes = {"POST /sessions/pages": {"session_id": "garden", "pages": []}}
    assert gaiad(api, "sessions", "show", "garden", "--memos", "--after", "4") == 0
