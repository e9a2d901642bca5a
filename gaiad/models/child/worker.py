"""A model's child process: `python -m gaiad.models.child.worker FD PARENT_PID`.

A reader thread takes requests and cancels off the socket; the main thread runs the engine; a writer thread sends the
replies, so that no engine waits for a slow reader. The process ends with its parent, kill -9 included: the kernel
signals it (PR_SET_PDEATHSIG), and an end of file on the socket is an exit. It holds nothing durable, so it may die at
any moment.
"""

import ctypes
import itertools
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from typing import Any, Protocol

from gaiad.models.supervision.protocol import (
    HEADER_BYTES,
    PROTOCOL_VERSION,
    Cancel,
    CompileForm,
    Delta,
    Embed,
    Failed,
    Generate,
    Load,
    LoadFailed,
    Ping,
    ProtocolError,
    Ready,
    Render,
    Reply,
    Request,
    Stop,
    Tokenize,
    decode_request,
    encode_frame,
    frame_length,
)

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


_PR_SET_PDEATHSIG = 1


class RequestQueue(Protocol):
    """Where the reader thread leaves what it read; the engine looks there."""

    def put(self, request: Any) -> None: ...

    def cancel(self, request_id: int) -> None: ...

    def ping(self, ping: Ping) -> None: ...

    def close(self) -> None: ...


class Engine(Protocol):
    """What a worker runs. `serve` works on the main thread until the line that `open_line` gave is closed."""

    def describe(self) -> Ready: ...

    def open_line(self, reply: Callable[[Reply], None]) -> RequestQueue: ...

    def serve(self) -> None: ...

    def close(self) -> None: ...


class FrameConnection:
    """Frames over the inherited socket; `send` is safe from any thread and never waits for the daemon."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._outbox = Outbox(link.sendall, _daemon_gone)
        self.send = self._outbox.put
        self.flush = self._outbox.flush

    def receive(self) -> Request | None:
        """The next request, None at end of file. Raises ProtocolError."""
        header = self._read(HEADER_BYTES)
        if header is None:
            return None
        body = self._read(frame_length(header))
        return None if body is None else decode_request(body)

    def _read(self, size: int) -> bytes | None:
        buffer = bytearray(size)
        view, filled = memoryview(buffer), 0
        while filled < size:
            count = self._link.recv_into(view[filled:])
            if count == 0:
                return None
            filled += count
        return bytes(buffer)


def main(arguments: list[str]) -> int:
    """Exit 0 after Stop, 1 when the model cannot be loaded (already reported on the socket)."""
    descriptor, parent = int(arguments[0]), int(arguments[1])
    die_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the daemon, which stops its workers in order
    connection = FrameConnection(socket.socket(fileno=descriptor))
    first = connection.receive()
    if first is None:
        return 0
    try:
        engine = open_engine(first)
    except LoadError as error:
        connection.send(LoadFailed(reason=str(error)))
        connection.flush()
        return 1
    line = engine.open_line(connection.send)
    connection.send(engine.describe())
    threading.Thread(target=read_requests, args=(connection, line), name="reader", daemon=True).start()
    engine.serve()
    connection.flush()
    engine.close()
    return 0


class LoadError(Exception):
    """The first message or its model cannot be used."""


def open_engine(first: Request) -> Engine:
    """The engine the Load message asks for. Raises LoadError with a reason that names the file."""
    if not isinstance(first, Load) or first.version != PROTOCOL_VERSION:
        raise LoadError(f"the daemon does not speak protocol {PROTOCOL_VERSION}; restart it after the upgrade")
    from gaiad.models.child.llama import ModelFileError

    try:
        if first.engine == "generate":
            from gaiad.models.child.generate_engine import GenerateEngine

            return GenerateEngine(first)
        if first.engine == "tokens":
            from gaiad.models.tokens.token_engine import TokenEngine

            return TokenEngine()
        from gaiad.models.child.embed_engine import EmbedEngine

        return EmbedEngine(first)
    except ModelFileError as error:
        raise LoadError(str(error)) from error


def read_requests(connection: FrameConnection, line: RequestQueue) -> None:
    """Feed the line until Stop. End of file means that the daemon is gone: exit at once, even amid a batch."""
    while True:
        try:
            request = connection.receive()
        except (OSError, ProtocolError) as error:
            sys.stderr.write(f"the daemon's side of the socket broke: {error}\n")
            sys.stderr.flush()
            os._exit(1)
        if request is None:
            os._exit(0)
        match request:
            case Embed() | Generate() | Tokenize() | Render() | CompileForm():
                line.put(request)
            case Cancel():
                line.cancel(request.id)
            case Ping():
                line.ping(request)
            case Stop():
                line.close()
                return
            case Load():
                sys.stderr.write("a second Load was ignored: one worker serves one model\n")


def _daemon_gone(_error: OSError) -> None:
    os._exit(0)


def die_with_parent(parent_pid: int) -> None:
    """Ask the kernel for SIGKILL when the parent ends; exit now if it already has."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent_pid:
        os._exit(0)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
