"""The commands of `gaiad chat`: lines that begin with a slash. What each does, what may follow it, the help."""

import re
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from shutil import get_terminal_size
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from gaiad.base.errors import NotFound
from gaiad.cli.command import invocation, same_place
from gaiad.cli.conversation import TerminalChat
from gaiad.cli.flags import user_zone
from gaiad.cli.output import bold, counted, date_of, dim, plain, table, terminal_width, wrap
from gaiad.cli.packets import detail_text
from gaiad.cli.sessions import turn_text, turns_text

if TYPE_CHECKING:
    from gaiad.client.client import Client
    from gaiad.wire.council import Rating


DEPTHS = ("auto", "fast", "full")
_SHOWN_SESSIONS = 20
_SHOWN_TURNS = 2
_NO_ANSWER = "no answer yet"

T = TypeVar("T")


def choose_persona(conversation: TerminalChat, rest: str) -> str:
    """Choose the tone of the answers, or list the tones."""
    with invocation().client() as client:
        known = {row.name: row for row in client.personas()}
    if not rest:
        last = conversation.last.persona if conversation.last else ""
        now = conversation.options["persona"] or last
        rows = [
            (_mark(row.name == now), row.name, row.tone, f"for {', '.join(row.projects)}" if row.projects else "")
            for row in known.values()
        ]
        return _listed(rows, "/persona NAME chooses one, from the next answer on")
    if rest not in known:
        return f"no persona is called {plain(rest)}; {nearest(rest, known)}"
    conversation.options["persona"] = rest
    return dim(f"Persona {plain(rest)} from the next answer on; it stays with the session.")


def choose_depth(conversation: TerminalChat, rest: str) -> str:
    """Choose how deep the council thinks, or show it."""
    if not rest:
        now = conversation.options["depth"] or "as set (council.depth)"
        return f"Depth: {now}\n{dim('/depth auto, /depth fast or /depth full chooses another')}"
    if rest not in DEPTHS:
        return f"no depth is called {plain(rest)}; {nearest(rest, DEPTHS)}"
    conversation.options["depth"] = rest
    return dim(f"Depth {rest} from the next answer on.")


def choose_session(conversation: TerminalChat, rest: str) -> str:
    """Go on with a session, or list them."""
    if rest:
        text = opened(rest, conversation)
        conversation.options.update(session_id=rest, persona="", project="")  # the session has its own
        conversation.last = None
        return text
    with invocation().client() as client:
        found = so_far(lambda: client.sessions(conversation.tenant, _SHOWN_SESSIONS))
    zone = user_zone()
    rows = [
        (
            _mark(row.session_id == conversation.session_id),
            row.session_id,
            date_of(row.updated_at, zone),
            counted(row.turns, "turn"),
            row.title,
        )
        for row in found
    ]
    return _listed(rows, "/session ID continues one, /new starts a new one") if rows else "no sessions yet"


def opened(session_id: str, conversation: TerminalChat) -> str:
    """What was said last in a session. Raises BadInput for a name that none can have."""
    with invocation().client() as client:
        turns = so_far(lambda: client.session_turns(session_id, conversation.tenant, _SHOWN_TURNS))
    name = plain(session_id)
    if not turns:
        return dim(f"No session is called {name} yet; it begins with your next message.")
    return f"{dim(f'Session {name}, what was said last:')}\n\n{turns_text(turns)}\n"


def begin_session(conversation: TerminalChat, _rest: str) -> str:
    """Begin a new session."""
    conversation.options["session_id"] = ""
    conversation.last = None
    return dim("A new session, with what you say now.")


def tell_why(conversation: TerminalChat, _rest: str) -> str:
    """Tell how the last answer came about, stage by stage."""
    with invocation().client() as client:
        if conversation.last is not None:
            return turn_text(client.council.turn(conversation.last.turn_id, conversation.tenant), same_place())
        if conversation.session_id:
            for turn in so_far(lambda: client.council.turns(conversation.tenant, 1, conversation.session_id)):
                return turn_text(client.council.turn(turn.turn_id, conversation.tenant), same_place())
    return _NO_ANSWER


def rate_up(conversation: TerminalChat, _rest: str) -> str:
    """Say that the last answer was good."""
    return _rate(conversation, "up")


def rate_down(conversation: TerminalChat, _rest: str) -> str:
    """Say that the last answer was not good."""
    return _rate(conversation, "down")


def _rate(conversation: TerminalChat, rating: "Rating") -> str:
    from gaiad.wire.council import RateRequest

    if conversation.last is None:
        return _NO_ANSWER
    with invocation().client() as client:
        client.council.rate(RateRequest(turn=conversation.last.turn_id, rating=rating, tenant=conversation.tenant))
    return dim(f"Noted: thumbs {rating}. The next reflection takes it into account.")


def show_sources(conversation: TerminalChat, rest: str) -> str:
    """List the sources of the last answer, or show one of them."""
    last = conversation.last
    if last is None:
        return _NO_ANSWER
    if not last.sources:
        read = ", ".join(plain(packet) for packet in last.history.packets)
        return "the last answer cites no packet" + (f"; it had {read} to read" if read else "")
    with invocation().client() as client:
        if not rest:
            rows = [_source_row(number, name, conversation, client) for number, name in enumerate(last.sources, 1)]
            return _listed(rows, "/sources NUMBER shows one with its text")
        chosen = last.sources[int(rest) - 1] if _is_number(rest, len(last.sources)) else rest
        if chosen not in last.sources:
            return f"{plain(rest)} is not a source of the last answer; /sources lists its sources"
        found = client.packet(chosen, conversation.tenant)
    return detail_text(found, True, terminal_width())


def _source_row(number: int, name: str, conversation: TerminalChat, client: "Client") -> tuple[str, ...]:
    from gaiad.base.citations import as_text

    try:
        packet = client.packet(name, conversation.tenant).packet
    except NotFound as error:  # it was there when the answer was written
        return f"{number}.", f"[Packet: {name}]", "", error.message
    return f"{number}.", f"[Packet: {name}]", date_of(packet.timestamp, user_zone()), as_text(packet.topic)


def _is_number(text: str, largest: int) -> bool:
    return text.isascii() and text.isdigit() and 1 <= int(text) <= largest


def nearest(name: str, known: Iterable[str]) -> str:
    """What may have been meant."""
    names = list(known)
    near = get_close_matches(name, names, n=1)
    return plain(f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}")


def so_far(read: Callable[[], list[T]]) -> list[T]:
    """What is read; nothing for a tenant that begins with the first thing that is said in it."""
    try:
        return read()
    except NotFound:
        return []


def _mark(current: bool) -> str:
    return "*" if current else " "


def _listed(rows: Sequence[tuple[str, ...]], hint: str) -> str:
    return f"{table(rows)}\n{dim(hint)}"


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


class LeaveChat(Exception):
    """No error: the person is done."""


class ChatCommand(NamedTuple):
    """`act` gets what follows the name; its docstring is the help. `choices` are what may follow, for completion."""

    act: Callable[[TerminalChat, str], str]
    argument: str = ""
    choices: "Callable[[TerminalChat, Client], list[str]] | None" = None


def read_command(line: str) -> tuple[str, str] | None:
    """Name and what follows it; None for what the council is to hear, as a path or a line that begins with a space."""
    match = _LINE.fullmatch(line)
    return (match[1], match[2] or "") if match else None


def run_command(name: str, rest: str, conversation: TerminalChat) -> str:
    """What to show. Raises Left, and as the daemon does."""
    command = COMMANDS.get(name)
    if command is None:
        known = nearest(f"/{name}", [f"/{one}" for one in COMMANDS])
        return f"no command is called /{name}; {known} (a line that starts with a space is not a command)"
    if rest and not command.argument:
        return f"/{name} takes nothing after it"
    return command.act(conversation, rest)


def completions(line: str, conversation: TerminalChat) -> list[str]:
    """Whole words that may end `line`: a command, or what follows it. Raises as the daemon does."""
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


def _help(_conversation: TerminalChat, _rest: str) -> str:
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


def _quit(_conversation: TerminalChat, _rest: str) -> str:
    """Leave."""
    raise LeaveChat


def _personas(_conversation: TerminalChat, client: "Client") -> list[str]:
    return [row.name for row in client.personas()]


def _sessions(conversation: TerminalChat, client: "Client") -> list[str]:
    return [row.session_id for row in so_far(lambda: client.sessions(conversation.tenant, _COMPLETED_SESSIONS))]


def _depths(_conversation: TerminalChat, _client: "Client") -> list[str]:
    return list(DEPTHS)


def _sources(conversation: TerminalChat, _client: "Client") -> list[str]:
    return list(conversation.last.sources) if conversation.last else []


COMMANDS = {
    "persona": ChatCommand(choose_persona, "[NAME]", _personas),
    "session": ChatCommand(choose_session, "[ID]", _sessions),
    "new": ChatCommand(begin_session),
    "depth": ChatCommand(choose_depth, "[auto|fast|full]", _depths),
    "why": ChatCommand(tell_why),
    "sources": ChatCommand(show_sources, "[NUMBER]", _sources),
    "up": ChatCommand(rate_up),
    "down": ChatCommand(rate_down),
    "help": ChatCommand(_help),
    "quit": ChatCommand(_quit),
}
