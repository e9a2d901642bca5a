"""A remembered turn as a packet: what was said becomes pages, exactly and with its place; nothing else does."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gaiad.archive.reading.derive import metadata_rows
from gaiad.archive.reading.known_dialects import SESSION_TURN
from gaiad.archive.reading.packet import Packet
from gaiad.archive.reading.pages import cut_pages
from gaiad.archive.reading.reader import read_packet
from gaiad.base.config import load_config
from gaiad.base.errors import PacketRejected
from gaiad.wire.memory import NOTHING_FOUND, SessionTurn, TurnBlock, TurnMessage

LIMITS = load_config(environment={}).packets
MODIFIED = datetime(2026, 5, 4, tzinfo=UTC)


def read(**fields: Any) -> tuple[Packet, bytes]:
    fields.setdefault("messages", [TurnMessage(role="user", content="Hello there.")])
    turn = SessionTurn(**{"session_id": "s-1", "turn_id": "turn_1", "sequence": 0, **fields})
    data = msgspec.json.encode(turn)
    return read_packet(data, SESSION_TURN.name, MODIFIED, LIMITS), data


def test_a_turn_has_its_canonical_fields() -> None:
    packet, _ = read(
        started_at="2025-12-01T12:00:00Z", title="Harbour", model="extractive", tags=["a, b", "c"], description="About."
    )
    assert (packet.dialect, packet.packet_id, packet.session_id) == ("session_turn", "turn_1", "s-1")
    assert (packet.timestamp, packet.timestamp_derived) == (datetime(2025, 12, 1, 12, tzinfo=UTC), False)
    assert (packet.topic, packet.original_model, packet.tags) == ("Harbour", "extractive", ("a, b", "c"))
    assert (packet.summary, packet.notes, packet.verdict) == ("Hello there.", "About.", "unverifiable")


def test_a_turn_without_a_title_has_no_topic_made_from_its_words() -> None:
    assert read()[0].topic == ""


def test_labels_go_into_the_index_metadata_whole() -> None:
    packet, _ = read(
        classification=["secret, level 2", "internal"],
        policy_tags=["no-export"],
        agent_id="agent-7",
        origin_run_id="res_1",
        request_intent="ask",
    )
    rows = {(key, value) for key, value, _ in metadata_rows(packet)}
    assert {
        ("classification", "secret, level 2"),
        ("classification", "internal"),
        ("policy_tag", "no-export"),
        ("agent", "agent-7"),
        ("origin_run", "res_1"),
        ("request_intent", "ask"),
    } <= rows


def test_each_message_is_a_page_of_its_words_alone_spoken_by_its_role() -> None:
    packet, data = read(
        messages=[
            TurnMessage(
                role="user", content="Anna: hello\nBob: hi\nAnna: bye\nBob: bye", metadata={"content": "hidden"}
            ),
            TurnMessage(role="assistant", content='He said "yes" \\ and\r\nleft. \U0001f980'),
            TurnMessage(role="tool", content="   "),
        ],
        fingerprint="f" * 64,
        metadata={"manifest": "hidden"},
        sources=["TP-1"],
    )
    pages = cut_pages(packet, 1200, 120)
    assert [(page.section, page.speaker, page.text) for page in pages] == [
        ("transcript", "user", "Anna: hello\nBob: hi\nAnna: bye\nBob: bye"),
        ("transcript", "assistant", 'He said "yes" \\ and\r\nleft. \U0001f980'),
    ]
    for page in pages:
        assert msgspec.json.decode(b'"' + data[page.start : page.end] + b'"') == page.text


def test_an_answer_that_nothing_was_found_is_no_page() -> None:
    said = TurnMessage(role="user", content="Who is Zyx?")
    nothing = TurnMessage(role="assistant", content="Nothing about Zyx.", marker=NOTHING_FOUND)
    packet, _ = read(messages=[said, nothing, TurnMessage(role="assistant", content="Something.", marker="ELSE")])
    assert [page.text for page in cut_pages(packet, 1200, 120)] == ["Who is Zyx?", "Something."]


def test_of_the_blocks_only_those_that_memory_keeps_become_pages() -> None:
    packet, _ = read(
        blocks=[
            TurnBlock(marker="PLAN", text="First look, then act.", role="lite"),
            TurnBlock(marker="RESPONSE", text="Said already."),
            TurnBlock(marker="VERIFY", text="It holds."),
            TurnBlock(marker="THOUGHT_SEED", text="A lamp?"),
            TurnBlock(marker="INTERRUPT", text="An event."),
        ]
    )
    found = [(page.section, page.path, page.speaker, page.text) for page in cut_pages(packet, 1200, 120)]
    assert found[1:] == [
        ("other", "blocks/item/PLAN", "lite", "First look, then act."),
        ("other", "blocks/item/VERIFY", "", "It holds."),
        ("other", "blocks/item/THOUGHT_SEED", "", "A lamp?"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        '{"session_id": "s", "turn_id": "t", "messages": [{"role": "user", "content": "x"}]}',
        "<gaiad_session_turn><session_id>s</session_id><turn_id>t</turn_id><messages>m</messages></gaiad_session_turn>",
    ],
)
def test_what_only_looks_like_a_turn_is_generic(text: str) -> None:
    assert read_packet(text.encode(), "inline", MODIFIED, LIMITS).dialect == "generic"


@pytest.mark.parametrize(
    "text",
    [
        '{"gaiad_session_turn": 1, "session_id": "s", "turn_id": "t", "messages": "none"}',
        '{"gaiad_session_turn": 1, "session_id": "s", "turn_id": "t", "messages": [1, [2], {"role": 3}]}',
        '{"gaiad_session_turn": 1, "session_id": "s", "turn_id": "t", "messages": [], "blocks": [{"text": "x"}]}',
    ],
)
def test_a_turn_of_odd_shape_has_no_pages_and_is_no_fault(text: str) -> None:
    packet = read_packet(text.encode(), SESSION_TURN.name, MODIFIED, LIMITS)
    assert packet.dialect == "session_turn"
    assert cut_pages(packet, 1200, 120) == []


def test_a_file_that_claims_to_be_a_turn_is_refused() -> None:
    _, data = read()
    with pytest.raises(PacketRejected, match="only gaiad writes those"):
        read_packet(data, "turn.json", MODIFIED, LIMITS)


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=400), min_size=1, max_size=4))
@example(["null"])
@settings(max_examples=100)
def test_no_word_is_lost_between_a_turn_and_its_pages(contents: list[str]) -> None:
    packet, _ = read(messages=[TurnMessage(role=f"r{n}", content=text) for n, text in enumerate(contents)])
    pages = cut_pages(packet, 60, 12)
    for number, text in enumerate(contents):
        own = [page for page in pages if page.speaker == f"r{number}"]
        assert all(page.text in text for page in own)
        at = 0
        for page in own:  # together they cover all that is not space
            start = text.index(page.text, max(0, at - 12))
            assert not text[at:start].strip()
            at = max(at, start + len(page.text))
        assert not text[at:].strip()
