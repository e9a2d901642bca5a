"""What a turn that runs by itself has told so far: numbered, bounded, and read by each reader at its own pace.

Nothing is kept for a reader but its place: a slow one costs nothing, and a late one gets text in larger pieces. Beyond
the bound the oldest is let go, and who had not read it is told how much there was; the last event, `done`, is whole.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Any, NamedTuple

import msgspec

OnEvent = Callable[[str, dict[str, Any]], None]
"""Hears what happens in a run or turn while it does: the event's name and its data."""
LIMIT_BYTES = 4 * 1024 * 1024
DELTA, MISSED = "delta", "missed"
_PIECE_CHARACTERS = 16_384  # of text in one event for a late reader
_OVERHEAD_BYTES = 200  # of an event beside its text
_NO_BODY = msgspec.Raw()
_FULL_AGAIN = 0.9  # of the bound stays when there is too much, so that not every further event moves all the others


class Numbered(NamedTuple):
    """An event as it is read. `number` is where to go on after it; `data` is a value, or JSON as it was kept."""

    number: int
    name: str
    data: object


class _Kept(NamedTuple):
    name: str
    body: msgspec.Raw
    text: str | None = None  # of a delta, which has no body
    rest: dict[str, Any] | None = None  # what a delta says besides its text

    @property
    def size(self) -> int:
        return _OVERHEAD_BYTES + len(self.text.encode() if self.text is not None else bytes(self.body))


class RunEvents:
    """Add from the event loop's thread; follow from any number of tasks on it. Events are numbered from 1."""

    def __init__(self, limit_bytes: int = LIMIT_BYTES) -> None:
        self._limit = limit_bytes
        self._kept: list[_Kept] = []
        self._dropped = 0
        self._news = asyncio.Event()
        self.bytes = 0
        self.ended = False
        self.readers = 0

    @property
    def last(self) -> int:
        """The number of the newest event, 0 before the first."""
        return self._dropped + len(self._kept)

    def add(self, name: str, data: object) -> None:
        """Number the event, keep it, wake the readers."""
        kept = _kept(name, data)
        self._kept.append(kept)
        self.bytes += kept.size
        if self.bytes > self._limit:
            self._let_go(self._limit)
        self._wake()

    def end(self) -> None:
        """There will be no more."""
        self.ended = True
        self._wake()

    async def follow(self, after: int = 0) -> AsyncGenerator[Numbered, None]:
        """Every event above `after`, until the last one. A number that was never given begins at the beginning."""
        cursor = after if 0 <= after <= self.last else 0
        self.readers += 1
        try:
            while True:
                news = self._news
                while (found := self._next(cursor)) is not None:
                    cursor = found.number
                    yield found
                if self.ended:
                    return
                await news.wait()
        finally:
            self.readers -= 1

    def _next(self, after: int) -> Numbered | None:
        """What a reader that is at `after` reads next."""
        if after < self._dropped:
            return Numbered(self._dropped, MISSED, {"events": self._dropped - after})
        if after >= self.last:
            return None
        kept = self._kept[after - self._dropped]
        if kept.text is None:
            return Numbered(after + 1, kept.name, kept.body)
        return self._text(after, kept)

    def _text(self, after: int, first: _Kept) -> Numbered:
        """The delta after `after`, with those that follow it at once."""
        pieces, characters = list[str](), 0
        for index in range(after - self._dropped, len(self._kept)):
            kept = self._kept[index]
            if kept.text is None or kept.rest != first.rest or characters >= _PIECE_CHARACTERS:
                break
            pieces.append(kept.text)
            characters += len(kept.text)
        return Numbered(after + len(pieces), DELTA, {**(first.rest or {}), "text": "".join(pieces)})

    def let_go(self) -> bool:
        """Give up the oldest part of what is kept; False when nothing can be given up any more."""
        before = self._dropped
        self._let_go(self.bytes)
        return self._dropped > before

    def _let_go(self, limit: int) -> None:
        """The oldest events, somewhat below the bound; the newest one stays whatever its size."""
        bound, number = limit * _FULL_AGAIN, 0
        while number < len(self._kept) - 1 and self.bytes > bound:
            self.bytes -= self._kept[number].size
            number += 1
        del self._kept[:number]
        self._dropped += number

    def _wake(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()


async def alone(event: Numbered) -> AsyncGenerator[Numbered, None]:
    """One event, as the events of a run that told nothing else."""
    yield event


def _kept(name: str, data: object) -> _Kept:
    if name == DELTA and isinstance(data, dict) and isinstance(data.get("text"), str):
        rest = {key: value for key, value in data.items() if key != "text"}
        return _Kept(DELTA, _NO_BODY, data["text"], rest or None)
    return _Kept(name, msgspec.Raw(msgspec.json.encode(data)))
