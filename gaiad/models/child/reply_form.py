"""The form that a reply must have, as a grammar of llguidance: a regular expression, a JSON Schema or a stage contract.

A form comes from a caller, so it is compiled once in a disposable process before a worker sees it (decision 3).
"""

import copy
import re
from typing import Any

import msgspec
from llguidance import LLMatcher, LLParserLimits

from gaiad.wire.generation import Block, Contract

MARKERS = ("PLAN", "EXECUTE", "RESPONSE", "THOUGHT_SEED", "INTERRUPT", "VERIFY")
LIMITS = LLParserLimits(max_lexer_states=50_000, verbose_errors=False)
_LONGEST_REASON = 300
_JSON = {
    "whitespace_flexible": True,
    "whitespace_pattern": "[ ]?",
    "lenient": False,
    "json_allowed_escapes": '"\\bfnrt',  # `\\u` could write half a character
}
_VALUES = ("const", "default", "enum", "examples")
_SCHEMAS_BY_NAME = ("properties", "patternProperties", "$defs", "definitions")
_UNPRINTABLE = r"\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029"
_TEXT = rf"[^{_UNPRINTABLE}\s]([^{_UNPRINTABLE}])*"


class BadForm(Exception):
    """No reply can be held to the form; the message says why."""


def compile_form(regex: str, schema: dict[str, Any] | None, contract: Contract | None) -> bytes:
    """The grammar and what is wrong with it, packed for `outcome`."""
    try:
        return msgspec.msgpack.encode((form_grammar(regex, schema, contract), ""))
    except BadForm as error:
        return msgspec.msgpack.encode(("", f"cannot hold a reply to this form: {error}"))


def outcome(data: bytes) -> tuple[str, str]:
    """The grammar, and what is wrong with the form or ""."""
    return msgspec.msgpack.decode(data, type=tuple[str, str])


def form_grammar(regex: str, schema: dict[str, Any] | None, contract: Contract | None) -> str:
    """The grammar of the one form that is given. Raises BadForm."""
    if schema is not None:
        made = LLMatcher.grammar_from_lark(f"start: {_json(schema)}")
    elif contract is not None:
        made = LLMatcher.grammar_from_lark(_contract(contract))
    else:
        made = LLMatcher.grammar_from_regex(regex)
    failed, messages = LLMatcher.validate_grammar_with_warnings(made, limits=LIMITS)
    if failed:
        raise BadForm(_reason(messages[0]))
    return made


def _reason(message: str) -> str:
    """llguidance's message without its excerpt of our grammar."""
    said = re.sub(r"^at \d+\(\d+\): ", "", re.split(r"\n +1 \| ", message)[0])
    words = " ".join(said.split())
    return words if len(words) <= _LONGEST_REASON else f"{words[:100]} ... {words[-200:]}"


def _contract(contract: Contract) -> str:
    """Blocks in order, each `MARKER: ` and its body on lines of its own (GCP 6, 7.1).

    No line of a plain text body begins with a marker, else the router would read a block that nobody wrote. A text
    reaches to the end of the next block's marker: only there is it known to have ended.
    """
    if not contract.blocks:
        raise BadForm("the contract has no blocks; name at least one marker")
    openings = [_opening(block) for block in contract.blocks]
    start = [f'"{openings[0]}"']
    rules = [rf"TEXT: /{_TEXT}/ & ~/(?s:.*)\n({'|'.join(MARKERS)}):(?s:.*)/"]
    for number, (block, following) in enumerate(zip(contract.blocks, [*openings[1:], ""], strict=True)):
        after = [f'"\\n{following}"'] if following else []
        if block.schema is None:
            start.append(f"TEXT_{number}")
            rules.append(" ".join([f"TEXT_{number}: TEXT", *after]))
        else:
            start += [_json(block.schema), *after]
    return "\n".join([f"start: {' '.join(start)}", *rules])


def _opening(block: Block) -> str:
    if block.marker not in MARKERS:
        raise BadForm(f"unknown marker {block.marker!r}; use one of {', '.join(MARKERS)}")
    return f"{block.marker}: "


def _json(schema: dict[str, Any]) -> str:
    try:
        text = msgspec.json.encode({**_closed(schema), "x-guidance": _JSON}).decode()
    except (RecursionError, TypeError, ValueError) as error:
        raise BadForm(f"the schema cannot be written as JSON: {error}") from error
    return f"%json {text}"


def _closed(schema: dict[str, Any]) -> dict[str, Any]:
    """What has properties is an object, and has no others unless the schema says so or merges objects (`allOf`)."""
    if b'"allOf"' in msgspec.json.encode(schema):
        return schema
    made = copy.deepcopy(schema)
    waiting: list[Any] = [made]
    while waiting:
        part = waiting.pop()
        if isinstance(part, list):
            waiting += part
        elif isinstance(part, dict):
            if "properties" in part:
                part.setdefault("type", "object")
                part.setdefault("additionalProperties", False)
            for word, value in part.items():
                if word in _SCHEMAS_BY_NAME and isinstance(value, dict):
                    waiting += value.values()
                elif word not in _VALUES:
                    waiting.append(value)
    return made
