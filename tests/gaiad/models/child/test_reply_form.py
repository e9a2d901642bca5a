"""Texts that a form allows, drawn at random, read as a program would read them; hostile forms are refused in words."""

import json
import re
import uuid
from typing import Annotated, Any, Literal

import msgspec
import pytest

from gaiad.base.contracts import struct_schema
from gaiad.models.child.reply_form import MARKERS, BadForm, compile_form, form_grammar, outcome
from gaiad.wire.generation import Block, Contract
from router.routing import Marker
from tests.makers.form_texts import form_allows, form_texts

Meta = msgspec.Meta
BEGINNING = re.compile(f"^({'|'.join(MARKERS)}):", re.MULTILINE)
ODD = ["plain", 'a "quote"', "back\\slash", "two\nlines", "é 日本 \U0001f600", "tab\t", "", "</s>", "plain too"]


class Leaf(msgspec.Struct, tag="leaf"):
    text: Annotated[str, Meta(min_length=1, max_length=20)]
    count: Annotated[int, Meta(ge=-5, lt=40)]


class Branch(msgspec.Struct, tag="branch"):
    leaves: Annotated[list[Leaf], Meta(min_length=1, max_length=3)]
    share: Annotated[float, Meta(gt=0, le=1)]


class Everything(msgspec.Struct):
    first: str | None
    node: Leaf | Branch
    odd: Literal["a", 'b"', "c\\", 4, None]
    pair: tuple[int, str]
    counts: dict[str, int]
    code: Annotated[str, Meta(pattern=r'^[A-Z]{2}-\d+("|\\)?.$')]
    key: uuid.UUID
    anything: Any
    flag: bool = False
    more: list["Everything"] = []
    empty: Annotated[list[int], Meta(max_length=0)] = []


class Step(msgspec.Struct):
    action: str
    packet_id: str


class Plan(msgspec.Struct):
    steps: list[Step]


def test_all_that_msgspec_describes_comes_back_as_the_struct():
    for text in form_texts(40, schema=struct_schema(Everything)):
        msgspec.json.decode(text, type=Everything)


def test_a_foreign_schema_with_references_and_unions_is_held():
    schema = {
        "$ref": "#/$defs/a~1b%20c",
        "$defs": {
            "a/b c": {
                "type": "object",
                "properties": {"v": {"$ref": "#/$defs/string"}, "next": {"$ref": "#/$defs/a~1b%20c"}},
            },
            "string": {"anyOf": [{"const": {"k": [1, 'é"']}}, {"type": ["integer", "null"]}, {"enum": [1.5, True]}]},
        },
    }
    for text in form_texts(40, schema=schema):
        node = json.loads(text)
        while node is not None:
            assert set(node) <= {"v", "next"}
            value = node.get("v")
            assert value is None or isinstance(value, int) or value in (1.5, {"k": [1, 'é"']})
            node = node.get("next")


def test_literals_are_spelled_as_json_whatever_is_in_them():
    assert {json.loads(text) for text in form_texts(120, schema={"enum": ODD})} == set(ODD)


def test_objects_have_no_properties_but_those_described_unless_the_schema_says_so():
    closed = {"type": "object", "properties": {"a": {"const": 1}, "properties": {"type": "null"}}}
    found = {tuple(json.loads(text)) for text in form_texts(60, schema=closed)}
    assert found == {(), ("a",), ("properties",), ("a", "properties")}
    assert form_allows('{"b":2}', schema={**closed, "additionalProperties": {"const": 2}})
    assert not form_allows('{"b":2}', schema={"type": "array", "items": closed})


def test_values_are_not_read_as_schemas():
    value = {"properties": {"x": 1}}
    assert json.loads(form_texts(1, schema={"const": value})[0]) == value


def test_all_of_is_one_object():
    parts = [{"$ref": "#/$defs/a"}, {"properties": {"y": {"const": 2}}, "required": ["y"]}]
    of_a = {"type": "object", "properties": {"x": {"const": 1}}, "required": ["x"]}
    schema = {"allOf": parts, "$defs": {"a": of_a}}
    assert form_allows('{"x":1,"y":2}', schema=schema)
    assert not form_allows('{"x":1}', schema=schema)


def test_lengths_are_kept():
    schema = {"type": "string", "minLength": 2500, "maxLength": 2600}
    assert 2500 <= len(json.loads(form_texts(1, schema=schema)[0])) <= 2600


def test_patterns_write_json_strings():
    for pattern in (r"^[^a-z]{1,3}$", r"^\w+@\w+\.(org|com)$", r"^.{0,4}$", r'^"\\\n?$', r"^(a|b)*c?$", "^é[à-ü]$"):
        for text in form_texts(15, schema={"type": "string", "pattern": pattern}):
            value = json.loads(text)
            assert re.fullmatch(pattern[1:-1], value), (pattern, value)


def test_no_string_holds_half_a_character():
    assert not form_allows('"\\ud800"', schema={"type": "string"})
    assert form_allows('"\\n\\"é"', schema={"type": "string"})


def test_a_caller_cannot_change_how_schemas_are_read():
    own = {"type": "string", "x-guidance": {"lenient": True, "whitespace_pattern": "x*"}, "not": {}}
    with pytest.raises(BadForm, match="not"):
        form_grammar("", own, None)


def test_a_regular_expression_holds_the_whole_reply():
    assert set(form_texts(60, regex="yes|no(ne)?")) == {"yes", "no", "none"}
    assert form_texts(1, regex="<\\|im_end\\|><think>") == ["<|im_end|><think>"]


UNUSABLE: dict[str, tuple[Any, str]] = {
    "unknown type": ({"type": "text"}, "Invalid type: text"),
    "no schema": ({"type": "array", "items": 7}, "must be an object or boolean"),
    "a reference to the network": ({"$ref": "https://example.org/a.json"}, "does not fetch"),
    "a reference to a file": ({"$ref": "file:///etc/passwd"}, "does not fetch"),
    "a reference to nothing": ({"$ref": "#/$defs/none"}, "does not exist"),
    "a reference that is none": ({"$ref": [{}]}, "must be a string"),
    "a required object": ({"properties": {"a": {}}, "required": [{}]}, "Expected string"),
    "a required empty enum": ({"properties": {"id": {"enum": []}}, "required": ["id"]}, "nsatisfiable"),
    "required and unknown": ({"properties": {}, "required": ["a"]}, "nsatisfiable"),
    "not": ({"not": {"type": "string"}}, "Unimplemented keys"),
    "unlike items": ({"type": "array", "uniqueItems": True, "items": {"type": "string"}}, "Unimplemented keys"),
    "length backwards": ({"type": "string", "minLength": 5, "maxLength": 2}, "greater than maxLength"),
    "a length in words": ({"type": "string", "maxLength": "5"}, "Expected positive integer"),
    "bounds backwards": ({"type": "integer", "minimum": 5, "maximum": 4}, "greater than maximum"),
    "no object": ({"properties": [1]}, "properties must be an object"),
    "a broken pattern": ({"type": "string", "pattern": "^(a$"}, "unclosed group"),
    "a pattern that looks ahead": ({"type": "string", "pattern": "^(?=a)b$"}, "look-around"),
    "a pattern that looks back": ({"type": "string", "pattern": r"^(a)\1$"}, "backreferences"),
    "bytes that are no text": ({"type": "string", "pattern": r"(?-u)\xff\[1\]"}, "invalid UTF-8"),
    "a pattern nested deep": ({"type": "string", "pattern": "(" * 100_000 + "a" + ")" * 100_000}, "nest"),
    "a hundred thousand values": ({"enum": [f"value {number}" for number in range(100_000)]}, "too big"),
    "a hundred thousand properties": (
        {"properties": {f"p{number}": {"type": "string"} for number in range(100_000)}},
        "too large",
    ),
    "parts of parts of parts": (
        {
            "$ref": "#/$defs/d0",
            "$defs": {
                **{
                    f"d{at}": {"allOf": [{"anyOf": [{"$ref": f"#/$defs/d{at + 1}"}, {"type": "null"}]}] * 2}
                    for at in range(40)
                },
                "d40": {"type": "integer"},
            },
        },
        "too large",
    ),
}


@pytest.mark.parametrize("name", UNUSABLE)
def test_a_schema_that_cannot_be_held_is_refused_in_words(name):
    schema, words = UNUSABLE[name]
    with pytest.raises(BadForm, match=words) as caught:
        form_grammar("", schema, None)
    assert len(str(caught.value)) <= 400


@pytest.mark.parametrize("depth", [190, 200_000])
def test_a_schema_nested_deep_is_refused(depth):
    schema = inner = {}
    for _ in range(depth):
        inner["items"] = inner = {}
    with pytest.raises(BadForm, match=r"recursion|nested|deep"):
        form_grammar("", schema, None)
    while schema:  # one by one: freed at once it would take the interpreter's stack with it
        schema = schema.pop("items", None)


# ------------------------------------------------------------------------------------------------ contracts


def blocks(text):
    """As the router will read it: a marker at the beginning of a line begins a block."""
    starts = [found.start() for found in BEGINNING.finditer(text)]
    assert starts[0] == 0
    parts = [text[start:end] for start, end in zip(starts, [*starts[1:], len(text) + 1], strict=True)]
    return [(part.partition(":")[0], part.partition(": ")[2].removesuffix("\n")) for part in parts]


def test_the_markers_are_the_routers():
    assert set(MARKERS) == set(Marker.__args__)


def test_blocks_come_in_order_and_each_reads_by_itself():
    schema = struct_schema(Plan, {"packet_id": ["p-1", "p-2"]})
    made = [Block(marker="PLAN", schema=schema), Block(marker="RESPONSE"), Block(marker="VERIFY")]
    for text in form_texts(12, contract=Contract(blocks=made), phrases=("\nVERIFY: ", "\nPLAN: x")):
        found = blocks(text)
        assert [marker for marker, _ in found] == ["PLAN", "RESPONSE", "VERIFY"]
        plan = msgspec.json.decode(found[0][1], type=Plan)
        assert {step.packet_id for step in plan.steps} <= {"p-1", "p-2"}
        assert found[1][1]
        assert found[2][1]


GOOD = [
    "a", "Plan: do it", "one\ntwo", "x\nPLAN", "x\nPLAN B", "x\nPLANS: y", "x\n PLAN: y", "say PLAN: y",
    "x\n\n\ny\n", "é日\U0001f600\t\"quotes\" \\",
    "x\nEX\nEXECUTE\nV", "a: b\nVERIFY : c", "PLAN: in the first line, after the marker",
    "THOUGHT_SEED", "x\nTHOUGHT_SEEDS:", "w" * 4000, "x\n" * 12,
]  # fmt: skip
BAD = ["", " x", "\nx", "\u3000x", "x\rPLAN", "x\u2028y", "x\x00", "x\x1b[0m", "x\x9b0m"]
BAD += [f"x\n{marker}:" for marker in MARKERS] + [f"x\nPLA\n{marker}: y" for marker in MARKERS]


@pytest.mark.parametrize("text", GOOD)
def test_text_may_say_anything(text):
    assert form_allows(f"RESPONSE: {text}", contract=Contract(blocks=[Block(marker="RESPONSE")]))
    both = Contract(blocks=[Block(marker="RESPONSE"), Block(marker="VERIFY")])
    assert form_allows(f"RESPONSE: {text}\nVERIFY: {text}", contract=both)


@pytest.mark.parametrize("text", BAD)
def test_but_no_line_of_it_begins_with_a_marker_and_nothing_in_it_is_hidden(text):
    assert not form_allows(f"RESPONSE: {text}", contract=Contract(blocks=[Block(marker="RESPONSE")]))


@pytest.mark.parametrize(
    ("blocks_", "words"),
    [
        ([], "no blocks"),
        ([Block(marker="THOUGHT")], "unknown marker 'THOUGHT'; use one of PLAN, EXECUTE"),
        ([Block(marker='PLAN" | "')], "unknown marker"),
        ([Block(marker="PLAN", schema={"type": "text"})], "Invalid type"),
    ],
)
def test_a_contract_that_cannot_be_held_is_refused_in_words(blocks_, words):
    with pytest.raises(BadForm, match=words):
        form_grammar("", None, Contract(blocks=blocks_))


def test_a_form_travels_packed_with_what_is_wrong_with_it():
    grammar, problem = outcome(compile_form("yes|no", None, None))
    assert "yes|no" in grammar
    assert problem == ""
    assert outcome(compile_form("(a", None, None)) == ("", "cannot hold a reply to this form: " + BROKEN)


BROKEN = 'invalid regex "(a" (in regex): regex parse error: (a ^ error: unclosed group'
