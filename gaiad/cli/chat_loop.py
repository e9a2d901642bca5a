"""`gaiad chat` on a terminal: message, answer, message, in one session, until the person leaves.

The daemon may be restarted meanwhile. A message that it did not answer is asked again under the same key once it is
back, so that it is taken once; whoever does not want to wait presses Ctrl-C and has the message at the prompt again.

Keys typed while an answer comes wait unseen for the next prompt, and Ctrl-C ends that answer alone. Between answers the
line editor has the terminal.
"""

import secrets
import signal
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

import gaiad
from gaiad.base.errors import DaemonUnreachable, DaemonWentAway, GaiadError, Unavailable
from gaiad.cli.chat_commands import LeaveChat, completions, opened, read_command, run_command, so_far
from gaiad.cli.command import Verb, invocation, tenant_option
from gaiad.cli.conversation import TerminalChat, waiting
from gaiad.cli.flags import moment, user_zone
from gaiad.cli.output import FAILED, counted, dim, end, one_line, plain, warn

if TYPE_CHECKING:
    from gaiad.cli.chat_editor import Editor


_INPUT_FLAGS, _LOCAL_FLAGS = 0, 3  # places in what tcgetattr answers with


@contextmanager
def undisturbed() -> Iterator[None]:
    """A Ctrl-C that comes late does not end the program, and whoever ends it leaves a terminal that shows its keys."""
    before = [signal.signal(signal.SIGINT, _ignore), signal.signal(signal.SIGTERM, _leave)]
    try:
        yield
    finally:
        for number, handler in zip((signal.SIGINT, signal.SIGTERM), before, strict=True):
            signal.signal(number, handler)


@contextmanager
def interruptible() -> Iterator[None]:
    """The first Ctrl-C raises KeyboardInterrupt, more do nothing; keys are kept for whoever reads next."""
    pressed = False

    def once(_number: int, _frame: FrameType | None) -> None:
        nonlocal pressed
        if not pressed:
            pressed = True
            raise KeyboardInterrupt

    attributes = _silenced()
    before = signal.signal(signal.SIGINT, once)
    try:
        yield
    finally:
        pressed = True  # too late for this block
        signal.signal(signal.SIGINT, before)
        if attributes:
            termios.tcsetattr(sys.stdin, termios.TCSANOW, attributes)


def _ignore(_number: int, _frame: FrameType | None) -> None:
    """A handler and not SIG_IGN, which children would inherit."""


def _leave(number: int, _frame: FrameType | None) -> None:
    """As the signal would end it, on the way through what puts the terminal back."""
    raise SystemExit(128 + number)


def _silenced() -> list[Any]:
    """Keys are neither shown nor put together to lines; Ctrl-C and Ctrl-Z work and throw none of them away. What to set
    back; [] when nothing."""
    if not sys.stdin.isatty():
        return []
    before = termios.tcgetattr(sys.stdin)
    quiet = list(before)
    quiet[_INPUT_FLAGS] &= ~termios.ICRNL
    quiet[_LOCAL_FLAGS] = quiet[_LOCAL_FLAGS] & ~(termios.ECHO | termios.ICANON) | termios.NOFLSH
    termios.tcsetattr(sys.stdin, termios.TCSANOW, quiet)
    return before


_HISTORY = "chat_history"
_MOST_DEATHS = 3  # of a daemon under one message
_FIRST_PAUSE_S = 0.2
_LONGEST_PAUSE_S = 2.0


def converse(options: dict[str, Any], *, why: bool = False) -> None:
    """Until Ctrl-D or /quit. Raises DaemonUnreachable when no daemon answers at the beginning."""
    conversation = TerminalChat(options, why)
    _tell(_greeting(conversation))
    editor = _editor(conversation)
    draft, trouble = "", ""
    with undisturbed():
        while True:
            if editor.trouble != trouble:
                trouble = editor.trouble
                _tell(warn(plain(trouble)))
            try:
                text = editor.read(draft)
            except EOFError:
                return
            except KeyboardInterrupt:  # the line is empty then, and the next one begins
                draft = ""
                continue
            try:
                draft = _heed(text, conversation)
            except LeaveChat:
                return


def _greeting(conversation: TerminalChat) -> str:
    """Who is there, what the session was left with, what waits."""
    with invocation().client() as client:
        found = so_far(lambda: waiting(client, conversation.tenant))
    keys = "/help lists commands and keys, Ctrl-D leaves."
    lines = [dim(f"gaiad {gaiad.__version__}. {keys}")]
    if conversation.session_id:
        lines.append(opened(conversation.session_id, conversation))
    if found:
        lines.append(warn(f"{counted(len(found), 'command')} waiting for your approval: gaiad approvals"))
    return "\n".join(lines)


def _editor(conversation: TerminalChat) -> "Editor":
    from gaiad.cli.chat_editor import Editor

    def complete(line: str) -> list[str]:
        try:
            return completions(line, conversation)
        except GaiadError:  # it is said when the line is sent; in the middle of one there is no place for it
            return []

    return Editor(invocation().find_home().root / _HISTORY, complete)


def _heed(text: str, conversation: TerminalChat) -> str:
    """Do what a line says. What to begin the next line with: the message, when nobody took it up."""
    if not text.strip():
        return ""
    if command := read_command(text):
        _run(*command, conversation)
        return ""
    with interruptible():
        try:
            _say(text.strip(), conversation)
        except KeyboardInterrupt:
            conversation.begun = conversation.begun and conversation.heard
            what = "what was said so far is remembered" if conversation.begun else "your message is at the prompt again"
            _tell(dim(f"(stopped; {what})"))
        except GaiadError as error:
            _complain(error)
        return "" if conversation.begun else text


def _run(name: str, rest: str, conversation: TerminalChat) -> None:
    with interruptible():
        try:
            _tell(run_command(name, rest, conversation))
        except GaiadError as error:
            _complain(error)
        except KeyboardInterrupt:
            _tell(dim("(stopped)"))


def _say(words: str, conversation: TerminalChat) -> None:
    """The answer, asked for again when the daemon goes away. Raises as TerminalChat.say."""
    key, died, conversation.begun = secrets.token_hex(16), 0, False
    while True:
        try:
            with invocation().client() as client:
                conversation.say(client, words, key)
            return
        except (DaemonUnreachable, DaemonWentAway) as error:
            conversation.begun = False
            died += isinstance(error, DaemonWentAway)
            if died == _MOST_DEATHS:
                raise
            _complain(error)
        _wait_for_daemon()


def _wait_for_daemon() -> None:
    """Until one answers. Ctrl-C leaves this as everything."""
    _tell(dim("Your message is sent again as soon as the daemon answers; press Ctrl-C to edit it."))
    pause_s = _FIRST_PAUSE_S
    while True:
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        try:
            with invocation().client() as client:
                client.health()
        except Unavailable:
            continue
        _tell(dim("The daemon answers again."))
        return


def _complain(error: GaiadError) -> None:
    click.echo(f"gaiad: {one_line(error.message)}", err=True)


def _tell(text: str) -> None:
    """What is not an answer goes to the terminal, also when the answers go into a file."""
    click.echo(text, err=not sys.stdout.isatty())


@click.command(
    cls=Verb,
    example="""
        gaiad chat
        gaiad chat what did we decide about the sensors in November
        gaiad chat --session garden --persona brief "and what is still open?"
        gaiad chat --depth full "check the plan for the sensors for gaps"
        echo "summarise the last session" | gaiad chat --json | jq -r .answer
    """,
)
@click.argument("message", nargs=-1)
@click.option("--session", "session_id", default="", metavar="S", help="The session to continue; default: a new one.")
@click.option("--persona", default="", metavar="P", help="The tone of the answer; stays with the session.")
@click.option("--project", default="", metavar="NAME", help="Whose persona holds when none is chosen; stays too.")
@click.option("--role", default="prime", show_default=True, help="Which role answers.")
@click.option(
    "--depth",
    type=click.Choice(("auto", "fast", "full")),
    help="fast is one call, full plans, refines, acts and verifies. Default: the setting council.depth.",
)
@click.option("--mtu", default=0, type=click.IntRange(0), help="Tokens of the packet; 0 is the setting cognition.mtu.")
@click.option("--max-tokens", default=0, type=click.IntRange(0), help="Tokens of the answer; 0 is the setting.")
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), help="Makes the answer repeatable.")
@click.option("--now", default="", metavar="TIME", help='The time "last week" is counted from; default: now.')
@click.option("--why", is_flag=True, help="Also explain how each answer came about.")
@tenant_option
def chat(message: tuple[str, ...], why: bool, **given: Any) -> None:
    """Send a message in a session, get an answer with its sources.

    Without MESSAGE it is read from standard input; a terminal is a conversation until Ctrl-D, where /help lists
    commands and keys. Ctrl-C ends the answer; what was said so far is remembered. A terminal shows the answer while it
    is written and the council at work; what the council retracts is marked. In a pipe stdout has the final answer
    alone, stderr its sources and notes.

    Exits 0 with an answer, 1 when the council gives none and asks you instead.
    """
    given["depth"] = given["depth"] or ""
    given["now"] = moment(given["now"], user_zone()) if given["now"] else ""
    words = " ".join(message).strip()
    if not message and sys.stdin.isatty() and not invocation().as_json:
        converse(given, why=why)
        return
    if not message:
        words = sys.stdin.read().strip()
    if not words:
        raise click.UsageError("Missing MESSAGE: give it as words, or on standard input")
    with invocation().client() as client:
        answer = TerminalChat(given, why).say(client, words)
    if not answer.answered:
        end(FAILED)
