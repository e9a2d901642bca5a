"""The form of a model's reply from the struct that will read it: a JSON Schema in which everything has a bound.

A citation in a reply can only be an id that is in the context (decision 3): `choices` writes the ids into the schema,
so that whoever holds a model to the schema holds it to them. No model is known here.
"""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from gaiad.base.errors import BadInput

LONGEST_TEXT = 2000  # characters of a string
LARGEST = 10**15  # what every reader of JSON takes as a number
MOST_ITEMS = 16  # of an array, and entries of an object whose keys are free
_SCALARS = ("string", "number", "boolean", "null")

Schema = dict[str, Any]


def struct_schema(kind: Any, choices: Mapping[str, Sequence[str]] | None = None) -> Schema:
    """The JSON Schema of a struct (or any type msgspec knows), bounded, every definition in its place.

    Strings, arrays and maps without bounds of their own get LONGEST_TEXT and MOST_ITEMS, numbers -LARGEST to
    LARGEST; a field of any type becomes a scalar. Only a struct that contains itself keeps a definition, and stays
    without end.

    `choices` names fields as on the wire: by name anywhere, or by a path from the root (`steps.packet_id`; arrays add
    nothing to it). Text in that field, also in an array or as values of a map, can only be one of the given. With
    none given an array must be empty and what may be null or absent is. Raises BadInput when a field does not exist,
    holds no text, or needs one of none.
    """
    whole = msgspec.json.schema(kind)
    writer = _Writer(whole.pop("$defs", {}), choices or {})
    schema = writer.bounded(whole, ())
    writer.check_all_met()
    if writer.kept:
        schema["$defs"] = writer.kept
    return schema


class _Writer:
    def __init__(self, definitions: Mapping[str, Schema], choices: Mapping[str, Sequence[str]]) -> None:
        self._definitions = definitions
        self._choices = choices
        self._open: list[str] = []
        self._met: set[str] = set()
        self._names: set[str] = set()
        self.kept: dict[str, Schema] = {}

    def check_all_met(self) -> None:
        for key in self._choices:
            if key not in self._met:
                known = ", ".join(sorted(self._names)) or "none"
                raise BadInput(f"no field is called {key!r}, so it cannot have choices; fields are {known}")

    def bounded(self, schema: Schema, path: tuple[str, ...]) -> Schema:
        """A copy with definitions in their place, bounds and choices."""
        if "$ref" in schema:
            return self._definition(schema["$ref"].rpartition("/")[2], path)
        made = copy.copy(schema)
        if not set(made) - {"title", "description", "default", "examples"}:
            made["type"] = list(_SCALARS)
        for word in ("anyOf", "oneOf", "prefixItems"):
            if word in made:
                made[word] = [self.bounded(one, path) for one in made[word]]
        if isinstance(made.get("items"), dict):
            made["items"] = self.bounded(made["items"], path)
        if "properties" in made:
            self._properties(made, path)
        elif made.get("type") == "object":
            self._map(made, path)
        return _with_bounds(made)

    def _definition(self, name: str, path: tuple[str, ...]) -> Schema:
        if name in self._open:
            self.kept.setdefault(name, {})
            return {"$ref": f"#/$defs/{name}"}
        self._open.append(name)
        made = self.bounded(self._definitions[name], path)
        self._open.pop()
        if name in self.kept:
            self.kept[name] = made
            return {"$ref": f"#/$defs/{name}"}
        return made

    def _map(self, schema: Schema, path: tuple[str, ...]) -> None:
        values = schema.get("additionalProperties")
        schema["additionalProperties"] = self.bounded(values if isinstance(values, dict) else {}, path)
        schema.setdefault("maxProperties", max(MOST_ITEMS, schema.get("minProperties", 0)))

    def _properties(self, schema: Schema, path: tuple[str, ...]) -> None:
        required = list(schema.get("required", []))
        made: dict[str, Schema] = {}
        for name, part in schema["properties"].items():
            self._names.add(name)
            field = (*path, name)
            bounded = self.bounded(part, field)
            keys = [key for key in (".".join(field), name) if key in self._choices]
            self._met.update(keys)
            if keys:
                bounded = self._chosen(bounded, keys[0], name in required)
            if bounded:
                made[name] = bounded
        schema["properties"] = made

    def _chosen(self, schema: Schema, key: str, required: bool) -> Schema:
        """The field's schema with its text replaced by the choices; {} leaves an optional field out."""
        ids = list(dict.fromkeys(self._choices[key]))
        if not _holds_text(schema):
            raise BadInput(f"the field {key!r} is not text; name a field of strings")
        made = _choose(schema, ids)
        if made is None and required:
            raise BadInput(f"the field {key!r} is required but has no ids to choose from; give an id")
        return made or {}


def _choose(schema: Schema, ids: Sequence[str]) -> Schema | None:
    """None when nothing can go there."""
    if "anyOf" in schema:
        parts = [part for part in (_choose(one, ids) for one in schema["anyOf"]) if part is not None]
        return {**schema, "anyOf": parts} if parts else None
    if schema.get("type") == "array" and "items" in schema:
        items = _choose(schema["items"], ids)
        if items is None:
            return {**schema, "maxItems": 0} if not schema.get("minItems") else None
        most = (
            min(schema["maxItems"], max(len(ids), schema.get("minItems", 0)))
            if _holds_text(schema)
            else schema["maxItems"]
        )
        return {**schema, "items": items, "maxItems": most}
    if schema.get("type") == "object" and "properties" not in schema:
        values = _choose(schema["additionalProperties"], ids)
        if values is None:
            return {**schema, "maxProperties": 0} if not schema.get("minProperties") else None
        return {**schema, "additionalProperties": values}
    if _is_text(schema):
        return {"type": "string", "enum": list(ids)} if ids else None
    return schema


def _holds_text(schema: Schema) -> bool:
    inside = [*schema.get("anyOf", []), schema.get("items"), schema.get("additionalProperties")]
    return _is_text(schema) or any(isinstance(one, dict) and _holds_text(one) for one in inside)


def _is_text(schema: Schema) -> bool:
    return schema.get("type") == "string" or any(isinstance(value, str) for value in schema.get("enum", []))


def _with_bounds(schema: Schema) -> Schema:
    kinds = schema.get("type")
    kinds = kinds if isinstance(kinds, list) else [kinds]
    if "string" in kinds and not {"enum", "const", "pattern", "maxLength"} & set(schema):
        schema["maxLength"] = max(LONGEST_TEXT, schema.get("minLength", 0))
    if "array" in kinds and "maxItems" not in schema:
        schema["maxItems"] = max(MOST_ITEMS, schema.get("minItems", 0))
    if {"integer", "number"} & set(kinds) and not {"enum", "const"} & set(schema):
        for word, exclusive, bound in (
            ("minimum", "exclusiveMinimum", -LARGEST),
            ("maximum", "exclusiveMaximum", LARGEST),
        ):
            if word not in schema and exclusive not in schema:
                schema[word] = bound
    return schema
