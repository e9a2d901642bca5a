"""From token bytes to text that may be shown: characters cut across tokens are joined, stop strings are held back.

Pure, and needed before llama.cpp is built. Bytes that are not UTF-8 become U+FFFD, as in a decoding of the whole at
once; a half character waits for its rest.
"""

import codecs
from collections.abc import Sequence


class TextStream:
    """Feed the bytes of each token; what comes back is safe to show. `stopped` names the stop string that was met."""

    def __init__(self, stops: Sequence[str] = ()) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._stops = [stop for stop in stops if stop]
        self._held = ""
        self.stopped: str | None = None

    def feed(self, piece: bytes) -> str:
        """Text that can no longer become part of a stop string; nothing after `stopped`."""
        return self._release(self._decoder.decode(piece)) if self.stopped is None else ""

    def finish(self) -> str:
        """What was held back: the end came before the stop string or the character was complete."""
        if self.stopped is not None:
            return ""
        text = self._release(self._decoder.decode(b"", final=True))
        text, self._held = text + self._held, ""
        return text

    def _release(self, text: str) -> str:
        text = self._held + text
        found = [(text.index(stop), -len(stop), stop) for stop in self._stops if stop in text]
        if found:
            start, _, self.stopped = min(found)
            self._held = ""
            return text[:start]
        keep = max((overlap(text, stop) for stop in self._stops), default=0)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]


def overlap(text: str, stop: str) -> int:
    """Length of the longest end of `text` that is a true beginning of `stop`."""
    for length in range(min(len(text), len(stop) - 1), 0, -1):
        if text.endswith(stop[:length]):
            return length
    return 0
