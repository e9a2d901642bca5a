"""Where the words of a turn go: the answer to stdout, the council at work to a terminal's stderr.

On a terminal the answer is shown while it is written; should it be retracted, it is struck out where that can be done,
a line under it says so, and the next one starts fresh. Anything else that reads stdout gets nothing before the answer
is final, and then the answer alone.
"""

import os
import shutil
import sys
import threading
import time
import unicodedata
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import click

from gaiad.base.errors import GaiadError
from gaiad.base.ids import short
from gaiad.cli.command import same_place
from gaiad.cli.output import WordWrap, cells, colours, counted, dim, milliseconds, one_line, plain, warn, wrap
from gaiad.cli.research_text import SEARCHING, SYNTHESIZING, found_line
from gaiad.cli.sessions import looked_back_line, role_name

if TYPE_CHECKING:
    from gaiad.wire.chat import ChatAnswer


_DRAWN = ("L", "N", "P", "S", "Zs")  # how categories begin whose characters take a place of their own


def rows_of(text: str, width: int) -> int | None:
    """How many rows `text` takes in a window of `width` columns, from the first one; None when that is not certain."""
    rows, column = 1, 0
    for character in text:
        if character == "\n":
            rows, column = rows + 1, 0
            continue
        wide = cells(character)
        if not unicodedata.category(character).startswith(_DRAWN) or character > "\uffff":
            return None
        if column + wide > width:
            rows, column = rows + 1, 0
        column += wide
    return rows


def striking(text: str, width: int, height: int, below: int) -> str:
    """What to write to strike `text`, which ends in a line break; `below` rows are under it, the cursor under those.

    "" when it cannot be done in a window of `width` columns and `height` rows.
    """
    rows = rows_of(text.removesuffix("\n"), width)
    if rows is None or rows + below >= height:
        return ""
    struck = "\n".join(click.style(line, strikethrough=True, dim=True) for line in text.split("\n")[:-1])
    down = f"\x1b[{below}B" if below else ""
    return f"\x1b[{rows + below}A\r{struck}\n{down}"


_DOING = {
    "plan": "planning",
    "refine": "refining the plan",
    "act": "writing the answer",
    "verify": "verifying",
}
_ENDED = {
    ("plan", "missing"): "wrote no plan",
    ("refine", "missing"): "wrote no plan with a confidence",
    ("refine", "low_confidence"): "is not sure of the plan",
    ("act", "empty"): "wrote an empty answer",
    ("verify", "missing"): "gave no verdict",
}
_PLAIN_STATUS = ("SUCCESS", "PARTIAL", "NOT_FOUND", "CLARIFY")  # those of the research are beside it


def working_line(event: str, data: dict[str, Any]) -> str:
    """What goes on now, "" when the event begins nothing."""
    if event == "stage":
        of = data.get("of", 1)
        place = f"Stage {data['number']} of {of}: " if of > 1 else ""
        return plain(f"{place}{role_name(data['role'])} is {_DOING.get(data['stage'], data['stage'])}...")
    if event == "searching" and data["iteration"] > 1:
        return plain(f"Searching again: {data['query']}")
    return {"searching": SEARCHING, "synthesizing": SYNTHESIZING}.get(event, "")


def done_line(event: str, data: dict[str, Any]) -> str:
    """What has happened, on one line; "" when the event is nothing to tell."""
    match event:
        case "synthesizing":
            line = found_line(data["packets"])
        case "depth":
            line = f"Depth full: {data['why']}" if data["depth"] == "full" else ""
        case "block":
            line = _block(data)
        case "stage_done":
            line = _ended(data)
        case "vote":
            line = _vote(data)
        case "escalation" if data["to"] != "person":  # to a person it is the answer or one of its notes
            line = f"{role_name(data['raised_by'])} turned to {role_name(data['to'])}: {data['why']}"
        case _:
            line = ""
    return " ".join(plain(line).split())


def _block(data: dict[str, Any]) -> str:
    """A block that this channel gets (GCP 7.2: no THOUGHT_SEED, if the settings do not say otherwise)."""
    role, text = role_name(data["role"]), data["text"]
    steps, _, confidence = text.rpartition("\nconfidence=")
    match data["marker"]:
        case "PLAN" if steps:
            return f"{role} refined the plan (confidence {confidence}): {steps}"
        case "PLAN":
            return f"{role} planned: {text}"
        case "VERIFY":
            return f"{role}: {text}" if text.startswith("unverified") else f"{role} verified: {text}"
        case "INTERRUPT":
            return f"{role} stopped the answer: {text}"
        case "THOUGHT_SEED":
            return f"{role} thought for later: {text}"
    return ""


def _ended(data: dict[str, Any]) -> str:
    """Of a stage that did not end well; one that went well shows what it wrote."""
    stage, verdict = data["stage"], data["verdict"]
    role = role_name(data["role"])
    if verdict == "lost":
        return f"{role} was lost while {_DOING.get(stage, stage)}: {'; '.join(data['notes'])}"
    words = _ENDED.get((stage, verdict), "")
    return f"{role} {words}" if words else ""


def _vote(data: dict[str, Any]) -> str:
    ballots = [f"{role_name(one['role'])} {one['vote']}" for one in data["ballots"] if not one["uncounted"]]
    said = f"Voted ({', '.join(ballots)})" if ballots else "Not voted on"
    subject = data["subject"].partition("\n")[0]
    return f"{said}: {data['reason']}: {subject}"


def footer_line(answer: "ChatAnswer") -> str:
    """What the answer is based on, what made it, where it was said: one line. Notes are not in it."""
    parts = []
    if answer.sources:
        parts.append("Sources: " + " ".join(f"[Packet: {source}]" for source in answer.sources))
    elif answer.history.packets and answer.answered:
        parts.append("Read, but not cited: " + " ".join(f"[Packet: {packet}]" for packet in answer.history.packets))
    if answer.status not in _PLAIN_STATUS:
        parts.append(f"Status: {answer.status}")
    cost = [milliseconds(sum(answer.timings.values()))]
    if rate := _tokens_per_second(answer):
        cost.append(f"{rate:.0f} tokens/s")
    parts += [f"Engine: {answer.engine or 'none'} ({', '.join(cost)})", f"Session: {answer.session_id}"]
    return " ".join(plain(" | ".join(parts)).split())


def _tokens_per_second(answer: "ChatAnswer") -> float:
    """How fast the model wrote; 0 where that is not known."""
    writing_ms = answer.timings.get("decode_ms", 0.0)
    return answer.tokens.get("reply", 0) / writing_ms * 1000 if writing_ms >= 1 else 0.0


def below_lines(answer: "ChatAnswer") -> list[str]:
    """What belongs to the answer: an earlier packet that bears on it; the plan, when the person is asked about it."""
    plans = [f"Plan: {block.text}" for block in answer.blocks if block.marker == "PLAN"]
    lines = [*(plans[-1:] if not answer.answered else []), *([answer.also.words] if answer.also else [])]
    return [" ".join(plain(line).split()) for line in lines]


def why_lines(answer: "ChatAnswer", options: str = "") -> list[str]:
    """How the answer came about: what it looked back at, how deep the council thought, what was taken out."""
    lines = []
    if looked_back := looked_back_line(answer.history, options):
        lines.append(looked_back)
    stopped = [block.text for block in answer.blocks if block.marker == "INTERRUPT"]
    if stopped:
        reasons = "; ".join(dict.fromkeys(stopped))
        lines.append(f"Retracted {counted(len(stopped), 'time')}: {reasons}")
    if answer.redactions:
        lines.append(_taken_out(answer))
    if answer.depth_why:
        lines.append(_depth(answer))
    return [" ".join(plain(line).split()) for line in lines]


def _taken_out(answer: "ChatAnswer") -> str:
    taken = ", ".join(f"{item.count} {item.kind}" for item in answer.redactions)
    changed = " ".join(f"[Packet: {source}]" for source in answer.redacted)
    return f"Taken out of the answer: {taken}" + (f"; not as stored: {changed}" if changed else "")


def _depth(answer: "ChatAnswer") -> str:
    parts = [f"Depth: {answer.depth} ({answer.depth_why})"]
    if answer.reduced_quorum:
        parts.append("reduced_quorum")
    if answer.depth == "full":
        parts.append(f"Turn: {short(answer.turn_id)}")
    return " | ".join(parts)


_NO_CURSOR = "dumb"


class Screen:
    """Of one turn; with `why` it also says how the answer came about. Left by an error, it says to disregard it.

    The line that says what goes on counts the turn's seconds, in a thread of its own while the screen is entered.
    """

    def __init__(self, *, why: bool = False) -> None:
        self._why = why
        self._words = WordWrap()
        self._streams = sys.stdout.isatty()
        self._tells = sys.stderr.isatty()
        self._moves = self._tells and os.environ.get("TERM") != _NO_CURSOR
        self._shown = ""  # of the answer, since the last retraction
        self._size = os.terminal_size((0, 0))  # of the window when that began
        self._below = 0  # rows under it
        self._apart = False  # whether something is in the midst of it
        self._working = ""
        self._stands = False
        self._began = time.monotonic()
        self._writing = threading.Lock()
        self._over = threading.Event()

    def __enter__(self) -> Self:
        if self._moves:
            threading.Thread(target=self._count, name="seconds", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        with self._writing:
            self._left(kind)

    def _left(self, kind: type[BaseException] | None) -> None:
        self._clear()
        self._flush()
        if kind is not None and self._shown:
            self._end_line()
            if issubclass(kind, GaiadError):
                self._strike()
                click.echo(warn("[disregard this: the turn ended without an answer]"))

    def show(self, event: str, data: dict[str, Any]) -> None:
        """One event of the turn, `done` apart."""
        with self._writing:
            if event == "delta":
                self._write(plain(data["text"]))
            elif event == "retract":
                self._retract(data["reason"])
            elif self._tells and not self._is_told(event, data):
                self._tell(done_line(event, data), working_line(event, data))

    def _count(self) -> None:
        """Every second, the seconds on the line that says what goes on."""
        while not self._over.wait(1.0):
            with self._writing:
                if self._stands and not self._over.is_set():
                    self._put_working()

    def _is_told(self, event: str, data: dict[str, Any]) -> bool:
        """Whether it is in the answer's place already."""
        return self._streams and event == "block" and data["marker"] == "INTERRUPT"

    def finish(self, answer: "ChatAnswer") -> None:
        """What has to be seen at the end: the answer where it is not there yet, what goes with it under it."""
        self._over.set()
        with self._writing:
            self._finish(answer)

    def _finish(self, answer: "ChatAnswer") -> None:
        self._clear()
        self._flush()
        if not self._streams and not answer.answered:
            click.echo(f"gaiad: {one_line(answer.answer)}", err=True)
        elif not self._shown:
            click.echo(self._wrapped(plain(answer.answer)))
        else:
            self._end_line()
        under = sys.stdout if self._streams else sys.stderr
        for note in answer.notes:
            click.echo(warn(self._wrapped(f"note: {plain(note)}"), under), file=under)
        for line in (
            *below_lines(answer),
            *(why_lines(answer, same_place()) if self._why else []),
            footer_line(answer),
        ):
            click.echo(dim(self._wrapped(line), under), file=under)

    def _wrapped(self, line: str) -> str:
        """Between words, where somebody reads it; a program gets the line whole."""
        return wrap(line, shutil.get_terminal_size().columns) if self._streams else line

    def _write(self, text: str) -> None:
        if self._streams:
            self._put(self._words.feed(text, shutil.get_terminal_size().columns))

    def _flush(self) -> None:
        """The word that waits for its end."""
        self._put(self._words.finish(shutil.get_terminal_size().columns))

    def _put(self, text: str) -> None:
        if text:
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
        self._flush()
        self._end_line()
        self._strike()
        advice = "disregard the text above" if self._shown else "none of it was shown"
        click.echo(warn(f"[retracted: {one_line(reason)}; {advice}]"))
        self._shown, self._words = "", WordWrap()
        self._tell("", self._working)

    def _strike(self) -> None:
        """What is above, where that can be done."""
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
        self._flush()
        self._end_line()
        width = shutil.get_terminal_size().columns
        for line in (done, "" if self._moves else working):
            if line:
                click.echo(dim(_cut(line, width), sys.stderr), err=True)
                self._below += 1
        self._working = working
        if working and self._moves:
            self._put_working()

    def _put_working(self) -> None:
        """The line that does not stay, over the one that is there."""
        self._clear()
        seconds = int(time.monotonic() - self._began)
        line = f"{self._working} {seconds} s" if seconds else self._working
        click.echo(dim(_cut(line, shutil.get_terminal_size().columns), sys.stderr), nl=False, err=True)
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
