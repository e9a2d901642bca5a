"""The Act stage: text on its way to the person, watched by the observer, read for its blocks as it comes.

A piece goes from the model through the observer's rules, then the marker parser, then the gate of the citations. What
an observer stops is not released any further; what was released before is retracted by whoever runs the turn.
"""

import re
from collections.abc import AsyncGenerator, Collection
from contextlib import aclosing

from council.observer import Observer
from council.stage_output import read_command
from council.stages import Command
from gaiad.archive.reading.reader import ID_MAX_CHARS
from gaiad.base.citations import BRACKETS, LONGEST_LOOK, OPENING, looks, may_become
from gaiad.base.marker_forms import MarkerPiece
from gaiad.base.markers import PREAMBLE_CHARACTERS, MarkerParser
from gaiad.base.ports import RequestContext
from gaiad.base.tasks import TaskGroup
from gaiad.turn.stage_call import CallDeadlines, StageCall
from router.routing import Marker

_LONGEST_INSIDE = ID_MAX_CHARS + 8  # an id with the spaces around it
_LONGEST_OPEN = len(OPENING) + _LONGEST_INSIDE
_CITATION = re.compile(rf"\[Packet:([^\[\]\n]{{1,{_LONGEST_INSIDE}}})\]")
_BRACKET = re.compile(f"[{re.escape(BRACKETS)}]")


class ReplyGate:
    """Feed pieces, take what may be shown; `finish` gives the rest. `removed` are ids that nobody gave the model."""

    def __init__(self, marker: str, known: Collection[str]) -> None:
        self._marker = f"{marker}:"
        self._known = frozenset(known)
        self._begun = False
        self._held = ""
        self.removed: list[str] = []
        self.cited: list[str] = []

    def feed(self, text: str) -> str:
        """What can be shown by now."""
        self._held += text
        if not self._begun and not self._begin(final=False):
            return ""
        keep = _open_at(self._held)
        shown, self._held = self._held[:keep], self._held[keep:]
        return self._check(shown)

    def finish(self) -> str:
        """What was held back: no more text comes."""
        self._begin(final=True)
        shown, self._held = self._held, ""
        return self._check(shown)

    def _begin(self, *, final: bool) -> bool:
        """Drop the marker and the space around it; False while it may still come."""
        if self._begun:
            return True
        text = self._held.lstrip()
        if not final and (not text or (len(text) < len(self._marker) and self._marker.startswith(text))):
            return False
        found = text.startswith(self._marker)
        rest = text[len(self._marker) :].lstrip() if found else text
        if found and not rest and not final:
            return False
        self._held, self._begun = rest, True
        return True

    def _check(self, text: str) -> str:
        parts, place = list[str](), 0
        for start, end in looks(text):
            if start < place:
                continue
            parts.append(text[place:start])
            place = self._citation(text, start, end, parts)
        return "".join([*parts, text[place:]])

    def _citation(self, text: str, start: int, end: int, parts: list[str]) -> int:
        """Put the replacement of text[start:...] into `parts`; where the text goes on."""
        found = _CITATION.match(text, start)
        if found is None:
            parts.append(f"({text[start + 1 : end]}")
            return end
        packet = found[1].strip()
        if packet in self._known:
            if packet not in self.cited:
                self.cited.append(packet)
            parts.append(found[0])
        else:
            self.removed.append(packet)
            parts[-1] = parts[-1].removesuffix(" ")
        return found.end()


def _open_at(text: str) -> int:
    """Where a citation that is not closed yet may begin, with the space before it; the length when none does."""
    start = len(text)
    for found in _BRACKET.finditer(text, max(0, len(text) - LONGEST_LOOK - _LONGEST_OPEN)):
        tail = text[found.start() :]
        real = tail.startswith(OPENING) and len(tail) <= _LONGEST_OPEN and not ("]" in tail or "\n" in tail)
        if real or may_become(tail):
            start = found.start()
            break
    return start - 1 if text[:start].endswith(" ") else start


RESPONSE: Marker = "RESPONSE"
_APART = "\n\n"


class Acting:
    """One run of Act. `shown` is the answer's text as released; `others` the bodies of the other blocks, by marker.

    Plain text is the answer from its first word on; before blocks there may be a preamble, which is held back.
    """

    def __init__(
        self, stage: StageCall, observer: Observer, known: Collection[str], allowed: Collection[Marker]
    ) -> None:
        self._stage = stage
        self._observer = observer
        self._allowed = frozenset(allowed)
        self._out_of_place = ""
        form = stage.asked.contract or stage.asked.schema
        self._parser = MarkerParser("tolerant", RESPONSE, preamble_characters=PREAMBLE_CHARACTERS if form else 0)
        self._gate = ReplyGate(RESPONSE, known)
        self._shown: list[str] = []
        self._answers = 0
        self.others: list[tuple[str, str]] = []
        self._open: list[int] = []

    @property
    def shown(self) -> str:
        return "".join(self._shown)

    @property
    def cited(self) -> list[str]:
        return self._gate.cited

    @property
    def removed(self) -> list[str]:
        """Packets it cited that nobody gave it."""
        return self._gate.removed

    @property
    def stopped(self) -> str:
        """Why it must stop, "" when nothing speaks against it: an observer said so, or it opens a block it may not."""
        return self._out_of_place or ("" if self._observer.stop is None else self._observer.stop.reason)

    @property
    def broken(self) -> str:
        """The rule that the text broke, "" for none and where a model stopped it."""
        stop = self._observer.stop
        return "marker" if self._out_of_place else stop.rule if stop is not None else ""

    @property
    def notes(self) -> list[str]:
        """How tolerantly the text was read."""
        return list(self._parser.notes)

    @property
    def beside(self) -> list[tuple[Marker, str]]:
        """Thoughts for later, and plans, which the council is told (GCP 7.4)."""
        markers: tuple[Marker, ...] = ("THOUGHT_SEED", "PLAN")
        return [
            (marker, text.strip())
            for marker in markers
            for kept, text in self.others
            if kept == marker and text.strip()
        ]

    def commands(self, notes: list[str]) -> list[Command]:
        """The EXECUTE blocks that can be read and want something; what cannot be read is noted."""
        found = [read_command(body, notes) for marker, body in self.others if marker == "EXECUTE"]
        return [command for command in found if command is not None and command.argv]

    async def texts(self, call: RequestContext, pace: CallDeadlines) -> AsyncGenerator[str, None]:
        """What the person is shown, as it comes. Raises as StageCall.pieces."""
        async with TaskGroup("act") as tasks, aclosing(self._stage.pieces(call, pace)) as pieces:
            tasks.start("stop", self._cut_when_stopped())
            async for piece in pieces:
                if text := self._release(piece):
                    yield text
                if self.stopped:
                    break
        if text := self._last():
            yield text

    async def _cut_when_stopped(self) -> None:
        """A model that reads along may speak while the writing one is silent."""
        await self._observer.wait_stop()
        self._stage.cut()

    def _release(self, piece: str) -> str:
        return self._show(self._parser.feed(self._observer.feed(piece)))

    def _last(self) -> str:
        """What was held back. After a stop only what was released before it goes on, for it will be retracted whole."""
        if self.stopped:
            return ""
        text = self._show([*self._parser.feed(self._observer.finish()), *self._parser.finish()])
        rest = self._gate.finish()
        self._shown.append(rest)
        return text + rest

    def _show(self, pieces: list[MarkerPiece]) -> str:
        before = len(self._shown)
        for piece in pieces:
            if piece.marker and piece.marker not in self._allowed:
                self._out_of_place = f"it writes a {piece.marker} block, which it may not here"
                break
            if piece.marker == RESPONSE:
                self._answer(piece)
            else:
                self._keep(piece)
        return "".join(self._shown[before:])

    def _keep(self, piece: MarkerPiece) -> None:
        """A block of another marker; one inside it is a block of its own."""
        if piece.kind == "open":
            self._open.append(len(self.others))
            self.others.append((piece.marker, ""))
        elif piece.kind == "close":
            self._open.pop()
        else:
            marker, body = self.others[self._open[-1]]
            self.others[self._open[-1]] = (marker, body + piece.text)

    def _answer(self, piece: MarkerPiece) -> None:
        """Blocks of one answer stand apart; each is shown as it comes."""
        if piece.kind == "open":
            self._answers += 1
        text = _APART + piece.text if piece.kind == "open" and self._answers > 1 else piece.text
        if text and (released := self._gate.feed(text)):
            self._shown.append(released)
