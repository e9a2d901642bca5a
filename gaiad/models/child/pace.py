"""How many prompt tokens a step may take: so many that nobody waits longer for the step than aimed.

Others who write wait for it, and when nobody writes the daemon does, which takes a worker for lost that is silent.

Learned from the steps themselves, so that it holds on any machine and under any load. Pure.
"""

AIM_S = 0.25  # while others write
LONE_AIM_S = 2.0  # while nobody does: pings are answered between steps
FIRST_CHUNK = 64  # before anything was measured
_SMALLEST = 16
_UNIT = 16  # the matrix kernels work in tiles of so many rows
_SHARE_OF_NEWEST = 0.3


class Pace:
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
