"""What a worker has to say, written by a thread of its own, so that no engine waits for a slow reader.

A daemon that is slow, or stopped, delays its own text and nothing else. What waits stays small: pieces of one reply are
joined until they can be sent, so that there is at most one piece and one last word a request.
"""

import itertools
import threading
from collections.abc import Callable

from gaiad.models.supervision.protocol import Delta, Failed, LoadFailed, ProtocolError, Ready, Reply, encode_frame

_FLUSH_S = 5.0


class Outbox:
    """`put` from any thread. `write` sends bytes and may block; when it raises, `broken` is called and all is over."""

    def __init__(self, write: Callable[[bytes], None], broken: Callable[[OSError], None]) -> None:
        self._write = write
        self._broken = broken
        self._changed = threading.Condition()
        self._waiting: dict[int, Reply] = {}  # a piece under its request's id, all else under a number below 0
        self._other = itertools.count(-1, -1)
        self._writing = False
        threading.Thread(target=self._run, name="writer", daemon=True).start()

    def put(self, reply: Reply) -> None:
        """Queue it; never blocks."""
        with self._changed:
            if isinstance(reply, Delta):
                before = self._waiting.get(reply.id)
                self._waiting[reply.id] = _joined(before, reply) if isinstance(before, Delta) else reply
            else:
                self._waiting[next(self._other)] = reply
            self._changed.notify_all()

    def flush(self, timeout_s: float = _FLUSH_S) -> bool:
        """Wait until everything is written; False when the reader does not take it in time."""
        with self._changed:
            return self._changed.wait_for(lambda: not (self._waiting or self._writing), timeout_s)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._writing = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: bool(self._waiting))
                replies, self._waiting = list(self._waiting.values()), {}
                self._writing = True
            try:
                self._write(b"".join(map(_frame, replies)))
            except OSError as error:
                self._broken(error)
                return


def _joined(before: Delta, after: Delta) -> Delta:
    return Delta(id=after.id, text=before.text + after.text, tokens=after.tokens)


def _frame(reply: Reply) -> bytes:
    """A reply that is too large for a frame becomes the failure of its request."""
    try:
        return encode_frame(reply)
    except ProtocolError as error:
        if isinstance(reply, Ready | LoadFailed):
            raise
        return encode_frame(Failed(id=reply.id, code="engine", reason=str(error)))
