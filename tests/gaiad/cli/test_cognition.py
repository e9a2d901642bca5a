"""`gaiad cognition`: what people read of a packet, against a small server that answers as the daemon would."""

import pytest

from gaiad.cli.main import program, run

FIELDS = [
    {"field": "history", "limit": 2000, "original_tokens": 5400, "tokens": 1980, "method": "lite"},
    {"field": "user_prompt", "limit": 900, "original_tokens": 12, "tokens": 12, "method": "whole"},
]
RENDERING = {
    "packet_id": "1ab94c2f",
    "mtu": 4096,
    "model": "abc",
    "tokenizer": "abc",
    "fields": FIELDS,
    "total_tokens": 1992,
    "reserve_tokens": 512,
    "dropped": ["turn_A", "turn_B"],
    "prompt": "What \x1b[2Jnow?",
    "notes": ["a turn would ask small for a summary; a dry run asks no model"],
}
RECORD = {
    "packet": {
        "packet_id": "1ab94c2f",
        "full_id": "cog_X",
        "turn_id": "turn_C",
        "timestamp": "2025-12-01T15:45:00Z",
        "role": "prime",
        "user_prompt": "What now?",
    },
    "manifest": {
        "mtu": 4096,
        "model": "abc",
        "total_tokens": 1992,
        "prompt_sha256": "ff",
        "fields": FIELDS,
        "dropped": ["turn_A", "turn_B"],
    },
    "request": {},
    "reply": {},
    "session_id": "garden",
    "failure": "the caller left",
}


@pytest.fixture
def shown(api, capsys):
    api.routes = {"POST /cognition/render": RENDERING, "POST /cognition/show": RECORD}

    def show(*arguments):
        assert run(program, "gaiad", ["cognition", *arguments, "--home", str(api.home)]) == 0
        return capsys.readouterr().out

    return show


@pytest.mark.parametrize("arguments", [("show", "1ab94c2f"), ("render", "What now?")])
def test_a_field_is_shown_with_what_it_had_before_and_what_was_dropped(shown, arguments):
    lines = shown(*arguments).splitlines()
    (head,) = [line.split() for line in lines if line.startswith("field")]
    assert head == ["field", "limit", "original", "tokens", "method"]
    (history,) = [line.split() for line in lines if line.startswith("history")]
    assert history == ["history", "2,000", "5,400", "1,980", "lite"]
    assert "dropped: turn_A, turn_B" in lines


def test_a_render_tells_what_a_turn_would_have_asked(shown):
    text = shown("render", "What now?")
    assert "note: a turn would ask small for a summary; a dry run asks no model" in text.splitlines()
    assert "What [2Jnow?" in text


def test_nothing_dropped_is_not_mentioned(shown, api):
    api.routes["POST /cognition/show"] = RECORD | {"manifest": RECORD["manifest"] | {"dropped": []}}
    assert "dropped" not in shown("show", "1ab94c2f")


def test_a_replay_by_another_model_is_not_said_to_differ_and_exits_1(api, capsys):
    found = {"packet_id": "cog_X", "prompt_sha256": "ff", "stored_sha256": "ee", "prompt": "x", "same_model": False}
    api.routes = {"POST /cognition/replay": found | {"same_prompt": None, "model": "small"}}
    assert run(program, "gaiad", ["cognition", "replay", "1ab94c2f", "--home", str(api.home)]) == 1
    said = capsys.readouterr().out
    assert "cog_X: the prompt cannot be compared (ff)" in said
    assert "its model is no longer configured; small, which now has its role, rendered the prompt" in said
    assert "NOT" not in said


def test_a_render_asks_for_a_depth_and_says_whose_packet_it_is(shown, api):
    first = {"depth": "full", "depth_why": "it was asked for", "stage": "plan", "role": "lite"}
    api.routes["POST /cognition/render"] = RENDERING | first
    text = shown("render", "--depth", "full", "--max-tokens", "99", "What now?")
    assert text.splitlines()[0] == "depth full (it was asked for): plan by lite"
    ((_, asked),) = [(route, body) for route, body in api.requests if route == "POST /cognition/render"]
    assert (asked["depth"], asked["max_tokens"]) == ("full", 99)
