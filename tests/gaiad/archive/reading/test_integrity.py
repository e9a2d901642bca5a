"""The integrity verdict: what can be recomputed decides, links and formats are findings, nothing is a gate."""

import hashlib
import json
from datetime import UTC, datetime

import pytest

from gaiad.archive.reading.packet import Packet
from gaiad.archive.reading.reader import read_packet
from gaiad.base.config import load_config

LIMITS = load_config(environment={}).packets
MODIFIED = datetime(2026, 5, 4, tzinfo=UTC)
A, B, C = ("a" * 63 + "1", "b" * 63 + "2", "c" * 63 + "3")


def read(chain: str, body: str = "<transcript>Anna: hi &amp; bye</transcript>") -> Packet:
    text = f"<packet><header><id>x</id></header><body>{body}</body><integrityChain>{chain}</integrityChain></packet>"
    return read_packet(text.encode(), "packet", MODIFIED, LIMITS)


def entry(index: int, value: str, previous: str = "", note: str = "") -> str:
    link = f"<prevHash>{previous}</prevHash>" if previous else ""
    return f"<entry><index>{index}</index><hashValue>{value}</hashValue>{link}<note>{note}</note></entry>"


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def details(packet: Packet) -> str:
    return "\n".join(f"{finding.what}: {finding.verdict}: {finding.detail}" for finding in packet.findings)


@pytest.mark.parametrize(
    "path",
    [
        "body/transcript",
        "/body/transcript",
        "tp:body/tp:transcript",
        "packet/body/transcript",
        "transcript",
        "body.transcript",
    ],
)
def test_a_hash_of_a_named_element_is_recomputed(path: str) -> None:
    packet = read(entry(0, sha256("Anna: hi & bye"), note=f"SHA-256 of {path}"))
    assert packet.verdict == "verified"
    assert packet.claims[0].path == path.lstrip("/")


def test_a_hash_that_does_not_match_breaks_the_packet() -> None:
    packet = read(entry(0, sha256("Anna: hi & bye!"), note="SHA-256 of body/transcript"))
    assert packet.verdict == "broken"
    assert sha256("Anna: hi & bye") in details(packet)


def test_one_broken_hash_outweighs_one_verified() -> None:
    good = entry(0, sha256("Anna: hi & bye"), note="SHA-256 of body/transcript")
    bad = entry(1, A, note="SHA-256 of header/id")
    assert read(good + bad).verdict == "broken"


def test_an_attribute_may_name_what_was_hashed() -> None:
    packet = read(f'<entry of="header/id"><hash>sha256:{sha256("x")}</hash></entry>')
    assert packet.verdict == "verified"


def test_another_algorithm_is_taken_by_its_name() -> None:
    digest = hashlib.sha512(b"x").hexdigest()
    assert read(entry(0, digest, note="SHA-512 of header/id")).verdict == "verified"


def test_an_element_with_parts_is_verified_by_its_bytes_or_left_open() -> None:
    body = "<part>one</part><part>two</part>"
    exact = sha256(f"<body>{body}</body>")
    assert read(entry(0, exact, note="SHA-256 of body"), body).verdict == "verified"
    packet = read(entry(0, A, note="SHA-256 of body"), body)
    assert packet.verdict == "unverifiable"
    assert "does not say how" in details(packet)


def test_a_path_that_leads_nowhere_proves_nothing() -> None:
    packet = read(entry(0, A, note="SHA-256 of body/nothing"))
    assert packet.verdict == "unverifiable"
    assert "no element 'body/nothing'" in details(packet)


def test_links_that_hold_are_a_finding_but_no_proof() -> None:
    packet = read(entry(1, A) + entry(2, B, A) + entry(3, C, B))
    assert packet.verdict == "unverifiable"
    assert "links: verified: 2 links" in details(packet)
    assert "nothing can be recomputed" in details(packet)


def test_a_link_to_another_hash_breaks_the_packet() -> None:
    assert read(entry(1, A) + entry(2, B, C)).verdict == "broken"


def test_linked_entries_out_of_order_break_the_packet() -> None:
    packet = read(entry(2, A) + entry(1, B, A))
    assert packet.verdict == "broken"
    assert "index order" in details(packet)


@pytest.mark.parametrize("first", ["", "GENESIS", "0" * 64])
def test_the_first_entry_needs_no_predecessor(first: str) -> None:
    assert read(entry(0, A, first) + entry(1, B, A)).verdict == "unverifiable"


@pytest.mark.parametrize(
    ("value", "detail"),
    [
        ("PLACEHOLDER", "'PLACEHOLDER' is a placeholder"),
        ("SHA256:LANTERN_LIT", "'SHA256:LANTERN_LIT' is a placeholder"),
        ("0" * 64, "all zeros"),
        ("ab" * 16, "32 hex digits: the length of md5"),
        ("ab" * 20, "40 hex digits: the length of sha1"),
        ("abc1234", "7 hex digits: the length of no known hash"),
    ],
)
def test_what_is_no_sha_256_is_named(value: str, detail: str) -> None:
    packet = read(entry(1, value))
    assert packet.verdict == "unverifiable"
    assert detail in details(packet)


def test_a_claim_of_the_wrong_length_is_unverifiable() -> None:
    packet = read(entry(0, "ab" * 16, note="SHA-256 of body/transcript"))
    assert packet.verdict == "unverifiable"
    assert "sha256 has 64" in details(packet)


def test_a_packet_without_hashes_says_so() -> None:
    assert "states no hashes" in details(read(""))


def test_json_packets_are_verified_too() -> None:
    content = 'He said "tick" \n twice'
    packet = {
        "header": {"packet_id": "p"},
        "content": content,
        "cryptographic_integrity": {"entries": [{"index": 0, "hash": sha256(content), "note": "hash of content"}]},
    }
    read_back = read_packet(json.dumps(packet).encode(), "p.json", MODIFIED, LIMITS)
    assert (read_back.dialect, read_back.verdict) == ("session_json", "verified")
