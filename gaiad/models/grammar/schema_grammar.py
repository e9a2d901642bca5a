"""JSON Schema as GBNF: what a reply may be, so that it parses and fits. Pure.

Written here and not taken from llama-cpp-python: its converter breaks literals with quotes or backslashes, lets control
characters into strings, forgets numeric bounds and unknown keywords, and makes long strings that the parser refuses.
Properties come in the schema's order. Where a schema names properties, no others are written. White space: at most one
after a comma or a colon.
"""

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any
from urllib.parse import unquote

from gaiad.models.grammar import number_ranges
from gaiad.models.grammar.gbnf_writer import BadGrammar, Rules, literal, one_of
from gaiad.models.grammar.pattern_grammar import STRING_CHARACTER, pattern
from gaiad.models.grammar.schema_words import bound, count, guessed, shown, typed, written

DEEPEST = 64
_UNHELD = (
    "not", "if", "then", "else", "patternProperties", "dependentRequired", "dependentSchemas", "contains",
    "multipleOf", "$dynamicRef", "$recursiveRef",
)  # fmt: skip
_DAY = (
    '(("0" [13578] | "1" [02]) "-" ("0" [1-9] | [12] [0-9] | "3" [01]) | '
    '("0" [469] | "11") "-" ("0" [1-9] | [12] [0-9] | "30") | "02-" ("0" [1-9] | "1" [0-9] | "2" [0-8]))'
)
_DATE = f'[1-9] [0-9]{{3}} "-" {_DAY}'
_CLOCK = '([01] [0-9] | "2" [0-3]) ":" [0-5] [0-9]'
_TIME = f'{_CLOCK} ":" [0-5] [0-9] ("." [0-9]{{1,6}})? ("Z" | [-+] {_CLOCK})'
_FORMATS = {
    "date": _DATE,
    "time": _TIME,
    "date-time": f'{_DATE} "T" {_TIME}',
    "uuid": '[0-9a-f]{8} "-" [0-9a-f]{4} "-" [0-9a-f]{4} "-" [0-9a-f]{4} "-" [0-9a-f]{12}',
    "decimal": '"-"? [0-9]{1,15} ("." [0-9]{1,15})?',
}
_TYPES = ("string", "integer", "number", "array", "object")
_SCALARS = {"boolean": '("true" | "false")', "null": '"null"'}
_STRUCTURE = ("type", "properties", "required", "items", "additionalProperties", "minLength", "maxLength", "pattern")


class SchemaGrammar:
    """One schema and its definitions, written into `rules`."""

    def __init__(self, schema: Any, rules: Rules) -> None:
        self._schema = schema
        self._rules = rules
        self._references: dict[str, str] = {}
        self._space = rules.add("space", '" "?')

    def root(self, hint: str) -> str:
        """The rule for the whole schema. Raises BadGrammar naming the place and what cannot be held."""
        return self._visit(self._schema, hint, 0)

    def _visit(self, schema: Any, hint: str, depth: int) -> str:
        """The name of the rule for `schema`."""
        if depth > DEEPEST:
            raise BadGrammar(f"the schema is nested deeper than {DEEPEST}; make it flatter")
        if schema is True:
            schema = {}
        if not isinstance(schema, dict):
            raise BadGrammar(f"{hint}: {shown(schema)} is no schema; give an object")
        self._refuse(schema, hint)
        if "$ref" in schema:
            return self._reference(schema, hint, depth)
        return self._rules.add(hint, self._body(schema, hint, depth))

    def _refuse(self, schema: dict[str, Any], hint: str) -> None:
        unheld = next((word for word in _UNHELD if word in schema), "")
        if unheld:
            raise BadGrammar(f"{hint}: {unheld!r} cannot be held by a grammar; leave it out and check the reply")

    def _body(self, schema: dict[str, Any], hint: str, depth: int) -> str:
        if "const" in schema:
            return literal(written(schema["const"]))
        if "enum" in schema:
            return self._enumeration(schema, hint)
        for union in ("anyOf", "oneOf"):
            if union in schema:
                return self._union(schema, union, hint, depth)
        if "allOf" in schema:
            return self._visit(self._merged(schema, hint), hint, depth + 1)
        kind = schema.get("type") or guessed(schema)
        if isinstance(kind, list) and kind:
            return self._either([{**schema, "type": one} for one in kind], hint, depth)
        if kind not in ("", *_SCALARS, *_TYPES):
            raise BadGrammar(f"{hint}: the type {shown(kind)} is unknown; use one of {', '.join((*_TYPES, *_SCALARS))}")
        if kind in _SCALARS:
            return _SCALARS[kind]
        write: dict[str, Callable[[dict[str, Any], str, int], str]] = {
            "": self._anything,
            "string": self._string,
            "integer": self._integer,
            "number": self._number,
            "array": self._array,
            "object": self._object,
        }
        return write[kind](schema, hint, depth)

    # -- parts that stand for others

    def _reference(self, schema: dict[str, Any], hint: str, depth: int) -> str:
        target = str(schema["$ref"])
        if target not in self._references:
            meant = self._resolve(target, hint)
            name = self._references[target] = self._rules.reserve(target.rpartition("/")[2])
            self._rules.define(name, self._visit(meant, name, depth + 1))
        return self._references[target]

    def _resolve(self, target: str, hint: str) -> Any:
        if target != "#" and not target.startswith("#/"):
            raise BadGrammar(f"{hint}: the reference {shown(target)} leaves the schema; use one that begins with #/")
        found = self._schema
        for step in target.split("/")[1:]:
            key = unquote(step).replace("~1", "/").replace("~0", "~")
            if isinstance(found, list) and key.isdecimal() and int(key) < len(found):
                found = found[int(key)]
            elif isinstance(found, dict) and key in found:
                found = found[key]
            else:
                raise BadGrammar(f"{hint}: the reference {shown(target)} names nothing in the schema; mend it")
        return found

    def _enumeration(self, schema: dict[str, Any], hint: str) -> str:
        values = schema["enum"]
        if not isinstance(values, list) or not values:
            raise BadGrammar(f"{hint}: the enum has no value to choose from; give one or leave the field out")
        return one_of([written(value) for value in values])

    def _union(self, schema: dict[str, Any], word: str, hint: str, depth: int) -> str:
        alternatives = schema[word]
        if not isinstance(alternatives, list) or not alternatives:
            raise BadGrammar(f"{hint}: {word} has no alternative; give one or leave it out")
        shared = {key: schema[key] for key in _STRUCTURE if key in schema}
        parts = [{**shared, **one} if isinstance(one, dict) else one for one in alternatives]
        return self._either(parts, hint, depth)

    def _either(self, alternatives: Sequence[Any], hint: str, depth: int) -> str:
        return " | ".join(self._visit(one, f"{hint}-{at}", depth + 1) for at, one in enumerate(alternatives, 1))

    def _merged(self, schema: dict[str, Any], hint: str) -> dict[str, Any]:
        """`allOf` of objects is one object with the properties of all."""
        merged: dict[str, Any] = {key: value for key, value in schema.items() if key != "allOf"}
        for part in typed(schema, "allOf", list, hint):
            meant = self._resolve(str(part["$ref"]), hint) if isinstance(part, dict) and "$ref" in part else part
            if not isinstance(meant, dict):
                raise BadGrammar(f"{hint}: {shown(meant)} is no schema; give an object")
            for key, value in meant.items():
                if key == "properties":
                    merged[key] = {**merged.get(key, {}), **value}
                elif key == "required":
                    merged[key] = [*merged.get(key, []), *value]
                elif merged.setdefault(key, value) != value and key not in (
                    "title",
                    "description",
                    "additionalProperties",
                ):
                    raise BadGrammar(f"{hint}: the parts of allOf disagree about {key!r}; write one schema")
        return merged

    # -- values

    def _anything(self, _schema: dict[str, Any], _hint: str, _depth: int) -> str:
        parts: list[dict[str, Any]] = [{"type": kind} for kind in ("string", "number", "boolean", "null")]
        whole = [
            {"type": "array", "items": {"$ref": "#any"}},
            {"type": "object", "additionalProperties": {"$ref": "#any"}},
        ]
        if "#any" not in self._references:
            name = self._references["#any"] = self._rules.reserve("any")
            self._rules.define(name, self._either([*parts, *whole], "any", 0))
        return self._references["#any"]

    def _integer(self, schema: dict[str, Any], hint: str, _depth: int) -> str:
        low, high = bound(schema, "minimum", hint), bound(schema, "maximum", hint)
        above, below = bound(schema, "exclusiveMinimum", hint), bound(schema, "exclusiveMaximum", hint)
        lows = [-int(-low // 1)] if low is not None else []
        highs = [int(high // 1)] if high is not None else []
        lows += [int(above // 1) + 1] if above is not None else []
        highs += [-int(-below // 1) - 1] if below is not None else []
        return number_ranges.integers(max(lows, default=None), min(highs, default=None))

    def _number(self, schema: dict[str, Any], hint: str, _depth: int) -> str:
        low, high = bound(schema, "minimum", hint), bound(schema, "maximum", hint)
        above, below = bound(schema, "exclusiveMinimum", hint), bound(schema, "exclusiveMaximum", hint)
        step = Decimal(1).scaleb(-6)
        lows = [value for value in (low, None if above is None else above + step) if value is not None]
        highs = [value for value in (high, None if below is None else below - step) if value is not None]
        return number_ranges.decimals(max(lows, default=None), min(highs, default=None))

    def _string(self, schema: dict[str, Any], hint: str, _depth: int) -> str:
        low, high = count(schema, "minLength", hint) or 0, count(schema, "maxLength", hint)
        if "pattern" in schema:
            inside = pattern(str(schema["pattern"]), low, high, self._rules)
        elif str(schema.get("format")) in _FORMATS:
            inside = _FORMATS[schema["format"]]
        elif schema.get("contentEncoding") == "base64":
            inside = self._rules.repeat(self._rules.add("base64", "[A-Za-z0-9+/]{4}"), low // 4, high and high // 4)
        else:
            inside = self._rules.repeat(self._rules.add("character", STRING_CHARACTER), low, high)
        return f'"\\"" {inside} "\\""'

    def _array(self, schema: dict[str, Any], hint: str, depth: int) -> str:
        low, high = count(schema, "minItems", hint) or 0, count(schema, "maxItems", hint)
        if "prefixItems" in schema:
            return self._tuple(schema, hint, depth)
        items = schema.get("items", True)
        if schema.get("uniqueItems"):
            return self._subset(items, low, high, hint)
        if high == 0 or items is False:
            return '"[" "]"'
        return self._list("[", self._visit(items, f"{hint}-item", depth + 1), low, high, "]")

    def _list(self, opening: str, item: str, low: int, high: int | None, closing: str) -> str:
        more = self._rules.add("more", f'"," {self._space} {item}')
        rest = self._rules.repeat(more, max(0, low - 1), None if high is None else high - 1)
        inside = f"{item} {rest}" if low else f"({item} {rest})?"
        return f'"{opening}" {inside} "{closing}"'

    def _tuple(self, schema: dict[str, Any], hint: str, depth: int) -> str:
        parts = [
            self._visit(one, f"{hint}-{at}", depth + 1)
            for at, one in enumerate(typed(schema, "prefixItems", list, hint), 1)
        ]
        return '"[" ' + f' "," {self._space} '.join(parts) + ' "]"'

    def _subset(self, items: Any, low: int, high: int | None, hint: str) -> str:
        """Different values can be held when they are given: each at most once, in the order given."""
        values = items.get("enum") if isinstance(items, dict) else None
        if not isinstance(values, list) or not values or low > 1 or (high is not None and high < len(values)):
            raise BadGrammar(f"{hint}: uniqueItems is held for a list of given values only; leave it out")
        entries = [(literal(text), False) for text in dict.fromkeys(written(value) for value in values)]
        return f'"[" {self._chain(entries, hint, low > 0)} "]"'

    def _object(self, schema: dict[str, Any], hint: str, depth: int) -> str:
        properties, required = typed(schema, "properties", dict, hint), typed(schema, "required", list, hint)
        missing = [name for name in required if not isinstance(name, str) or name not in properties]
        if missing:
            raise BadGrammar(f"{hint}: {shown(missing[0])} is required and no property; describe it")
        if not properties:
            return self._map(schema, hint, depth)
        entries = [
            (
                f'{literal(written(name))} ":" {self._space} {self._visit(part, f"{hint}-{name}", depth + 1)}',
                name in required,
            )
            for name, part in properties.items()
            if part is not False
        ]
        return f'"{{" {self._chain(entries, hint, False)} "}}"'

    def _map(self, schema: dict[str, Any], hint: str, depth: int) -> str:
        low, high = count(schema, "minProperties", hint) or 0, count(schema, "maxProperties", hint)
        if high == 0 or schema.get("additionalProperties") is False or "properties" in schema:
            return '"{" "}"'
        names = typed(schema, "propertyNames", dict, hint)
        key = self._visit({"type": "string", **names}, f"{hint}-key", depth + 1)
        value = self._visit(schema.get("additionalProperties", True), f"{hint}-value", depth + 1)
        return self._list("{", self._rules.add("entry", f'{key} ":" {self._space} {value}'), low, high, "}")

    def _chain(self, entries: Sequence[tuple[str, bool]], hint: str, some: bool) -> str:
        """Entries in order with commas between them; those that are not required may be left out, `some` not all."""
        rest = ""
        firsts: list[str] = []
        for entry, required in reversed(entries):
            name = self._rules.add(hint, entry)
            firsts = [f"{name} {rest}".strip(), *([] if required else firsts)]
            comma = f'"," {self._space} {name}'
            rest = self._rules.add(f"{hint}-rest", f"{comma if required else f'({comma})?'} {rest}".strip())
        optional = not some and not any(required for _, required in entries)
        return f"({' | '.join(firsts)})" + ("?" if optional else "")
