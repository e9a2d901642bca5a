"""`gaiad chat` before a real daemon with three scripted roles: what a terminal, a pipe and a program are shown."""

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from gaiad.base.ids import short
from gaiad.bench.daemon_process import BenchDaemon, running_daemon
from gaiad.cli.chat_screen import Screen, WordWrap, done_line, footer_line, why_lines, working_line
from gaiad.cli.main import program, run
from tests.makers.sandboxed import open_shell

CLEAR = "\r\x1b[2K"
KEY = "AKIAIOSFODNN7EXAMPLE"
ROLES = {
    "prime": [
        ("(?s)errors, gaps and risks.*half sure", 'PLAN: {"confidence": 0.1, "steps": ["Guess half", "Be sure"]}'),
        (
            "errors, gaps and risks",
            'PLAN: {"confidence": 0.8, "steps": ["Look up the lantern", "Name its keeper"]}',
        ),
        ("Vote yes, no or abstain", '{"vote": "yes", "reason": "it only lists", "confidence": 0.9}'),
        ("die (young|out)", "RESPONSE: It began well and"),
        ("time and again", f"RESPONSE: The first words are fine, then comes {KEY} and more of it for a while."),
        (
            r"(?s)\A(?!.*interrupted for).*leak once",
            f"RESPONSE: The first words are fine, then comes {KEY} and more of it.",
        ),
        ("list the files", 'RESPONSE: I would list them.\nEXECUTE: {"argv": ["ls", "-l"], "why": "to see them"}'),
        ("think of later", "RESPONSE: Done.\nTHOUGHT_SEED: Ask about the roof in spring.\n"),
        ("", "RESPONSE: Zephyrine keeps the lantern."),
    ],
    "lite": [
        ("(?s)think step by step.*no plan", "I would rather not."),
        ("think step by step", 'PLAN: {"steps": ["Look up the lantern", "Ask why some die young"]}'),
        ("Vote yes, no or abstain", '{"vote": "yes", "reason": "asked for", "confidence": 0.7}'),
        ("die out", "RESPONSE: Nor did"),
        ("(?s)Answer the user now.*die young", "RESPONSE: Lite says it."),
        ("", '{"outcome": "continue", "reason": "fine"}'),
    ],
    "codemind": [
        ("die out", "RESPONSE: Nor this"),
        ("Review the proposed command", '{"verdict": "accept", "reason": "it reads a folder only"}'),
        ("Vote yes, no or abstain", '{"vote": "no", "reason": "not needed", "confidence": 0.6}'),
        ("(?s)the plan, step by step.*fail it", 'VERIFY: {"outcome": "fail", "summary": "it names no date"}'),
        ("", 'VERIFY: {"outcome": "success", "summary": "it names the keeper"}'),
    ],
}
NAVIGATOR = '[navigator]\ntone = "calm"\nstyle_notes = "Short."\nconstraints = []\ntools = ["shell_with_approval"]\n'


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BenchDaemon]:
    folder = tmp_path_factory.mktemp("council")
    home = folder / "h"
    (home / "registry" / "personas").mkdir(mode=0o700, parents=True)
    home.chmod(0o700)
    (home / "registry" / "personas" / "navigator.toml").write_text(NAVIGATOR)
    settings = ['[embedder]\nkind = "none"', '[roles]\nprime = "p"\nlite = "l"\ncodemind = "c"']
    for role, replies in ROLES.items():
        (folder / f"{role}.toml").write_text("".join(_reply(*said) for said in replies))
        settings.append(f'[models.known.{role[0]}]\nkind = "scripted"\npath = "{folder / role}.toml"')
    (home / "config.toml").write_text("\n".join(settings))
    with running_daemon(home=home) as running:
        yield running


def _reply(match: str, text: str) -> str:
    error = '\nerror = "worker_died"' if match in ("die (young|out)", "die out") else ""
    return f"[[reply]]\nmatch = {json.dumps(match)}\ntext = {json.dumps(text)}\nchunk_characters = 8{error}\n"


@pytest.fixture
def pipe(daemon: BenchDaemon) -> Callable[..., subprocess.CompletedProcess[str]]:
    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            _command(daemon, arguments),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            stdin=subprocess.DEVNULL,
        )

    return call


@pytest.fixture
def terminal(daemon: BenchDaemon) -> Callable[..., tuple[int, str]]:
    """Exit code, and all a terminal got, without colours."""

    def call(*arguments: str) -> tuple[int, str]:
        ours, theirs = pty.openpty()
        environment = {**os.environ, "NO_COLOR": "1", "TERM": "xterm", "COLUMNS": "200"}
        process = subprocess.Popen(
            _command(daemon, arguments), stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, env=environment
        )
        os.close(theirs)
        seen = b"".join(_all_of(ours))
        os.close(ours)
        return process.wait(60), seen.decode().replace("\r\n", "\n")

    return call


def _command(daemon: BenchDaemon, arguments: tuple[str, ...]) -> list[str]:
    return [sys.executable, "-m", "gaiad.cli.main", "chat", "--home", str(daemon.home), *arguments]


def _all_of(descriptor: int) -> Iterator[bytes]:
    while True:
        try:
            yield os.read(descriptor, 4096)
        except OSError:  # the other end is closed
            return


def left_on_screen(seen: str) -> list[str]:
    """The lines that stay when those that were taken away are gone."""
    return [line.rpartition(CLEAR)[2] for line in seen.split("\n")]


# ---------------------------------------------------------------------------------------------------------- a terminal


def test_a_terminal_shows_the_council_at_work_and_the_answer_as_it_is_written(terminal: Any) -> None:
    code, seen = terminal("--depth", "full", "--session", "term", "Who keeps the lantern?")
    assert code == 0
    lines = left_on_screen(seen)
    assert lines[:5] == [
        "Depth full: full was asked for",
        "Lite planned: 1. Look up the lantern",
        "Prime refined the plan (confidence 0.8): 1. Look up the lantern 2. Name its keeper",
        "Zephyrine keeps the lantern.",
        "CodeMind: unverified: c says success (it names the keeper), but has not shown that it can tell; "
        "gaiad models probe codemind measures it",
    ]
    assert lines[5] == (
        "note: This answer was not verified: the verifying role found no fault, but its model has not shown that it "
        "can tell right from wrong."
    )
    footer = r"Status: UNVERIFIED \| Engine: p \(scripted\) \([\d.]+ m?s(, \d+ tokens/s)?\) \| Session: term"
    assert re.fullmatch(footer, lines[6])
    for words in ("Stage 1 of 4: Lite is planning...", "Prime is refining the plan...", "CodeMind is verifying..."):
        assert re.search(rf"{re.escape(words)}(?: \d+ s)?{re.escape(CLEAR)}", seen)


def test_a_retracted_text_is_marked_on_a_terminal_and_the_next_one_begins_anew(terminal: Any) -> None:
    code, seen = terminal("--why", "leak once")
    assert code == 0, seen
    lines = left_on_screen(seen)
    assert lines[0].startswith("The first words are fine")
    assert lines[1] == "[retracted: it shows an AWS access key; disregard the text above]"
    assert lines[2] == "Zephyrine keeps the lantern."
    assert "Retracted 1 time: it shows an AWS access key" in lines
    assert KEY not in seen


def test_what_a_lost_role_had_written_is_void_and_another_answers(terminal: Any) -> None:
    code, seen = terminal("--depth", "full", "die young")
    lines = left_on_screen(seen)
    assert code == 0
    at = lines.index("It began well")
    assert lines[at + 1].startswith("Prime was lost while writing the answer: p: the script says worker_died here")
    assert lines[at + 2].startswith("[retracted: the role that acts died")
    assert lines[at + 3] == "Lite says it."


def test_a_footer_says_what_was_taken_out_and_of_which_sources() -> None:
    from gaiad.wire.chat import ChatAnswer, HistoryNote, RedactionCount

    taken = [RedactionCount(kind="email", count=2), RedactionCount(kind="name", count=1)]
    answer = ChatAnswer(
        session_id="s", turn_id="turn_1", packet_id="", blocks=[], answer="x", sources=["p1", "p2"], status="SUCCESS",
        engine="", persona="", history=HistoryNote(sought=False, why=""), timings={}, tokens={}, redactions=taken,
        redacted=["p2"],
    )  # fmt: skip
    assert why_lines(answer)[-1] == "Taken out of the answer: 2 email, 1 name; not as stored: [Packet: p2]"
    seed = {"marker": "THOUGHT_SEED", "text": "Ask about\nthe roof", "role": "prime", "manner": "log"}
    assert done_line("block", seed) == "Prime thought for later: Ask about the roof"


async def test_votes_and_what_became_of_them_are_told(terminal: Any) -> None:
    await open_shell()
    code, seen = terminal("--persona", "navigator", "--session", "vote", "Run a command and list the files")
    lines = left_on_screen(seen)
    assert code == 0
    voted = next(line for line in lines if line.startswith("Voted"))
    assert all(ballot in voted for ballot in ("Prime yes", "Lite yes", "CodeMind no", "`ls -l`"))
    assert any(line.startswith("note: `ls -l` may run when you approve it") for line in lines)
    at = next(number for number, line in enumerate(lines) if line.startswith("Waits for your approval until "))
    assert lines[at].endswith(" UTC: ls -l")
    assert re.fullmatch(r"  gaiad approve [0-9a-f]{8} --sha256 [0-9a-f]{64} --home \S+", lines[at + 1])
    assert re.fullmatch(r"  gaiad deny [0-9a-f]{8} --home \S+", lines[at + 2])


def test_escalations_and_failed_verification_are_told(terminal: Any) -> None:
    _, seen = terminal("--depth", "full", "no plan")
    assert "Lite wrote no plan\n" in seen.replace(CLEAR, "\n")
    assert "Lite turned to Prime: there is still no plan" in left_on_screen(seen)
    _, seen = terminal("--depth", "full", "think of later")
    assert "Ask about the roof" not in seen, "a THOUGHT_SEED is not for this channel (GCP 7.2)"
    code, seen = terminal("--depth", "full", "fail it")
    assert code == 0
    assert "CodeMind verified: fail: it names no date" in left_on_screen(seen)
    assert "note: Verification failed: it names no date." in seen
    assert "Status: REVERTED | " in seen


def test_when_nobody_can_answer_what_was_shown_is_void_and_the_reasons_are_told(terminal: Any, pipe: Any) -> None:
    code, seen = terminal("--depth", "fast", "die out")
    lines = left_on_screen(seen)
    assert code == 5
    assert "Prime was lost while writing the answer: p: the script says worker_died here" in lines
    at = lines.index("[disregard this: the turn ended without an answer]")
    assert lines[at - 1].startswith("CodeMind was lost")
    assert lines[at + 1].startswith("gaiad: no role could answer: ")
    done = pipe("--depth", "fast", "die out")
    assert (done.returncode, done.stdout) == (5, "")
    assert all(f"{model}: the script says worker_died" in done.stderr for model in "plc")


# -------------------------------------------------------------------------------------------------- pipes and programs


def test_a_pipe_gets_the_final_answer_alone(pipe: Any) -> None:
    done = pipe("--why", "leak once")
    assert (done.returncode, done.stdout) == (0, "Zephyrine keeps the lantern.\n")
    assert "Retracted 1 time: it shows an AWS access key" in done.stderr
    assert "Depth: fast (a short question without risk)" in done.stderr
    assert CLEAR not in done.stderr
    assert "planning" not in done.stderr


def test_without_an_answer_a_pipe_stays_empty_and_the_reason_and_exit_code_say_why(pipe: Any) -> None:
    done = pipe("time and again")
    assert (done.returncode, done.stdout) == (1, "")
    first = done.stderr.splitlines()[0]
    assert first.startswith("gaiad: The council asks you: ")
    assert first.endswith(
        "interrupted 3 times in a row, the last time for this: it shows an AWS access key. Say how to continue."
    )
    assert "Sources" not in done.stderr


def test_a_terminal_exits_with_1_too(terminal: Any) -> None:
    code, seen = terminal("--depth", "full", "no plan")
    assert code == 1
    assert "The council asks you: there is still no plan. Say how to continue." in left_on_screen(seen)


def test_who_is_asked_about_a_plan_is_shown_it(terminal: Any, pipe: Any) -> None:
    asked = "The council asks you: it is not sure of its plan (confidence 0.1 is below 0.3). Say how to continue."
    plan = "Plan: 1. Guess half 2. Be sure confidence=0.1"
    _, seen = terminal("--depth", "full", "half sure")
    lines = left_on_screen(seen)
    at = lines.index(asked)
    assert lines[at - 1 : at + 2] == ["Prime is not sure of the plan", asked, plan]
    done = pipe("--depth", "full", "half sure")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[:2] == [f"gaiad: {asked}", plan]


async def test_json_is_one_object_with_depth_votes_and_escalations(pipe: Any) -> None:
    await open_shell()
    done = pipe("--json", "--persona", "navigator", "--session", "json", "Run a command and list the files")
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 1)
    answer = json.loads(done.stdout)
    assert (answer["depth"], answer["answered"], answer["status"]) == ("full", True, "AWAITING_APPROVAL")
    assert "something is to be done" in answer["depth_why"]
    (vote,) = answer["votes"]
    assert {one["role"]: one["vote"] for one in vote["ballots"]} == {"prime": "yes", "lite": "yes", "codemind": "no"}
    assert done.stderr == ""
    done = pipe("--json", "--depth", "full", "no plan")
    assert done.returncode == 1
    answer = json.loads(done.stdout)
    assert (answer["answered"], answer["status"], answer["sources"]) == (False, "ASKS_PERSON", [])
    assert [(one["raised_by"], one["to"]) for one in answer["escalations"]] == [("lite", "prime"), ("prime", "person")]


def test_who_answered_in_whose_place_is_noted(pipe: Any) -> None:
    done = pipe("--depth", "full", "die young")
    assert (done.returncode, done.stdout) == (0, "Lite says it.\n")
    assert "note: lite answered in place of prime: p: the script says worker_died here" in done.stderr


def test_a_daemon_that_goes_away_in_the_middle_is_said_to_have_gone(api: Any, capsys: Any) -> None:
    api.routes["POST /chat"] = b'event: turn\ndata: {"session_id": "s", "turn_id": "turn_1"}\n\n'
    assert run(program, "gaiad", ["chat", "hello", "--home", str(api.home)]) == 5
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("gaiad: the daemon stopped during the turn; see gaiad turns list")


def test_a_depth_that_is_none_is_a_wrong_call(pipe: Any) -> None:
    done = pipe("--depth", "deep", "hello")
    assert (done.returncode, done.stdout) == (2, "")
    assert "'auto', 'fast', 'full'" in done.stderr


# --------------------------------------------------------------------------------------------------------------- lines


def test_lines_are_one_line_and_harmless_for_a_terminal() -> None:
    said = done_line("block", {"marker": "VERIFY", "role": "codemind", "text": "fail: it\x1b[2J says\ntwo lines"})
    assert said == "CodeMind verified: fail: it[2J says two lines"
    assert working_line("searching", {"iteration": 2, "query": "the \x1b[2Jroof"}) == "Searching again: the [2Jroof"
    assert working_line("searching", {"iteration": 1, "query": "x"}) == "Searching Transmission Packets..."
    assert done_line("delta", {"text": "x"}) == working_line("delta", {"text": "x"}) == ""


def test_the_council_at_work_takes_one_row_whatever_is_written_with(capsys: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    for words in ("日本語の計画を立てる係です", "a plan of more than twenty letters", "short"):
        Screen().show("block", {"marker": "VERIFY", "role": "lite", "text": words})
    told = re.sub(r"\x1b\[\d*m", "", capsys.readouterr().err).splitlines()
    assert told == ["Lite verified: 日…", "Lite verified: a p…", "Lite verified: sho…"]


def test_a_command_that_nobody_voted_on_says_so() -> None:
    vote = {"ballots": [], "reason": "codemind rejected it in review: it deletes", "subject": "`rm x`"}
    assert done_line("vote", vote) == "Not voted on: codemind rejected it in review: it deletes: `rm x`"


def test_a_footer_names_a_missing_quorum_and_an_uncommon_status() -> None:
    from gaiad.wire.chat import ChatAnswer, HistoryNote

    answer = ChatAnswer(
        session_id="s", turn_id="turn_1", packet_id="", blocks=[], answer="x", sources=[], status="UNVERIFIED",
        engine="", persona="", history=HistoryNote(sought=False, why=""), timings={}, tokens={}, depth="full",
        depth_why="the risk is high", reduced_quorum=True,
    )  # fmt: skip
    assert why_lines(answer) == [f"Depth: full (the risk is high) | reduced_quorum | Turn: {short('turn_1')}"]
    assert footer_line(answer) == "Status: UNVERIFIED | Engine: none (0 ms) | Session: s"


def test_words_wrap_as_they_come_however_the_text_is_cut() -> None:
    code = "\n```\nsome code that is far too long\n```\nx" + "y" * 30
    text = f"The keeper of the lantern  waters\n  - beds of red roses{code}"
    wrapped = f"The keeper of the\nlantern  waters\n  - beds of red\n  roses{code}"
    for size in (1, 3, 7, 200):
        words = WordWrap()
        shown = [words.feed(text[place : place + size], 18) for place in range(0, len(text), size)]
        assert "".join([*shown, words.finish(18)]) == wrapped
