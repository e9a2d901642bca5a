"""Made-up Cognition Packets for tests."""

import msgspec

from prompts.packet import CognitionPacket, ContextItem, HistoryEntry


def packet(**changes: object) -> CognitionPacket:
    base = CognitionPacket(
        packet_id="1ab94c2f",
        full_id="cog_01KAAAAAAAAAAAAAAAAAAAAAAA",
        turn_id="t2",
        parent_id=None,
        timestamp="2025-07-11T19:22:00Z",
        mtu=4096,
        identity="truthful",
        persona="plain",
        role="lite",
        role_text="You plan.",
        task_instruction_key="initial_planning",
        task_instruction="Write a plan.",
        history=[HistoryEntry(turn_id="t1", role="user", text="Hello")],
        context=[ContextItem(packet_id="TP-1", page_id="p1", text="The lantern.")],
        user_prompt="What now?",
    )
    return msgspec.structs.replace(base, **changes)
