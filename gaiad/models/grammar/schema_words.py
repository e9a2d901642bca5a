"""What the keywords of a JSON Schema say, read with care: it comes from a caller. Pure."""

import json
from decimal import Decimal
from typing import Any, TypeVar

from gaiad.models.grammar.gbnf_writer import BadGrammar

Kind = TypeVar("Kind", list[Any], dict[str, Any])


def guessed(schema: dict[str, Any]) -> str:
    """The type of a schema that names none, by its other words; "" is any."""
    for kind, words in (
        ("object", ("properties", "additionalProperties", "required")),
        ("array", ("items", "prefixItems", "minItems", "maxItems")),
        ("string", ("pattern", "minLength", "maxLength")),
        ("number", ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")),
    ):
        if any(word in schema for word in words):
            return kind
    return ""


def written(value: Any) -> str:
    """The value as JSON."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise BadGrammar(f"{shown(value)} cannot be written as JSON; give another value") from error


def typed(schema: dict[str, Any], word: str, kind: type[Kind], hint: str) -> Kind:
    """The value of a keyword; an empty one when it is absent. Raises BadGrammar when it has another type."""
    value: object = schema.get(word, kind())
    if isinstance(value, kind):
        return value
    article = {dict: "an object", list: "a list"}[kind]
    raise BadGrammar(f"{hint}: {word} is {shown(value)}; give {article}")


def bound(schema: dict[str, Any], word: str, hint: str) -> Decimal | None:
    """A number that limits a number."""
    value = schema.get(word)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadGrammar(f"{hint}: {word} is {shown(value)}; give a number")
    if not abs(value) <= 10**16:
        raise BadGrammar(f"{hint}: {word} is {shown(value)}; give a number of at most 16 digits")
    return Decimal(str(value))


def count(schema: dict[str, Any], word: str, hint: str) -> int | None:
    """A number that limits a length."""
    value = schema.get(word)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise BadGrammar(f"{hint}: {word} is {shown(value)}; give a whole number from 0")
    return value


def shown(value: Any) -> str:
    """The value as a message names it."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
