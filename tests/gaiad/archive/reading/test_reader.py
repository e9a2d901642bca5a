"""Reading packets: each dialect's canonical fields, what is derived, what is refused by name."""

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gaiad.archive.reading.document import leaves
from gaiad.archive.reading.packet import Artifact, Packet
from gaiad.archive.reading.reader import ignored_reason, parse, read_packet
from gaiad.base.config import load_config
from gaiad.base.errors import PacketRejected

ROOT = Path(__file__).resolve().parents[4]
SAMPLES = ROOT / "tests" / "data" / "packets"
SHARED = Path(os.environ.get("GAIAD_SHARED_DATA", str(ROOT.parent / "shared" / "data")))
LIMITS = load_config(environment={}).packets
MODIFIED = datetime(2026, 5, 4, 3, 2, 1, tzinfo=UTC)


def read(path: Path) -> Packet:
    return read_packet(path.read_bytes(), path.name, MODIFIED, LIMITS)


def read_text(text: str) -> Packet:
    return read_packet(text.encode(), "inline", MODIFIED, LIMITS)


def real(name: str) -> Packet:
    path = SHARED / "packets" / name
    if not path.is_file():
        pytest.skip("the real packets are not beside this checkout")
    return read(path)


def texts(packet: Packet, kind: str) -> str:
    return "\n".join(section.text.value for section in packet.sections if section.kind == kind)


@pytest.mark.parametrize(
    ("name", "dialect", "packet_id", "timestamp", "topic", "original", "current"),
    [
        (
            "reference.xml",
            "reference",
            "tp-20260301-090000",
            "2026-03-01T09:00",
            "Greenhouse irrigation & valve timing",
            "Claude Opus",
            "",
        ),
        (
            "reference.json",
            "reference",
            "tp-20260302-080000",
            "2026-03-02T08:00",
            "Beehive scales",
            "Claude",
            "",
        ),
        (
            "appendix_b.xml",
            "gam_appendix_b",
            "tp-20251127-101500",
            "2025-11-27T09:15",
            "Enumeration protocol",
            "Gemini",
            "Claude",
        ),
        ("crtp.xml", "crtp", "CRTP-TEST-01", "2025-12-01T12:00", "The bent fork", "Labeler", "ANY"),
        ("irp_universal.xml", "irp_universal", "T-TEST-9", "2026-01-14T12:00", "Lantern protocol", "Alpha", "Beta"),
        ("orchestrator.xml", "orchestrator", "op-1", "2024-11-29T15:55", "drift_of_kites", "Kite_Gemini", ""),
        (
            "orchestrator_handoff.xml",
            "orchestrator_handoff",
            "OHP-TEST-1",
            "2025-10-24T10:39",
            "Choir seating",
            "",
            "",
        ),
        (
            "session.json",
            "session_json",
            "TP-SESSION-TEST",
            "2025-11-28T23:59",
            "repair-the-clock",
            "claude-test",
            "",
        ),
    ],
)
def test_a_dialect_yields_its_canonical_fields(
    name: str, dialect: str, packet_id: str, timestamp: str, topic: str, original: str, current: str
) -> None:
    packet = read(SAMPLES / name)
    assert (packet.dialect, packet.packet_id, packet.topic) == (dialect, packet_id, topic)
    assert packet.timestamp.isoformat()[:16] == timestamp
    assert (packet.original_model, packet.current_model) == (original, current)
    assert not packet.id_derived
    assert not packet.timestamp_derived


def test_the_reference_dialect_fills_every_canonical_field() -> None:
    packet = read(SAMPLES / "reference.xml")
    assert packet.challenge_phrases == ("Show me the numbers", "No hedging, please")
    assert packet.metrics == {"sycophancy_level": 0.1, "pushback_threshold": 0.35}
    assert packet.tags == ("irrigation", "control-loops")
    assert packet.notes == "Prefers tables over prose."
    assert packet.summary == "Valve 3 lags by forty seconds."
    assert packet.researcher == "Mira Lindqvist"
    assert packet.artifacts == (Artifact(name="Valve timings", kind="table"),)
    assert packet.loop_closure["guardrailFocus"] == "Keep units\nKeep doubts"
    assert packet.instructions == {
        "contextYouInherit": "A greenhouse with eight valves.",
        "priorityTopics": "Pilot line\nPump curve",
    }
    assert [entry.index for entry in packet.integrity[:2]] == [0, 1]
    assert packet.integrity[1].previous_hash == packet.integrity[0].hash
    assert packet.session_id == packet.packet_id


def test_sections_keep_each_part_of_the_packet_apart() -> None:
    packet = read(SAMPLES / "reference.xml")
    assert "membrane lifts" in texts(packet, "transcript")
    assert "pilot line, not from the controller" in texts(packet, "content")
    assert "sycophancy_level: 0.1" in texts(packet, "behavior")
    assert "contextYouInherit: A greenhouse" in texts(packet, "instructions")
    assert "guardrailFocus: Keep units" in texts(packet, "closure")


def test_what_a_dialect_does_not_map_stays_searchable_under_its_path() -> None:
    packet = read(SAMPLES / "crtp.xml")
    other = [section for section in packet.sections if section.kind == "other"]
    assert [(section.path, section.text.value) for section in other] == [
        ("handshake_state/channel", "channel (model Gemini, state OPEN)")
    ]


def test_a_generic_document_is_kept_with_what_its_names_tell() -> None:
    packet = read(SAMPLES / "generic.xml")
    assert (packet.dialect, packet.topic, packet.researcher) == ("generic", "Ferry noise", "Ola")
    assert packet.timestamp == datetime(2026, 2, 4, 8, tzinfo=UTC)
    assert packet.id_derived
    assert packet.packet_id == f"sha256-{packet.sha256[:16]}"
    assert "The port engine hums at 90 Hz.\nThe other does not." in texts(packet, "other")


def test_turns_of_a_chat_carry_their_speakers() -> None:
    spoken = [s for s in read(SAMPLES / "generic.json").sections if s.kind == "transcript"]
    assert [(s.speaker, s.text.value) for s in spoken] == [
        ("user", "user: Why is my loaf flat?"),
        ("assistant", "assistant: Less air, less lift."),
    ]


def test_turn_elements_with_a_speaker_attribute_carry_it() -> None:
    packet = read_text(
        '<chat><transcript><turn speaker="Ola">Hi there</turn><turn speaker="Kim">Oh</turn></transcript></chat>'
    )
    assert "Hi there" in texts(packet, "transcript")
    assert "Ola" in texts(packet, "transcript")


@pytest.mark.parametrize(
    ("written", "moment", "zone_missing"),
    [
        ("2025-11-28T23:59:59Z", "2025-11-28T23:59:59+00:00", False),
        ("2025-11-28T23:59:59.123456789Z", "2025-11-28T23:59:59.123456+00:00", False),
        ("2025-11-28T23:59:59+02:00", "2025-11-28T21:59:59+00:00", False),
        ("2025-11-28 23:59", "2025-11-28T23:59:00+00:00", True),
        ("2025-11-28", "2025-11-28T00:00:00+00:00", True),
        ("2025-11-28 10:00 UTC", "2025-11-28T10:00:00+00:00", False),
        ("1764374399", "2025-11-28T23:59:59+00:00", False),
    ],
)
def test_times_are_read_as_utc_and_a_missing_zone_is_marked(written: str, moment: str, zone_missing: bool) -> None:
    packet = read_text(f"<packet><header><id>x</id><timestamp>{written}</timestamp></header></packet>")
    assert packet.timestamp.isoformat() == moment
    assert packet.zone_missing is zone_missing
    assert not packet.timestamp_derived


@pytest.mark.parametrize("written", ["", "yesterday", "2025-13-45", "0001-01-01T00:00:00+23:00", "99999999999999"])
def test_a_missing_or_unreadable_time_is_the_files_and_marked(written: str) -> None:
    packet = read_text(f"<packet><header><timestamp>{written}</timestamp></header><body>text</body></packet>")
    assert (packet.timestamp, packet.timestamp_derived) == (MODIFIED, True)


def test_a_derived_id_depends_on_the_content_alone() -> None:
    one = read_packet(b"<a>text</a>", "one.xml", MODIFIED, LIMITS)
    two = read_packet(b"<a>text</a>", "two.xml", datetime(2001, 1, 1, tzinfo=UTC), LIMITS)
    other = read_packet(b"<a>texts</a>", "one.xml", MODIFIED, LIMITS)
    assert one.packet_id == two.packet_id != other.packet_id
    assert one.id_derived


@pytest.mark.parametrize(
    ("behavior", "metrics"),
    [
        ("<m><focus>0.5</focus></m>", {"focus": 0.5}),
        ('<m><metric name="focus" value="0.5"/></m>', {"focus": 0.5}),
        ('<m><metric name="focus">0.5</metric></m>', {"focus": 0.5}),
        ('<m focus="0.5"/>', {"focus": 0.5}),
        ('<focus value="-2e-1"/>', {"focus": -0.2}),
        ("<focus>high</focus><nan>nan</nan><big>1e999</big>", {}),
        ("<a><focus>1</focus></a><b><focus>2</focus></b>", {"focus": 1.0, "b.focus": 2.0}),
    ],
)
def test_every_number_in_the_behaviour_section_is_a_metric(behavior: str, metrics: dict[str, float]) -> None:
    packet = read_text(f"<packet><header/><behavior_profile>{behavior}</behavior_profile><body>b</body></packet>")
    assert packet.metrics == metrics


def test_the_topic_falls_back_to_the_first_words() -> None:
    packet = read_text("<packet><summary>" + "word " * 30 + "</summary></packet>")
    assert packet.topic == "word " * 11 + "word…"


@pytest.mark.parametrize("name", sorted(path.name for path in SAMPLES.iterdir() if "malformed" not in path.name))
def test_no_text_of_a_packet_is_lost(name: str) -> None:
    data = (SAMPLES / name).read_bytes()
    gathered = "\n".join(section.text.value for section in read(SAMPLES / name).sections)
    for leaf in leaves(parse(data, name, LIMITS).root):
        assert leaf.text.value.strip() in gathered, leaf.name


def test_a_malformed_packet_is_rejected_with_its_line() -> None:
    with pytest.raises(PacketRejected, match="line 3: not well-formed XML") as caught:
        read(SAMPLES / "orchestrator_handoff_malformed.xml")
    assert caught.value.line == 3


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("transmission_packet_revised.xsd", "schema"),
        ("packet.dtd", "schema"),
        (".packet.xml", "hidden"),
        (".packet.xml.swp", "hidden"),
        ("packet.xml~", "unfinished"),
        ("packet.xml.part", "unfinished"),
        ("packet.json.crdownload", "unfinished"),
        ("packet.tmp", "unfinished"),
        ("notes.txt", "extension"),
        ("README", "extension"),
    ],
)
def test_files_that_are_no_packets_are_ignored_by_name(name: str, word: str) -> None:
    assert word in ignored_reason(name)


@pytest.mark.parametrize("name", ["tp.xml", "TP.XML", "a/b/tp.json", "v1.2.xml"])
def test_packets_are_not_ignored(name: str) -> None:
    assert ignored_reason(name) == ""


def test_the_content_decides_between_xml_and_json() -> None:
    assert read_packet(b' {"id": "j"}', "x.xml", MODIFIED, LIMITS).media_type == "application/json"
    assert read_packet(b"\xef\xbb\xbf<a id='x'>t</a>", "x.json", MODIFIED, LIMITS).media_type == "application/xml"


@pytest.mark.parametrize(
    ("name", "dialect", "packet_id", "moment", "model", "topic"),
    [
        (
            "tp_reference.xml",
            "reference",
            "tp-20250907-154200",
            datetime(2025, 9, 7, 15, 42, tzinfo=UTC),
            "Claude Sonnet 4",
            "Real-time Audio Processing System Architecture",
        ),
        (
            "CRTP-0x16-FORWARD-CONTEXT.xml",
            "crtp",
            "CRTP-0x16-FORWARD-CONTEXT",
            datetime(2025, 12, 7, 20, 22, 19, tzinfo=UTC),
            "Claude-Process-Labeler (Node: Labeling_Beta)",
            "The Forging of the Horn Maneuver",
        ),
        (
            "P5_SYNERGY.xml",
            "irp_universal",
            "T-2026-01-14-UNIVERSAL-SEED-001",
            datetime(2026, 1, 14, 12, tzinfo=UTC),
            "Universal_Reclamation_Engine",
            "P5_SYNERGY Protocol Specification",
        ),
        (
            "convergence_vectoring_example.xml",
            "orchestrator",
            "tp-20241129-gemini-session",
            datetime(2024, 11, 29, 15, 55, 30, tzinfo=UTC),
            "StarWreck_Alpha_Gemini",
            "convergence_vectoring_protocol_genesis",
        ),
        (
            "transmission_packet_session.json",
            "session_json",
            "TP-SESSION-01JnBWwRmQ7tWNH3FitFNapu-20251128",
            datetime(2025, 11, 28, 23, 59, 59, tzinfo=UTC),
            "claude-sonnet-4-5-20250929",
            "activate-law-enforcement-skills-and-complete-five-dimensional-framework",
        ),
    ],
)
def test_real_packets_are_read(
    name: str, dialect: str, packet_id: str, moment: datetime, model: str, topic: str
) -> None:
    packet = real(name)
    assert (packet.dialect, packet.packet_id, packet.timestamp) == (dialect, packet_id, moment)
    assert (packet.original_model, packet.topic) == (model, topic)
    assert packet.verdict == "unverifiable"
    gathered = "\n".join(section.text.value for section in packet.sections)
    document = parse((SHARED / "packets" / name).read_bytes(), name, LIMITS)
    assert all(leaf.text.value.strip() in gathered for leaf in leaves(document.root))


def test_real_behavioural_metrics_are_read_by_name() -> None:
    expected = {"sycophancy_level": 0.1, "critical_thinking": 0.9, "technical_depth": 0.95, "pushback_threshold": 0.2}
    assert real("tp_reference.xml").metrics == expected
    assert real("transmission_packet_session.json").metrics == {"pushback_threshold": 0.7, "sycophancy_level": 0.15}
    assert real("CRTP-0x16-FORWARD-CONTEXT.xml").metrics["pushback_threshold"] == 0.4


def test_the_real_malformed_packet_names_its_line() -> None:
    with pytest.raises(PacketRejected, match="line 59"):
        real("OHP-20251024-103900-SYM-UPDATE.xml")


@pytest.mark.parametrize(
    "text",
    [
        "<transmission_packet><header><id>tp-l</id><classification>secret</classification></header>"
        "<body><content>Words.</content></body></transmission_packet>",
        '{"packet_id": "tp-l", "classification": ["secret"], "content": "Words."}',
        '{"notes": "Words of some length.", "meta": {"classification": "secret"}}',
    ],
)
def test_every_dialect_has_the_classification_that_memory_exclude_goes_by(text: str) -> None:
    assert read_text(text).labels["classification"] == ("secret",)


def test_policy_tags_are_labels_in_every_dialect() -> None:
    packet = read_text('{"packet_id": "tp-l", "header": {"policyTags": ["hr", "eu only"]}, "content": "Words."}')
    assert packet.labels == {"policy_tag": ("hr", "eu only")}
