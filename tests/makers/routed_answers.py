"""Answers and their events on the way through the router, and what a channel hears of them."""

from typing import Any

from gaiad.base.channels import Channel
from gaiad.wire.chat import ChatAnswer, ChatBlock, HistoryNote, RedactionCount
from router.redact import RedactionSettings
from router.routed import Event, RoutedTurn
from router.routing import Routing, make_routing

ROUTING = make_routing({}, {}, RedactionSettings(names=["Jane Doe"]))
SAID = "Write to jane.doe@acme.org or to Jane Doe."
SHOWN = "Write to [e-mail] or to [name]."
TAKEN = [RedactionCount(kind="email", count=1), RedactionCount(kind="name", count=1)]


def answer_of(text: str, *blocks: ChatBlock, **more: Any) -> ChatAnswer:
    """A turn's answer; the RESPONSE block is added."""
    values: dict[str, Any] = {
        "session_id": "s-1",
        "turn_id": "turn_20231105T101010_0001",
        "packet_id": "0a1b2c3d",
        "blocks": [*blocks, ChatBlock(marker="RESPONSE", text=text)],
        "answer": text,
        "sources": [],
        "status": "SUCCESS",
        "engine": "extractive",
        "persona": "plain",
        "history": HistoryNote(sought=False, why="nothing to look up"),
        "timings": {},
        "tokens": {},
    }
    return ChatAnswer(**values | more)


def deltas(*texts: str) -> list[Event]:
    return [("delta", {"text": text}) for text in texts]


def routed(events: list[Event], channel: Channel, routing: Routing = ROUTING) -> list[Event]:
    turn = RoutedTurn(routing, channel)
    return [leaving for name, data in events for leaving in turn.feed(name, data)]


def heard(events: list[Event]) -> str:
    """What the deltas said since the last retraction."""
    text = ""
    for name, data in events:
        if name == "retract":
            text = ""
        elif name == "delta":
            assert isinstance(data, dict)
            text += data["text"]
    return text


def done(events: list[Event]) -> ChatAnswer:
    answer = events[-1][1]
    assert isinstance(answer, ChatAnswer)
    return answer


def block(marker: str, text: str) -> Event:
    return "block", {"marker": marker, "text": text, "role": "prime"}
