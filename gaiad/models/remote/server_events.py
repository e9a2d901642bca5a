"""Server-sent events from bytes as they arrive: only the data, which is all a model server sends with meaning.

Pure. A line ends with CR LF, LF or CR; an event with an empty line, or, where a server forgets it, with the stream.
"""

from gaiad.models.remote.fault import Fault

_LONGEST_EVENT = 4 * 1024 * 1024


class ServerEvents:
    """Feed what arrived; what comes back is the data of each event that is complete."""

    def __init__(self, longest: int = _LONGEST_EVENT) -> None:
        self._longest = longest
        self._rest = b""
        self._data: list[bytes] = []
        self._size = 0

    def feed(self, arrived: bytes) -> list[bytes]:
        """Data of the events that ended in `arrived`. Raises Fault when one has no end."""
        buffer = self._rest + arrived
        whole = buffer[:-1] if buffer.endswith(b"\r") else buffer  # the LF of a CR LF may be still to come
        lines = whole.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        self._rest = lines.pop() + buffer[len(whole) :]
        found = [data for line in lines if (data := self._line(line)) is not None]
        if len(self._rest) + self._size > self._longest:
            raise Fault(f"it sent an event of more than {self._longest} bytes")
        return found

    def finish(self) -> list[bytes]:
        """The last event, when the stream ended without its empty line; half a line is nobody's."""
        self._rest = b""
        return self.feed(b"\n\n")

    def _line(self, line: bytes) -> bytes | None:
        if line.startswith(b"data:"):
            value = line[5:].removeprefix(b" ")
            self._data.append(value)
            self._size += len(value)
            return None
        if line or not self._data:  # a comment, another field, an event without data
            return None
        data, self._data, self._size = b"\n".join(self._data), [], 0
        return data
