"""Hostile and broken input: each ends in a PacketRejected that names the reason, soon and in bounded memory."""

import contextlib
import resource
import time
import tracemalloc
from datetime import UTC, datetime

import msgspec
import pytest

from gaiad.archive.reading.packet import Packet
from gaiad.archive.reading.pages import cut_pages
from gaiad.archive.reading.reader import read_packet
from gaiad.base.config import PacketLimits, load_config
from gaiad.base.errors import PacketRejected

LIMITS = load_config(environment={}).packets
MODIFIED = datetime(2026, 5, 4, tzinfo=UTC)
LAUGHS = b'<!DOCTYPE lolz [<!ENTITY a "lol"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]><lolz>&b;</lolz>'


def read(data: bytes, limits: PacketLimits = LIMITS) -> Packet:
    return read_packet(data, "packet", MODIFIED, limits)


def smaller(**changes: int) -> PacketLimits:
    return msgspec.structs.replace(LIMITS, **changes)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (LAUGHS, "declares entities"),
        (b'<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a>&x;</a>', "declares entities"),
        (b'<!DOCTYPE a [<!ENTITY % p SYSTEM "http://127.0.0.1:1/x.dtd"> %p;]><a>t</a>', "declares entities"),
        (b'<!DOCTYPE a SYSTEM "http://127.0.0.1:1/x.dtd"><a>&x;</a>', "entity &x;"),
        (b'<!DOCTYPE a [<!ATTLIST a b CDATA "c">]><a>t</a>', "default for attribute"),
        (b"<a>t&x;</a>", "undefined entity"),
        (b"<a" * 100_000, "not well-formed"),
        (b"<a>" * 100_000, "max_depth = 64"),
        (b"[" * 100_000, "max_depth = 64"),
        (b'{"a":' * 100_000, "max_depth = 64"),
        (b"<a>text\0more</a>", "NUL byte"),
        (b'{"a": "b\0"}', "NUL byte"),
        (b"<a>caf\xe9</a>", "not UTF-8: byte 0xE9"),
        (b'{"a": "caf\xe9"}', "not UTF-8: byte 0xE9"),
        (b'<?xml version="1.0" encoding="no-such-thing"?><a>t</a>', "unknown"),
        (b'<?xml version="1.0" encoding="shift_jis"?><a>t</a>', "save the packet as UTF-8"),
        (b'<?xml version="1.0" encoding="UTF-16"?><a>t</a>', "declares UTF-16 but is not"),
        (b'<?xml version="1.0" encoding="unicode_escape"?><a>t</a>', "is not read"),
        (b'<?xml version="1.0" encoding="cp932"?><a>t</a>', "save the packet as UTF-8"),
        ("<a>t</a>".encode("utf-32"), "UTF-32"),
        ('{"a": "b"}'.encode("utf-16"), "UTF-16"),
        ('{"a": "b"}'.encode("utf-16-le"), "UTF-16"),
        (b"<a><b>text</b", "not well-formed"),
        (b"<a><b>text</a>", "mismatched tag"),
        (b"<a>t</a><b/>", "junk after"),
        (b'{"a": "b', "truncated"),
        (b'{"a": ', "truncated"),
        (b'{"a": 1', "closing bracket is missing"),
        (b'{"a": 1 "b": 2}', "comma"),
        (b'{"a": [1, 2}', "unexpected }"),
        (b'{"a": 1,}', '"key": is missing'),
        (b"[1,]", "no value begins"),
        (b'{"a": NaN}', "NaN"),
        (b'{"a": -Infinity}', "NaN and Infinity"),
        (b'{"a": 01}', "no value begins"),
        (b'{"a": truest}', "no value begins"),
        (b'{"a": "tab\there"}', "control character 0x09"),
        (b'{"a": "\\x"}', "unknown escape"),
        (b'{"a": 1} {"b": 2}', "continues after the end"),
        (b'"text"', "neither XML nor JSON"),
        (b"plain words", "neither XML nor JSON"),
        (b"", "is empty"),
        (b"  \n", "is empty"),
        (b"\0\0\0\0", "no text"),
        (b'{"' + b"k" * 20_000 + b'": 1}', "key longer"),
    ],
)
def test_bad_input_is_rejected_with_its_reason(data: bytes, reason: str) -> None:
    started = time.process_time()
    with pytest.raises(PacketRejected) as caught:
        read(data)
    assert reason in caught.value.reason
    assert time.process_time() - started < 5.0


@pytest.mark.parametrize(
    ("data", "limits", "named"),
    [
        (b"<a>" + b"x" * 100 + b"</a>", smaller(max_bytes=50), "packets.max_bytes = 50"),
        (b"<a>" + b"x" * 100 + b"</a>", smaller(max_text_chars=50), "packets.max_text_chars = 50"),
        (b"<a>" + b"&amp;" * 100 + b"</a>", smaller(max_text_chars=50), "packets.max_text_chars = 50"),
        (b'<a b="' + b"x" * 100 + b'"/>', smaller(max_text_chars=50), "packets.max_text_chars = 50"),
        (b'{"a": "' + b"x" * 100 + b'"}', smaller(max_text_chars=50), "packets.max_text_chars = 50"),
        (b'{"a": "' + b"\\n" * 100 + b'"}', smaller(max_text_chars=50), "packets.max_text_chars = 50"),
        (b"<a>" + b"<b/>" * 100 + b"</a>", smaller(max_nodes=50), "packets.max_nodes = 50"),
        (b"[" + b"1," * 100 + b"1]", smaller(max_nodes=50), "packets.max_nodes = 50"),
        (b"<a><b><c>t</c></b></a>", smaller(max_depth=2), "packets.max_depth = 2"),
        (b"[[[1]]]", smaller(max_depth=2), "packets.max_depth = 2"),
    ],
)
def test_a_limit_names_its_setting_and_value(data: bytes, limits: PacketLimits, named: str) -> None:
    with pytest.raises(PacketRejected, match=named):
        read(data, limits)


def test_what_stands_exactly_at_a_limit_is_read() -> None:
    assert read(b"<a><b>t</b></a>", smaller(max_depth=2, max_nodes=2, max_text_chars=1, max_bytes=15)).sections
    assert read(b'[["t"]]', smaller(max_depth=2, max_nodes=3, max_text_chars=1)).sections


def test_a_flood_of_attributes_is_refused_before_they_are_built() -> None:
    flood = b"<a>" + b"<b " + b" ".join(b'a%d=""' % number for number in range(300_000)) + b"/></a>"
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(PacketRejected, match=r"attributes of one element than packets.max_nodes"):
        read(flood)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 60_000


@pytest.mark.parametrize(
    "data",
    [
        b"<a>" + b"<b>" * 10 + b"&lt;x" * 100_000 + b"</b>" * 10 + b"</a>",
        b"<a>" + b"\n" * 500_000 + b"t</a>",
        b"<a>" + b"<!---->" * 70_000 + b"t</a>",
        b'{"a": "' + b"\\n1" * 150_000 + b'"}',
        b"[" + b'"",' * 60_000 + b'"x"]',
        b"<a>" + b'<b c="d"/>' * 25_000 + b"</a>",
    ],
    ids=["escapes", "newlines", "comments", "json escapes", "json values", "elements"],
)
def test_big_but_allowed_input_stays_within_memory_and_time(data: bytes) -> None:
    tracemalloc.start()
    started = time.process_time()
    try:
        packet = read(data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert packet.sections
    assert peak < 40_000_000
    assert time.process_time() - started < 10.0


@pytest.mark.parametrize(
    "data",
    [
        b"<p><behavior_profile><m>" + b"1" * 1_000_000 + b"x</m></behavior_profile></p>",
        b"<p><transcript>" + b"Ann Bo " * 200_000 + b"</transcript></p>",
        b"<p><transcript>" + b"A" * 1_000_000 + b"</transcript></p>",
        b"<p><summary>" + b" " * 500_000 + b"x" + b"*" * 500_000 + b"y</summary></p>",
        b"<p><integrityChain>"
        + b"".join(b"<entry><hash>%064d</hash><note>hash of t</note></entry>" % n for n in range(1, 3000))
        + b"</integrityChain><t>"
        + b"x" * 1_000_000
        + b"</t></p>",
        b"<p>" + b"".join(b"<a%d><b%d><id>x</id></b%d></a%d>" % (n, n, n, n) for n in range(20_000)) + b"</p>",
    ],
    ids=["digits", "words", "word", "space", "claims", "paths"],
)
def test_no_rule_takes_long_on_text_made_for_it(data: bytes) -> None:
    started = time.process_time()
    assert cut_pages(read(data), 1200, 120)
    assert time.process_time() - started < 8.0


def test_a_doctype_without_declarations_is_harmless() -> None:
    assert read(b'<!DOCTYPE a SYSTEM "http://127.0.0.1:1/x.dtd"><a id="x">text</a>').packet_id == "x"


def test_random_damage_never_escapes_as_another_error() -> None:
    whole = b'<p id="x"><h a="b&lt;">one &amp; two</h><![CDATA[three]]><!-- c --></p>'
    other = b'{"id": "x", "a": ["b\\u00e9", 1.5e3, true, null, {"c": "\\ud83d\\ude00"}]}'
    for sample in (whole, other):
        for position in range(len(sample)):
            for damaged in (sample[:position], sample[:position] + b"\xff" + sample[position + 1 :]):
                with contextlib.suppress(PacketRejected):
                    assert read(damaged).packet_id
