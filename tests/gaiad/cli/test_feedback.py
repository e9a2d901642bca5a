"""`gaiad feedback`: what is asked of the daemon and what people read."""

import json
from typing import Any

import pytest

from gaiad.cli.feedback import feedback_text
from gaiad.cli.main import program, run
from gaiad.wire.memory import FeedbackRow

ROW = {"packet_id": "tp-1", "verdict": "useful", "query": "", "at": "2025-12-01T12:00:00Z"}


def gaiad(api: Any, *arguments: str) -> int:
    return run(program, "gaiad", ["feedback", *arguments, "--home", str(api.home)])


@pytest.mark.parametrize("give", [[], ["give"]])
def test_a_verdict_needs_no_word_give(api: Any, capsys: pytest.CaptureFixture[str], give: list[str]) -> None:
    api.routes["POST /feedback"] = {**ROW, "query": "what hums"}
    assert gaiad(api, *give, "tp-1", "useful", "--query", "what hums", "--tenant", "work") == 0
    asked = {"packet_id": "tp-1", "verdict": "useful", "query": "what hums", "tenant": "work"}
    assert api.requests[-1][1] == asked
    assert capsys.readouterr().out == "[Packet: tp-1] is useful for: what hums\n"


def test_json_is_what_the_daemon_says(api: Any, capsys: pytest.CaptureFixture[str]) -> None:
    api.routes["POST /feedback"] = ROW
    assert gaiad(api, "tp-1", "useful", "--json") == 0
    assert json.loads(capsys.readouterr().out) == ROW
    api.routes["POST /feedback/list"] = {"feedback": [ROW]}
    assert gaiad(api, "list", "--limit", "3", "--json") == 0
    assert api.requests[-1][1] == {"limit": 3, "tenant": "local"}
    assert json.loads(capsys.readouterr().out) == {"feedback": [ROW]}


def test_reset_names_how_much_was_forgotten(api: Any, capsys: pytest.CaptureFixture[str]) -> None:
    api.routes["POST /feedback/reset"] = {"removed": 2}
    assert gaiad(api, "reset", "--all") == 0
    assert api.requests[-1][1] == {"packet_id": "", "query": None, "tenant": "local"}
    assert capsys.readouterr().out == "2 verdicts forgotten\n"
    assert gaiad(api, "reset", "tp-1") == 0
    assert api.requests[-1][1] == {"packet_id": "tp-1", "query": None, "tenant": "local"}
    for packet in ("tp-1", ""):
        assert gaiad(api, "reset", packet, "--query", "what hums") == 0
        assert api.requests[-1][1] == {"packet_id": packet, "query": "what hums", "tenant": "local"}


@pytest.mark.parametrize("words", [[], [""], ["tp-1", "--all"], ["--query", "what hums", "--all"]])
def test_reset_forgets_all_only_when_that_is_said(
    api: Any, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    api.routes["POST /feedback/reset"] = {"removed": 2}
    assert gaiad(api, "reset", *words) == 2
    assert api.requests == []
    assert "--all" in capsys.readouterr().err


def test_another_word_is_refused(api: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert gaiad(api, "tp-1", "great") == 2
    assert "'great' is not one of 'useful', 'not-useful'" in capsys.readouterr().err


def test_people_read_a_row_a_verdict() -> None:
    hostile = FeedbackRow(**{**ROW, "query": "what\x1b[2J hums " * 20})  # type: ignore[arg-type]
    lines = feedback_text([hostile]).splitlines()
    assert lines[0].split() == ["packet", "verdict", "said", "(UTC)", "asked"]
    assert lines[1].startswith("tp-1    useful   2025-12-01 12:00:00  what")
    assert "\x1b" not in lines[1]
    assert len(lines[1]) < 110
    assert feedback_text([]) == "no feedback has been given yet"


def test_the_last_answer_is_rated_or_the_one_named(api: Any, capsys: pytest.CaptureFixture[str]) -> None:
    turn: dict[str, Any] = {
        "turn_id": "turn_01M81EH6YVDAAAKM98JQAD4X2N",
        "session_id": "s",
        "depth": "fast",
        "stages": [],
        "votes": [],
        "status": "SUCCESS",
        "message": "What hums?",
    }
    api.routes["POST /turns/list"] = {"turns": [turn]}
    api.routes["POST /turns/rate"] = {**turn, "rating": "down"}
    assert gaiad(api, "answer", "down") == 0
    assert api.requests[-1][1] == {"turn": turn["turn_id"], "rating": "down", "tenant": "local"}
    assert capsys.readouterr().out.endswith(": thumbs down: What hums?\n")
    api.routes["POST /turns/rate"] = turn
    assert gaiad(api, "answer", "none", "turn_1") == 0
    assert api.requests[-1][1] == {"turn": "turn_1", "rating": "", "tenant": "local"}
    assert "not rated" in capsys.readouterr().out
