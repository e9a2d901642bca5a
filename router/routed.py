"""A turn's events on their way to one channel: what may go there, scrubbed of what may not (GCP 7.2, 7.3).

Pure: an event in, the events that leave by now out. The answer is scrubbed while it streams; what is held back of it
leaves before the next event that is not more of it, and never once it is retracted. What the deltas said since the last
retraction is, letter for letter, the answer of `done`. Where nothing is scrubbed, deltas pass as they are.
"""

import re
from collections.abc import Collection, Mapping
from typing import Any, Literal, cast

import msgspec
from msgspec import structs

from gaiad.base.channels import Channel, DeliveryMode, Stage, channel_named
from gaiad.base.config import Config
from gaiad.base.markers import read_blocks
from gaiad.wire.chat import ChatAnswer, ChatBlock, RedactionCount
from gaiad.wire.memory import SessionTurn
from gaiad.wire.schemas import ResearchResult
from router.redact import STAGES, Redaction, Redactor, redact
from router.routing import Marker, Routing, destinations, routing_of
from router.stored import Scrubber, counted

Event = tuple[str, object]
_ANSWER: Marker = "RESPONSE"
_CITATION = re.compile(r"\[Packet:([^\[\]\n]{1,400})\]")
_PARAGRAPH = re.compile(r"\n[ \t]*\n")


class _Answer:
    """The answer as it leaves: of one run of Act, until it is retracted."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._said: list[str] = []
        self._shown: list[str] = []

    @property
    def taken(self) -> list[Redaction]:
        return self._redactor.redactions

    def say(self, text: str) -> str:
        """More of it; what can be shown by now."""
        self._said.append(text)
        shown = self._redactor.feed(text)
        self._shown.append(shown)
        return shown

    def settle(self) -> str:
        """What was held back: for now no more comes."""
        rest = self._redactor.finish()
        self._shown.append(rest)
        return rest

    def shown_of(self, whole: str) -> str | None:
        """What was shown, if it is of this text; of a turn that was taken before nothing was."""
        return "".join(self._shown) if self._said and "".join(self._said) == whole else None


class RoutedTurn:
    """One turn on its way to `channel`; `subscriptions` are channels whose blocks its reader wants to see as well."""

    def __init__(self, routing: Routing, channel: Channel, subscriptions: Collection[Channel] = ()) -> None:
        self._routing = routing
        self._channel = channel
        self._subscriptions = tuple(subscriptions)
        self._scrub = Scrubber(routing.rules, routing.stages[channel])
        self._scrubs = self._scrub.stages != ()
        self._manner = self.manner(_ANSWER)
        self._answer = _Answer(self._scrub.stream())

    @property
    def taken(self) -> dict[str, int]:
        """What was taken out so far, by kind: also of what was retracted, and of all that is not the answer."""
        found = self._scrub.taken.copy()
        for item in self._answer.taken:
            found[item.kind] += item.count
        return dict(sorted(found.items()))

    @property
    def scrubs(self) -> bool:
        """Whether anything may be taken out."""
        return self._scrubs

    def manner(self, marker: str) -> DeliveryMode | None:
        """How its reader gets blocks of this marker; None for not at all."""
        return self._routing.manner(cast(Marker, marker), self._channel, self._subscriptions)

    def feed(self, name: str, data: object) -> list[Event]:
        """The events that leave now, in their order."""
        if name == "delta":
            return self._delta(data)
        if name == "retract":
            self._forget_answer()
            return [(name, self._scrub.data(data))]
        return [*self._settled(), *self._other(name, data)]

    def _delta(self, data: object) -> list[Event]:
        if self._manner is None:
            return []
        if not self._scrubs and self._manner == "show":
            return [("delta", data)]
        text: str = data["text"]  # type: ignore[index]  # as every delta has it
        return self._say(self._answer.say(text) if self._scrubs else text)

    def _settled(self) -> list[Event]:
        """What was held back of the answer."""
        return self._say(self._answer.settle()) if self._scrubs and self._manner is not None else []

    def _say(self, text: str) -> list[Event]:
        if not text:
            return []
        return [("delta", {"text": text} if self._manner == "show" else {"text": text, "manner": self._manner})]

    def _forget_answer(self) -> None:
        """It is retracted: what was held back of it never leaves."""
        self._scrub.count(self._answer.taken)
        self._answer = _Answer(self._scrub.stream())

    def _other(self, name: str, data: object) -> list[Event]:
        if isinstance(data, ChatAnswer):
            return [(name, self.answer(data))]
        if name == "also" and self._manner is None:
            return []
        if name != "block":
            return [(name, self._scrub.data(data))]
        block = cast(Mapping[str, Any], data)
        manner = self.manner(block["marker"])
        if manner is None:
            return []
        text, redactions = self._scrub.text(block["text"])
        told = {**block, "text": text, "manner": manner}
        return [(name, {**told, "redactions": msgspec.to_builtins(redactions)} if redactions else told)]

    def answer(self, answer: ChatAnswer) -> ChatAnswer:
        """What the channel may have of a whole turn. A block that may not go there is left out, not emptied.

        `redacted` are the sources whose words were scrubbed: what is stored of them is another text (decision 16).
        """
        if self._manner is None:
            told = f"answers do not go to {self._channel}: router.overrides.{self._channel}.RESPONSE is off"
            notes = [*answer.notes, told]
            answer = structs.replace(answer, answer="", sources=[], citations=[], also=None, notes=notes)
        blocks = [(block, manner) for block in answer.blocks if (manner := self.manner(block.marker)) is not None]
        if not self._scrubs:
            return structs.replace(answer, blocks=[structs.replace(block, manner=how) for block, how in blocks])
        shown, redactions = self._whole(answer.answer)
        around = self._scrub.data(structs.replace(answer, answer="", blocks=[]))
        return structs.replace(
            msgspec.convert(around, ChatAnswer),
            answer=shown,
            blocks=[
                self._scrubbed(block, how)
                if block.marker != _ANSWER or block.text != answer.answer
                else structs.replace(block, manner=how, text=shown, redactions=redactions)
                for block, how in blocks
            ],
            redactions=redactions,
            redacted=self._scrubbed_sources(answer) if redactions else [],
        )

    def _whole(self, said: str) -> tuple[str, list[RedactionCount]]:
        shown = self._answer.shown_of(said)
        return self._scrub.text(said) if shown is None else (shown, counted(self._answer.taken))

    def _scrubbed(self, block: ChatBlock, manner: DeliveryMode) -> ChatBlock:
        text, redactions = self._scrub.text(block.text)
        return structs.replace(block, manner=manner, text=text, redactions=redactions)

    def _scrubbed_sources(self, answer: ChatAnswer) -> list[str]:
        """The cited packets from whose words something was taken out: those since the citation before it in its
        paragraph. Citations in a row stand for the same words.
        """
        found: list[str] = []
        end, changed = 0, False
        for citation in _CITATION.finditer(answer.answer):
            words = _PARAGRAPH.split(answer.answer[end : citation.start()])[-1]
            if any(map(str.isalnum, words)):
                changed = self._scrub.would_change(words)
            packet = citation[1].strip()
            if changed and packet in answer.sources and packet not in found:
                found.append(packet)
            end = citation.end()
        return found

    def found(self, result: ResearchResult) -> ResearchResult:
        """What research found as the channel may show it; a quote that was scrubbed is marked (decision 16)."""
        if not self._scrubs:
            return result
        shown = msgspec.convert(self._scrub.data(result), ResearchResult)
        pairs = zip(shown.citations, result.citations, strict=True)
        citations = [structs.replace(one, redacted=one.quote != stored.quote) for one, stored in pairs]
        return structs.replace(shown, citations=citations)

    def remembered(self, turn: SessionTurn) -> SessionTurn:
        """A turn of the memory as the channel may show it; what the person said stays as it was said."""
        said = [message for message in turn.messages if self._manner is not None or message.role != "assistant"]
        return structs.replace(
            turn,
            messages=[
                structs.replace(message, content=self._scrub.text(message.content)[0])
                if message.role == "assistant"
                else message
                for message in said
            ],
            blocks=[
                structs.replace(block, text=self._scrub.text(block.text)[0])
                for block in turn.blocks
                if self.manner(block.marker) is not None
            ],
            metadata=self._scrub.data(turn.metadata),
        )


STANDING: tuple[Channel, ...] = ("council_chat", "shell", "memory")
"""What every turn has besides the channel it came from: the council's log, the approvals, the memory."""


class RoutedBlock(msgspec.Struct, frozen=True):
    """`channels` are where it goes, `manners` how; `text` is as those read it who get it scrubbed most, and without
    that of blocks inside it. `marker` "" is text that belongs to none.
    """

    marker: Marker | Literal[""]
    text: str
    channels: list[Channel]
    redactions: list[Redaction]
    manners: dict[Channel, DeliveryMode]
    depth: int = 0


class RoutedText(msgspec.Struct, frozen=True):
    """The blocks in their order, and in words what was tolerated. `channel` is where the turn came from, "" for any."""

    blocks: list[RoutedBlock]
    notes: list[str]
    channel: str = ""


def route_once(text: str, config: Config, channel: str = "") -> RoutedText:
    """`route_text` with these settings; `channel` by name or title, "" for any. Raises BadInput, ConfigError."""
    return route_text(text, routing_of(config), channel_named(channel) if channel else None)


def route_text(text: str, routing: Routing, origin: Channel | None) -> RoutedText:
    """With `origin` what a turn from there would send where (decision 15); without one all that the matrix permits."""
    output = read_blocks(text, "tolerant")
    blocks = []
    for block in output.blocks:
        manners = _destinations(routing, block.marker, origin)
        shown = redact(block.text, routing.rules, _stages(routing, manners))
        blocks.append(
            RoutedBlock(block.marker, shown.text, list(manners), shown.redactions, manners, block.depth),
        )
    return RoutedText(blocks, output.notes, origin or "")


def _destinations(
    routing: Routing, marker: Marker | Literal[""], origin: Channel | None
) -> dict[Channel, DeliveryMode]:
    if origin is not None:
        return dict(destinations(routing.table, marker, origin, STANDING))
    return dict(destinations(routing.table, marker, "council_chat", routing.stages))


def _stages(routing: Routing, channels: Collection[Channel]) -> list[Stage]:
    """All that one of the channels scrubs."""
    return [stage for stage in STAGES if any(stage in routing.stages[channel] for channel in channels)]
