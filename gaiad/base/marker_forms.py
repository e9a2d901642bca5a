"""What may begin a line of a model's output: a marker in any spelling (GCP 7.1), a code fence, a tag of thoughts.

Models put markers in bold, as headings, as list items, in other case, with a full-width colon or an escaped underscore;
asked for CONTINUE or INTERRUPT they write both. This module reads form alone; the parser in `gaiad.base.markers`
decides whether a form counts where it is. Patterns look at LONGEST_HEAD characters at most. Pure.
"""

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple, cast, get_args

import msgspec

Marker = Literal["PLAN", "EXECUTE", "RESPONSE", "THOUGHT_SEED", "INTERRUPT", "VERIFY"]
Mode = Literal["strict", "tolerant"]
MARKERS: tuple[Marker, ...] = get_args(Marker)
LONGEST_HEAD = 64
"""Characters of a line after which its beginning is settled."""
_DEEPEST_INDENT = 8
_THOUGHT_TAGS = ("think", "thinking", "reasoning")
INVISIBLE = "\ufeff\u200b\u2060"
"""Characters without a width that may be before a marker."""
_UNDERSCORE = (r"\\?", "[_ -]")
_MAY_BE_THOUGHT = r"[ \t]{0,3}(?:<[A-Za-z]{0,9})?\Z"
_THOUGHT = re.compile(rf"[ \t]{{0,3}}<({'|'.join(_THOUGHT_TAGS)})>", re.IGNORECASE | re.ASCII)
_BULLET = r"(?:[-*+•]|\d{1,2}[.)])"
_FENCE = re.compile(rf"[ \t>]{{0,12}}(?P<bullet>{_BULLET}[ \t]{{1,3}})?(?P<run>`{{3,}}|~{{3,}})")
_MAY_BE_FENCE = re.compile(r"[ \t>]{0,12}(?:[-*+•]?|\d{1,2}[.)]?)[ \t]{0,3}(?:`*|~*)\Z")


class MarkerHead(NamedTuple):
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
    """The spellings that one mode reads: of the six markers, and of `others`, such as the VOTE of a ballot."""

    def __init__(self, mode: Mode, others: Sequence[str] = ()) -> None:
        tolerant = mode == "tolerant"
        self._names = (*MARKERS, *others)
        self.deepest_indent = 3 if tolerant else 0
        self._chain = re.compile(r"CONTINUE[ \t]{0,2}[/|,;.–—-]?[ \t]{0,2}(?=INTERRUPT:)") if tolerant else None
        flags = re.IGNORECASE if tolerant else 0
        names = self._names
        self._whole = re.compile(_tolerant(names) if tolerant else _strict(names), flags)
        begun = _begun_tolerant(names) if tolerant else rf" {{0,{_DEEPEST_INDENT}}}{_begun_name(names)}\Z"
        self._begun = re.compile(rf"(?:{begun}|{_MAY_BE_FENCE.pattern}|{_MAY_BE_THOUGHT}|\s*\Z)", flags)

    def may_become(self, head: str, *, fenced: bool) -> bool:
        """Whether a marker, a fence, a thought or a blank line may still come of this beginning of a line."""
        return (_MAY_BE_FENCE if fenced else self._begun).match(head) is not None

    def thought(self, head: str) -> re.Match[str] | None:
        """The tag that begins a reasoning model's thoughts."""
        return _THOUGHT.match(head)

    def chain(self, head: str) -> int:
        """The length of a CONTINUE before an INTERRUPT on one line, else 0."""
        found = self._chain.match(head) if self._chain else None
        return found.end() if found else 0

    def marker(self, head: str, *, ended: bool) -> MarkerHead | None:
        """The marker that a line begins with; `ended` says that the line has nothing behind `head`."""
        found = self._whole.match(head)
        if not found or (not found["colon"] and not ended):
            return None
        groups = found.groupdict("")
        marker = self._canonical(groups["name"])
        capitals = groups["name"].replace("\\", "") == marker
        listed, decorated = bool(groups.get("bullet")), bool(groups.get("heading") or groups.get("bold"))
        if (listed and not (capitals and groups["colon"])) or not (groups["colon"] or capitals or decorated):
            return None
        return MarkerHead(
            marker=marker,
            length=found.end(),
            indent=len(groups["indent"]),
            exact=found[0].lstrip(" ") == f"{marker}:",
            loose=listed or not capitals or not groups["colon"],
            spelled=found[0].strip(),
        )

    def may_grow(self, head: str, length: int) -> bool:
        """Whether the rest of a decoration may follow a marker that ends with the text."""
        return length == len(head) and head.lstrip(f" \t#>-+•{INVISIBLE}0123456789.)").startswith(("*", "_"))

    def _canonical(self, name: str) -> Marker:
        letters = name[:4].upper()
        return cast(Marker, next(marker for marker in self._names if marker.startswith(letters)))


class Fences:
    """Whether a line is in a code fence, where nothing is a marker (GCP 7.1, 7.4): in `level` of them.

    Read every line in three steps: `begin` with its head, `rest` with what follows, `end_line`. Fences as models write
    them: also behind a bullet, a quote sign or deep in a list, and one within another ("```markdown" around "```bash"),
    which Markdown itself would end too early and so turn all that follows inside out.
    """

    def __init__(self) -> None:
        self.level = 0
        self._opened = ""
        self._run = ""
        self._seen = False
        self._named = False
        self._ticks = False

    def begin(self, head: str) -> int:
        """How many characters of the line's head are its fence; 0 when it has none."""
        found = _FENCE.match(head)
        if not found or (self.level and (found["bullet"] or not found["run"].startswith(self._opened))):
            return 0
        self._run = found["run"]
        self._seen = self._named = self._ticks = False
        return found.end()

    def rest(self, text: str) -> None:
        """More of the line behind the fence."""
        if not self._run:
            return
        if not self._seen and (visible := text.strip()):
            self._seen, self._named = True, visible[0].isalnum()
        self._ticks = self._ticks or (self._run[0] == "`" and "`" in text)

    def end_line(self) -> None:
        """The line is over: a fence in it counts from here on."""
        if self._run and not self._ticks:
            if not self.level:
                self.level, self._opened = 1, self._run
            elif not self._seen:
                self.level -= 1
            elif self._named:
                self.level += 1
        self._run = ""


def _alternatives(names: Sequence[str]) -> str:
    return "|".join(names).replace("_", "".join(_UNDERSCORE))


def _strict(names: Sequence[str]) -> str:
    return rf"(?P<indent> {{0,{_DEEPEST_INDENT}}})(?P<name>{'|'.join(names)})(?P<colon>:)"


def _before() -> str:
    indent = rf"(?P<indent>[ \t{INVISIBLE}]{{0,{_DEEPEST_INDENT}}})"
    bullet = r"(?P<bullet>(?:[-*+•]|\d{1,2}[.)])[ \t]{1,3})?"
    return rf"{indent}{bullet}(?P<heading>#{{1,6}}[ \t]{{1,3}})?"


def _tolerant(names: Sequence[str]) -> str:
    name = rf"(?P<bold>\*{{1,3}}|_{{1,2}})?(?P<name>{_alternatives(names)})[*_]{{0,3}}[ \t]{{0,2}}"
    return rf"{_before()}{name}(?:(?P<colon>[:\uff1a])(?(bold)[*_]{{0,3}})|\Z)"


def _begun_tolerant(names: Sequence[str]) -> str:
    """A beginning of _tolerant or of a chain: its parts cut off anywhere."""
    before = re.sub(r"\?P<\w+>", "?:", _before())
    indent = rf"[ \t{INVISIBLE}]{{0,{_DEEPEST_INDENT}}}"
    listed = rf"{indent}(?:[-*+•]?|\d{{1,2}}[.)]?)[ \t]{{0,3}}#{{0,6}}[ \t]{{0,3}}\Z"
    named = (
        rf"{before}(?:\*{{0,3}}|_{{0,2}})(?:{_begun_name(names)}|(?:{_alternatives(names)})[*_]{{0,3}}[ \t]{{0,2}})\Z"
    )
    chained = r"CONTINUE[ \t]{0,2}[/|,;.–—-]?[ \t]{0,2}" + _cut(list("INTERRUPT"))
    return rf"{listed}|{named}|(?:{_cut(list('CONTINUE'))}|{chained})\Z"


def _begun_name(names: Sequence[str]) -> str:
    letters = ([atom for letter in name for atom in (_UNDERSCORE if letter == "_" else letter)] for name in names)
    return f"(?:{'|'.join(map(_cut, letters))})"


def _cut(atoms: list[str]) -> str:
    """A pattern of all beginnings of the atoms, the empty one too."""
    pattern = ""
    for atom in reversed(atoms):
        pattern = rf"(?:{atom}{pattern})?"
    return pattern


BLANK_CHARACTERS = 256
"""White space held back, for a block may end behind it; of a longer run the beginning is passed on."""


class MarkerPiece(msgspec.Struct, frozen=True):
    """A block opens, says something, or closes. `marker` is "" for text that belongs to no marker: the council's log.

    `depth` is 0 for a block of its own and grows inside other blocks. Only `text` pieces have text. `thought` marks a
    reasoning model's thoughts, which belong to no marker either.
    """

    kind: Literal["open", "text", "close"]
    marker: Marker | Literal[""]
    text: str
    depth: int
    thought: bool = False


class Frame:
    """An open block. `loose` and `indent` are how its marker was spelled, `begun` whether it has said anything."""

    __slots__ = ("begun", "blank", "depth", "indent", "loose", "marker", "thought")

    def __init__(self, marker: Marker | Literal[""], depth: int, *, loose: bool, indent: int, thought: bool) -> None:
        self.marker = marker
        self.depth = depth
        self.loose = loose
        self.indent = indent
        self.thought = thought
        self.begun = False
        self.blank = ""  # white space that is said when more follows


class Pieces:
    """The blocks that are open, outermost first, and the pieces not yet taken: without white space around them."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self._pieces: list[MarkerPiece] = []
        self._texts: list[str] = []

    def take(self) -> list[MarkerPiece]:
        """All pieces since the last time."""
        self._flush()
        pieces, self._pieces = self._pieces, []
        return pieces

    def open(
        self, marker: Marker | Literal[""], *, loose: bool = False, indent: int = 0, thought: bool = False
    ) -> None:
        """Open a block inside the innermost one."""
        self._flush()
        frame = Frame(marker, len(self.frames), loose=loose, indent=indent, thought=thought)
        self.frames.append(frame)
        self._pieces.append(MarkerPiece("open", marker, "", frame.depth, thought))

    def close(self) -> None:
        """Close the innermost block."""
        self._flush()
        frame = self.frames.pop()
        self._pieces.append(MarkerPiece("close", frame.marker, "", frame.depth, frame.thought))

    def say(self, text: str) -> None:
        """Text of the innermost block."""
        frame = self.frames[-1]
        if not frame.begun:
            text = text.lstrip()
            frame.begun = bool(text)
        body = text.rstrip()
        blank = text[len(body) :] if body else frame.blank + text
        if body:
            self._texts += (frame.blank, body)
        if len(blank) > BLANK_CHARACTERS:
            self._texts.append(blank[:-BLANK_CHARACTERS])
        frame.blank = blank[-BLANK_CHARACTERS:]

    def _flush(self) -> None:
        if self._texts:
            frame = self.frames[-1]
            self._pieces.append(MarkerPiece("text", frame.marker, "".join(self._texts), frame.depth, frame.thought))
            self._texts = []
