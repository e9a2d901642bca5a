"""Reads GBNF as llama.cpp does, into rules that can be looked at before its parser sees them. Pure.

Without recursion: a text nested 200,000 deep is an error here and a dead process there.
"""

import re

import msgspec

from gaiad.models.grammar.gbnf_writer import MOST_REPEATS, BadGrammar, Ranges

DEEPEST = 100
LONGEST = 1_000_000  # characters
_TOKENS = re.compile(
    r"""(?P<blank>[ \t]+|\#[^\r\n]*)|(?P<line>\r\n|\r|\n)
      | (?P<rule>[a-zA-Z0-9-]+)[ \t]*::=
      | (?P<name>[a-zA-Z0-9-]+)
      | "(?P<text>(?:[^"\\]|\\.)*)"
      | \[(?P<set>(?:[^\]\\]|\\.)*)\]
      | \{[ \t\r\n]*(?P<low>[0-9]+)[ \t\r\n]*(?P<comma>,?)[ \t\r\n]*(?P<high>[0-9]*)[ \t\r\n]*\}
      | (?P<sign>[()|*+?.])""",
    re.VERBOSE | re.DOTALL,
)
_CHARACTER = re.compile(
    r"\\x([0-9a-fA-F]{2})|\\u([0-9a-fA-F]{4})|\\U([0-9a-fA-F]{8})|\\([trn\\\"\[\]-])|([^\\])", re.DOTALL
)
_SHORT = {"t": "\t", "r": "\r", "n": "\n"}


class Text(msgspec.Struct, frozen=True):
    """These characters."""

    text: str


class Set(msgspec.Struct, frozen=True):
    """One character of the ranges, or with `negated` one of no range."""

    ranges: Ranges
    negated: bool = False


class Name(msgspec.Struct, frozen=True):
    """What the rule says."""

    name: str


class Group(msgspec.Struct, frozen=True, eq=False):
    """One of several sequences."""

    choices: "list[list[Item]]"


class Repeat(msgspec.Struct, frozen=True, eq=False):
    """`item` from `low` to `high` times; None is without end."""

    item: "Item"
    low: int
    high: int | None


Item = Text | Set | Name | Group | Repeat


def read_gbnf(source: str) -> dict[str, Group]:
    """The rules by name. Raises BadGrammar with the line and what is wrong there."""
    if len(source) > LONGEST:
        raise BadGrammar(f"the grammar has {len(source)} characters, at most {LONGEST} are read; make it shorter")
    if re.search("[\0\ud800-\udfff]", source):
        raise BadGrammar("the grammar has a NUL or half a character; take it out")
    return _Reader(source).rules


class _Reader:
    def __init__(self, source: str) -> None:
        self.rules: dict[str, Group] = {}
        self._source = source
        self._at = 0
        self._stack: list[Group] = []  # the rule, then every parenthesis that is open
        self._joined = False  # after `::=` or `|` a line may go on on the next one
        while self._at < len(source):
            found = _TOKENS.match(source, self._at)
            if found is None and source[self._at] in "<!":
                raise self._error("a token in angle brackets cannot be held; write its text in quotes")
            if found is None:
                raise self._error("this is no part of a grammar")
            self._take(found)
            self._at = found.end()
        if len(self._stack) > 1:
            raise self._error("a parenthesis is not closed")

    def _take(self, found: re.Match[str]) -> None:
        kind = "high" if found["low"] else found.lastgroup
        if kind == "blank":
            return
        if kind == "line":
            if len(self._stack) == 1 and not self._joined:
                self._stack.clear()
            return
        if kind == "rule":
            self._begin(found["rule"])
        elif not self._stack:
            raise self._error("a rule is expected here: a name and ::=")
        elif kind == "high":
            self._repeat_counted(found)
        elif kind == "sign":
            self._sign(found["sign"])
        else:
            self._put(_item(kind or "", found))
        self._joined = kind == "rule" or found["sign"] == "|"

    def _begin(self, name: str) -> None:
        if self._stack:
            raise self._error(f"rule {name!r} begins before the one above it has ended; put it on a line of its own")
        if name in self.rules:
            raise self._error(f"rule {name!r} is defined twice; keep one")
        self.rules[name] = Group([[]])
        self._stack = [self.rules[name]]

    def _put(self, item: Item) -> None:
        self._stack[-1].choices[-1].append(item)

    def _sign(self, sign: str) -> None:
        if sign == "|":
            self._stack[-1].choices.append([])
        elif sign == "(":
            if len(self._stack) > DEEPEST:
                raise self._error(f"parentheses are nested deeper than {DEEPEST}; use rules of their own")
            group = Group([[]])
            self._put(group)
            self._stack.append(group)
        elif sign == ")":
            if len(self._stack) < 2:
                raise self._error("a parenthesis closes that was never opened")
            self._stack.pop()
        elif sign == ".":
            self._put(Set((), negated=True))
        else:
            self._repeat(*{"*": (0, None), "+": (1, None), "?": (0, 1)}[sign])

    def _repeat_counted(self, found: re.Match[str]) -> None:
        low = int(found["low"][:9])
        high = int(found["high"][:9]) if found["high"] else (None if found["comma"] else low)
        if max(low, high or 0) > MOST_REPEATS:
            raise self._error(f"{found[0]} repeats more than {MOST_REPEATS} times; ask for less")
        if (high is not None and high < low) or (found["high"] and not found["comma"]):
            raise self._error(f"{found[0]} is no range; write {{from,to}}")
        self._repeat(low, high)

    def _repeat(self, low: int, high: int | None) -> None:
        sequence = self._stack[-1].choices[-1]
        if not sequence:
            raise self._error("there is nothing before this to repeat")
        if isinstance(sequence[-1], Repeat):
            raise self._error("this repeats a repetition; put it in parentheses or leave one out")
        sequence[-1] = Repeat(sequence[-1], low, high)

    def _error(self, what: str) -> BadGrammar:
        line = self._source.count("\n", 0, self._at) + 1
        near = self._source[self._at : self._at + 20].partition("\n")[0]
        return BadGrammar(f"line {line}: {what}" + (f", at {near!r}" if near else ""))


def _item(kind: str, found: re.Match[str]) -> Item:
    if kind == "name":
        return Name(found["name"])
    if kind == "text":
        return Text("".join(chr(code) for code, _ in _codes(found["text"])))
    return _set(found["set"])


def _set(source: str) -> Set:
    negated = source.startswith("^")
    codes, ranges, at = _codes(source[negated:]), [], 0
    while at < len(codes):
        low, high = codes[at][0], codes[at][0]
        if at + 2 < len(codes) and codes[at + 1] == (ord("-"), False):
            high, at = codes[at + 2][0], at + 2
        ranges.append((low, high))
        at += 1
    return Set(tuple(ranges), negated)


def _codes(source: str) -> list[tuple[int, bool]]:
    """Code points and whether each was escaped."""
    codes, at = [], 0
    while at < len(source):
        found = _CHARACTER.match(source, at)
        if found is None:
            raise BadGrammar(
                f'the escape {source[at : at + 4]!r} is unknown; use \\n \\r \\t \\\\ \\" \\[ \\] \\- \\x \\u \\U'
            )
        number = found[1] or found[2] or found[3]
        code = int(number, 16) if number else ord(_SHORT.get(found[4], found[4]) if found[4] else found[5])
        if code > 0x10FFFF:
            raise BadGrammar(f"the escape {found[0]} names no character; use a number up to \\U0010FFFF")
        codes.append((code, found[5] is None))
        at = found.end()
    return codes
