"""Where the words of a turn go: the answer to stdout, the council at work to a terminal's stderr.

On a terminal the answer is shown while it is written; should it be retracted, it is struck out where that can be done,
a line under it says so, and the next one begins anew. Anything else that reads stdout gets nothing before the answer is
final, and then the answer alone.
"""

import os
import shutil
import sys
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import click

from gaiad.cli.chat_lines import done_line, footer_lines, working_line
from gaiad.cli.chat_strike import cells, striking
from gaiad.cli.command import same_place
from gaiad.cli.errors import one_line
from gaiad.cli.output import colours, dim, plain, warn, wrap
from gaiad.errors import GaiadError

if TYPE_CHECKING:
    from gaiad.chat_schemas import ChatAnswer

_NO_CURSOR = "dumb"


class Screen:
    """Of one turn. Left by an error, it says that what stands there of an answer is void."""

    def __init__(self) -> None:
        self._streams = sys.stdout.isatty()
        self._tells = sys.stderr.isatty()
        self._moves = self._tells and os.environ.get("TERM") != _NO_CURSOR
        self._shown = ""  # of the answer, since the last retraction
        self._size = os.terminal_size((0, 0))  # of the window when that began
        self._below = 0  # rows under it
        self._apart = False  # whether something stands in the midst of it
        self._working = ""
        self._stands = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._clear()
        if kind is not None and self._shown:
            self._end_line()
            if issubclass(kind, GaiadError):
                self._strike()
                click.echo(warn("[void: the turn ended without an answer]"))

    def show(self, event: str, data: dict[str, Any]) -> None:
        """One event of the turn, `done` apart."""
        if event == "delta":
            self._write(plain(data["text"]))
        elif event == "retract":
            self._retract(data["reason"])
        elif self._tells and not self._is_told(event, data):
            self._tell(done_line(event, data), working_line(event, data))

    def _is_told(self, event: str, data: dict[str, Any]) -> bool:
        """Whether it stands in the answer's place already."""
        return self._streams and event == "block" and data["marker"] == "INTERRUPT"

    def finish(self, answer: "ChatAnswer") -> None:
        """What has to be seen at the end: the answer where it is not there yet, what goes with it under it."""
        self._clear()
        if not self._streams and not answer.answered:
            click.echo(f"gaiad: {one_line(answer.answer)}", err=True)
        elif not self._shown:
            click.echo(plain(answer.answer))
        else:
            self._end_line()
        under = sys.stdout if self._streams else sys.stderr
        for note in answer.notes:
            click.echo(warn(self._wrapped(f"note: {plain(note)}"), under), file=under)
        for line in footer_lines(answer, same_place()):
            click.echo(dim(self._wrapped(line), under), file=under)

    def _wrapped(self, line: str) -> str:
        """Between words, where somebody reads it; a program gets the line whole."""
        return wrap(line, shutil.get_terminal_size().columns) if self._streams else line

    def _write(self, text: str) -> None:
        if self._streams and text:
            self._clear()
            if not self._shown:
                self._size, self._below = shutil.get_terminal_size(), 0
            self._apart = bool(self._shown and (self._below or self._apart))
            self._shown += text
            click.echo(text, nl=False)

    def _retract(self, reason: str) -> None:
        if not self._streams:
            return
        self._clear()
        self._end_line()
        self._strike()
        void = "what stands above is void" if self._shown else "nothing of it was shown"
        click.echo(warn(f"[retracted: {one_line(reason)}; {void}]"))
        self._shown = ""
        self._tell("", self._working)

    def _strike(self) -> None:
        """What stands above, where that can be done."""
        same = shutil.get_terminal_size() == self._size and not self._apart
        if self._shown and self._moves and colours() and same:
            sys.stdout.write(striking(self._shown, self._size.columns, self._size.lines, self._below))
            sys.stdout.flush()

    def _end_line(self) -> None:
        if self._shown and not self._shown.endswith("\n"):
            click.echo()
            self._shown += "\n"

    def _tell(self, done: str, working: str) -> None:
        """A line that stays, and one that goes when the next comes."""
        if not done and not working:
            return
        self._clear()
        self._end_line()
        width = shutil.get_terminal_size().columns
        for line in (done, "" if self._moves else working):
            if line:
                click.echo(dim(_cut(line, width), sys.stderr), err=True)
                self._below += 1
        self._working = working
        if working and self._moves:
            click.echo(dim(_cut(working, width), sys.stderr), nl=False, err=True)
            self._stands = True

    def _clear(self) -> None:
        """Take away the line that does not stay."""
        if self._stands:
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()
            self._stands = False


def _cut(line: str, width: int) -> str:
    """To one row of `width` columns."""
    if cells(line) < width:
        return line
    kept = line[: width - 2]
    while cells(kept) > width - 2:
        kept = kept[:-1]
    return f"{kept}…"
