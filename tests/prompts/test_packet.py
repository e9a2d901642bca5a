"""The Cognition Packet on the wire: what is null stays away, what was written comes back the same."""

import msgspec

from prompts.messages import messages_of
from prompts.packet import CognitionPacket, WorkItem
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


def test_what_is_empty_stands_in_neither_json_nor_prompt() -> None:
    stored = (
        b'{"packet_id":"1ab94c2f","full_id":"cog_1","turn_id":"t2","parent_id":null,"timestamp":"2025-07-11T19:22:00Z",'
        b'"mtu":4096,"identity":"truthful","persona":"","role":"lite","role_text":"Plan.","task_instruction_key":"",'
        b'"task_instruction":"Plan.","history":[],"context":[],"user_prompt":"What now?"}'
    )
    old = msgspec.json.decode(stored, type=CognitionPacket)
    assert msgspec.json.encode(old) == stored
    system, user = messages_of(old)
    assert [part.text for part in user.content] == ["What now?"]
    assert system.content[0].text == "truthful"
    new = packet(work=[WorkItem("PLAN", "1. Look.", "lite"), WorkItem("RESPONSE", "⚠SUMMARY In.", "prime", True)])
    assert msgspec.json.decode(msgspec.json.encode(new), type=CognitionPacket) == new
