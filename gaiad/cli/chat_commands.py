"""The commands of `gaiad chat`: lines that begin with a slash, what may follow each, and the help that lists them."""

import re
from collections.abc import Callable, Sequence
from shutil import get_terminal_size
from typing import TYPE_CHECKING, NamedTuple

from gaiad.cli.chat_acts import (
    DEPTHS,
    begin_session,
    choose_depth,
    choose_persona,
    choose_session,
    nearest,
    show_sources,
    so_far,
    tell_why,
)
from gaiad.cli.chat_turn import Conversation
from gaiad.cli.command import invocation
from gaiad.cli.output import bold, dim, plain, table, wrap

if TYPE_CHECKING:
    from gaiad.client import Client

_LINE = re.compile(r"/([a-z]*)(?:[ \t]+(.*?))?[ \t]*")
_COMPLETED_SESSIONS = 200
_INDENT = "  "
_KEYS = (
    ("Enter", "sends; after a backslash at the end of the text it begins a new line"),
    ("Alt-Enter", "begins a new line; what you paste stays in one piece"),
    ("Tab", "completes a command, and what may follow it"),
    ("Up, Ctrl-R", "what you said before, in earlier conversations too"),
    ("Ctrl-C", "ends the answer; at the prompt it empties the line"),
    ("Ctrl-D", "leaves"),
)


class Left(Exception):
    """No error: the person is done."""


class Command(NamedTuple):
    """`act` gets what follows the name; its docstring is the help. `choices` are what may follow, for completion."""

    act: Callable[[Conversation, str], str]
    argument: str = ""
    choices: "Callable[[Conversation, Client], list[str]] | None" = None


def read_command(line: str) -> tuple[str, str] | None:
    """Name and what follows it; None for what the council is to hear, as a path or a line that begins with a space."""
    match = _LINE.fullmatch(line)
    return (match[1], match[2] or "") if match else None


def run_command(name: str, rest: str, conversation: Conversation) -> str:
    """What to show. Raises Left, and as the daemon does."""
    command = COMMANDS.get(name)
    if command is None:
        known = nearest(f"/{name}", [f"/{one}" for one in COMMANDS])
        return f"no command is called /{name}; {known} (a line that begins with a space is no command)"
    if rest and not command.argument:
        return f"/{name} takes nothing after it"
    return command.act(conversation, rest)


def completions(line: str, conversation: Conversation) -> list[str]:
    """Whole words that may stand at the end of `line`: a command, or what follows it. Raises as the daemon does."""
    name, space, begun = line.removeprefix("/").partition(" ")
    if not line.startswith("/") or "\n" in line or " " in begun:
        return []
    if not space:
        found = [(known, command) for known, command in COMMANDS.items() if known.startswith(name)]
        return [f"/{known} " if command.argument else f"/{known}" for known, command in found]
    command = COMMANDS.get(name)
    if command is None or command.choices is None:
        return []
    with invocation().client() as client:
        return [plain(choice) for choice in command.choices(conversation, client) if choice.startswith(begun)]


def _help(_conversation: Conversation, _rest: str) -> str:
    """Show this."""
    rows = [
        (f"/{name} {command.argument}".rstrip(), (command.act.__doc__ or "").partition("\n")[0].rstrip("."))
        for name, command in COMMANDS.items()
    ]
    end = "A line that begins with a space is never a command."
    return f"{bold('Commands')}\n{_explained(rows)}\n\n{bold('Keys')}\n{_explained(_KEYS)}\n\n{dim(end)}"


def _explained(rows: Sequence[tuple[str, str]]) -> str:
    """Each with its meaning beside it, under it where there is no room."""
    width = get_terminal_size().columns
    beside = table(rows)
    if max(map(len, beside.splitlines())) <= width:
        return beside
    return "\n".join(f"{name}\n{wrap(meaning, width, _INDENT)}" for name, meaning in rows)


def _quit(_conversation: Conversation, _rest: str) -> str:
    """Leave."""
    raise Left


def _personas(_conversation: Conversation, client: "Client") -> list[str]:
    return [row.name for row in client.personas()]


def _sessions(conversation: Conversation, client: "Client") -> list[str]:
    return [row.session_id for row in so_far(lambda: client.sessions(conversation.tenant, _COMPLETED_SESSIONS))]


def _depths(_conversation: Conversation, _client: "Client") -> list[str]:
    return list(DEPTHS)


def _sources(conversation: Conversation, _client: "Client") -> list[str]:
    return list(conversation.last.sources) if conversation.last else []


COMMANDS = {
    "persona": Command(choose_persona, "[NAME]", _personas),
    "session": Command(choose_session, "[ID]", _sessions),
    "new": Command(begin_session),
    "depth": Command(choose_depth, "[auto|fast|full]", _depths),
    "why": Command(tell_why),
    "sources": Command(show_sources, "[NUMBER]", _sources),
    "help": Command(_help),
    "quit": Command(_quit),
}
