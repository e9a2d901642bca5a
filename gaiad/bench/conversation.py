"""`gaiad bench conversation FILE`: everyday prompts through gaiad and, on the same worker, through the model's own chat
template alone: right answers by a check in code, leaks, loops and times beside each other.

The model is probed first (`gaiad models probe`, kept by the file's hash), and before each message both sides wait until
the model is idle, as after the pause that a person makes.
"""

import json
import re
import statistics
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal
from xml.sax.saxutils import escape

import msgspec

from gaiad.base.errors import BadInput, Unavailable
from gaiad.bench.daemon_process import BenchDaemon, running_daemon
from gaiad.wire.chat import ChatRequest
from gaiad.wire.generation import ChatTurn, GenerateBody

_LOOP_WORDS, _LOOP_TIMES = 12, 4
_RUN_WORDS = 8
_MACHINERY = re.compile(
    r"\b(?:RESPONSE|PLAN|EXECUTE|VERIFY|INTERRUPT|THOUGHT_SEED)[*_]{0,2}:|<<|<\|[a-z_]+\|>|\bGAIA-|council",
    re.IGNORECASE,
)
_OBJECT = re.compile(r"\{[^{}]*\}")
_REPLY_TOKENS = 512
_SHOWN_CHARACTERS = 160
_MEMORY = ("page", "untold")  # kinds of prompts that need a page
Side = Literal["gaiad", "bare"]
Depth = Literal["auto", "fast", "full"]
Span = tuple[int, int]


class PromptPage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A Transmission Packet of one page."""

    id: str
    topic: str
    text: str


class BenchPrompt(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is said, one message a turn, and what the last answer must have: all of `match`, none of `reject` (patterns
    without case), so many `words` and non-empty `lines` (least, most), a JSON object with the keys `json`. `pages` are
    those that tell it.
    """

    kind: str
    say: tuple[str, ...]
    pages: tuple[str, ...] = ()
    match: tuple[str, ...] = ()
    reject: tuple[str, ...] = ()
    words: Span = (1, 100_000)
    lines: Span = (1, 100_000)
    json: tuple[str, ...] = ()

    def right(self, reply: str) -> bool:
        """Whether the answer passes the prompt's check."""
        words, lines = len(reply.split()), sum(bool(line.strip()) for line in reply.splitlines())
        return (
            self.words[0] <= words <= self.words[1]
            and self.lines[0] <= lines <= self.lines[1]
            and all(re.search(pattern, reply, re.IGNORECASE) for pattern in self.match)
            and not any(re.search(pattern, reply, re.IGNORECASE) for pattern in self.reject)
            and (not self.json or any(set(self.json) <= found.keys() for found in _objects(reply)))
        )


class PromptSet(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file of `gaiad bench conversation`: TOML, `[[prompts]]` and `[pages.NAME]`."""

    prompts: tuple[BenchPrompt, ...]
    pages: dict[str, PromptPage] = {}


def read_prompts(path: Path) -> PromptSet:
    """Raises BadInput naming what does not fit."""
    try:
        found = msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), PromptSet)
    except (OSError, tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise BadInput(f"{path}: not a set of prompts ({error}); see tests/data/conversation.toml") from error
    unknown = {name for prompt in found.prompts for name in prompt.pages} - found.pages.keys()
    if unknown:
        raise BadInput(f"{path}: no page is called {min(unknown)!r}; add [pages.{min(unknown)}]")
    return found


def loops(reply: str) -> bool:
    """Whether the same twelve words, or the same line, come four times."""
    words = reply.split()
    runs = Counter(tuple(words[at : at + _LOOP_WORDS]) for at in range(len(words) - _LOOP_WORDS + 1))
    lines = Counter(line.strip() for line in reply.splitlines() if len(line.split()) > 1)
    return any(times >= _LOOP_TIMES for times in (*runs.values(), *lines.values()))


def leaks(reply: str, own_texts: Iterable[str], said: Sequence[str]) -> bool:
    """Whether it shows machinery, or eight words in a row of `own_texts` that the person did not say."""
    asked = _runs(" ".join(said))
    return bool(_MACHINERY.search(reply)) or bool((_runs(reply) & {r for one in own_texts for r in _runs(one)}) - asked)


def _runs(text: str) -> set[tuple[str, ...]]:
    words = re.findall(r"\w+", text.lower())
    return {tuple(words[at : at + _RUN_WORDS]) for at in range(len(words) - _RUN_WORDS + 1)}


def _objects(reply: str) -> list[dict[str, Any]]:
    found = []
    for text in _OBJECT.findall(reply):
        try:
            found.append(json.loads(text))
        except json.JSONDecodeError:
            continue
    return found


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """One last answer. Times in milliseconds; `ended` is whether it ended by itself."""

    side: Side
    kind: str
    say: str
    text: str
    right: bool
    leaked: bool
    looped: bool
    ended: bool
    first_ms: float
    whole_ms: float
    later_turn: bool


def run_conversation(file: Path, model: Path, *, rounds: int, depth: Depth, as_json: bool) -> list[Reply]:
    """Measure and print. Raises BadInput, Unavailable."""
    prompts = read_prompts(file)
    roles = [f"roles.{role}={model.expanduser().absolute()}" for role in ("prime", "lite", "codemind")]
    replies: list[Reply] = []
    with running_daemon("cognition.proactive_context=false", "initiative.enabled=false", *roles) as daemon:
        _remember(daemon, prompts)
        daemon.client.probe_model(next(row.name for row in daemon.client.models() if row.role == "prime"), again=False)
        for seed in range(1, rounds + 1):
            for prompt in prompts.prompts:
                for reply in (_by_gaiad(daemon, prompt, seed, depth), _by_bare(daemon, prompts, prompt, seed)):
                    replies.append(reply)
                    print(_line(reply), file=sys.stderr, flush=True)
    if as_json:
        print(msgspec.json.encode(replies).decode())
    else:
        print("\n".join(table(replies)))
    return replies


def table(replies: Sequence[Reply]) -> list[str]:
    """What the replies come to, gaiad's beside the bare model's."""
    kinds = list(dict.fromkeys(reply.kind for reply in replies))
    sides = {side: [reply for reply in replies if reply.side == side] for side in ("gaiad", "bare")}
    lines = [f"{'':<28}{'gaiad':>10}{'bare':>10}"]

    def row(what: str, values: list[str]) -> None:
        lines.append(f"{what:<28}{values[0]:>10}{values[1]:>10}")

    for kind in (*kinds, ""):
        own = [[one for one in side if kind in ("", one.kind)] for side in sides.values()]
        row(f"right, {kind or 'all'}", [f"{sum(one.right for one in side)}/{len(side)}" for side in own])
    without = [[one for one in side if one.kind not in _MEMORY] for side in sides.values()]
    if all(without):
        row("right without memory", [f"{sum(one.right for one in side)}/{len(side)}" for side in without])
    for what in ("leaked", "looped", "ended"):
        row(what, [f"{sum(getattr(one, what) for one in side)}/{len(side)}" for side in sides.values()])
    row("first word, ms (median)", [f"{_median(side, 'first_ms'):.0f}" for side in sides.values()])
    later = [[one for one in side if one.later_turn] for side in sides.values()]
    if all(later):
        row("first word, later turn, ms", [f"{_median(side, 'first_ms'):.0f}" for side in later])
    row("whole answer, ms (median)", [f"{_median(side, 'whole_ms'):.0f}" for side in sides.values()])
    row("whole answer, ms (sum)", [f"{sum(one.whole_ms for one in side):.0f}" for side in sides.values()])
    row("words (median)", [f"{statistics.median(len(o.text.split()) for o in side):.0f}" for side in sides.values()])
    return lines


def _median(replies: Sequence[Reply], field: str) -> float:
    return float(statistics.median(getattr(reply, field) for reply in replies))


def _line(reply: Reply) -> str:
    marks = [name for name in ("leaked", "looped") if getattr(reply, name)] + ([] if reply.ended else ["not ended"])
    verdict = "right" if reply.right else "WRONG"
    text = " ".join(reply.text.split())[:_SHOWN_CHARACTERS]
    return f"{reply.side:5} {verdict} {reply.whole_ms / 1000:5.1f} s {' '.join(marks)}| {reply.say} -> {text}"


def _remember(daemon: BenchDaemon, prompts: PromptSet) -> None:
    """The pages as packets of the daemon's archive."""
    folder = daemon.home.parent / "packets"
    folder.mkdir()
    for page in prompts.pages.values():
        day = page.id.removeprefix("tp-")
        made = f"{day[:4]}-{day[4:6]}-{day[6:8]}T{day[9:11]}:{day[11:13]}:{day[13:15]}Z"
        (folder / f"{page.id}.xml").write_text(
            '<transmission_packet xmlns="http://docs.google.com/transmission_packet_revised.xsd" version="2.0">'
            f"<header><id>{page.id}</id><timestamp>{made}</timestamp><original_model>none</original_model>"
            f"<topic>{escape(page.topic)}</topic></header>"
            f"<body><summary>{escape(page.topic)}</summary><content>{escape(page.text)}</content></body>"
            "</transmission_packet>",
            encoding="utf-8",
        )
    if prompts.pages:
        daemon.ingest(folder)


def _by_gaiad(daemon: BenchDaemon, prompt: BenchPrompt, seed: int, depth: Depth) -> Reply:
    session = ""
    for message in prompt.say:
        request = ChatRequest(message=message, session_id=session, seed=seed, depth=depth)
        daemon.await_quiet()
        timed = _Timed(daemon.client.chat_events(request))
        session = timed.done["session_id"]
    records = daemon.client.cognition_packets("local", 50, session)
    packets = [record for record in records if record.packet["turn_id"] == timed.done["turn_id"]]
    written = [record for record in packets if record.reply]
    fields = ("identity", "persona", "role_text", "task_instruction")
    own = [record.packet.get(field, "") for record in packets for field in fields]
    return Reply(
        side="gaiad",
        kind=prompt.kind,
        say=prompt.say[-1],
        text=timed.done["answer"],
        right=prompt.right(timed.done["answer"]),
        leaked=leaks(timed.done["answer"], own, prompt.say),
        looped=loops(timed.done["answer"]),
        ended=bool(written) and all(record.reply["reason"] != "length" for record in written),
        first_ms=timed.first_ms,
        whole_ms=timed.whole_ms,
        later_turn=len(prompt.say) > 1,
    )


def _by_bare(daemon: BenchDaemon, prompts: PromptSet, prompt: BenchPrompt, seed: int) -> Reply:
    """The same words in the model's own template, its pages as plain text before the question, llama.cpp's sampling."""
    pages = [prompts.pages[name].text for name in prompt.pages]
    messages: list[ChatTurn] = []
    for message in prompt.say:
        messages.append(ChatTurn(role="user", content="\n\n".join([*pages, message])))
        body = GenerateBody(messages=messages, seed=seed, max_tokens=_REPLY_TOKENS, min_p=0.05, role="prime")
        daemon.await_quiet()
        timed = _Timed(daemon.client.generate_events(body))
        messages = [*messages, ChatTurn(role="assistant", content=timed.done["text"])]
    text = timed.done["text"]
    return Reply(
        side="bare",
        kind=prompt.kind,
        say=prompt.say[-1],
        text=text,
        right=prompt.right(text),
        leaked=False,
        looped=loops(text),
        ended=timed.done["reason"] != "length",
        first_ms=timed.first_ms,
        whole_ms=timed.whole_ms,
        later_turn=len(prompt.say) > 1,
    )


class _Timed:
    """Reads events to their end: `done` is the last one's data, the times count from the request on."""

    def __init__(self, events: Iterator[Any]) -> None:
        started, self.first_ms, self.done = time.perf_counter(), 0.0, dict[str, Any]()
        for event in events:
            if event.event == "delta" and not self.first_ms:
                self.first_ms = (time.perf_counter() - started) * 1000
            if event.event == "error":
                raise Unavailable(f"the request under measurement failed: {event.data}")
            if event.event == "done":
                self.done = event.data
        self.whole_ms = (time.perf_counter() - started) * 1000
        self.first_ms = self.first_ms or self.whole_ms
