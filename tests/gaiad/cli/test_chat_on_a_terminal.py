"""`gaiad chat` as a conversation, on a real pseudo-terminal before a real daemon with scripted roles."""

import json
import re
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gaiad.bench.daemon_process import BenchDaemon, running_daemon
from gaiad.client.client import Client
from tests.makers.sandboxed import open_shell
from tests.makers.terminal import Terminal

KEY = "AKIAIOSFODNN7EXAMPLE"
SLOW = "RESPONSE: " + " ".join(f"word{number}" for number in range(400))
PRIME = [
    ("errors, gaps and risks", 'PLAN: {"confidence": 0.8, "steps": ["Look up the lantern", "Name her"]}', 0.0),
    ("Vote yes, no or abstain", '{"vote": "yes", "reason": "it only lists", "confidence": 0.9}', 0.0),
    ("(?s)take your time(?!.*Who keeps)", SLOW, 20.0),
    ("(?s)a little time(?!.*And then)", "RESPONSE: " + " ".join(f"piece{number}" for number in range(30)), 40.0),
    ("(?s)say late(?!.*Who keeps)", "RESPONSE: Late.", 60_000.0),
    ("escape", "RESPONSE: Plain \x1b]0;owned\x07 and \x1b[2J and \x9b31m and \x08\x08 and \r over.", 0.0),
    (
        "(?s)\\A(?!.*interrupted for).*leak once",
        f"RESPONSE: The first words are fine, then comes {KEY} and more of it.",
        0.0,
    ),
    ("list the files", 'RESPONSE: I would list them.\nEXECUTE: {"argv": ["ls", "-l"], "why": "to see them"}', 0.0),
    ("that we said keeps", "RESPONSE: Zephyrine keeps the lantern.", 0.0),
    ("decide about the lantern", "RESPONSE: Zephyrine keeps it [Packet: TP-7].", 0.0),
    ("", "RESPONSE: Zephyrine keeps the lantern.", 0.0),
]
OTHERS = [
    ("think step by step", 'PLAN: {"steps": ["Look up the lantern"]}', 0.0),
    ("Review the proposed command", '{"verdict": "accept", "reason": "it reads a folder only"}', 0.0),
    ("Vote yes, no or abstain", '{"vote": "yes", "reason": "asked for", "confidence": 0.7}', 0.0),
    ("the plan, step by step", 'VERIFY: {"outcome": "success", "summary": "it names the keeper"}', 0.0),
    ("", '{"outcome": "continue", "reason": "fine"}', 0.0),
]
NAVIGATOR = '[navigator]\ntone = "calm"\nstyle_notes = "Short."\nconstraints = []\ntools = ["shell_with_approval"]\n'


def make_home(folder: Path) -> Path:
    home = folder / "h"
    (home / "registry" / "personas").mkdir(mode=0o700, parents=True)
    home.chmod(0o700)
    (home / "registry" / "personas" / "navigator.toml").write_text(NAVIGATOR)
    settings = ['[embedder]\nkind = "none"', '[roles]\nprime = "p"\nlite = "o"\ncodemind = "c"']
    for name, replies in (("p", PRIME), ("o", OTHERS), ("c", OTHERS)):
        (folder / f"{name}.toml").write_text("".join(_reply(*said) for said in replies))
        settings.append(f'[models.known.{name}]\nkind = "scripted"\npath = "{folder / name}.toml"')
    (home / "config.toml").write_text("\n".join(settings))
    return home


def _reply(match: str, text: str, delay_ms: float) -> str:
    values = f"match = {json.dumps(match)}\ntext = {json.dumps(text)}\nchunk_characters = 8\ndelay_ms = {delay_ms}"
    return f"[[reply]]\n{values}\n"


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BenchDaemon]:
    with running_daemon(home=make_home(tmp_path_factory.mktemp("talk"))) as running:
        yield running


@pytest.fixture
def client(daemon: BenchDaemon) -> Client:
    return daemon.client


@pytest.fixture
def talk(daemon: BenchDaemon) -> Iterator[Callable[..., Terminal]]:
    opened: list[Terminal] = []

    def start(*arguments: str, home: Path = daemon.home, **settings: Any) -> Terminal:
        opened.append(Terminal(command(home, *arguments), **settings))
        return opened[-1]

    yield start
    for terminal in opened:
        with terminal:
            pass


def command(home: Path, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "gaiad.cli.main", "chat", "--home", str(home), *arguments]


def said(client: Client, session: str) -> list[str]:
    return [turn.user for turn in client.session_turns(session, "local", 50)]


# ------------------------------------------------------------------------------------------------- talking


def test_messages_are_answered_in_one_session_and_kept_for_the_arrow_keys(talk: Any, daemon: BenchDaemon) -> None:
    here = talk("--session", "two")
    here.wait("/help lists commands and keys, Ctrl-D leaves.")
    here.wait("No session is called two yet; it begins with your next message.")
    here.say("Who keeps the lantern?")
    here.wait("\nZephyrine keeps the lantern.\n")
    assert "Session: two" in here.wait("Engine: p (scripted)") + here.wait("Session: two")
    here.say("Is it so?")
    here.wait("\nZephyrine keeps the lantern.\n")
    here.wait("Session: two")
    here.wait("> ")
    here.press("\x1b[A\x1b[A")
    here.wait("Who keeps the lantern?")
    here.press("\x03")
    assert here.leave() == 0
    assert said(daemon.client, "two") == ["Who keeps the lantern?", "Is it so?"]
    history = daemon.home / "chat_history"
    assert stat.S_IMODE(history.stat().st_mode) == 0o600
    assert "+Is it so?" in history.read_text()


def test_several_lines_are_one_message_by_alt_enter_backslash_and_paste(talk: Any, client: Client) -> None:
    here = talk("--session", "lines")
    here.wait("> ")
    here.press("first\x1b\rsecond\\\rthird\r")
    here.wait("Zephyrine keeps the lantern.")
    here.wait("> ")
    here.press("\x1b[200~one\r\ntwo\n\x1b[201~")
    here.wait("two")
    here.press("three\r")
    here.wait("Zephyrine keeps the lantern.")
    assert here.leave() == 0
    assert said(client, "lines") == ["first\nsecond\nthird", "one\ntwo\nthree"]


def test_ctrl_c_ends_the_answer_and_not_the_program(talk: Any, client: Client) -> None:
    here = talk("--session", "stop")
    here.say("Please take your time")
    here.wait("word5 ")
    here.press("\x03\x03")
    here.wait("(stopped; what was said so far is remembered)")
    here.say("Who keeps the lantern?")
    here.wait("\nZephyrine keeps the lantern.\n")
    here.wait("> ")
    here.press("half a lin\x03")
    here.say("/quit")
    assert here.end() == 0
    deadline = time.monotonic() + 60
    while client.council.turns("local", 2, "stop")[-1].status == "RUNNING":
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert [turn.status for turn in client.council.turns("local", 2, "stop")] == ["SUCCESS", "CANCELLED"]
    assert "word399" not in here.seen


def test_a_message_stopped_before_the_first_word_is_at_the_prompt_again(talk: Any, client: Client) -> None:
    here = talk("--session", "early")
    here.say("Please say late")
    here.await_passing("is writing the answer...")  # the daemon's word that it took the turn up is here
    here.await_passing("is writing the answer... 2 s")
    here.press("\x03")
    here.wait("(stopped; your message is at the prompt again)")
    here.wait("> Please say late")
    here.press("\x03")
    here.say("/quit")
    assert here.end() == 0
    assert said(client, "early") == []


def test_keys_pressed_during_an_answer_wait_for_the_next_prompt(talk: Any, client: Client) -> None:
    here = talk("--session", "ahead")
    here.say("Take a little time")
    here.wait("piece3 ")
    here.press("And then?\r")
    answer = here.wait("piece29")
    assert "And then?" not in answer
    here.wait("> ")
    here.wait("Zephyrine keeps the lantern.")
    assert here.leave() == 0
    assert said(client, "ahead") == ["Take a little time", "And then?"]


def test_keys_pressed_during_an_answer_are_still_there_when_ctrl_c_ends_it(talk: Any, client: Client) -> None:
    here = talk("--session", "kept")
    here.say("Please take your time")
    here.wait("word5 ")
    here.press("Who keeps the lantern?")
    here.wait("word9 ")
    here.press("\x03")
    here.wait("(stopped; what was said so far is remembered)")
    here.wait("> Who keeps the lantern?")
    here.press("\r")
    here.wait("Zephyrine keeps the lantern.")
    assert here.leave() == 0
    assert said(client, "kept")[-1] == "Who keeps the lantern?"


def test_a_window_made_narrow_in_mid_answer_and_at_the_prompt_is_kept_to(talk: Any, client: Client) -> None:
    here = talk("--depth", "full", "--session", "narrow")
    here.say("Take a little time with it")
    here.wait("piece3 ")
    here.resize(20, 30)
    here.wait("piece29")
    verified = here.wait("> ")
    told = [line for line in verified.splitlines() if line.startswith("CodeMind")]
    assert told
    assert all(len(line) < 30 and line.endswith("…") for line in told)
    here.press("a line that is longer than the window is wide now")
    here.wait("wide now")
    here.resize(20, 120)
    here.press(" and here\r")
    assert "CodeMind: unverified: c says success (it names the keeper), but has not" in here.wait("Session: narrow")
    assert here.leave() == 0
    assert said(client, "narrow")[-1] == "a line that is longer than the window is wide now and here"


def test_what_a_model_writes_moves_no_cursor_and_sets_no_title(talk: Any) -> None:
    here = talk()
    here.say("Try to escape")
    here.wait("over.")
    assert here.leave() == 0
    assert "Plain ]0;owned and [2J and 31m and  and  over." in here.seen
    answer = here.raw.partition("Plain ")[2].partition("over.")[0]
    assert not re.findall(r"[\x00-\x1f\x7f-\x9f]", answer)


def test_a_retracted_answer_is_struck_and_marked_and_the_next_one_begins_anew(talk: Any) -> None:
    here = talk(columns=32)
    here.say("leak once")
    shown = here.wait("[retracted: it shows an AWS access key; disregard the text above]")
    assert shown.splitlines()[:3] == ["leak once", "The first words are fine, then", "comes"]
    assert len(shown.splitlines()) == 4
    here.wait("\nZephyrine keeps the lantern.\n")
    assert here.leave() == 0
    assert "\x1b[9mThe first words are fine, then" in here.raw
    assert KEY not in here.raw


def test_without_styles_a_retracted_answer_is_marked(talk: Any) -> None:
    here = talk(NO_COLOR="1")
    here.say("leak once")
    here.wait("[retracted: it shows an AWS access key; disregard the text above]")
    here.wait("\nZephyrine keeps the lantern.\n")
    assert here.leave() == 0
    assert "\x1b[9m" not in here.raw
    assert set(re.findall(r"\x1b\[([0-9;]*)m", here.raw)) <= {"", "0"}


async def test_a_command_that_waits_is_said_with_the_words_that_approve_it(talk: Any, client: Client) -> None:
    await open_shell()
    here = talk("--session", "asks", "--persona", "navigator")
    here.say("Run a command and list the files")
    until = here.wait("Waits for your approval until ") + here.wait(": ls -l\n") + here.wait("--sha256 ")
    (one,) = [row for row in client.post("/approvals/list", {})["approvals"] if row["session_id"] == "asks"]
    assert one["expires_at"][:19].replace("T", " ") in until
    assert f"gaiad approve {until.split()[-2]} --sha256 " in until
    here.wait(one["sha256"])
    here.wait("gaiad deny ")
    assert here.leave() == 0
    later = talk()
    later.wait("waiting for your approval: gaiad approvals")
    client.post("/approvals/deny", {"id": one["id"]})


@pytest.mark.parametrize("place", ["word5 ", "> "])
def test_whoever_ends_it_gets_a_terminal_that_shows_keys(talk: Any, place: str) -> None:
    here = talk()
    assert here.echoes
    if place != "> ":
        here.say("Please take your time")
    here.wait(place)
    assert not here.echoes
    here.process.terminate()
    assert here.end() == 143
    assert here.echoes


# ------------------------------------------------------------------------------------------------- its commands


def test_why_and_sources_tell_how_an_answer_came_about_and_what_it_stands_on(
    talk: Any, client: Client, make_packet: Callable[..., bytes], tmp_path: Path
) -> None:
    (tmp_path / "TP-7.xml").write_bytes(make_packet("TP-7", content="We decided that Zephyrine keeps the lantern."))
    client.post("/ingest", {"paths": [str(tmp_path)], "wait": True})
    here = talk("--session", "why")
    here.say("/why")
    here.wait("no answer yet")
    here.say("/sources")
    here.wait("no answer yet")
    here.say("What did we decide about the lantern?")
    here.wait("Sources: [Packet: TP-7]")
    here.say("/why")
    here.wait('You said (persona plain): "What did we decide about the lantern?"')
    here.wait("Prime acted")
    here.wait("It ended as SUCCESS")
    here.say("/down")
    here.wait("Noted: thumbs down")
    (turn,) = client.council.turns("local", 1, "why")
    assert turn.rating == "down"
    here.say("/sources")
    here.wait("1.  [Packet: TP-7]  2025-11-27  Lantern project")
    here.say("/sources 1")
    here.wait("We decided that Zephyrine keeps the lantern.")
    here.say("/sources TP-8")
    here.wait("TP-8 is not a source of the last answer")
    here.say("Who was it that we said keeps the lantern?")
    here.wait("Zephyrine keeps the lantern. [Packet: TP-7]")  # the model cited nothing; what a page carries is cited
    here.wait("Sources: [Packet: TP-7]")
    here.say("/sources")
    here.wait("1.  [Packet: TP-7]")
    assert here.leave() == 0
    again = talk("--session", "why")
    again.wait("Session why, what was said last:")
    again.say("/why")
    again.wait('You said (persona plain): "Who was it that we said keeps the lantern?"')
    assert again.leave() == 0


def test_persona_depth_and_session_are_chosen_with_completion(talk: Any, client: Client) -> None:
    here = talk("--why", "--session", "first")
    here.wait("> ")
    here.press("/pers\tbri\t\r")
    here.wait("Persona brief from the next answer on")
    here.say("/depth full")
    here.wait("Depth full from the next answer on.")
    here.say("/depth deep")
    here.wait("no depth is called deep")
    here.say("/persona breif")
    here.wait("no persona is called breif; did you mean brief?")
    here.say("Who keeps the lantern?")
    here.wait("Depth: full (full was asked for)")
    here.say("/persona")
    assert re.search(r"\* +brief", here.wait("/persona NAME chooses one"))
    here.say("/new")
    here.wait("A new session")
    here.say("And now?")
    here.wait("ses_")
    here.say("/session fir\t")
    shown = here.wait("Session first, what was said last:") + here.wait("> ")
    assert "Who keeps the lantern?" in shown
    here.press("/session\r")
    assert re.search(r"\* +first +2\d{3}-\d\d-\d\d +1 turn", here.wait("/session ID continues one"))
    here.say("/hepl")
    here.wait("no command is called /hepl; did you mean /help?")
    here.say("/help me")
    here.wait("/help takes nothing after it")
    here.say("/help")
    here.wait("/sources [NUMBER]")
    here.say("/quit")
    assert here.end() == 0
    (turn,) = client.council.turns("local", 5, "first")
    assert (turn.persona, turn.depth) == ("brief", "full")


def test_a_tenant_that_holds_nothing_yet_begins_with_the_first_message(talk: Any) -> None:
    here = talk("--tenant", "fresh", "--session", "start")
    here.wait("No session is called start")
    here.say("/session")
    here.wait("no sessions yet")
    here.say("/why")
    here.wait("no answer yet")
    here.say("Hello")
    here.wait("Session: start")
    here.say("/session")
    here.wait("*  start  ")
    assert here.leave() == 0


def test_help_and_what_stands_under_an_answer_break_between_words(talk: Any) -> None:
    here = talk("--why", "--depth", "full", "--session", "small", columns=34)
    here.say("/help")
    assert "\n/depth [auto|fast|full]\n  Choose how deep the council\n  thinks, or show it\n" in here.wait("Keys\n")
    here.say("Who keeps the lantern?")
    here.wait("\nDepth: full (full was asked for) |\nTurn: ")
    assert here.leave() == 0


def test_a_path_or_a_line_with_a_space_before_is_said_to_the_council(talk: Any, client: Client) -> None:
    here = talk("--session", "slashes")
    for line in ("/etc/passwd is what?", " /why"):
        here.say(line)
        here.wait("Zephyrine keeps the lantern.")
    assert here.leave() == 0
    assert said(client, "slashes") == ["/etc/passwd is what?", "/why"]


# ------------------------------------------------------------------------------------------------- other terminals


def test_answers_into_a_file_leave_the_rest_on_the_terminal(talk: Any, tmp_path: Path) -> None:
    with (tmp_path / "answers").open("wb") as file:
        here = talk(stdout=file)
        here.say("Hello")
        here.wait("Engine: p")
        here.say("/depth")
        here.wait("Depth: as set")
        assert here.leave() == 0
    assert (tmp_path / "answers").read_text() == "Zephyrine keeps the lantern.\n"


def test_a_history_that_cannot_be_kept_is_said_and_nothing_else_is_lost(talk: Any, daemon: BenchDaemon) -> None:
    history, aside = daemon.home / "chat_history", daemon.home / "aside"
    if history.exists():
        history.rename(aside)
    history.mkdir()
    try:
        here = talk()
        here.wait("what you say is not kept for the next time (Is a directory)")
        here.say("Who keeps the lantern?")
        here.wait("Zephyrine keeps the lantern.")
        assert here.leave() == 0
    finally:
        history.rmdir()
        if aside.exists():
            aside.rename(history)


def test_one_message_starts_without_the_line_editor(daemon: BenchDaemon) -> None:
    code = (
        "import sys; from gaiad.cli.main import program, run\n"
        f"run(program, 'gaiad', ['chat', '--home', {str(daemon.home)!r}, 'hello'])\n"
        "print([name for name in ('prompt_toolkit', 'asyncio', 'aiohttp', 'numpy') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "Zephyrine keeps the lantern.\n[]\n"


# ------------------------------------------------------------------------------------------------- a daemon that goes


def test_no_daemon_at_the_beginning_is_exit_5(tmp_path: Path) -> None:
    with Terminal(command(tmp_path)) as here:
        here.wait("start one with: gaiad serve")
        assert here.end() == 5


@pytest.mark.slow
def test_a_daemon_that_is_restarted_between_and_during_answers_is_waited_for(tmp_path: Path, talk: Any) -> None:
    home = make_home(tmp_path)
    with running_daemon(home=home):
        here = talk("--session", "through", home=home)
        here.say("Who keeps the lantern?")
        here.wait("Zephyrine keeps the lantern.")
        here.wait("> ")
    here.press("Take a little time\r")
    here.wait("no daemon answers on ")
    here.wait("press Ctrl-C to edit it.")
    here.press("\x03")
    here.wait("(stopped; your message is at the prompt again)")
    here.wait("> Take a little time")
    with running_daemon(home=home) as daemon:
        here.press("\r")
        here.wait("piece3 ")
        daemon._process.kill()
        here.wait("[disregard this: the turn ended without an answer]")
        assert "\x1b[9mpiece0 " in here.raw
        here.wait("sent again as soon as the daemon answers")
    with running_daemon(home=home) as daemon:
        here.wait("The daemon answers again.")
        here.wait("piece29")
        assert here.leave() == 0
        assert said(daemon.client, "through")[-1] == "Take a little time"
        assert said(daemon.client, "through").count("Take a little time") == 1
