"""The Cognition Packet on the wire: what is null stays away, what was written comes back the same."""

import msgspec

from prompts.packet import CognitionPacket
from tests.makers.cognition import packet


def test_optional_meta_fields_stand_in_the_json_only_when_they_are_not_null() -> None:
    plain = msgspec.json.decode(msgspec.json.encode(packet()))
    assert not {"confidence", "risk_level", "retry_count"} & plain.keys()
    assert plain["parent_id"] is None
    full = msgspec.json.decode(msgspec.json.encode(packet(confidence=0.0, risk_level="high", retry_count=0)))
    assert (full["confidence"], full["risk_level"], full["retry_count"]) == (0.0, "high", 0)


def test_a_packet_comes_back_from_its_json_as_it_was() -> None:
    for one in (packet(), packet(confidence=0.5, parent_id="cog_0", history=[], context=[])):
        assert msgspec.json.decode(msgspec.json.encode(one), type=CognitionPacket) == one
