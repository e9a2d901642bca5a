"""The page rule: everything is on a page, no page too long, every span leads back to the original."""

import os
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gaiad.archive.reading.packet import Packet, PageDraft
from gaiad.archive.reading.pages import cut, cut_pages, split_turns
from gaiad.archive.reading.reader import read_packet
from gaiad.base.config import load_config

ROOT = Path(__file__).resolve().parents[4]
SAMPLES = ROOT / "tests" / "data" / "packets"
SHARED = Path(os.environ.get("GAIAD_SHARED_DATA", str(ROOT.parent / "shared" / "data")))
LIMITS = load_config(environment={}).packets
MODIFIED = datetime(2026, 5, 4, tzinfo=UTC)
PROSE = (
    "The valve opens late. It waits for water!\n\nNobody knew why: the line was long? Then we cut it.\nNow it works."
)


def read(data: bytes) -> Packet:
    return read_packet(data, "packet", MODIFIED, LIMITS)


def read_files() -> list[Path]:
    real = [*(SHARED / "packets").glob("*.xml"), *(SHARED / "packets").glob("*.json")]
    return [*sorted(SAMPLES.iterdir()), *sorted(real)]


def check(packet: Packet, pages: list[PageDraft], size: int, max_chars: int) -> None:
    assert [page.sequence for page in pages] == list(range(len(pages)))
    last = 0
    for page in pages:
        assert 0 < len(page.text) <= max_chars
        assert page.text == page.text.strip()
        assert 0 <= page.start < page.end <= size
        assert page.start >= last
        last = page.start


def words(text: str) -> list[str]:
    return text.split()


@given(text=st.text(max_size=900), max_chars=st.integers(200, 400), overlap=st.integers(0, 90))
@settings(max_examples=300)
def test_cuts_cover_all_text_and_keep_to_the_size(text: str, max_chars: int, overlap: int) -> None:
    cuts = list(cut(text, 0, len(text), max_chars, overlap))
    covered = set()
    for start, end in cuts:
        assert 0 < end - start <= max_chars
        assert not text[start].isspace()
        assert not text[end - 1].isspace()
        covered.update(range(start, end))
    assert all(index in covered for index, character in enumerate(text) if not character.isspace())
    assert [start for start, _ in cuts] == sorted({start for start, _ in cuts})


@given(text=st.text(st.sampled_from("ab \n.é😀&<>\r\"'"), min_size=1, max_size=2000), max_chars=st.integers(200, 500))
@settings(max_examples=150)
def test_spans_of_plain_sections_decode_to_the_page(text: str, max_chars: int) -> None:
    data = f"<packet><summary><![CDATA[x{text.replace(chr(13), '')}]]></summary></packet>".encode()
    packet = read(data)
    pages = cut_pages(packet, max_chars, 60)
    check(packet, pages, len(data), max_chars)
    for page in pages:
        assert data[page.start : page.end].decode() == page.text


@given(text=st.text(st.sampled_from("ab \n.é😀&<>'"), min_size=1, max_size=1500))
@settings(max_examples=100)
def test_spans_of_escaped_text_hold_the_escapes_whole(text: str) -> None:
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    data = f"<packet><summary>x{escaped}</summary></packet>".replace("\n", "\r\n").encode()
    for page in cut_pages(read(data), 250, 40):
        shown = data[page.start : page.end].decode().replace("\r\n", "\n")
        assert shown.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&") == page.text


def test_a_page_ends_at_a_paragraph_then_a_line_then_a_sentence_then_a_word() -> None:
    def first(text: str) -> str:
        start, end = next(cut(text, 0, len(text), 200, 0))
        return text[start:end]

    assert first("a. " * 40 + "\n\n" + "b\n" + "c " * 200) == ("a. " * 40).strip()
    assert first("a. " * 50 + "\n" + "c. " * 200) == ("a. " * 50).strip()
    assert first("word " * 30 + "end. " + "word " * 100).endswith("end.")
    assert first("word " * 100) == ("word " * 40).strip()
    assert len(first("x" * 500)) == 200
    assert first("x" * 199 + "e\u0301" + "x" * 100) == "x" * 199


def test_the_next_page_of_a_text_repeats_the_overlap_from_a_boundary() -> None:
    text = "One sentence here. " * 60
    cuts = list(cut(text, 0, len(text), 300, 60))
    for (_, end), (start, _) in pairwise(cuts):
        assert 0 < end - start <= 60
        assert text[start:].startswith("One sentence")


@pytest.mark.parametrize("path", read_files(), ids=lambda path: path.name)
def test_packets_become_a_handful_of_pages_that_hold_all_their_text(path: Path) -> None:
    if path.name.startswith("OHP-") or "malformed" in path.name:
        pytest.skip("not well-formed on purpose")
    data = path.read_bytes()
    packet = read(data)
    pages = cut_pages(packet, 1200, 120)
    check(packet, pages, len(data), 1200)
    assert len(pages) <= 8 + len(data) / 500
    gathered = set(words(" ".join(page.text for page in pages)))
    assert all(word in gathered for section in packet.sections for word in words(section.text.value))


def test_a_page_of_gathered_fields_spans_their_elements() -> None:
    data = (SAMPLES / "reference.xml").read_bytes()
    page = next(page for page in cut_pages(read(data), 1200, 120) if page.section == "behavior")
    shown = data[page.start : page.end].decode()
    assert page.text.startswith("sycophancy_level: 0.1 0-1\npushback_threshold: 0.35 0-1\n")
    assert "<tp:name>pushback_threshold</tp:name>" in shown
    assert shown.endswith("Prefers tables over prose.")


def test_a_turn_of_a_transcript_is_a_page_with_its_speaker() -> None:
    data = (SAMPLES / "reference.xml").read_bytes()
    turns = [(page.speaker, page.text) for page in cut_pages(read(data), 1200, 120) if page.section == "transcript"]
    assert turns == [
        ("Mira", "Mira: Why does valve 3 open late?"),
        ("Claude", "Claude: Its pilot line is nine metres long.\nIt fills before the membrane lifts."),
        ("Mira", "Mira: How short must it be?"),
        ("Claude", "Claude: Two metres."),
    ]


def test_a_long_turn_is_split_and_keeps_its_speaker() -> None:
    transcript = "Anna: " + "I think so. " * 100 + "\nBo: Yes."
    packet = read(f"<packet><transcript>{transcript}</transcript></packet>".encode())
    pages = cut_pages(packet, 400, 40)
    assert [page.speaker for page in pages] == ["Anna"] * (len(pages) - 1) + ["Bo"]
    assert len(pages) > 3


def test_a_long_text_is_cut_in_linear_time() -> None:
    packet = read(b"<packet><summary>" + "Größe zählt. ".encode() * 100_000 + b"</summary></packet>")
    pages = cut_pages(packet, 1200, 120)
    assert len(pages) > 1000
    assert pages[-1].end == packet.size - len(" </summary></packet>")


@pytest.mark.parametrize(
    ("text", "speakers"),
    [
        ("User: hi\nAssistant: hello", ["User", "Assistant"]),
        ("**User:** hi\n\n**Assistant:** hello\nmore", ["User", "Assistant"]),
        ("[10:01] Anna Berg: hi\n[10:02] Bo: oh\n[10:03] Anna Berg: well", ["Anna Berg", "Bo", "Anna Berg"]),
        ("Q: why?\nA: because", ["Q", "A"]),
        ("Anna (driver): go\nBo: stop\nAnna (driver): no", ["Anna", "Bo", "Anna"]),
        ("Before it began.\nAnna: go, it is late\nBo: stop, it is early\nAnna: no", ["", "Anna", "Bo", "Anna"]),
        ("Émile: oui\nZoë: non", ["Émile", "Zoë"]),
        ("Anna: a\nNote: she means b\nBo: c\nAnna: d", ["Anna", "Bo", "Anna"]),
    ],
)
def test_dialogues_are_split_at_their_speakers(text: str, speakers: list[str]) -> None:
    turns = split_turns(text, "transcript")
    assert [turn.speaker for turn in turns] == speakers
    assert "".join(text[turn.start : turn.end] for turn in turns) == text


@pytest.mark.parametrize(
    "text",
    [
        PROSE,
        "One thing mattered: time.\nWe had little of it.\nAnother mattered: money.\nWe had none, so we went home.",
        "Result: good\nNote: none\nStatus: done",
        "The plan was simple.\nFirst: go.\nIt rained all day and the road was long.\nThen: stop.\nWe slept.",
        "http://example.org is here\nhttps://example.org is there",
        "Anna: a single line",
        "",
    ],
)
def test_prose_with_colons_stays_whole(text: str) -> None:
    assert split_turns(text, "transcript") == []
    assert split_turns(text, "content") == []
