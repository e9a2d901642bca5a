"""What the bare loop is asked for and what it answers, apart from the loop itself: a bench must not load llama.cpp."""

from typing import Literal

import msgspec

from gaiad.generation import Sampling


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """The context's sizes, as the worker's are: `cells` and `batch` in tokens; one sequence more keeps the prefix."""

    threads: int
    cells: int
    batch: int
    sequences: int
    flash: bool
    sampling: Sampling = Sampling()


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """prefill: `tokens` prompt tokens shared out over `sequences` prompts, none of them read before.

    decode: `tokens` a sequence, after a beginning of `prefix` tokens that all sequences share.
    """

    what: Literal["prefill", "decode"]
    sequences: int
    tokens: int
    prefix: int = 0


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """What was read or written in all, and how long it took. Loading and what all share are not counted."""

    tokens: int
    seconds: float

    @property
    def rate(self) -> float:
        """Tokens a second."""
        return self.tokens / self.seconds
