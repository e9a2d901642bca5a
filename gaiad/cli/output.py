"""What the verbs print: pure text functions, and the few that write. Archived text never reaches a terminal raw.

Text from packets may hold escape sequences; `plain` takes out what could move a cursor or reverse a line. Colour is
used on a terminal only, and not with NO_COLOR.
"""

import json
import os
import re
import shutil
import sys
import textwrap
import unicodedata
from collections.abc import Iterable, Sequence
from datetime import tzinfo
from typing import Any, NoReturn

import click

from gaiad.base.errors import GaiadError

_UNSAFE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_PARTS = re.compile(r"\n|[^\S\n]+|\S+")
_WORD = re.compile(r"\w+")
_WHOLE_CITATION = "[Packet:\ue000"
_WIDE = ("W", "F")
MAX_WIDTH = 100


def write_json(value: Any) -> None:
    """One JSON value on one line of stdout, written out at once so that a reader of a pipe sees it."""
    import msgspec

    sys.stdout.write(msgspec.json.encode(value).decode() + "\n")
    sys.stdout.flush()


def plain(text: str) -> str:
    """`text` without control and direction-changing characters; line breaks and tabs stay."""
    return _UNSAFE.sub("", text)


def cut_line(text: str, most: int) -> str:
    """`text` as one safe line of at most `most` characters."""
    line = " ".join(plain(text).split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def colours(stream: Any = None) -> bool:
    """Whether to style what goes to `stream` (stdout)."""
    target = sys.stdout if stream is None else stream
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb" and bool(target.isatty())


def bold(text: str) -> str:
    return click.style(text, bold=True) if colours() else text


def dim(text: str, stream: Any = None) -> str:
    return click.style(text, dim=True) if colours(stream) else text


def warn(text: str, stream: Any = None) -> str:
    return click.style(text, fg="yellow", bold=True) if colours(stream) else text


def terminal_width() -> int:
    """Columns to wrap to: the terminal's, at most MAX_WIDTH; 80 when there is none."""
    return max(40, min(shutil.get_terminal_size((80, 24)).columns, MAX_WIDTH))


def wrap(text: str, width: int, indent: str = "") -> str:
    """Paragraphs and lines of `text` kept, each wrapped to `width` columns; long words and citations stay whole."""
    lines: list[str] = []
    for line in plain(text).replace("[Packet: ", _WHOLE_CITATION).splitlines():
        margin = line[: len(line) - len(line.lstrip())]
        wrapped = textwrap.wrap(
            line,
            width,
            initial_indent=indent,
            subsequent_indent=indent + margin,
            break_long_words=False,
            break_on_hyphens=False,
            drop_whitespace=True,
        )
        lines.extend(wrapped or [""])
    return "\n".join(lines).replace(_WHOLE_CITATION, "[Packet: ")


def cells(text: str) -> int:
    """Columns that `text` takes at most, when all of it is on one row."""
    return sum(2 if unicodedata.east_asian_width(character) in _WIDE else 1 for character in text)


class WordWrap:
    """Breaks lines between words while text comes: a word waits until it is whole. Code fences stay as they are."""

    def __init__(self) -> None:
        self._column = 0
        self._margin = ""  # white space that the line began with
        self._space = ""
        self._word = ""
        self._in_code = False

    def feed(self, text: str, width: int) -> str:
        """What can be shown by now, in lines of at most `width` columns where no word is longer."""
        shown = []
        for part in _PARTS.findall(text):
            if not part.isspace():
                self._word += part
                continue
            shown.append(self.finish(width))
            if part == "\n":
                shown.append(part)
                self._column, self._margin, self._space = 0, "", ""
            else:
                self._space += part
        return "".join(shown)

    def finish(self, width: int) -> str:
        """The word that waits."""
        word, self._word = self._word, ""
        if not word:
            return ""
        if not self._column:
            self._margin = self._space
            self._in_code ^= word.startswith("```")
        before = self._space
        if self._column and not self._in_code and self._column + cells(before + word) > width:
            before, self._column = f"\n{self._margin}", 0
        self._column += cells(before.lstrip("\n") + word)
        self._space = ""
        return before + word


def table(rows: Iterable[Sequence[str]], heads: Sequence[str] = ()) -> str:
    """Left-aligned columns, two spaces apart; the last column is not padded."""
    cells = [[plain(cell).replace("\n", " ") for cell in row] for row in ([heads, *rows] if heads else rows)]
    if not cells:
        return ""
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]
    if heads:
        lines[0] = bold(lines[0])
    return "\n".join(lines)


def emphasise(text: str, terms: Iterable[str]) -> str:
    """`text` with every word that starts with one of `terms` in bold, where there are colours."""
    stems = [term.lower() for term in terms if len(term) > 1]
    if not stems or not colours():
        return text
    return _WORD.sub(lambda match: bold(match[0]) if match[0].lower().startswith(tuple(stems)) else match[0], text)


def date_of(timestamp: str, zone: tzinfo) -> str:
    """The day of an ISO time in `zone`, or "undated"."""
    from gaiad.base.clock import day_of

    return day_of(timestamp, zone) or "undated"


def size(count: float) -> str:
    """Bytes for people."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return ""


def duration(seconds: float) -> str:
    """Seconds for people: the two largest units."""
    whole = int(seconds)
    days, hours, minutes = whole // 86400, whole // 3600 % 24, whole // 60 % 60
    if days:
        return f"{days} d {hours} h"
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {whole % 60} s" if minutes else f"{whole} s"


def milliseconds(ms: float) -> str:
    """A short time for people, in seconds from one second on."""
    return f"{ms:.0f} ms" if ms < 1000 else f"{ms / 1000:.1f} s"


def counted(number: int, noun: str) -> str:
    """`1 packet`, `2 packets`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


OK = 0
FAILED = 1
USAGE = 2
NOT_FOUND = 3
INTERRUPTED = 130
BROKEN_PIPE = 141
EXIT_CODES = {
    OK: "done",
    FAILED: "something failed: a file was not accepted, a check found a problem, the council gave no answer",
    USAGE: "wrong usage, input or setting; the message says what to write instead",
    NOT_FOUND: "no such packet, page or job (with --exit-status also: nothing found)",
    4: "not permitted: another user's daemon, or a tenant you may not use",
    5: "no daemon answers, or it cannot right now",
    6: "the daemon did not answer in time",
    7: "cancelled",
    INTERRUPTED: "interrupted with Ctrl-C",
    BROKEN_PIPE: "the program reading the output went away",
}


class Ended(click.exceptions.Exit):
    """The verb has said all it has to say; only the exit code is left."""


def end(code: int) -> NoReturn:
    """Leave with `code` and no further word."""
    raise Ended(code)


def one_line(message: str) -> str:
    """`message` on one line, without characters that move a terminal's cursor."""
    return " ".join("".join(character if character.isprintable() else " " for character in message).split())


def describe(error: GaiadError | click.ClickException) -> dict[str, Any]:
    """The JSON object for an error: code, message, exit_code."""
    if isinstance(error, GaiadError):
        return {"code": error.code, "message": error.message, "exit_code": error.exit_code}
    return {"code": "usage", "message": _usage_message(error), "exit_code": USAGE}


def _usage_message(error: click.ClickException) -> str:
    message = error.format_message()
    context = getattr(error, "ctx", None)
    return f"{message} (see {context.command_path} --help)" if context is not None else message


def report(error: GaiadError | click.ClickException, as_json: bool) -> int:
    """Say the error on stderr and return its exit code."""
    facts = describe(error)
    line = json.dumps({"error": facts}) if as_json else f"gaiad: {one_line(facts['message'])}"
    print(line, file=sys.stderr)
    return int(facts["exit_code"])
