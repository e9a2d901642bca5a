"""`gaiad council`: what is asked of the daemon, what people read, and a log that is followed over a restart."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gaiad.bench.daemon_process import BenchDaemon
from gaiad.cli.council import council, message_line, status_text
from gaiad.cli.main import run
from gaiad.wire.council import CouncilStatus, EscalationRecord, OpenProposal, RoleState, RunningTurn

SETTINGS = ("embedder.kind=none",)


def envelope(number: int, **changed: Any) -> dict[str, Any]:
    made = {
        "msg_id": f"0000000{number}",
        "parent_id": None,
        "timestamp": f"2025-12-01T12:00:0{number}.250Z",
        "sender": "lite",
        "role": "planner",
        "type": "INFO",
        "confidence": None,
        "risk_level": None,
        "content": f"word {number}",
        "full_id": f"msg_{number}",
        "parent_full_id": "",
    }
    return made | changed


def event(number: int, kind: str = "message") -> bytes:
    data = json.dumps(envelope(number) if kind == "message" else {})
    return f"id: msg_{number}\nevent: {kind}\ndata: {data}\n\n".encode()


def gaiad(api: Any, *arguments: str) -> int:
    return run(council, "gaiad", [*arguments, "--home", str(api.home)])


def test_json_is_an_envelope_a_line_with_heartbeats(api: Any, capsys: pytest.CaptureFixture[str]) -> None:
    api.routes["POST /council/log"] = {"messages": [envelope(1), envelope(2)]}
    assert gaiad(api, "log", "--json", "--after", "msg_0", "--limit", "2", "--tenant", "work") == 0
    assert api.body("POST /council/log") == {"tenant": "work", "after": "msg_0", "limit": 2, "heartbeats": True}
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines == [envelope(1), envelope(2)]
    assert list(lines[0])[:3] == ["msg_id", "parent_id", "timestamp"]


def test_people_read_no_heartbeats_unless_they_ask(api: Any, capsys: pytest.CaptureFixture[str]) -> None:
    api.routes["POST /council/log"] = {"messages": [envelope(1)]}
    for arguments, heartbeats in (([], False), (["--heartbeats"], True), (["--json", "--no-heartbeats"], False)):
        assert gaiad(api, "log", *arguments) == 0
        assert api.body("POST /council/log")["heartbeats"] is heartbeats
    assert capsys.readouterr().out.startswith("2025-12-01 12:00:01  00000001  lite/planner        INFO        word 1\n")


def test_a_line_shows_the_first_words_and_no_escapes() -> None:
    line = message_line(envelope(1, content="\n\x1b[2J# Plan\nmore", confidence=0.5, risk_level="high"))
    assert (
        line == "2025-12-01 12:00:01  00000001  lite/planner        INFO        [2J# Plan (confidence 0.5, risk high)"
    )
    vote = json.dumps({"vote": "yes", "confidence": 0.75, "reason": "it is safe"})
    assert message_line(envelope(1, type="VOTE", content=vote)).endswith("vote yes, confidence 0.75, reason it is safe")
    decided = json.dumps({"passed": True, "reduced_quorum": False, "sha256": "0" * 64, "votes": [1], "reason": "2 yes"})
    assert message_line(envelope(1, content=decided)).endswith("INFO        passed, reason 2 yes")
    assert message_line(envelope(1, content="PLAN:\n1. look\n2. tell")).endswith("  PLAN: 1. look")
    assert len(message_line(envelope(1, content="x" * 500), 80)) == 80
    assert message_line(envelope(1, content="")).endswith("INFO")


def test_following_goes_on_after_the_last_message(api: Any, capsys: pytest.CaptureFixture[str]) -> None:
    answers: Iterator[Any] = iter(
        [
            event(1) + event(1, "following") + event(2),
            (503, {"code": "unavailable", "message": "starting"}),
            event(2, "following") + event(3),
            (403, {"code": "forbidden", "message": "no longer"}),
        ]
    )
    api.routes["POST /council/log"] = lambda _body: next(answers)
    assert gaiad(api, "log", "--json", "--follow", "--after", "msg_0") == 4
    captured = capsys.readouterr()
    assert [json.loads(line)["full_id"] for line in captured.out.splitlines()] == ["msg_1", "msg_2", "msg_3"]
    assert [body["after"] for _, body in api.requests] == ["msg_0", "msg_2", "msg_2", "msg_3"]
    assert "continuing when it answers again" in captured.err
    assert "Traceback" not in captured.err


def test_a_daemon_that_was_never_there_is_not_waited_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(council, "gaiad", ["log", "--follow", "--home", str(tmp_path)]) == 5
    assert "start one with" in capsys.readouterr().err


STATUS = CouncilStatus(
    quorum=False,
    depth="auto",
    roles=[
        RoleState(role="prime", model="big", kind="gguf", state="ready", last_heartbeat="2025-12-01T12:00:00Z",
                  can_vote=True, stages=["refine", "act"]),
        RoleState(role="lite", model="small", state="inactive", last_heartbeat="", can_vote=False, reason="no token"),
    ],
    turns=[RunningTurn(turn_id="turn_1", session_id="garden", depth="full", stage="plan", role="lite")],
    open_proposals=[OpenProposal(proposal_id="msg_1", matter="execute", proposer="prime", subject="ls\n-l",
                                 closes_at="2025-12-01T12:01:00Z", ballots=1)],
    escalations=[EscalationRecord(message_id="msg_2", raised_by="prime", to="person", triggers=["high_risk"],
                                  why="the risk is high", turn_id="turn_0", session_id="my garden")],
    initiative={"enabled": True, "open_seeds": 1, "tokens_today": 1200, "daily_tokens": 20000,
                "last_run_at": "2025-12-01T11:45:00Z", "last_outcome": "passed", "failures": 2, "waits_for": ""},
)  # fmt: skip


def test_status_says_who_votes_what_runs_and_what_waits() -> None:
    lines = status_text(STATUS).splitlines()
    assert lines[0].startswith("no quorum: only prime can vote, and two are required;")
    assert lines[2].split() == ["prime", "big", "(gguf)", "ready", "2025-12-01", "12:00:00", "yes", "refine", "act"]
    assert lines[3].split() == ["lite", "small", "inactive", "never", "no", "no", "token"]
    assert lines[4] == "taken now: turn_1 in session garden, lite at plan (full)"
    assert lines[5] == "voted on now: prime proposes (execute): ls -l; 1 ballot, open until 2025-12-01 12:01:00 UTC"
    assert lines[6] == (
        "escalation: prime needs your word: the risk is high; see gaiad turns show turn_0; "
        "what you say next in its session answers it: gaiad chat --session 'my garden'"
    )
    assert lines[7] == (
        "initiative: 1 open thought; 1,200 of 20,000 tokens today; last at 2025-12-01 11:45:00 UTC: passed; "
        "2 failures in 24 hours"
    )


def test_a_quorum_names_its_voters() -> None:
    def first(*able: str) -> str:
        roles = [
            RoleState(role=name, model="m", state="ready", last_heartbeat="", can_vote=name in able)
            for name in ("prime", "lite", "codemind")
        ]
        return status_text(msgspec.structs.replace(STATUS, quorum=True, roles=roles)).splitlines()[0]

    assert first("prime", "lite") == "quorum: prime and lite can vote; depth auto"
    assert first("prime", "lite", "codemind") == "quorum: prime, lite and codemind can vote; depth auto"


def test_the_log_is_followed_over_a_restart_of_a_real_daemon(tmp_path: Path) -> None:
    home = tmp_path / "h"
    command = [sys.executable, "-m", "gaiad.cli.main", "council", "log", "--follow", "--json", "--home", str(home)]
    daemon = BenchDaemon(home, SETTINGS)
    try:
        reader = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ)
        try:
            assert reader.stdout is not None
            before = [json.loads(reader.stdout.readline()) for _ in range(6)]
            daemon.stop()
            daemon = BenchDaemon(home, SETTINGS)
            after = [json.loads(reader.stdout.readline()) for _ in range(6)]
            stored = daemon.client.council.log("local", "", 1000, heartbeats=True)
        finally:
            reader.send_signal(signal.SIGINT)
            _, errors = reader.communicate(timeout=60)
    finally:
        daemon.stop()
    assert [one["full_id"] for one in before + after] == [one["full_id"] for one in stored][:12]
    assert reader.returncode == 130
    assert errors.count("continuing when it answers again") == 1
