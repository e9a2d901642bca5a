import socket
import threading

import pytest

from gaiad.models.child.worker import Outbox
from gaiad.models.supervision.protocol import (
    HEADER_BYTES,
    MAX_FRAME_BYTES,
    Delta,
    Failed,
    Pong,
    Vectors,
    decode_reply,
    frame_length,
)


class SlowReader:
    """Takes nothing until it is let."""

    def __init__(self):
        self.open = threading.Event()
        self.data = b""

    def write(self, data):
        assert self.open.wait(10.0)
        self.data += data

    def replies(self):
        found, rest = [], self.data
        while rest:
            size = frame_length(rest[:HEADER_BYTES])
            found.append(decode_reply(rest[HEADER_BYTES : HEADER_BYTES + size]))
            rest = rest[HEADER_BYTES + size :]
        return found


def never_broken(error):
    raise AssertionError(error)


@pytest.fixture
def reader():
    return SlowReader()


@pytest.fixture
def outbox(reader):
    return Outbox(reader.write, never_broken)


def piece(number, text, tokens):
    return Delta(id=number, text=text, tokens=tokens)


def test_replies_arrive_in_order(reader, outbox):
    reader.open.set()
    sent = [Pong(id=1), piece(7, "a", 1), Pong(id=2)]
    for reply in sent:
        outbox.put(reply)
    assert outbox.flush()
    assert reader.replies() == sent


def test_a_reader_that_stops_delays_nobody_and_gets_all_text_joined(reader, outbox):
    outbox.put(Pong(id=99))  # the writer is stuck with this one
    for tokens in range(1, 2001):
        outbox.put(piece(7, "xy", tokens))
        outbox.put(piece(8, "z", tokens))
    outbox.put(Pong(id=7))
    assert not outbox.flush(0.05)
    reader.open.set()
    assert outbox.flush()
    replies = [reply for reply in reader.replies() if reply != Pong(id=99)]
    for number, text in ((7, "xy" * 2000), (8, "z" * 2000)):
        pieces = [reply for reply in replies if isinstance(reply, Delta) and reply.id == number]
        assert "".join(each.text for each in pieces) == text
        assert len(pieces) <= 2
        assert pieces[-1].tokens == 2000
    assert replies[-1] == Pong(id=7), "the last word comes after the text"


def test_what_is_too_large_becomes_a_failure_of_its_request(reader, outbox):
    reader.open.set()
    outbox.put(Vectors(id=3, count=1, dimension=1, tokens=1, data=b"x" * (MAX_FRAME_BYTES + 1)))
    assert outbox.flush()
    (failed,) = reader.replies()
    assert isinstance(failed, Failed)
    assert (failed.id, failed.code) == (3, "engine")


def test_a_broken_socket_is_told():
    ours, theirs = socket.socketpair()
    theirs.close()
    told = threading.Event()
    outbox = Outbox(ours.sendall, lambda error: told.set())
    outbox.put(Pong(id=1))
    assert told.wait(5.0)
    ours.close()
