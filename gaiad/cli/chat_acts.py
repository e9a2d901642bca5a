"""What the commands of `gaiad chat` do: each gets the conversation and what follows its name, and says what to show."""

from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, TypeVar

from gaiad.cli.chat_turn import Conversation
from gaiad.cli.command import invocation, same_place
from gaiad.cli.flags import user_zone
from gaiad.cli.output import counted, date_of, dim, plain, table, terminal_width
from gaiad.cli.packets import detail_text
from gaiad.cli.sessions import turns_text
from gaiad.cli.turn_story import turn_text
from gaiad.errors import NotFound

if TYPE_CHECKING:
    from gaiad.client import Client

DEPTHS = ("auto", "fast", "full")
_SHOWN_SESSIONS = 20
_SHOWN_TURNS = 2
_NO_ANSWER = "no answer yet"

T = TypeVar("T")


def choose_persona(conversation: Conversation, rest: str) -> str:
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


def choose_depth(conversation: Conversation, rest: str) -> str:
    """Choose how deep the council thinks, or show it."""
    if not rest:
        now = conversation.options["depth"] or "as set (council.depth)"
        return f"Depth: {now}\n{dim('/depth auto, /depth fast or /depth full chooses another')}"
    if rest not in DEPTHS:
        return f"no depth is called {plain(rest)}; {nearest(rest, DEPTHS)}"
    conversation.options["depth"] = rest
    return dim(f"Depth {rest} from the next answer on.")


def choose_session(conversation: Conversation, rest: str) -> str:
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
    return _listed(rows, "/session ID goes on with one, /new begins a new one") if rows else "no sessions yet"


def opened(session_id: str, conversation: Conversation) -> str:
    """What was said last in a session. Raises BadInput for a name that none can have."""
    with invocation().client() as client:
        turns = so_far(lambda: client.session_turns(session_id, conversation.tenant, _SHOWN_TURNS))
    name = plain(session_id)
    if not turns:
        return dim(f"Nothing is remembered of a session called {name}; it begins with what you say now.")
    return f"{dim(f'Session {name}, what was said last:')}\n\n{turns_text(turns)}\n"


def begin_session(conversation: Conversation, _rest: str) -> str:
    """Begin a new session."""
    conversation.options["session_id"] = ""
    conversation.last = None
    return dim("A new session, with what you say now.")


def tell_why(conversation: Conversation, _rest: str) -> str:
    """Tell how the last answer came about, stage by stage."""
    with invocation().client() as client:
        if conversation.last is not None:
            return turn_text(client.council.turn(conversation.last.turn_id, conversation.tenant), same_place())
        if conversation.session_id:
            for turn in so_far(lambda: client.council.turns(conversation.tenant, 1, conversation.session_id)):
                return turn_text(client.council.turn(turn.turn_id, conversation.tenant), same_place())
    return _NO_ANSWER


def show_sources(conversation: Conversation, rest: str) -> str:
    """List the packets the last answer stands on, or show one of them."""
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
            return f"the last answer does not stand on {plain(rest)}; /sources lists what it stands on"
        found = client.packet(chosen, conversation.tenant)
    return detail_text(found, True, terminal_width())


def _source_row(number: int, name: str, conversation: Conversation, client: "Client") -> tuple[str, ...]:
    try:
        packet = client.packet(name, conversation.tenant).packet
    except NotFound as error:  # it was there when the answer was written
        return f"{number}.", f"[Packet: {name}]", "", error.message
    return f"{number}.", f"[Packet: {name}]", date_of(packet.timestamp, user_zone()), packet.topic


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
