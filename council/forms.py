"""The schema of what a role writes, fitted to the tokens it may write: usual text ends before they do. Pure.

A share (confidence) is one of 21 steps: that is as fine as a model can say it, and costs few tokens.
"""

from typing import Any

from gaiad.contracts import struct_schema

SHARE_STEPS = tuple(step / 20 for step in range(21))
_CHARACTERS_PER_TOKEN = 2  # what a JSON body may count on
_TOKENS_PER_ITEM = 24
_FRAME_CHARACTERS = 40


def fitted_schema(body: type[Any], max_tokens: int) -> dict[str, Any]:
    """The struct's JSON Schema with lists and texts made shorter where `max_tokens` ask for it."""
    schema = struct_schema(body)
    room = max(_FRAME_CHARACTERS, max_tokens * _CHARACTERS_PER_TOKEN - _FRAME_CHARACTERS)
    for name, field in schema["properties"].items():
        if field.get("type") == "array":
            most = max(2, min(field["maxItems"], max_tokens // _TOKENS_PER_ITEM))
            field["maxItems"] = most
            field["items"]["maxLength"] = min(field["items"]["maxLength"], max(_TOKENS_PER_ITEM, room // most))
        elif field.get("type") == "string" and "maxLength" in field:
            field["maxLength"] = min(field["maxLength"], room)
        elif field.get("type") == "number" and (field.get("minimum"), field.get("maximum")) == (0, 1):
            schema["properties"][name] = {"enum": list(SHARE_STEPS)}
    return schema
