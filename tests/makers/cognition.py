"""Made-up Cognition Packets for tests."""

import msgspec

from prompts.budget import BuildRequest
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


def build_request(**changes: object) -> BuildRequest:
    """A small request; `changes` replace its fields."""
    base = BuildRequest(
        full_id="cog_FULLID",
        turn_id="t-now",
        timestamp="2019-03-04T05:06:07Z",
        model="model-fingerprint",
        identity="You are truthful.",
        persona="Tone: plain",
        role="lite",
        role_text="You plan.",
        task_instruction_key="initial_planning",
        task_instruction="Write a plan.",
        user_prompt="What now?",
    )
    return msgspec.structs.replace(base, **changes)


def session(turns: int, words: int = 12) -> list[HistoryEntry]:
    """A session in which every turn says something else."""
    history = []
    for number in range(turns):
        said = " ".join(f"word{number}x{index}" for index in range(words))
        history.append(HistoryEntry(turn_id=f"t{number}", role="user", text=f"Why {said}?"))
        history.append(HistoryEntry(turn_id=f"t{number}", role="assistant", text=f"Because {said}."))
    return history


def pages(count: int, words: int = 30) -> list[ContextItem]:
    """Retrieved pages, best first."""
    return [
        ContextItem(
            packet_id=f"TP-{number}",
            page_id=f"page{number}",
            text=" ".join(f"fact{number}x{index}" for index in range(words)) + ".",
            timestamp="2025-11-27T09:30:00Z",
            topic="Lantern",
        )
        for number in range(count)
    ]
