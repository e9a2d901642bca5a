import struct

import pytest

from gaiad.models.supervision import protocol
from gaiad.models.supervision.protocol import Cancel, Delta, Embed, Generate, Load, Pong, ProtocolError, Ready, Vectors
from gaiad.wire.generation import Sampling, Segment


@pytest.mark.parametrize(
    "message",
    [
        Load(version=1, engine="embed", path="/m.gguf", threads=0, batch_tokens=512),
        Embed(id=7, texts=["", "日本"], priority=0),
        Generate(
            id=8, segments=[Segment("日本", trusted=True)], max_tokens=3, priority=1, seed=2, sampling=Sampling(top_k=5)
        ),
        Cancel(id=7),
    ],
)
def test_requests_survive_the_wire(message):
    frame = protocol.encode_frame(message)
    assert protocol.frame_length(frame[:4]) == len(frame) - 4
    assert protocol.decode_request(frame[4:]) == message


@pytest.mark.parametrize(
    "message",
    [
        Ready(version=1, pid=3, dimension=4, window=512),
        Vectors(id=1, count=1, dimension=2, tokens=5, data=b"\x00" * 8),
        Delta(id=8, text="日", tokens=1),
        Pong(id=2),
    ],
)
def test_replies_survive_the_wire(message):
    assert protocol.decode_reply(protocol.encode_frame(message)[4:]) == message


def test_noise_and_the_other_sides_messages_are_refused():
    for body in (b"", b"\xc1", b"\x80", protocol.encode_frame(Pong(id=1))[4:]):
        with pytest.raises(ProtocolError, match=f"protocol {protocol.PROTOCOL_VERSION}"):
            protocol.decode_request(body)


def test_a_frame_above_the_limit_is_refused_with_both_numbers():
    with pytest.raises(ProtocolError, match=str(protocol.MAX_FRAME_BYTES)):
        protocol.frame_length(struct.pack(">I", protocol.MAX_FRAME_BYTES + 1))
    with pytest.raises(ProtocolError, match="send less text"):
        protocol.encode_frame(Embed(id=1, texts=["x" * protocol.MAX_FRAME_BYTES], priority=0))


def test_half_a_character_is_refused_and_named():
    with pytest.raises(ProtocolError, match=r"ud800.* half a character"):
        protocol.encode_frame(Embed(id=1, texts=["a \ud800 b"], priority=0))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"seed": 2**70}, f"seed is {2**70}"),
        ({"max_tokens": -(2**64)}, f"max_tokens is -{2**64}"),
        ({"sampling": Sampling(top_k=2**64)}, f"top_k is {2**64}"),
    ],
)
def test_a_number_no_message_can_carry_is_refused_and_named(change, words):
    fields = {"id": 1, "segments": [], "max_tokens": 3, "priority": 0, "seed": 2, "sampling": Sampling(), **change}
    with pytest.raises(ProtocolError, match=words):
        protocol.encode_frame(Generate(**fields))
