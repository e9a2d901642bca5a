"""How many threads a short batch gets: all of them while the cores are free, fewer while others work on them.

Threads wait for each other after every step of a model, some 150 times a batch. Where one of two cores is taken, each
time one waits until the other is let on again: on a machine in full use a query of 7 ms takes two threads 110 ms (and
three times the processor time, for they wait spinning), one thread 35 ms.

Learned from the batches themselves: threads that were let run used as much processor time as time passed. Pure.
"""

SHORT_TOKENS = 64  # longer batches have longer steps, which are delayed less than they gain
_LET_RUN = 0.45
"""Threads that had a core for less of their time were crowded: it is .8 on a quiet machine, where the daemon works
beside them, and .15 on one in full use."""
_FIRST_STAY, _LONGEST_STAY = 8, 256


class Crowding:
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
