"""The reply of a remote server, from the bytes of its event stream to our deltas. Pure."""

from typing import Any, Literal

import msgspec

from gaiad.models.child.text_stream import TextStream
from gaiad.models.remote.access import Fault
from gaiad.models.remote.wire import Choice, Chunk, Usage, error_in, marked_schema
from gaiad.wire.generation import GenerateRequest, TextDelta

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


_JSON_KINDS = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}
_BROKEN_OFF = ("abort", "error", "cancelled", "canceled")


class RemoteReply:
    """Feed each chunk; what comes back is given to the caller. `ended` is True when no more is wanted."""

    def __init__(self, request: GenerateRequest) -> None:
        self._schema, marker = marked_schema(request)
        self._stream = TextStream(request.stop)
        self._marker = MarkerFront(marker)
        self._parts: list[str] = []
        self._finish = ""
        self._named_stop = ""
        self.pieces = 0
        self.usage: Usage | None = None
        self.system_fingerprint = ""
        self.first_at: float | None = None
        self.ended = False

    @property
    def begun(self) -> bool:
        """Whether text was given out already, which rules out a second try."""
        return bool(self._parts)

    @property
    def text(self) -> str:
        return "".join(self._parts)

    @property
    def stop(self) -> str:
        """The stop string that was met, as far as anybody knows which."""
        return self._stream.stopped or self._named_stop

    @property
    def reason(self) -> Literal["end", "stop", "length"]:
        if self.stop:
            return "stop"
        return "length" if self._finish == "length" else "end"

    def take(self, chunk: Chunk, now: float) -> list[TextDelta]:
        """At most one delta. Raises Fault for an error in the stream."""
        if problem := error_in(chunk):
            raise Fault(f"it stopped with an error: {problem}", well=True)
        self.usage = chunk.usage or self.usage
        self.system_fingerprint = chunk.system_fingerprint or self.system_fingerprint
        for choice in (chunk.choices or ())[:1]:
            return self._take_choice(choice, now)
        return []

    def _take_choice(self, choice: Choice, now: float) -> list[TextDelta]:
        text = choice.new_text
        if text or choice.thinks:
            self.pieces += 1
            self.first_at = now if self.first_at is None else self.first_at
        if choice.finish_reason:
            self._finish, self._named_stop = choice.finish_reason, choice.stop_named
        shown = self._give(self._marker.feed(self._stream.feed(text.encode("utf-8", "replace"))))
        self.ended = self._stream.stopped is not None
        return shown

    def finish(self) -> list[TextDelta]:
        """What was held back. Raises Fault when the reply did not come to an end, or does not have its form."""
        if not self.ended and not self._finish:
            raise Fault("the reply ended early (no finish_reason)" + _INTERRUPTED)
        if self._finish in _BROKEN_OFF:
            raise Fault(f"the server gave up on the reply (finish_reason {self._finish})", well=True)
        if self._finish == "content_filter":
            raise Fault("its content filter ended the reply; change the prompt or ask another model", status=400)
        last = self._give(self._marker.feed(self._stream.finish()) + self._marker.finish())
        problem = (
            form_problem(self._marker.body(self.text), self._schema) if self._schema and self.reason == "end" else ""
        )
        if problem:
            raise Fault(f"the reply does not have the requested form ({problem}); ask again", well=True)
        return last

    def _give(self, text: str) -> list[TextDelta]:
        if not text:
            return []
        self._parts.append(text)
        return [TextDelta(text=text, tokens=self.pieces)]


_INTERRUPTED = (
    "; llama-cpp-python's server does this when another request comes, unless run with --interrupt_requests False"
)


class MarkerFront:
    """Puts a stage's marker before a reply that a server wrote as bare JSON, unless the model wrote it itself."""

    def __init__(self, marker: str) -> None:
        self._marker = marker
        self._held = ""
        self._decided = not marker

    def feed(self, text: str) -> str:
        """Text to show; nothing until it is clear how the reply begins."""
        if self._decided:
            return text
        self._held += text
        begins = self._held.lstrip()
        if not begins or (self._marker.rstrip().startswith(begins) and begins != self._marker.rstrip()):
            return ""
        return self._decide(begins)

    def finish(self) -> str:
        """What is still held when the reply has ended."""
        return "" if self._decided or not self._held.strip() else self._decide(self._held.lstrip())

    def body(self, text: str) -> str:
        """The reply without its marker."""
        return text.removeprefix(self._marker.rstrip())

    def _decide(self, begins: str) -> str:
        self._decided = True
        return begins if begins.startswith(self._marker.rstrip()) else self._marker + begins


def form_problem(text: str, schema: dict[str, Any]) -> str:
    """Why `text` is not at its top what `schema` asks for, JSON of that type with the required keys; "" when it is."""
    try:
        value = msgspec.json.decode(text.strip().encode("utf-8", "replace"))
    except msgspec.DecodeError as error:
        return f"no JSON: {error}"
    kind = _JSON_KINDS.get(str(schema.get("type")), object)
    if not isinstance(value, kind):
        return f"{schema['type']} expected"
    missing = [key for key in schema.get("required", ()) if isinstance(value, dict) and key not in value]
    return f"it lacks {', '.join(missing)}" if missing else ""
