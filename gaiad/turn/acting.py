"""The Act stage: text on its way to the person, watched by the observer, read for its blocks as it comes.

A piece goes from the model through the observer's rules, then the marker parser, then the gate of the citations. What
an observer stops is not released any further; what was released before is retracted by whoever runs the turn.
"""

from collections.abc import AsyncGenerator, Collection
from contextlib import aclosing

from council.command_text import read_command
from council.observer import Observer
from council.stages import Command
from gaiad.ports import Call
from gaiad.tasks import TaskGroup
from gaiad.turn.reply_gate import ReplyGate
from gaiad.turn.stage_call import Pace, StageCall
from router.markers import MarkerParser
from router.matrix import Marker
from router.pieces import Piece

RESPONSE: Marker = "RESPONSE"
_APART = "\n\n"


class Acting:
    """One run of Act. `shown` is the answer's text as released; `others` the bodies of the other blocks, by marker."""

    def __init__(
        self, stage: StageCall, observer: Observer, known: Collection[str], allowed: Collection[Marker]
    ) -> None:
        self._stage = stage
        self._observer = observer
        self._allowed = frozenset(allowed)
        self._out_of_place = ""
        self._parser = MarkerParser("tolerant", RESPONSE)
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
    def notes(self) -> list[str]:
        """How tolerantly the text was read."""
        return list(self._parser.notes)

    @property
    def seeds(self) -> list[str]:
        """Thoughts for later."""
        return [body.strip() for marker, body in self.others if marker == "THOUGHT_SEED" and body.strip()]

    def commands(self, notes: list[str]) -> list[Command]:
        """The EXECUTE blocks that can be read and want something; what cannot be read is noted."""
        found = [read_command(body, notes) for marker, body in self.others if marker == "EXECUTE"]
        return [command for command in found if command is not None and command.argv]

    async def texts(self, call: Call, pace: Pace) -> AsyncGenerator[str, None]:
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

    def _show(self, pieces: list[Piece]) -> str:
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

    def _keep(self, piece: Piece) -> None:
        """A block of another marker; one inside it stands for itself."""
        if piece.kind == "open":
            self._open.append(len(self.others))
            self.others.append((piece.marker, ""))
        elif piece.kind == "close":
            self._open.pop()
        else:
            marker, body = self.others[self._open[-1]]
            self.others[self._open[-1]] = (marker, body + piece.text)

    def _answer(self, piece: Piece) -> None:
        """Blocks of one answer stand apart; each is shown as it comes."""
        if piece.kind == "open":
            self._answers += 1
        text = _APART + piece.text if piece.kind == "open" and self._answers > 1 else piece.text
        if text and (released := self._gate.feed(text)):
            self._shown.append(released)
