"""Lets roles speak for the initiative within what a run may spend, and counts what they wrote.

A call holds all it may write until it ends. One that was cancelled or failed is counted in full, for how much was
written by then is not known; one whose packet could not be made costs nothing.
"""

import asyncio
from typing import Any

from council.floor import Ask, Said, Speaker
from gaiad.errors import BadInput, Cancelled, Unavailable
from gaiad.ports import Call


class Meter:
    """What one run may write, and what it wrote or holds, in tokens."""

    def __init__(self, allowance: int) -> None:
        self.allowance = allowance
        self.spent = 0

    def hold(self, tokens: int) -> None:
        """Raises Unavailable when so much more would be above the allowance."""
        if self.spent + tokens > self.allowance:
            raise Unavailable(
                f"the initiative may write {self.allowance} tokens in this run and has spent {self.spent}; "
                f"{tokens} more are too many. Raise initiative.daily_tokens"
            )
        self.spent += tokens

    def give_back(self, tokens: int) -> None:
        """So many of the held ones were not written."""
        self.spent -= tokens


class MeteredSpeaker:
    """A Speaker over another one. Nobody speaks before `begin`, and a late call counts in the run that it began in."""

    def __init__(self, speaker: Speaker) -> None:
        self._speaker = speaker
        self._meter = Meter(0)
        self._stopped = False
        self._speaking: set[tuple[Call, asyncio.Task[Any] | None]] = set()

    def begin(self, allowance: int) -> Meter:
        """A new run with so many tokens."""
        self._meter = Meter(allowance)
        return self._meter

    def allow(self) -> None:
        """Whoever asks from now on is heard again."""
        self._stopped = False

    def stop(self) -> None:
        """End every call that runs, also a late ballot's: each is cancelled when this returns, and none begins."""
        self._stopped = True
        for call, task in self._speaking:
            call.cancel()
            if task is not None:
                task.cancel()

    async def say(self, ask: Ask, call: Call) -> Said:
        """Raises Unavailable when the run has no room for it, Cancelled after a stop, and what the other one raises."""
        if self._stopped:
            raise Cancelled("the initiative gave way before this was asked; it is asked again later")
        meter = self._meter
        meter.hold(ask.max_tokens)
        running = (call, asyncio.current_task())
        self._speaking.add(running)
        try:
            said = await self._speaker.say(ask, call)
        except BadInput:
            meter.give_back(ask.max_tokens)
            raise
        finally:
            self._speaking.discard(running)
        meter.give_back(ask.max_tokens - min(said.tokens, ask.max_tokens))
        return said
