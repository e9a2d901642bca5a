"""A JSON Schema `pattern` as GBNF for a JSON string: what must be escaped in JSON is written escaped. Pure.

Python's own parser of regular expressions reads it. What repeats without end is held to 256 times, so that a string
comes to its end.
"""

import importlib
import re
from collections.abc import Iterable, Sequence
from typing import Any

from gaiad.models.grammar.gbnf_writer import (
    UNICODE,
    BadGrammar,
    Ranges,
    Rules,
    characters,
    complement,
    intersection,
    literal,
    normal,
)

LONGEST_RUN = 256
_parser: Any = importlib.import_module("re._parser")  # not in the public part of `re` since 3.11
_PLAIN = intersection(UNICODE, complement(((0x00, 0x1F), (0x22, 0x22), (0x5C, 0x5C), (0x7F, 0x9F))))
_ESCAPED = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}
_CLASSES: dict[str, Ranges] = {
    "DIGIT": ((0x30, 0x39),),
    "SPACE": ((0x09, 0x0D), (0x20, 0x20)),
    "WORD": ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)),
}
STRING_CHARACTER = f'{characters(_PLAIN)} | "\\\\" ["\\\\/bfnrt]'


def pattern(text: str, shortest: int, longest: int | None, rules: Rules) -> str:
    """The inside of a JSON string that the whole of `text` matches. Raises BadGrammar for what GBNF cannot say."""
    try:
        re.compile(text)
        parsed = _parser.parse(text)
    except (re.error, OverflowError) as error:
        raise BadGrammar(f"the pattern {text!r} cannot be read: {error}") from error
    if parsed.state.flags & (re.IGNORECASE | re.MULTILINE | re.VERBOSE):
        raise BadGrammar(f"the pattern {text!r} has flags; write it without")
    items = list(parsed)
    if not _anchored(items):
        raise BadGrammar(f"the pattern {text!r} fits a part of a text; put ^ before and $ after it")
    low, high = _width(parsed)
    if low < shortest or (longest is not None and high > longest):
        raise BadGrammar(
            f"the pattern {text!r} allows {low} to {high} characters, minLength and maxLength others; "
            "put the bounds into the pattern, as in [a-z]{1,40}"
        )
    return _Pattern(text, rules).sequence(items[1:-1])


def _anchored(items: Sequence[Any]) -> bool:
    return len(items) > 1 and [str(one) for one in (items[0][1], items[-1][1])] == ["AT_BEGINNING", "AT_END"]


def _width(parsed: Any) -> tuple[int, int]:
    low, high = 0, 0
    for kind, value in parsed:
        one = (0, 0)
        match str(kind):
            case "LITERAL" | "NOT_LITERAL" | "ANY" | "IN":
                one = (1, 1)
            case "BRANCH":
                widths = [_width(branch) for branch in value[1]]
                one = (min(width[0] for width in widths), max(width[1] for width in widths))
            case "SUBPATTERN":
                one = _width(value[3])
            case "MAX_REPEAT" | "MIN_REPEAT":
                inner = _width(value[2])
                one = (inner[0] * value[0], inner[1] * _most(value[0], value[1]))
        low, high = low + one[0], high + one[1]
    return low, high


def _most(low: int, high: int) -> int:
    return max(low, LONGEST_RUN) if high == _parser.MAXREPEAT else int(high)


class _Pattern:
    def __init__(self, text: str, rules: Rules) -> None:
        self._text = text
        self._rules = rules

    def sequence(self, items: Iterable[Any]) -> str:
        return " ".join(self._item(str(kind), value) for kind, value in items) or '""'

    def _item(self, kind: str, value: Any) -> str:
        match kind:
            case "LITERAL":
                return self._set(((value, value),))
            case "NOT_LITERAL":
                return self._set(complement(((value, value),)))
            case "ANY":
                return self._set(complement(((0x0A, 0x0A), (0x0D, 0x0D))))
            case "IN":
                return self._set(self._members(value))
            case "BRANCH":
                return f"({' | '.join(self.sequence(branch) for branch in value[1])})"
            case "SUBPATTERN" if not value[1] and not value[2]:
                return f"({self.sequence(value[3])})"
            case "MAX_REPEAT" | "MIN_REPEAT":
                low, high, inner = value
                item = self._rules.add("repeated", self.sequence(inner))
                return self._rules.repeat(item, low, _most(low, high))
        raise BadGrammar(
            f"the pattern {self._text!r} has {kind.lower()}, which a grammar cannot hold; write it without"
        )

    def _members(self, items: Sequence[Any]) -> Ranges:
        found: list[tuple[int, int]] = []
        negated = False
        for kind, value in items:
            match str(kind):
                case "NEGATE":
                    negated = True
                case "LITERAL":
                    found.append((value, value))
                case "RANGE":
                    found.append(value)
                case "CATEGORY":
                    found.extend(_category(str(value).removeprefix("CATEGORY_")))
        ranges = normal(found)
        return complement(ranges) if negated else ranges

    def _set(self, ranges: Ranges) -> str:
        """One character of the ranges as JSON writes it; control characters without a short escape are left out."""
        escaped = [two for one, two in _ESCAPED.items() if any(low <= ord(one) <= high for low, high in ranges)]
        plain = intersection(ranges, _PLAIN)
        parts = [*([_plain(plain)] if plain else []), *(literal(two) for two in escaped)]
        if not parts:
            raise BadGrammar(f"the pattern {self._text!r} asks for a character that no reply can hold; mend it")
        return parts[0] if len(parts) == 1 else f"({' | '.join(parts)})"


def _plain(ranges: Ranges) -> str:
    (low, high), *more = ranges
    return literal(chr(low)) if low == high and not more else characters(ranges)


def _category(name: str) -> Ranges:
    return complement(_CLASSES[name[4:]]) if name.startswith("NOT_") else _CLASSES[name]
