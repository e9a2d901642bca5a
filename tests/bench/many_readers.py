"""Two hundred people at once: each streams its own turn, then all follow the same one, from a daemon over its socket.

What a reader needs is that it is not starved: its turn takes as long as anybody else's, and no text is long in coming.
What the daemon needs is that its memory stays what it was.
"""

import asyncio
import random
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from gaiad.base.errors import Unavailable
from gaiad.bench.daemon_process import BenchDaemon, running_daemon
from gaiad.bench.rows import Row, percentile
from gaiad.wire.chat import ChatRequest

READERS = 200
_CHUNK = 20  # characters
_AT_READING_SPEED, _AT_ONCE = (40, 200.0), (120, 0.0)
"""Pieces of an answer, and milliseconds between them: about as fast as people read, and as fast as can be."""
_WARMING, _MEASURED = 2, 2  # rounds
_MESSAGE, _QUICK = "What did the keeper write?", "Be quick: what did the keeper write?"
_PATIENCE_S = 300.0
_RATIO_AIM, _GROWTH_AIM = "<= 1.5", "<= 5"
_TEXT = (
    "the keeper wrote that lamp was lit at dusk and burned until morning came over water while boats went out with "
    "nets to find what lay beyond old stone pier where gulls slept in rain"
)


class Read:
    """What one reader saw: when it asked, when each piece of text came, when it was done; and the text."""

    def __init__(self, asked: float) -> None:
        self.asked = asked
        self.pieces: list[float] = []
        self.text = ""
        self.answer = ""
        self.ended = 0.0

    @property
    def took_s(self) -> float:
        return self.ended - self.asked

    @property
    def first_s(self) -> float:
        return self.pieces[0] - self.asked

    @property
    def longest_wait_s(self) -> float:
        """Between two pieces of text."""
        return max((b - a for a, b in zip(self.pieces, self.pieces[1:], strict=False)), default=0.0)

    def note(self, name: str, data: dict[str, Any]) -> bool:
        """Whether that was the last event. Raises Unavailable for an error in place of an answer."""
        if name == "delta":
            self.pieces.append(time.perf_counter())
            self.text += data["text"]
        elif name == "error":
            raise Unavailable(f"a turn under measurement failed: {data['message']}")
        elif name == "done":
            self.answer, self.ended = data["answer"], time.perf_counter()
        return name == "done"


def measure_streams() -> list[Row]:
    """On a scripted model, with the page's channel and its redaction."""
    with (
        tempfile.TemporaryDirectory(prefix="gaiad-bench-") as scratch,
        running_daemon("embedder.kind=none", *scripted(Path(scratch))) as daemon,
    ):
        return asyncio.run(rows(daemon, READERS))


def scripted(scratch: Path) -> list[str]:
    """Settings with a script in `scratch` that answers at reading speed, or all at once when it is asked to."""
    script = scratch / "script.toml"
    script.write_text(_reply("quick", *_AT_ONCE) + _reply("", *_AT_READING_SPEED), encoding="utf-8")
    return [f'models.known={{script = {{kind = "scripted", path = "{script}"}}}}', "roles.prime=script"]


def _reply(match: str, chunks: int, delay_ms: float) -> str:
    words = random.Random(7).choices(_TEXT.split(), k=chunks * _CHUNK // 2)  # what repeats itself is broken off
    text = " ".join(words)[: chunks * _CHUNK].strip()
    return (
        f'[[reply]]\nmatch = "{match}"\ntext = "RESPONSE: {text}"\ndelay_ms = {delay_ms}\nchunk_characters = {_CHUNK}\n'
    )


async def rows(daemon: BenchDaemon, readers: int) -> list[Row]:
    """Rounds of `readers` turns at once; then as many readers of one turn."""
    socket = daemon.client.socket_path
    for number in range(_WARMING):
        await _own_turns(socket, readers, f"warming up {number}", _QUICK)
    before = _memory_mib(daemon)
    slow = await _own_turns(socket, readers, "reading speed", _MESSAGE)
    quick = [await _own_turns(socket, readers, f"{number}", _QUICK) for number in range(_MEASURED)]
    after = _memory_mib(daemon)
    turns = readers * (_MEASURED + 1)
    same = await _same_turn(socket, readers)
    return [  # from a model that never waits who begins first is done before the crowd is there: no aim for that ratio
        *_rows(f"{readers} turns at once, 5 pieces a second each", slow, aim=_RATIO_AIM),
        *_rows(f"{readers} turns at once, a model that never waits", *quick),
        *_rows(f"{readers} readers of one turn", same, aim=_RATIO_AIM),
        Row(what=f"memory of the daemon after {readers * _WARMING} turns", value=before, unit="MiB"),
        Row(what=f"  after {turns} more", value=100 * (after - before) / before, unit="% more", aim=_GROWTH_AIM),
    ]


def _rows(what: str, *rounds: Sequence[Read], aim: str = "") -> list[Row]:
    """Slowest and fastest are of the round in which they were furthest apart: only those had the same to wait for."""
    reads = [read for one in rounds for read in one]
    if any(read.text != read.answer for read in reads):
        raise Unavailable("what a reader was streamed is not the answer it was given at the end")
    fastest, slowest = max((_ends(one) for one in rounds), key=lambda ends: ends[1] / ends[0])
    return [
        Row(what=f"{what}: the fastest", value=fastest, unit="s"),
        Row(what="  the slowest", value=slowest, unit="s"),
        Row(what="  slowest to fastest", value=slowest / fastest, unit="ratio", aim=aim),
        Row(what="  first text", value=1000 * percentile([read.first_s for read in reads]), unit="ms p95"),
        Row(what="  longest wait for text", value=1000 * max(read.longest_wait_s for read in reads), unit="ms max"),
        Row(what="", value=1000 * percentile([read.longest_wait_s for read in reads]), unit="ms p95"),
    ]


def _ends(reads: Sequence[Read]) -> tuple[float, float]:
    took = [read.took_s for read in reads]
    return min(took), max(took)


def _memory_mib(daemon: BenchDaemon) -> float:
    return float(daemon.status()["memory_bytes"]) / 2**20


async def _own_turns(socket: Path, readers: int, name: str, message: str) -> list[Read]:
    async def one(number: int) -> Read:
        asked = time.perf_counter()
        async with asyncio.timeout(_PATIENCE_S):
            return await follow(socket, await begin(socket, f"{name} {number}", message), asked)

    return await asyncio.gather(*(one(number) for number in range(readers)))


async def _same_turn(socket: Path, readers: int) -> list[Read]:
    turn_id = await begin(socket, "one for all", _MESSAGE)
    async with asyncio.timeout(_PATIENCE_S):
        return await asyncio.gather(*(follow(socket, turn_id, time.perf_counter()) for _ in range(readers)))


# ------------------------------------------------------------------------------------------------------- on the wire


async def begin(socket: Path, session_id: str, message: str) -> str:
    """Start a turn in a session; its id."""
    request = ChatRequest(message=message, session_id=session_id, depth="fast", channel="web_chat")
    body = msgspec.json.encode(request)
    reader, writer = await asyncio.open_unix_connection(str(socket))
    try:
        head = f"POST /turns/start HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        headers = await _headers(reader)
        answer: dict[str, str] = msgspec.json.decode(await reader.readexactly(int(headers["content-length"])))
        if "turn_id" not in answer:
            raise Unavailable(f"a turn under measurement did not begin: {answer.get('message', answer)}")
        return answer["turn_id"]
    finally:
        writer.close()


async def follow(socket: Path, turn_id: str, asked: float) -> Read:
    """Read a turn to its end; `asked` is when it was (time.perf_counter)."""
    read = Read(asked)
    reader, writer = await asyncio.open_unix_connection(str(socket))
    try:
        writer.write(f"GET /turns/events?turn={turn_id} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        await _headers(reader)
        async for chunk in _chunks(reader):
            if _note(read, chunk):
                return read
    finally:
        writer.close()
    raise Unavailable("a stream under measurement ended without its last event")


def _note(read: Read, chunk: bytes) -> bool:
    """The daemon writes an event as one chunk."""
    fields = dict(line.split(": ", 1) for line in chunk.decode().splitlines() if ": " in line[1:])
    return "event" in fields and read.note(fields["event"], msgspec.json.decode(fields["data"]))


async def _headers(reader: asyncio.StreamReader) -> dict[str, str]:
    lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    return {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:])}


async def _chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while size := int(await reader.readline(), 16):
        yield (await reader.readexactly(size + 2))[:-2]
