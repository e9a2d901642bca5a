"""Writes GBNF: literals, character sets and repetitions as llama.cpp's parser reads them. Pure.

Its limits are kept here because it does not say when it passes them: above 2,000 it drops the bound of a repetition.
"""

import re
from collections.abc import Iterable, Sequence

MOST_REPEATS = 2000
_ROW = 64
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t", '"': '\\"', "\\": "\\\\"}

Ranges = tuple[tuple[int, int], ...]
UNICODE: Ranges = ((0, 0xD7FF), (0xE000, 0x10FFFF))  # without halves of surrogate pairs, which UTF-8 cannot say
PRINTED: Ranges = ((0x20, 0x7E), (0xA0, 0x2027), (0x202A, 0xD7FF), (0xE000, 0xFFFD), (0x10000, 0x10FFFF))


class BadGrammar(Exception):
    """A form that no reply can be held to; `reason` says in words what is wrong and what to do."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Rules:
    """The rules of a grammar under construction; equal bodies share one rule."""

    def __init__(self) -> None:
        self._bodies: dict[str, str] = {}
        self._known: dict[str, str] = {}

    def add(self, hint: str, body: str) -> str:
        """The name of a rule with this body, named after `hint` when it is new."""
        name = self._known.get(body)
        if name is None:
            name = self._known[body] = self.reserve(hint)
            self._bodies[name] = body
        return name

    def reserve(self, hint: str) -> str:
        """A new name whose body comes later, by `define`: that is how a rule may refer to itself."""
        stem = re.sub(r"[^a-zA-Z0-9]+", "-", hint)[:40].strip("-") or "part"
        name, number = stem, 1
        while name in self._bodies or name == "root":
            number += 1
            name = f"{stem}-{number}"
        self._bodies[name] = ""
        return name

    def define(self, name: str, body: str) -> None:
        self._bodies[name] = body

    def repeat(self, item: str, low: int, high: int | None = None) -> str:
        """`item` (a rule or a group) `low` to `high` times. Raises BadGrammar above what can be counted.

        Long ones are counted in rows, so that the parser makes tens of rules of them and not thousands; the upper
        bound is then rounded down to a whole row.
        """
        if low < 0 or (high is not None and high < low):
            raise BadGrammar(f"at least {low} and at most {high} of something cannot be had; mend the bounds")
        if max(low, high or 0) > MOST_REPEATS * _ROW:
            raise BadGrammar(f"a bound of {max(low, high or 0)} is above {MOST_REPEATS * _ROW}; ask for less")
        if high is None:
            return f"{self._exactly(item, low)} {item}*".strip()
        if high <= MOST_REPEATS:
            return f"{item}{{{low},{high}}}" if high else '""'
        row, rows = self.add("row", f"{item}{{{_ROW}}}"), (high - low + 1) // _ROW - 1
        few = f"{item}{{0,{min(high - low, _ROW - 1)}}}" if high > low else ""
        return " ".join(part for part in (self._exactly(item, low), f"{row}{{0,{rows}}}" * (rows > 0), few) if part)

    def text(self, root: str) -> str:
        """The grammar that begins with the rule `root`."""
        return "\n".join([f"root ::= {root}", *(f"{name} ::= {body}" for name, body in self._bodies.items())]) + "\n"

    def _exactly(self, item: str, count: int) -> str:
        if count <= MOST_REPEATS:
            return f"{item}{{{count}}}" if count else ""
        row = self.add("row", f"{item}{{{_ROW}}}")
        return f"{row}{{{count // _ROW}}} " + (f"{item}{{{count % _ROW}}}" if count % _ROW else "")


def literal(text: str) -> str:
    """`text` and nothing else. Raises BadGrammar for what UTF-8 or the parser cannot hold."""
    return f'"{"".join(_escaped(character) for character in text)}"'


def characters(ranges: Ranges) -> str:
    """One character of any of the ranges."""
    if not ranges:
        raise BadGrammar("a set of characters is empty, nothing can be written there; mend the pattern")
    return "[" + "".join(_in_set(low) + (f"-{_in_set(high)}" if high > low else "") for low, high in ranges) + "]"


def without(ranges: Ranges, left_out: Iterable[str]) -> Ranges:
    """The ranges less some characters."""
    return intersection(ranges, complement(normal((ord(one), ord(one)) for one in left_out)))


def normal(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """In order, with overlaps joined."""
    joined: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if joined and low <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(joined[-1][1], high))
        else:
            joined.append((low, high))
    return tuple(joined)


def complement(ranges: Ranges) -> Ranges:
    """All other code points; `ranges` is normal."""
    edges = [-1, *(edge for low, high in ranges for edge in (low, high)), 0x110000]
    gaps = zip(edges[::2], edges[1::2], strict=True)
    return tuple((low + 1, high - 1) for low, high in gaps if high - low > 1)


def intersection(one: Ranges, other: Ranges) -> Ranges:
    """What stands in both."""
    pairs = ((max(a, c), min(b, d)) for a, b in one for c, d in other)
    return normal((low, high) for low, high in pairs if low <= high)


def one_of(texts: Sequence[str]) -> str:
    """A group of literals, common beginnings written once: fewer ways to follow at every token."""
    body = " | ".join(_branches(sorted(set(texts))))
    return f"({body})" if body else '""'


def _branches(texts: Sequence[str]) -> list[str]:
    branches, start = [], 0
    while start < len(texts):
        end = start + 1
        if texts[start]:
            while end < len(texts) and texts[end][0] == texts[start][0]:
                end += 1
        branches.append(_branch(texts[start:end]))
        start = end
    return branches


def _branch(texts: Sequence[str]) -> str:
    first, last = texts[0], texts[-1]
    if len(texts) == 1:
        return literal(first)
    shared = next((at for at, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(map(len, texts)))
    return f"{literal(first[:shared])} ({' | '.join(_branches([text[shared:] for text in texts]))})"


def _escaped(character: str) -> str:
    code = ord(character)
    if not code or 0xD800 <= code <= 0xDFFF:
        raise BadGrammar(f"the character U+{code:04X} cannot stand in a reply; leave it out")
    if character in _NAMED:
        return _NAMED[character]
    return character if 0x20 <= code < 0x7F else _numbered(code)


def _in_set(code: int) -> str:
    return chr(code) if chr(code).isascii() and chr(code).isalnum() else _numbered(code)


def _numbered(code: int) -> str:
    if code <= 0xFF:
        return f"\\x{code:02X}"
    return f"\\u{code:04X}" if code <= 0xFFFF else f"\\U{code:08X}"
