"""How many prompt tokens a step may take while others write: so many that nobody waits longer for the step than aimed.

Learned from the steps themselves, so that it holds on any machine and under any load. Pure.
"""

AIM_S = 0.25
FIRST_CHUNK = 64  # before anything was measured
_SMALLEST = 16
_UNIT = 16  # the matrix kernels work in tiles of so many rows
_SHARE_OF_NEWEST = 0.3


class Pace:
    """`lone_chunk` is the most a step takes of prompts when nobody else writes."""

    def __init__(self, lone_chunk: int) -> None:
        self.lone_chunk = lone_chunk
        self._writing_s = 0.0
        self._reading_s = 0.0  # a token

    @property
    def shared_chunk(self) -> int:
        """Prompt tokens in a step that others wait for."""
        if not self._reading_s:
            return min(FIRST_CHUNK, self.lone_chunk)
        fitting = min((AIM_S - self._writing_s) / self._reading_s, self.lone_chunk)  # may be infinite before the min
        return min(max(_SMALLEST, int(fitting) // _UNIT * _UNIT), self.lone_chunk)

    def note(self, read: int, written: int, took_s: float) -> None:
        """A step took so long for `read` tokens of prompts and one token each of `written` replies."""
        if not read:
            self._writing_s = _moved(self._writing_s, took_s)
        elif read >= _SMALLEST:
            own_s = took_s - (self._writing_s if written else 0.0)
            self._reading_s = _moved(self._reading_s, max(0.0, own_s) / read)


def _moved(usual: float, newest: float) -> float:
    return newest if not usual else usual + _SHARE_OF_NEWEST * (newest - usual)
