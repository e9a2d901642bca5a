"""Who gets how many tokens of the next step, and how many threads a short batch gets. Pure.

Every sequence that decodes gets its one token; what is left goes to prompts, the most urgent first, in chunks that are
small while others decode (they wait for the whole step) and large when nobody does. Background work does not write
while a prompt of a person is read. How long a token takes is learned from the steps, so that chunks fit any machine
under any load.

Threads wait for each other after every step of a model, some 150 times a batch. Where one of two cores is taken, a
query of 7 ms takes two threads 110 ms, one thread 35 ms; so after a crowded batch the next gets fewer threads.
"""

from collections.abc import Sequence

import msgspec


class Want(msgspec.Struct, frozen=True, kw_only=True):
    """What one sequence has to evaluate: 1 pending token means that it decodes. `rank` is priority and arrival."""

    pending: int
    rank: tuple[int, int]
    prefilling: bool


def plan_step(wants: Sequence[Want], lone_chunk: int, shared_chunk: int) -> list[int]:
    """Tokens per sequence, in the order given; never more in all than the prompts' chunk plus one per decoder."""
    urgent = min((want.rank[0] for want in wants if want.prefilling), default=None)
    counts = [int(not want.prefilling and (urgent is None or want.rank[0] <= urgent)) for want in wants]
    budget = shared_chunk if any(counts) else lone_chunk
    for index in sorted(range(len(wants)), key=lambda index: wants[index].rank):
        if wants[index].prefilling:
            counts[index] = min(wants[index].pending, budget)
            budget -= counts[index]
    return counts


AIM_S = 0.25  # while others write
LONE_AIM_S = 2.0  # while nobody does: pings are answered between steps
FIRST_CHUNK = 64  # before anything was measured
_SMALLEST = 16
_UNIT = 16  # the matrix kernels work in tiles of so many rows
_SHARE_OF_NEWEST = 0.3


class StepBudget:
    """`most` is the most a step ever takes of prompts."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._writing_s = 0.0
        self._reading_s = 0.0  # a token

    @property
    def shared_chunk(self) -> int:
        """Prompt tokens in a step that others wait for."""
        return self._fitting(AIM_S - self._writing_s)

    @property
    def lone_chunk(self) -> int:
        """Prompt tokens in a step when nobody else writes."""
        return self._fitting(LONE_AIM_S)

    def _fitting(self, time_s: float) -> int:
        if not self._reading_s:
            return min(FIRST_CHUNK, self._most)
        fitting = min(time_s / self._reading_s, self._most)  # may be infinite before the min
        return min(max(_SMALLEST, int(fitting) // _UNIT * _UNIT), self._most)

    def note(self, read: int, written: int, took_s: float) -> None:
        """A step took so long for `read` tokens of prompts and one token each of `written` replies."""
        if not read:
            self._writing_s = _moved(self._writing_s, took_s)
        elif read >= _SMALLEST:
            own_s = took_s - (self._writing_s if written else 0.0)
            self._reading_s = _moved(self._reading_s, max(0.0, own_s) / read)


def _moved(usual: float, newest: float) -> float:
    return newest if not usual else usual + _SHARE_OF_NEWEST * (newest - usual)


SHORT_TOKENS = 64  # longer batches have longer steps, which are delayed less than they gain
_LET_RUN = 0.45
"""Threads that had a core for less of their time were crowded: it is .8 on a quiet machine, where the daemon works
beside them, and .15 on one in full use."""
_FIRST_STAY, _LONGEST_STAY = 8, 256


class ThreadThrottle:
    """`most` threads at most. After a crowded batch the next get half as many, and now and then twice as many again."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._threads = most
        self._stay = _FIRST_STAY
        self._left = 0

    def threads(self, tokens: int) -> int:
        """For the next batch, of so many tokens."""
        return self._threads if tokens <= SHORT_TOKENS else self._most

    def note(self, threads: int, tokens: int, took_s: float, processor_s: float) -> None:
        """A batch took so long, and so much processor time of all its threads together."""
        if tokens > SHORT_TOKENS or threads != self._threads or took_s <= 0:
            return
        crowded = processor_s < _LET_RUN * took_s * threads
        if crowded and threads > 1:
            self._threads = (threads + 1) // 2
            self._left = self._stay
            self._stay = min(2 * self._stay, _LONGEST_STAY)
        elif threads == self._most:
            self._stay = _FIRST_STAY
        else:
            self._left -= 1
            if self._left <= 0:
                self._threads = min(2 * threads, self._most)
