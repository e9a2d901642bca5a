"""A Cognition Packet as the messages that are sent: a pure function of the packet, so a stored one can be replayed.

The order is for reuse (decision 6): identity and persona, earlier turns with the pages that stand before them, then
this turn's pages and the question. Then comes what earlier stages of the turn wrote, in their order, and last the
role's text and the task instruction: all roles of a turn share everything before, and each stage goes on where the one
before it stopped reading. A question reads the same when it is new as when it is history. All of it is untrusted text:
nothing here needs a control token. The meta header is not looked at.

A packet says by its `layout` how it is written: one that was sent is written again byte for byte.
"""

from typing import Literal

from gaiad.generation import ChatMessage, Segment
from prompts.fence import fenced, fenced_work, said_before
from prompts.load import load_prompt
from prompts.packet import LAYOUT, CognitionPacket, ContextItem, WorkItem

_GAP = Segment("\n\n")

Role = Literal["system", "user", "assistant"]


def messages_of(packet: CognitionPacket) -> list[ChatMessage]:
    """System message, history, and one last user message that ends with role text and task instruction."""
    places, layout = _places(packet), packet.layout
    written: list[tuple[Role, list[Segment]]] = [("system", _system(packet))]
    for entry in packet.history:
        before = places.pop(entry.turn_id, []) if entry.role == "user" and not entry.summary else []
        _add(written, entry.role, [*_pages(before, layout), *said_before(entry, layout)])
    asked = [*_pages(places.pop("", []), layout), Segment(packet.user_prompt)]
    work = [part for item in packet.work for part in work_segments(item, layout)]
    _add(written, "user", [*asked, *work, *_directives(packet)])
    return [ChatMessage(role=role, content=content) for role, content in written]


def work_segments(item: WorkItem, layout: int = LAYOUT) -> list[Segment]:
    """What a stage's work adds to the last message, the gap before it included."""
    return [_GAP, *fenced_work(item, layout)]


def _places(packet: CognitionPacket) -> dict[str, list[ContextItem]]:
    """The pages by the turn they stand before; "" is this turn, also for a page whose turn is not there any more."""
    turns = {entry.turn_id for entry in packet.history if entry.role == "user" and not entry.summary}
    places: dict[str, list[ContextItem]] = {}
    for item in packet.context:
        places.setdefault(item.before_turn if item.before_turn in turns else "", []).append(item)
    return places


def _system(packet: CognitionPacket) -> list[Segment]:
    texts = [packet.identity, packet.persona, load_prompt("quoted_memory").body.rstrip("\n")]
    return _spaced([text for text in texts if text])


def _directives(packet: CognitionPacket) -> list[Segment]:
    texts = [text for text in (packet.role_text, packet.task_instruction) if text]
    return [_GAP, *_spaced(texts)] if texts else []


def _spaced(texts: list[str]) -> list[Segment]:
    segments = [part for text in texts for part in (_GAP, Segment(text))]
    return segments[1:]


def _pages(items: list[ContextItem], layout: int) -> list[Segment]:
    return [segment for item in items for segment in fenced(item, layout)]


def _add(written: list[tuple[Role, list[Segment]]], role: Role, content: list[Segment]) -> None:
    """A message of its own, or more of the last one when that has the same role: templates want them by turns."""
    if written[-1][0] == role:
        written[-1][1].extend((_GAP, *content))
    else:
        written.append((role, content))
