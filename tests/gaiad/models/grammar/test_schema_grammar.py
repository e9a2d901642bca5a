"""What a schema's grammar allows is drawn at random and read as a program would; llama.cpp judges elsewhere."""

import datetime
import json
import re
import uuid
from typing import Annotated, Any, Literal

import msgspec
import pytest

from gaiad.contracts import struct_schema
from gaiad.models.grammar.gbnf_check import check_gbnf
from gaiad.models.grammar.gbnf_sentences import Sentences
from gaiad.models.grammar.grammar_source import BadGrammar, to_gbnf

Meta = msgspec.Meta
UTC = Annotated[datetime.datetime, Meta(tz=True)]
ODD = ["plain", 'a "quote"', "back\\slash", "two\nlines", "é 日本 \U0001f600", "tab\t", "", "</s>", "plain too"]


def draw(schema, count=60):
    sentences = Sentences(check_gbnf(to_gbnf("", schema, None)), lambda _: True)
    return [sentences.draw() for _ in range(count)]


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
    when: UTC
    day: datetime.date
    key: uuid.UUID
    data: bytes
    anything: Any
    flag: bool = False
    more: list["Everything"] = []
    empty: Annotated[list[int], Meta(max_length=0)] = []


def test_all_that_msgspec_describes_comes_back_as_the_struct():
    for text in draw(struct_schema(Everything), 150):
        msgspec.json.decode(text, type=Everything)


def test_a_foreign_schema_with_references_and_unions_is_held():
    schema = {
        "$ref": "#/$defs/a~1b c",
        "$defs": {
            "a/b c": {
                "type": "object",
                "properties": {"v": {"$ref": "#/$defs/string"}, "next": {"$ref": "#/$defs/a~1b%20c"}},
            },
            "string": {"oneOf": [{"const": {"k": [1, 'é"']}}, {"type": ["integer", "null"]}, {"enum": [1.5, True]}]},
        },
    }
    for text in draw(schema):
        node = json.loads(text)
        while node is not None:
            assert set(node) <= {"v", "next"}
            value = node.get("v")
            assert value is None or isinstance(value, int) or value in (1.5, {"k": [1, 'é"']})
            node = node.get("next")


def test_literals_are_spelled_as_json_whatever_is_in_them():
    found = {json.loads(text) for text in draw({"enum": ODD})}
    assert found == set(ODD)


def test_optional_properties_come_in_order_in_every_combination():
    schema = {"properties": {name: {"const": 1} for name in "abcd"}, "required": ["c"]}
    found = {tuple(json.loads(text)) for text in draw(schema, 400)}
    assert found == {
        tuple(name for name in "abcd" if name == "c" or name in some) for some in ("", *"abd", "ab", "ad", "bd", "abd")
    }
    none = {
        tuple(json.loads(text))
        for text in draw({"type": "object", "properties": {"a": {"const": 1}, "b": {"const": 2}}}, 100)
    }
    assert none == {(), ("a",), ("b",), ("a", "b")}


def test_lengths_are_kept_beyond_what_the_parser_counts():
    source = to_gbnf("", {"type": "string", "minLength": 2500, "maxLength": 5000}, None)
    sentences = Sentences(check_gbnf(source), lambda _: True)
    lengths = [len(json.loads(sentences.draw())) for _ in range(5)]
    assert all(2500 <= length <= 5000 for length in lengths)
    assert len(source) < 1000, "it is counted in rows, not character by character"


def test_given_values_can_be_held_different_from_each_other():
    schema = {"type": "array", "uniqueItems": True, "minItems": 1, "items": {"enum": ["p-1", "p-2", "p-3"]}}
    found = {tuple(json.loads(text)) for text in draw(schema, 200)}
    assert found == {
        ("p-1",),
        ("p-2",),
        ("p-3",),
        ("p-1", "p-2"),
        ("p-1", "p-3"),
        ("p-2", "p-3"),
        ("p-1", "p-2", "p-3"),
    }


def test_all_of_is_one_object():
    parts = [{"$ref": "#/$defs/a"}, {"properties": {"y": {"const": 2}}, "required": ["y"]}]
    schema = {"allOf": parts, "$defs": {"a": {"type": "object", "properties": {"x": {"const": 1}}, "required": ["x"]}}}
    assert {text.replace(" ", "") for text in draw(schema)} == {'{"x":1,"y":2}'}


UNUSABLE = {
    "unknown type": ({"type": "text"}, "type 'text' is unknown; use one of"),
    "no schema": ({"type": "array", "items": 7}, "7 is no schema"),
    "a reference to the network": ({"$ref": "https://example.org/a.json"}, "leaves the schema"),
    "a reference to nothing": ({"$ref": "#/$defs/none"}, "names nothing"),
    "a reference that is none": ({"$ref": [{}]}, "leaves the schema"),
    "a required object": ({"properties": {"a": {}}, "required": [{}]}, "is required and no property"),
    "a reference to itself": ({"$ref": "#"}, "can begin with itself"),
    "an empty enum": ({"properties": {"id": {"enum": []}}}, "reply-id: the enum has no value"),
    "not": ({"not": {"type": "string"}}, "'not' cannot be held"),
    "multipleOf": ({"type": "integer", "multipleOf": 3}, "'multipleOf' cannot be held"),
    "unlike items": ({"type": "array", "uniqueItems": True, "items": {"type": "string"}}, "uniqueItems is held for"),
    "length backwards": ({"type": "string", "minLength": 5, "maxLength": 2}, "mend the bounds"),
    "a length in words": ({"type": "string", "maxLength": "5"}, "maxLength is '5'"),
    "a bound in words": ({"type": "integer", "minimum": "5"}, "minimum is '5'"),
    "bounds backwards": ({"type": "integer", "minimum": 5, "maximum": 4}, "no whole number lies between 5 and 4"),
    "no object": ({"properties": [1]}, "properties is .* give an object"),
    "required and unknown": ({"properties": {}, "required": ["a"]}, "'a' is required and no property"),
    "a pattern in the middle": ({"type": "string", "pattern": "a+"}, r"put \^ before and \$ after"),
    "a broken pattern": ({"type": "string", "pattern": "^(a$"}, "cannot be read"),
    "a pattern that looks ahead": ({"type": "string", "pattern": "^(?=a)b$"}, "a grammar cannot hold"),
    "a pattern of other length": ({"type": "string", "pattern": "^a+$", "maxLength": 5}, "put the bounds into"),
    "too many characters": ({"type": "string", "maxLength": 10**9}, "ask for less"),
    "an endless struct": (
        {"$ref": "#/$defs/a", "$defs": {"a": {"properties": {"b": {"$ref": "#/$defs/a"}}, "required": ["b"]}}},
        "never comes to an end",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", UNUSABLE)
def test_a_schema_that_cannot_be_held_is_refused_in_words(name):
    schema, words = UNUSABLE[name]
    with pytest.raises(BadGrammar, match=words):
        to_gbnf("", schema, None)


def test_a_schema_nested_200_000_deep_is_refused():
    schema = inner = {}
    for _ in range(200_000):
        inner["items"] = inner = {}
    with pytest.raises(BadGrammar, match="nested"):
        to_gbnf("", schema, None)
    while schema:  # one by one: freed at once it would take the interpreter's stack with it
        schema = schema.pop("items", None)


def test_patterns_write_json_strings():
    for pattern in (r"^[^a-z]{1,3}$", r"^\w+@\w+\.(org|com)$", r"^.{0,4}$", r'^"\\\n?$', r"^(a|b)*c?$", "^é[à-ü]$"):
        for text in draw({"type": "string", "pattern": pattern}, 40):
            value = json.loads(text)
            assert re.fullmatch(pattern[1:-1], value), (pattern, value)
