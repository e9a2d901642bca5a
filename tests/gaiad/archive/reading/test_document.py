"""Text and its place: whatever the encoding and escapes, every character leads back to its bytes."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gaiad.archive.reading.document import Document, leaves, line_of, text_of
from gaiad.archive.reading.packet import Text
from gaiad.archive.reading.read_json import read_json
from gaiad.archive.reading.read_xml import read_xml
from gaiad.base.config import load_config
from gaiad.base.errors import PacketRejected

LIMITS = load_config(environment={}).packets
WORDS = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Cn", "Co")), min_size=1, max_size=30)


def check_segments(document: Document, text: Text) -> None:
    """Literal segments decode to their characters; all rise and lie inside the original."""
    bounds = [*text.offsets[1:], len(text.value)]
    reached = 0
    for offset, following, start, end in zip(text.offsets, bounds, text.starts, text.ends, strict=True):
        assert reached <= start < abs(end) <= len(document.data)
        reached = abs(end)
        if end > 0:
            assert document.data[start:end].decode(document.encoding) == text.value[offset:following]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "iso-8859-1", "cp1252"])
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_text_and_offsets_hold_in_every_encoding(encoding: str, newline: str) -> None:
    declared = "" if encoding.startswith(("utf-8", "utf-16")) else f'<?xml version="1.0" encoding="{encoding}"?>'
    source = f"{declared}<a>\n  caf\xe9 &amp; <![CDATA[b & c\nd]]><b>\xfc &#233;&lt;\n</b>\n</a>".replace("\n", newline)
    document = read_xml(source.encode(encoding), LIMITS)
    values = [leaf.text.value for leaf in leaves(document.root)]
    assert values == ["\n  café & b & c\nd", "ü é<\n"]
    for leaf in leaves(document.root):
        check_segments(document, leaf.text)


def test_an_utf_16_document_may_say_so() -> None:
    document = read_xml('<?xml version="1.0" encoding="UTF-16"?><a b="x>y">tëxt</a>'.encode("utf-16"), LIMITS)
    assert text_of(document.root) == "tëxt"
    assert document.root.attributes == {"b": "x>y"}


@given(parts=st.lists(WORDS, min_size=1, max_size=6))
@settings(max_examples=150)
def test_any_xml_text_leads_back_to_its_bytes(parts: list[str]) -> None:
    escaped = [part.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;") for part in parts]
    document = read_xml("<a><b>{}</b></a>".format("</b><b>".join(escaped)).encode(), LIMITS)
    assert [leaf.text.value for leaf in leaves(document.root)] == [part for part in parts if part.strip()]
    for leaf in leaves(document.root):
        check_segments(document, leaf.text)


@given(
    value=st.recursive(
        WORDS | st.integers() | st.booleans(), lambda inner: st.lists(inner) | st.dictionaries(WORDS, inner)
    )
)
@settings(max_examples=60)
@pytest.mark.parametrize("ascii_only", [True, False])
def test_any_json_text_leads_back_to_its_bytes(ascii_only: bool, value: object) -> None:
    document = read_json(json.dumps({"a": value, "z": "end"}, ensure_ascii=ascii_only).encode(), LIMITS)
    assert text_of(document.root.children[-1]) == "end"
    for leaf in leaves(document.root):
        check_segments(document, leaf.text)


def test_json_values_keep_their_spelling_and_a_key_stands_once() -> None:
    document = read_json(
        b'\xef\xbb\xbf {"n": 1.50, "m": -2E+3, "t": true, "z": null, "k\\u0041": ["x", {}, []]} ', LIMITS
    )
    assert [(child.name, child.text.value) for child in document.root.children] == [
        ("n", "1.50"),
        ("m", "-2E+3"),
        ("t", "true"),
        ("z", ""),
        ("kA", ""),
    ]
    for twice in (b'{"n": 1, "n": 2}', b'{"a": {"kA": 1, "k\\u0041": 2}}'):
        with pytest.raises(PacketRejected, match="twice in one object"):
            read_json(twice, LIMITS)


def test_json_escapes_become_characters_that_can_be_encoded() -> None:
    document = read_json(b'{"a": "\\ud83d\\ude00 \\ud800 \\udc00x \\u0000 \\/\\b\\f\\n\\r\\t\\"\\\\"}', LIMITS)
    text = document.root.children[0].text
    assert text.value == '😀 \ufffd \ufffdx \ufffd /\b\f\n\r\t"\\'
    text.value.encode()
    check_segments(document, text)


def test_prefixes_are_dropped_and_the_namespace_kept() -> None:
    document = read_xml(b'<p:a xmlns:p="urn:one" p:x="1" x="2" xml:lang="de"><q:b>t</q:b></p:a>', LIMITS)
    assert (document.root.name, document.namespace) == ("a", "urn:one")
    assert sorted(document.root.attributes.values()) == ["1", "2"]
    assert document.root.children[0].name == "b"


def test_element_spans_cover_their_tags() -> None:
    source = b'<a><b x="1>2"/><c>t</c ></a>'
    root = read_xml(source, LIMITS).root
    assert [source[child.start : child.end] for child in root.children] == [b'<b x="1>2"/>', b"<c>t</c >"]
    assert source[root.start : root.end] == source


def test_errors_name_the_line() -> None:
    with pytest.raises(PacketRejected) as xml:
        read_xml(b"<a>\n<b>\n</a>", LIMITS)
    with pytest.raises(PacketRejected) as scanned:
        read_json(b'{"a": 1,\n"b": 2,\n"c": ?}', LIMITS)
    assert (xml.value.line, scanned.value.line) == (3, 3)
    assert line_of(b"a\nb\nc", 4) == 3
