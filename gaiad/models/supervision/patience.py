"""How long a worker is waited for before it counts as lost, and how often another is tried."""

import msgspec


class Patience(msgspec.Struct, frozen=True, kw_only=True):
    """How long the supervisor waits for what, in seconds, and how often it tries.

    A life of `settled_s` ends a row of failures: what failed before it counts no more.
    """

    start_s: float = 60.0
    cancel_grace_s: float = 3.0
    ping_every_s: float = 10.0
    idle_ping_every_s: float = 30.0
    ping_grace_s: float = 30.0
    first_backoff_s: float = 0.2
    longest_backoff_s: float = 30.0
    failures: int = 5
    settled_s: float = 600.0
    cancel_look_s: float = 0.015

    def backoff_s(self, failures: int) -> float:
        """The wait before the next try, after so many failures in a row: doubled each time, up to the longest."""
        return min(self.longest_backoff_s, self.first_backoff_s * 2.0 ** (failures - 1))
