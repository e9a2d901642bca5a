"""The observer's rules (decision 12): what stops a text while it is written, before a person sees it.

Secrets, loops, the prompt itself, commands outside EXECUTE, markers that the stage may not write. Text is released run
by run (a run is what is between two spaces), so that any split of it gives the same verdict, and what was released
is exactly the text before the fault. Pure, linear in the text. The model observer is another, later and best effort.
"""

import re
from collections import deque
from collections.abc import Collection, Iterable
from functools import cache
from typing import Literal

import msgspec

from constants.load import load, secret_patterns
from council.reply_rules import LeakLimits, LeakRule, RepetitionLimits, RepetitionRule, stutters
from council.stages import MARKERS, Marker
from gaiad.base.errors import BadInput
from gaiad.base.marker_forms import Forms
from gaiad.base.markers import MarkerParser, Sighting

Rule = Literal["secret", "repetition", "leaked_prompt", "command", "marker"]
_UNIT = re.compile(r"\s+|\S+")
_SHORTEST_SECRET = 16
_HEAD_RUNS = 6
_OPENING = re.compile(r"[A-LP-Z][a-z]+")  # how replies begin, and neither a command nor a key of constants/secrets.toml


class ObserverTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """constants/observer_rules.toml; the patterns by what they find, in words. Those of secrets are in secrets.toml."""

    window_characters: int
    blank_characters: int
    repetition: RepetitionLimits
    leak: LeakLimits
    commands: dict[str, str]


class Violation(msgspec.Struct, frozen=True, kw_only=True):
    """Why the text stops. `at` is the first character that must not be shown; `reason` never quotes a secret."""

    rule: Rule
    at: int
    reason: str


def without_secrets(text: str) -> str:
    """The text, or in its place that it is withheld when it shows a key or a token; no part of it is left then.

    For what models write beside an answer: plans, verifications, reasons. It goes into logs and memory for good.
    """
    known = secret_patterns()
    pattern, names = _alternatives(tuple(known.secrets.items()))
    found = pattern.search(text)
    name = names[found.lastgroup or ""] if found else _named(known.headers, " ".join(text.split()))
    return f"the text is withheld: it shows {name}" if name else text


def observer_table() -> ObserverTable:
    """The shipped rules."""
    return load("observer_rules.toml", ObserverTable)


class ObserverRules:
    """Feed pieces, release what comes back; once `violation` is set nothing more does.

    `protected` are the prompt's own texts, `asked` what the person said, `allowed` the markers the stage may write. At
    most a window, a line's beginning that may become a marker and the words of a beginning leak are held back. Only
    the reply's first word is shown while it is written, for a person waits for it.
    """

    def __init__(
        self, protected: Iterable[str], allowed: Collection[Marker], table: ObserverTable, asked: str = ""
    ) -> None:
        if strange := set(allowed) - set(MARKERS):
            raise BadInput(f"{', '.join(sorted(strange))}: no marker; there are {', '.join(MARKERS)}")
        self._table = table
        self._known = secret_patterns()
        self._allowed = frozenset(allowed)
        self._leak = LeakRule(protected, table.leak, asked)
        self._repetition = RepetitionRule(table.repetition)
        self._unread = ""
        self._early = 0  # characters of the first run that were released before its end
        self._waiting: deque[tuple[int, str]] = deque()
        self._at = 0  # characters judged so far
        self._blank = 0  # white space since the last run
        self._before = ""  # the character before the unread ones when a run goes on
        self._head: list[tuple[int, str]] | None = []  # the line's first runs and where they begin; None behind them
        self._tail: deque[str] = deque(maxlen=_HEAD_RUNS)
        self._markers = MarkerParser("tolerant", "RESPONSE")
        self.violation: Violation | None = None

    def feed(self, piece: str) -> str:
        """What can be shown by now."""
        self._unread += piece
        return self._read(final=False)

    def finish(self) -> str:
        """What was held back: no more text comes."""
        return self._read(final=True)

    def _read(self, *, final: bool) -> str:
        text, place = self._unread, 0
        while self.violation is None and place < len(text):
            unit = self._next_unit(text, place, final=final)
            if not unit:
                break
            place += len(unit)
            if unit.isspace():
                self._space(unit)
            else:
                self._run(unit, text[place - len(unit) : place - len(unit) + self._table.window_characters])
        if final and self.violation is None:
            self._markers.finish()
            self._judge(self._markers.sightings())
        self._unread = text[place:] if self.violation is None else ""
        return self._release(final=final) + self._opening()

    def _opening(self) -> str:
        """What is new of the reply's first run while that is a plain word or number and cannot become a marker."""
        run = self._unread
        plain = len(run) < _SHORTEST_SECRET and _OPENING.fullmatch(run) and not _forms().may_become(run, fenced=False)
        if self._tail or self._waiting or not plain:
            return ""
        new, self._early = run[self._early :], len(run)
        return new

    def _next_unit(self, text: str, place: int, *, final: bool) -> str:
        """White space, a whole run, half a window of a longer one, or "" while its end has not come."""
        window = self._table.window_characters
        found = _UNIT.match(text, place, place + window)
        unit = found[0] if found else ""
        if not unit or unit.isspace():
            return unit
        if len(unit) == window:
            return unit[: window // 2]
        return unit if final or place + len(unit) < len(text) else ""

    def _space(self, unit: str) -> None:
        self._mark(unit)
        room = self._table.blank_characters - self._blank
        if len(unit) > room:
            self._stop("repetition", self._at + room, "it writes nothing but white space")
        self._pass(unit)
        self._blank += len(unit)
        self._before = ""
        if "\n" in unit:
            self._head = []

    def _run(self, unit: str, window: str) -> None:
        """Judge one run, or half a window of it. `window` begins with it and has what comes behind, also other runs."""
        going_on = bool(self._before)
        longer = 2 * len(unit) == len(window) == self._table.window_characters and not _has_space(window)
        looked_at = window if longer else unit
        self._secrets(looked_at, len(unit))
        if self.violation is None:
            self._lines(unit, going_on=going_on)
        if self.violation is None and self._leak.feed(unit, self._at):
            start = self._at if self._leak.held_from is None else self._leak.held_from
            self._stop("leaked_prompt", start, "it repeats the words of its own prompt")
        if self.violation is None and (period := self._repetition.feed(unit)):
            self._stop("repetition", self._at, f"it repeats itself, {period} words at a time")
        if self.violation is None and longer and stutters(looked_at):
            self._stop("repetition", self._at, "it repeats the same characters")
        self._pass(unit)
        self._blank, self._before = 0, unit[-1]

    def _secrets(self, looked_at: str, length: int) -> None:
        """Secrets that begin in the unit; one that begins behind it is found whole in the next window."""
        if len(looked_at) < _SHORTEST_SECRET:
            return
        pattern, names = _alternatives(tuple(self._known.secrets.items()))
        found = pattern.search(self._before + looked_at, len(self._before))
        start = found.start() - len(self._before) if found else length
        if found and start < length:
            self._stop("secret", self._at + start, f"it shows {names[found.lastgroup or '']}")

    def _lines(self, unit: str, *, going_on: bool) -> None:
        """Markers, headers of keys and commands: what counts by its place in the line."""
        self._mark(unit)
        if going_on:
            self._head = None
            return
        self._tail.append(unit)
        if "-----" in unit and (name := _named(self._known.headers, " ".join(self._tail))):
            self._stop("secret", self._at, f"it shows {name}")
        if self._head is None:
            return
        self._head.append((self._at, unit))
        own = self._markers.text_from
        head = " ".join(run[max(0, own - at) :] for at, run in self._head if at + len(run) > own)
        in_place = self._markers.fenced or self._markers.marker == "EXECUTE"
        if not in_place and (name := _named(self._table.commands, head)):
            self._stop("command", self._at, f"it gives a command outside EXECUTE ({name})")
        if len(self._head) == _HEAD_RUNS:
            self._head = None

    def _mark(self, unit: str) -> None:
        self._markers.feed(unit)
        self._judge(self._markers.sightings())

    def _judge(self, found: list[Sighting]) -> None:
        """Markers that this text may not have."""
        for one in found:
            if one.marker not in self._allowed:
                self._stop(*_out_of_place(one.marker, one.at))

    def _stop(self, rule: Rule, at: int, reason: str) -> None:
        if self.violation is None:
            self.violation = Violation(rule=rule, at=at, reason=reason)

    def _pass(self, unit: str) -> None:
        self._waiting.append((self._at + self._early, unit[self._early :]))
        self._at, self._early = self._at + len(unit), 0

    def _release(self, *, final: bool) -> str:
        """What waits, up to the fault, or to where a leak may begin."""
        end = self._at
        if self.violation is not None:
            end = self.violation.at
        elif not final:
            held = (self._leak.held_from, self._markers.held_from)
            end = min([self._at, *(place for place in held if place is not None)])
        shown = []
        while self._waiting and self._waiting[0][0] < end:
            start, unit = self._waiting.popleft()
            shown.append(unit[: end - start])
            if len(unit) > end - start:
                self._waiting.appendleft((end, unit[end - start :]))
        return "".join(shown)


@cache
def _forms() -> Forms:
    return Forms("tolerant")


def _out_of_place(marker: str, at: int) -> tuple[Rule, int, str]:
    if marker == "EXECUTE":
        return "command", at, "it gives a command where none may be given"
    return "marker", at, f"it writes a {marker} block, which this stage may not"


def _has_space(window: str) -> bool:
    return any(map(str.isspace, window))


def _named(patterns: dict[str, str], text: str) -> str:
    """What the first pattern that is found finds."""
    return next((name for name, pattern in patterns.items() if _compiled(pattern).search(text)), "")


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


@cache
def _alternatives(patterns: tuple[tuple[str, str], ...]) -> tuple[re.Pattern[str], dict[str, str]]:
    """All patterns as one, and the name of each group in it."""
    names = {f"p{number}": name for number, (name, _) in enumerate(patterns)}
    return re.compile("|".join(f"(?P<p{n}>{pattern})" for n, (_, pattern) in enumerate(patterns))), names
