"""How the six markers (GCP 7.1) are spelled at the beginning of a line: exactly, or as real models write them.

Models put them in bold, as headings, as list items, in other case, with a full-width colon or an escaped underscore;
asked for CONTINUE or INTERRUPT they write both. What is read here is form alone; whether a form counts where it stands
is decided by who reads: the router's parser, and the council's observer, who must know every form that one takes. Every
pattern looks at LONGEST_HEAD characters at most, so that little is held back. Pure.
"""

import re
from typing import Literal, NamedTuple, get_args

from constants.fences import MAY_BE_FENCE

Marker = Literal["PLAN", "EXECUTE", "RESPONSE", "THOUGHT_SEED", "INTERRUPT", "VERIFY"]
Mode = Literal["strict", "tolerant"]
MARKERS: tuple[Marker, ...] = get_args(Marker)
LONGEST_HEAD = 64
"""Characters of a line after which its beginning is settled."""
MOST_DEPTH = 8
"""Thoughts for later stand so deep in each other; a deeper one ends the one before it."""
_DEEPEST_INDENT = 8
_THOUGHT_TAGS = ("think", "thinking", "reasoning")
_INVISIBLE = "\ufeff\u200b\u2060"
_UNDERSCORE = (r"\\?", "[_ -]")
_MAY_BE_THOUGHT = r"[ \t]{0,3}(?:<[a-z]{0,9})?\Z"
_THOUGHT = re.compile(rf"[ \t]{{0,3}}<({'|'.join(_THOUGHT_TAGS)})>")


class Head(NamedTuple):
    """A marker as it is spelled: `length` characters of the line, `indent` of them before it.

    `exact` is GCP's own spelling. `loose` is one that is also ordinary text: in other case, as a list item, or without
    its colon; another spelling than the exact one that is not loose is decorated.
    """

    marker: Marker
    length: int
    indent: int
    exact: bool
    loose: bool
    spelled: str


class Forms:
    """The spellings that one mode reads."""

    def __init__(self, mode: Mode) -> None:
        tolerant = mode == "tolerant"
        self.deepest_indent = 3 if tolerant else 0
        self._chain = re.compile(r"CONTINUE[ \t]{0,2}[/|,;.–—-]?[ \t]{0,2}(?=INTERRUPT:)") if tolerant else None
        flags = re.IGNORECASE if tolerant else 0
        self._whole = re.compile(_tolerant() if tolerant else _strict(), flags)
        begun = _begun_tolerant() if tolerant else rf" {{0,{_DEEPEST_INDENT}}}{_begun_name()}\Z"
        self._begun = re.compile(rf"(?:{begun}|{MAY_BE_FENCE}|{_MAY_BE_THOUGHT}|\s*\Z)", flags)
        self._fence_begun = re.compile(MAY_BE_FENCE)

    def may_become(self, head: str, *, fenced: bool) -> bool:
        """Whether a marker, a fence, a thought or a blank line may still come of this beginning of a line."""
        return (self._fence_begun if fenced else self._begun).match(head) is not None

    def thought(self, head: str) -> re.Match[str] | None:
        """The tag that begins a reasoning model's thoughts."""
        return _THOUGHT.match(head)

    def chain(self, head: str) -> int:
        """The length of a CONTINUE that stands before an INTERRUPT on one line, else 0."""
        found = self._chain.match(head) if self._chain else None
        return found.end() if found else 0

    def marker(self, head: str, *, ended: bool) -> Head | None:
        """The marker that a line begins with; `ended` says that the line has nothing behind `head`."""
        found = self._whole.match(head)
        if not found or (not found["colon"] and not ended):
            return None
        groups = found.groupdict("")
        marker = _canonical(groups["name"])
        capitals = groups["name"].replace("\\", "") == marker
        listed, decorated = bool(groups.get("bullet")), bool(groups.get("heading") or groups.get("bold"))
        if (listed and not (capitals and groups["colon"])) or not (groups["colon"] or capitals or decorated):
            return None
        return Head(
            marker=marker,
            length=found.end(),
            indent=len(groups["indent"]),
            exact=found[0].lstrip(" ") == f"{marker}:",
            loose=listed or not capitals or not groups["colon"],
            spelled=found[0].strip(),
        )

    def may_grow(self, head: str, length: int) -> bool:
        """Whether the rest of a decoration may follow a marker that ends with the text."""
        return length == len(head) and head.lstrip(f" \t#>-+•{_INVISIBLE}0123456789.)").startswith(("*", "_"))


def _canonical(name: str) -> Marker:
    letters = name[:4].upper()
    return next(marker for marker in MARKERS if marker.startswith(letters))


def _names() -> str:
    return "|".join(MARKERS).replace("_", "".join(_UNDERSCORE))


def _strict() -> str:
    return rf"(?P<indent> {{0,{_DEEPEST_INDENT}}})(?P<name>{'|'.join(MARKERS)})(?P<colon>:)"


def _before() -> str:
    indent = rf"(?P<indent>[ \t{_INVISIBLE}]{{0,{_DEEPEST_INDENT}}})"
    bullet = r"(?P<bullet>(?:[-*+•]|\d{1,2}[.)])[ \t]{1,3})?"
    return rf"{indent}{bullet}(?P<heading>#{{1,6}}[ \t]{{1,3}})?"


def _tolerant() -> str:
    name = rf"(?P<bold>\*{{1,3}}|_{{1,2}})?(?P<name>{_names()})[*_]{{0,3}}[ \t]{{0,2}}"
    return rf"{_before()}{name}(?:(?P<colon>[:\uff1a])(?(bold)[*_]{{0,3}})|\Z)"


def _begun_tolerant() -> str:
    """A beginning of _tolerant or of a chain: its parts cut off anywhere."""
    before = re.sub(r"\?P<\w+>", "?:", _before())
    indent = rf"[ \t{_INVISIBLE}]{{0,{_DEEPEST_INDENT}}}"
    listed = rf"{indent}(?:[-*+•]?|\d{{1,2}}[.)]?)[ \t]{{0,3}}#{{0,6}}[ \t]{{0,3}}\Z"
    named = rf"{before}(?:\*{{0,3}}|_{{0,2}})(?:{_begun_name()}|(?:{_names()})[*_]{{0,3}}[ \t]{{0,2}})\Z"
    chained = r"CONTINUE[ \t]{0,2}[/|,;.–—-]?[ \t]{0,2}" + _cut(list("INTERRUPT"))
    return rf"{listed}|{named}|(?:{_cut(list('CONTINUE'))}|{chained})\Z"


def _begun_name() -> str:
    names = ([atom for letter in name for atom in (_UNDERSCORE if letter == "_" else letter)] for name in MARKERS)
    return f"(?:{'|'.join(map(_cut, names))})"


def _cut(atoms: list[str]) -> str:
    """A pattern of all beginnings of the atoms, the empty one too."""
    pattern = ""
    for atom in reversed(atoms):
        pattern = rf"(?:{atom}{pattern})?"
    return pattern
