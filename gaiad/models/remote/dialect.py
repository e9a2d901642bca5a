"""What a server takes of what could be asked of it, learnt from its refusals. Pure.

"OpenAI-compatible" means something else to every server: one knows no `top_k`, another wants `max_completion_tokens`,
a third takes a schema only under `json_object`. Each is asked for everything once; what it refuses by name is left out
from then on, and `describe` says so.
"""

import re
from typing import Any, Literal

import msgspec

_DROPPABLE = (
    "stream_options",
    "top_k",
    "min_p",
    "repeat_penalty",
    "repetition_penalty",
    "repeat_last_n",
    "seed",
    "temperature",
    "top_p",
    "frequency_penalty",
    "presence_penalty",
    "stop",
)
_UNKNOWN_FIELD = re.compile(
    r"unsupported|not supported|not support|unrecogni[sz]ed|unknown|extra|not permitted|not allowed|unexpected|"
    r"not available|does not exist|only the default",
    re.IGNORECASE,
)
_BAD_SCHEMA = re.compile(r"invalid schema|invalid_json_schema|schema is invalid", re.IGNORECASE)
_FORM = re.compile(r"response[_ ]format|json_schema|json_object", re.IGNORECASE)
_REFUSALS = frozenset({400, 404, 405, 415, 422, 500, 501})  # llama-cpp-python's server says 500 to a field it rejects


class Dialect(msgspec.Struct, frozen=True, kw_only=True):
    """`form` is how a schema is put: as the standard says, the older way, or not at all. `refused` are fields.

    `strict` says that a closed schema is called strict, which some servers take only of a few keywords.
    """

    strict: bool = True
    form: Literal["json_schema", "json_object", "none"] = "json_schema"
    limit_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    refused: frozenset[str] = frozenset()

    def response_format(self, schema: dict[str, Any]) -> dict[str, Any] | None:
        """The field that holds the server to a schema, None when it takes none."""
        if self.form == "json_schema":
            body = {"name": "reply", "schema": schema, "strict": self.strict and fits_strict(schema)}
            return {"type": "json_schema", "json_schema": body}
        if self.form == "json_object":
            return {"type": "json_object", "schema": schema}
        return None

    def describe(self) -> str:
        """What the server does without, in words; "" when it takes everything."""
        parts = []
        if self.form == "none":
            parts.append("it takes no response_format, so a reply's form is only checked, not enforced")
        if self.refused:
            parts.append(f"it refuses {', '.join(sorted(self.refused))}, which are left out")
        return "; ".join(parts)


def learn(dialect: Dialect, status: int, words: str, formed: bool) -> Dialect | None:
    """The dialect without what the refusal names; None when the refusal is about something else.

    `formed` says that the request held a `response_format`.
    """
    if status not in _REFUSALS:
        return None
    if formed and _BAD_SCHEMA.search(words):
        return msgspec.structs.replace(dialect, strict=False) if dialect.strict else None
    if formed and _FORM.search(words):
        return _lower_form(dialect)
    if "max_completion_tokens" in words and dialect.limit_field == "max_tokens":
        return msgspec.structs.replace(dialect, limit_field="max_completion_tokens")
    if not _UNKNOWN_FIELD.search(words):
        return None
    for name in _DROPPABLE:
        if name not in dialect.refused and re.search(rf"\b{name}\b", words):
            return msgspec.structs.replace(dialect, refused=dialect.refused | {name})
    return None


def _lower_form(dialect: Dialect) -> Dialect | None:
    if dialect.form == "none":
        return None
    return msgspec.structs.replace(dialect, form="json_object" if dialect.form == "json_schema" else "none")


def fits_strict(schema: dict[str, Any]) -> bool:
    """Whether a schema may be called strict: every object closed, and every property of it required."""
    waiting: list[Any] = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, list):
            waiting += part
        if not isinstance(part, dict):
            continue
        if part.get("type") == "object" or "properties" in part:
            named, required = part.get("properties", {}), part.get("required", [])
            if part.get("additionalProperties") is not False or set(named) != set(required):
                return False
        waiting += part.values()
    return True
