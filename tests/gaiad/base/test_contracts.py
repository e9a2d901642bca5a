from typing import Annotated, Any, Literal

import msgspec
import pytest

from gaiad.base.contracts import LONGEST_TEXT, MOST_ITEMS, struct_schema
from gaiad.base.errors import BadInput


class Claim(msgspec.Struct):
    text: str
    packet_id: str


class Answer(msgspec.Struct, rename="camel"):
    claims: list[Claim]
    best_packet: str | None = None
    also_read: list[str] = []
    tone: Literal["plain", "warm"] = "plain"
    weights: dict[str, float] = {}


class Tree(msgspec.Struct):
    name: str
    children: list["Tree"] = []


def properties(schema, *path):
    for name in path:
        schema = schema["properties"][name]
        schema = schema.get("items", schema)
    return schema


def test_everything_without_a_bound_gets_one_and_a_bound_of_the_struct_stays():
    class Own(msgspec.Struct):
        short: Annotated[str, msgspec.Meta(max_length=9)]
        code: Annotated[str, msgspec.Meta(pattern="^a{3}$")]
        long: Annotated[str, msgspec.Meta(min_length=3000)]
        many: Annotated[list[str], msgspec.Meta(min_length=20)]
        few: list[Claim]
        table: dict[str, int]
        whatever: Any

    schema = struct_schema(Own)
    assert "$defs" not in schema
    assert properties(schema, "short") == {"type": "string", "maxLength": 9}
    assert "maxLength" not in properties(schema, "code")
    assert properties(schema, "long")["maxLength"] == 3000
    assert schema["properties"]["many"]["maxItems"] == 20
    assert schema["properties"]["few"]["maxItems"] == MOST_ITEMS
    assert properties(schema, "few", "text")["maxLength"] == LONGEST_TEXT
    table = schema["properties"]["table"]
    assert table["maxProperties"] == MOST_ITEMS
    assert properties(schema, "whatever")["type"] == ["string", "number", "boolean", "null"]


def test_a_citation_can_only_be_one_of_the_ids_by_path_or_by_name_inside_arrays_too():
    schema = struct_schema(Answer, {"claims.packet_id": ["p-1", "p-2", "p-1"], "alsoRead": ["p-3"]})
    assert properties(schema, "claims", "packet_id") == {"type": "string", "enum": ["p-1", "p-2"]}
    assert properties(schema, "claims", "text")["maxLength"] == LONGEST_TEXT
    assert properties(schema, "alsoRead")["enum"] == ["p-3"]
    assert schema["properties"]["alsoRead"]["maxItems"] == 1, "no more citations than there are ids"
    assert schema["properties"]["claims"]["maxItems"] == MOST_ITEMS
    assert properties(struct_schema(list[Answer], {"packet_id": ["p-9"]})["items"], "claims", "packet_id")["enum"] == [
        "p-9"
    ]
    weights = struct_schema(Answer, {"bestPacket": ["p-1"]})["properties"]["bestPacket"]["anyOf"]
    assert weights == [{"type": "string", "enum": ["p-1"]}, {"type": "null"}]


def test_without_ids_what_may_be_empty_is_and_what_must_not_be_is_refused():
    schema = struct_schema(Answer, {"bestPacket": [], "alsoRead": [], "tone": []})
    assert schema["properties"]["alsoRead"]["maxItems"] == 0
    assert schema["properties"]["bestPacket"]["anyOf"] == [{"type": "null"}]
    assert "tone" not in schema["properties"], "an optional field that could say nothing is left out"
    with pytest.raises(BadInput, match=r"'packet_id' is required but has no ids to choose from; give an id"):
        struct_schema(Answer, {"packet_id": []})


def test_a_field_that_does_not_exist_or_holds_no_text_is_named():
    with pytest.raises(BadInput, match=r"no field is called 'packetid'.*packet_id"):
        struct_schema(Answer, {"packetid": ["x"]})
    with pytest.raises(BadInput, match="'weights' is not text"):
        struct_schema(Answer, {"weights": ["x"]})


def test_a_struct_that_contains_itself_keeps_its_definition():
    schema = struct_schema(Tree, {"name": ["oak", "elm"]})
    assert schema["$ref"] == "#/$defs/Tree"
    inner = schema["$defs"]["Tree"]["properties"]
    assert inner["name"]["enum"] == ["oak", "elm"]
    assert inner["children"]["items"] == {"$ref": "#/$defs/Tree"}
