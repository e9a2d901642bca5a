"""`gaiad turns`: what is asked of the daemon, and a turn told as a person would tell it."""

import json
from typing import Any

import msgspec
import pytest

from gaiad.base.ids import short
from gaiad.cli.chat_screen import Screen, footer_line, why_lines
from gaiad.cli.main import run
from gaiad.cli.sessions import turn_text, turns
from gaiad.wire.chat import Also, ChatAnswer
from gaiad.wire.council import BallotRecord, EscalationRecord, HistoryNote, Receipt, StageRecord, TurnRecord, VoteRecord

TURN = TurnRecord(
    turn_id="turn_01JDXR5A4M3C2V7Y8Z9K6T1QWE",
    session_id="garden",
    depth="full",
    depth_why="an action is asked for",
    status="SUCCESS",
    end_why="it was verified",
    message="Water the \x1b[2Jbeds",
    persona="brief",
    risk_level="high",
    reduced_quorum=True,
    started_at="2025-12-01T12:00:00.125Z",
    ended_at="2025-12-01T12:00:09Z",
    stages=[
        StageRecord(stage="plan", role="prime", stands_in_for="lite", packet_id="cog_1", tokens=64, cached_tokens=1800,
                    prompt_tokens=2000, ms=1234.0, verdict="ok", confidence=0.8, notes=["a note"]),
        StageRecord(stage="verify", role="codemind", packet_id="", tokens=0, cached_tokens=0, ms=12.4, verdict="lost",
                    why="every answer is verified"),
    ],
    votes=[
        VoteRecord(proposal_id="msg_1", matter="execute", subject="open the tap\nfor an hour", passed=True,
                   may_proceed=True,
                   reduced_quorum=False, reason="passed by majority",
                   ballots=[BallotRecord(role="prime", vote="yes", confidence=0.9, reason="it is dry"),
                            BallotRecord(role="lite", vote="no", confidence=0.5, reason="rain", uncounted="late")]),
    ],
    escalations=[EscalationRecord(message_id="msg_2", raised_by="lite", to="person", triggers=[], why="the risk")],
    blocks=[{"marker": "RESPONSE", "text": "The beds\x1b[2J are watered."}],
    notes=["nobody knows"],
)  # fmt: skip

STORY = f"""\
turn {short(TURN.turn_id)} ({TURN.turn_id}) in session garden, 2025-12-01 12:00:00 to 2025-12-01 12:00:09 UTC
You said (persona brief): "Water the [2Jbeds"
It was taken at full depth (an action is asked for). Its risk was high. There was no quorum.
Prime for Lite planned: ok, confidence 0.8, 1.2 s, 2,000 tokens read (1,800 of them from the cache), \
64 written; packet {short("cog_1")}
    a note
CodeMind verified (every answer is verified): lost, 12 ms
Voted on (execute): open the tap
    for an hour
    Prime  yes  0.90  it is dry
    Lite   no   0.50  rain (not counted: late)
    passed by majority
Lite turned to you: the risk
Note: nobody knows
It ended as SUCCESS: it was verified.
--- RESPONSE ---
The beds[2J are watered."""


def gaiad(api: Any, *arguments: str) -> int:
    return run(turns, "gaiad", [*arguments, "--home", str(api.home)])


def test_a_turn_is_told_from_what_was_said_to_how_it_ended() -> None:
    assert turn_text(TURN) == STORY


def test_a_turn_that_found_nothing_ends_so_without_another_word() -> None:
    told = turn_text(msgspec.structs.replace(TURN, status="NOT_FOUND", end_why="there is an answer"))
    assert "\nIt ended as NOT_FOUND.\n" in told


def test_how_it_looked_back_is_told_with_the_run_that_shows_it() -> None:
    note = HistoryNote(sought=True, why="speaks of what was said", status="PARTIAL", research_id="res_1")
    line = "Looked back (speaks of what was said): PARTIAL; gaiad research show res_1"
    told = turn_text(msgspec.structs.replace(TURN, history=note)).splitlines()
    assert told[3] == line
    assert why_lines(answer_with(note)) == [line]


def test_looking_back_in_vain_says_so_and_what_was_only_read_is_no_source() -> None:
    vain = answer_with(HistoryNote(sought=True, why="speaks of: keep"))
    assert why_lines(vain) == ["Looked back (speaks of: keep): nothing of use"]
    read = answer_with(HistoryNote(sought=True, why="w", status="SUCCESS", packets=["tp-1", "tp-2"]))
    assert footer_line(read).startswith("Read, but not cited: [Packet: tp-1] [Packet: tp-2] | Engine: ")
    cited = msgspec.structs.replace(read, sources=["tp-1"])
    assert footer_line(cited) == "Sources: [Packet: tp-1] | Engine: none (0 ms) | Session: s"
    assert why_lines(cited) == ["Looked back (w): SUCCESS"]


def answer_with(history: HistoryNote) -> ChatAnswer:
    return ChatAnswer(
        session_id="s", turn_id="turn_1", packet_id="", blocks=[], answer="x", sources=[], status="SUCCESS",
        engine="", persona="", history=history, timings={}, tokens={},
    )  # fmt: skip


def test_what_was_sent_outside_is_told_with_what_became_of_it() -> None:
    sent = Receipt(
        channel="discord_chat", address="5", block=0, marker="RESPONSE", pieces=2, state="delivered",
        at="2025-12-01T12:00:10Z", attempts=2, outside_ids=["71", "72"],
    )  # fmt: skip
    waits = msgspec.structs.replace(sent, marker="VERIFY", pieces=1, state="waiting", attempts=3, reason="no\x1b way")
    fresh = msgspec.structs.replace(waits, attempts=0, reason="")
    refused = msgspec.structs.replace(sent, pieces=1, state="refused", reason="Missing Permissions")
    told = turn_text(msgspec.structs.replace(TURN, deliveries=[sent, waits, fresh, refused]))
    assert "\nRESPONSE in 2 messages was delivered to Discord at 2025-12-01 12:00:10 (message 71, 72).\n" in told
    assert "\nVERIFY waits for Discord, tried 3 times: no way.\n" in told
    assert "\nVERIFY waits for Discord.\n" in told
    assert "\nRESPONSE was not taken by Discord: Missing Permissions.\n" in told


def test_a_turn_that_runs_or_stays_bare_is_told_too() -> None:
    bare = TurnRecord(turn_id="turn_1", session_id="", depth="fast", stages=[], votes=[], status="RUNNING")
    assert turn_text(bare).splitlines() == [
        f"turn {short('turn_1')} (turn_1)",
        "It was taken at fast depth.",
        "It is still being taken.",
    ]


def test_json_has_the_fields_of_the_contract(api: Any, capsys: pytest.CaptureFixture[str]) -> None:
    api.routes["POST /turns/show"] = msgspec.to_builtins(TURN)
    assert gaiad(api, "show", "--json", "turn_1", "--tenant", "work") == 0
    assert api.body("POST /turns/show") == {"turn": "turn_1", "tenant": "work"}
    found = json.loads(capsys.readouterr().out)
    assert {"turn_id", "depth", "stages", "votes", "status"} <= set(found)
    assert list(found["stages"][0])[:7] == ["stage", "role", "packet_id", "tokens", "cached_tokens", "ms", "verdict"]


def test_turns_are_listed_a_row_each(api: Any, capsys: pytest.CaptureFixture[str]) -> None:
    api.routes["POST /turns/list"] = {"turns": [msgspec.to_builtins(TURN)]}
    assert gaiad(api, "list", "--session", "garden", "--limit", "3") == 0
    assert api.body("POST /turns/list") == {"tenant": "local", "limit": 3, "session_id": "garden"}
    row = capsys.readouterr().out.splitlines()[1]
    assert row.split()[:7] == [short(TURN.turn_id), "2025-12-01", "12:00:00", "full", "plan", "verify", "SUCCESS"]
    assert "\x1b" not in row
    api.routes["POST /turns/list"] = {"turns": []}
    assert gaiad(api, "list") == 0
    assert capsys.readouterr().out == "no turns yet\n"


def test_an_unknown_turn_exits_3(api: Any, capsys: pytest.CaptureFixture[str]) -> None:
    api.routes["POST /turns/show"] = (404, {"code": "not_found", "message": "no turn is called 'x'"})
    assert gaiad(api, "show", "x") == 3
    assert capsys.readouterr().err == "gaiad: no turn is called 'x'\n"


def test_an_earlier_packet_that_bears_on_it_is_named_under_the_answer(capsys: pytest.CaptureFixture[str]) -> None:
    also = Also(
        packet_id="tp-7", title="Bearings", words="In [Packet: tp-7] we also covered\nBearings\x1b[2J", score=0.7
    )
    Screen().finish(msgspec.structs.replace(answer_with(HistoryNote(sought=False, why="")), also=also))
    assert capsys.readouterr().err.splitlines() == [
        "In [Packet: tp-7] we also covered Bearings[2J",
        "Engine: none (0 ms) | Session: s",
    ]
