"""One maker of sortable ids: 48 bits of milliseconds and 80 random bits in Crockford base 32 (a ULID).

Ids made in one process never go backwards: within a millisecond the random part counts up. GCP's eight hex digits
(`short`) are for show; they collide, so nothing is looked up by them.
"""

import hashlib
import secrets
import threading
from datetime import datetime

from gaiad.base.clock import Clock, to_epoch_ms

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_RANDOM_BITS = 80


class IdMaker:
    """Makes ids from an injected clock; safe to call from any thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._last = 0

    def make(self, prefix: str = "") -> str:
        """`prefix_` (when given) and 26 characters; lexical order is order of making."""
        fresh = (to_epoch_ms(self._clock.now()) << _RANDOM_BITS) | secrets.randbits(_RANDOM_BITS)
        with self._lock:
            self._last = fresh if fresh > self._last else self._last + 1
            value = self._last
        return _written(value, prefix)


def lowest(moment: datetime, prefix: str = "") -> str:
    """Below every id made at this moment or later, not below one made before it."""
    return _written(to_epoch_ms(moment) << _RANDOM_BITS, prefix)


def _written(value: int, prefix: str) -> str:
    text = "".join(_ALPHABET[(value >> shift) & 31] for shift in range(125, -1, -5))
    return f"{prefix}_{text}" if prefix else text


def short(identifier: str) -> str:
    """The eight hexadecimal digits GCP shows for an id; for display only."""
    return hashlib.sha256(identifier.encode()).hexdigest()[:8]
