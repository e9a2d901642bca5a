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
from gaiad.cli.command import invocation
from gaiad.cli.conversation import TerminalChat, waiting
from gaiad.cli.output import counted, dim, one_line, plain, warn

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
