"""A Cognition Packet as the messages that are sent: a pure function of the packet, so a stored one can be replayed.

The user's words come last (decision 6): identity and persona, earlier turns with the pages that stand before them, this
turn's pages, what earlier stages of the turn wrote, role text and task instruction, and then the message as it was
said. All roles of a turn share everything up to the stages' work. All of it is untrusted text: nothing here needs a
control token. The meta header is not looked at.
"""

from typing import Literal

from gaiad.wire.generation import ChatMessage, Segment
from prompts.fence import fenced, fenced_work, said_before
from prompts.load import load_prompt
from prompts.packet import CognitionPacket, ContextItem, WorkItem

_GAP = Segment("\n\n")

Role = Literal["system", "user", "assistant"]


def messages_of(packet: CognitionPacket) -> list[ChatMessage]:
    """Identity, history, a system message with what this call needs, the user's message; a packet without one ends
    with its history."""
    places = _places(packet)
    written: list[tuple[Role, list[Segment]]] = []
    _add(written, "system", _texts(packet.identity, packet.persona))
    for entry in packet.history:
        pages = places.pop(entry.turn_id, []) if entry.role == "user" and not entry.summary else []
        _add(written, "system", _pages(pages))
        _add(written, entry.role, said_before(entry))
    _add(written, "system", _pages(places.pop("", [])))
    for item in packet.work:
        _add(written, "system", fenced_work(item))
    _add(written, "system", _texts(packet.role_text, packet.feedback, packet.task_instruction))
    _add(written, "user", [Segment(packet.user_prompt)] if packet.user_prompt else [])
    return [ChatMessage(role=role, content=content) for role, content in written]


def own_texts(packet: CognitionPacket) -> tuple[str, ...]:
    """The texts of the prompt that are gaiad's own, none of which belongs in a reply."""
    notice = _notice() if packet.context else ""
    return (packet.identity, packet.persona, packet.role_text, packet.feedback, packet.task_instruction, notice)


def notice_segments() -> list[Segment]:
    """What is once before the pages of a turn, the gap before it included."""
    return [_GAP, Segment(f"{_notice()}\n\n")]


def work_segments(item: WorkItem) -> list[Segment]:
    """What a stage's work adds to the system message, the gap before it included."""
    return [_GAP, *fenced_work(item)]


def _places(packet: CognitionPacket) -> dict[str, list[ContextItem]]:
    """The pages by the turn they stand before; "" is this turn, also for a page whose turn is not there any longer."""
    turns = {entry.turn_id for entry in packet.history if entry.role == "user" and not entry.summary}
    places: dict[str, list[ContextItem]] = {}
    for item in packet.context:
        places.setdefault(item.before_turn if item.before_turn in turns else "", []).append(item)
    return places


def _texts(*texts: str) -> list[Segment]:
    segments = [part for text in texts if text for part in (_GAP, Segment(text))]
    return segments[1:]


def _pages(items: list[ContextItem]) -> list[Segment]:
    if not items:
        return []
    return [*notice_segments()[1:], *(segment for item in items for segment in fenced(item))]


def _notice() -> str:
    return load_prompt("quoted_memory").body.rstrip("\n")


def _add(written: list[tuple[Role, list[Segment]]], role: Role, content: list[Segment]) -> None:
    """A message of its own, or more of the last one when that has the same role."""
    if not content:
        return
    if written and written[-1][0] == role:
        written[-1][1].extend((_GAP, *content))
    else:
        written.append((role, content))
