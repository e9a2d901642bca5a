"""A conversation written down by hand or copied from a page: each turn opens with a line that names who speaks.

Nothing but the names and their form tells such a file from a glossary, a play or a log, so a file is a transcript only
when all its turns open in one form, both sides speak, and nobody else speaks between them.
"""

import re
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta, tzinfo
from itertools import pairwise
from pathlib import PurePosixPath
from typing import NamedTuple

from gaiad.archive.importing.json_stream import lenient_text
from gaiad.archive.importing.kind import Item, Kind, place_of, same_file, without_elements
from gaiad.archive.importing.local_times import local_time, shown_time
from gaiad.archive.importing.sample import Sample
from gaiad.archive.reading.conversation import Conversation, Message, iso_time

_TEXT_MAX_BYTES = 64 * 1024 * 1024
_LEAD_MAX_LINES, _LEAD_MAX_CHARS = 8, 600
_SUFFIXES = (".txt", ".md", ".markdown", ".log", "")

# Names by side. The certain ones name a chat program or what only a copied page says; the others name anybody.
_MINE = frozenset(
    ("user", "human", "me", "you", "prompt", "benutzer", "nutzer", "ich", "du", "utilisateur", "moi", "vous", "tu",
     "usuario", "yo", "tú", "usted", "utente", "io", "usuário", "eu", "você", "gebruiker", "ik", "jij",
     "用户", "我", "你", "ユーザー", "あなた",
     "пользователь", "я", "вы")
)  # fmt: skip
_THEIRS = frozenset(("ai", "model", "bot", "llm", "response", "ki", "ia", "ии"))
_INSTRUCTIONS = frozenset(("system", "system prompt", "system message"))
_SAID = re.compile(
    r"(?P<mine>you said|du hast gesagt|sie sagten|vous avez dit|tu as dit|dijiste|has dicho|hai detto|você disse|你说)"
    r"|.+ (?:said|hat gesagt|a dit|dijo|ha detto|disse|说)"
)
_PROGRAM = re.compile(
    r"assistant|ki-assistent|assistent|asistente|assistente|助手|アシスタント|ассистент"
    r"|(?:o )?(?:(?:microsoft|github|google|meta|openai|anthropic) )?"
    r"(?:chatgpt|claude|gemini|bard|grok|copilot|gpt|bing|deepseek|perplexity|mistral|mixtral|le chat|llama|qwen|kimi"
    r"|gemma|o[1-9](?=$|[ -]))"
    r"(?:[ -]?(?:[\w.]*\d[\w.]*|opus|sonnet|haiku|pro|flash|mini|nano|turbo|ultra|large|medium|small|plus|chat|code|ai"
    r"|advanced|instruct|preview|thinking)){0,4}"
)

_CLOCK = r"\d{1,2}[:h]\d\d(?::\d\d)?(?:\.\d+)?(?:[ \u202f]?[apAP]\.?[mM]\.?)?(?:Z|[+-]\d\d:?\d\d)?"
_MOMENT = rf"(?:\d[\d./-]{{5,9}},?[ T])?{_CLOCK}"
_TIME = re.compile(r"\d[:h.,/-] ?\d")
_SIGN = r"(?:[^\w\s\[\]()*_#+•<>:：|\"'`~^=/\\-]{1,4}[ \t]+)?"
_MARK = r"(?:\*\*|__|\*|_|\])"
_SPACE = r"[ \t\u00a0\u202f]"
_OPENING = re.compile(
    rf"^[ \t]{{0,3}}(?P<quote>>[ \t]?)?(?P<bullet>[-*+•][ \t]+)?(?P<heading>(?:\#{{1,6}}|[=-]{{2,9}})[ \t]+)?"
    rf"(?P<around>\*\*|__)?"
    rf"(?:(?P<before>[\[(][^\])\n\d]{{0,20}}\d[^\])\n]{{0,39}}[\])]|{_MOMENT})[ \t]*(?:[-–—|][ \t]+)?)?"
    rf"{_SIGN}(?P<mark>\*\*|__|\*|_|\[)?{_SIGN}"
    r"(?P<name>[^\W\d_](?:[^\n:：*\[\]()<>|\#{}`\"=/,;!?]{0,38}?[\w])??)"
    rf"{_MARK}?(?:{_SPACE}*(?:{_MARK}?[\[(](?P<after>[^\])\n]{{1,40}})[\])]|(?:[,@|–—-]{_SPACE}*|{_SPACE})(?P<at>{_MOMENT})))?"
    rf"{_MARK}?(?P<sign>{_SPACE}*[:：]{_MARK}?|>(?=[ \t])|[ \t]+[-–—](?=[ \t])|(?:[ \t]+[=-]{{2,9}})?[ \t]*$)[ \t]*",
    re.MULTILINE,
)
_FENCE = re.compile(r"^[ \t]{0,3}(`{3,}|~{3,})(.*)$", re.MULTILINE)
_QUESTION = re.compile(r"[?？؟]")
_FOLDED = re.compile(  # what a model thought, as page savers fold it
    r"<(details)>\s{0,9}<summary>[^<\n]{0,99}?(?:reasoning|thinking|thought)[^<\n]{0,99}</summary>", re.IGNORECASE
)
_BELOW = re.compile(r"\s*^\[Timestamp: (\d{4}/\d\d/\d\d \d\d:\d\d:\d\d)\]\s*\Z", re.MULTILINE)  # Obsidian's Copilot
_FIRST_LINE = re.compile(r"\s*(?P<mark>[*_(\[]*)(?P<time>[^*_()\[\]\n]{4,40})[*_)\]]*(?:[ \t]*\n|(?<=[\])])[ \t]+)")
_CLOCK_ALONE = re.compile(rf"\s*(?:{_CLOCK})\s*", re.IGNORECASE)
_EITHER_ORDER = re.compile(r"\b(?:0?\d|1[0-2])/(?:0?\d|1[0-2])/(?!.*[ap]\.?m)", re.IGNORECASE)
_LEAD_FIELD = re.compile(r"^[*_]*(title|date|created)[*_]*:[*_ \t]*[\"']?(.+?)[\"'*_]*[ \t]*$", re.MULTILINE | re.I)
_FRONT_MATTER = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)


class _Form(NamedTuple):
    """What the lines that open a turn look like; `sign` is "-" or ">" behind the name, "" for a colon or nothing."""

    quote: bool
    bullet: bool
    heading: bool
    timed: bool
    mark: str
    sign: str


class _Opening(NamedTuple):
    """A line that may open a turn: `side` is user, assistant, system, or "" for a name of nobody known.

    `certain` when only a chat names somebody so. The line begins at `start`, the words at `words`.
    """

    form: _Form
    name: str
    side: str
    certain: bool
    time: str
    start: int
    words: int


def _openings(text: str) -> list[_Opening]:
    """All lines that may open a turn, those inside code left out."""
    fences = _fences(text)
    at = 0
    found: list[_Opening] = []
    for line in _OPENING.finditer(text):
        while at < len(fences) and fences[at][1] <= line.start():
            at += 1
        if at == len(fences) or line.start() < fences[at][0]:
            found += _opening(line)
    return found


def _opening(line: re.Match[str]) -> Iterator[_Opening]:
    sign = line["sign"].strip()
    time = line["after"] or line["at"] or (line["before"] or "").strip("[]()")
    time = time if _TIME.search(time) else ""
    mark = (line["mark"] or line["around"] or "").replace("__", "**").replace("_", "*")
    shown = bool(line["heading"] or mark or time)
    side, certain = _side(line["name"].lower(), plain=not (line["heading"] or mark), colon=sign[:1] in ("：", ":"))
    if not sign and not shown and not side:
        return  # any short line of a text
    form = _Form(
        bool(line["quote"]),
        bool(line["bullet"]),
        bool(line["heading"]),
        bool(line["before"]),
        mark,
        "-" if sign in ("-", "–", "—") else ">" if sign == ">" else "" if sign or shown else "line",
    )
    yield _Opening(form, line["name"], side, certain, time, line.start(), line.end())


def _side(name: str, *, plain: bool, colon: bool) -> tuple[str, bool]:
    """Whose name it is ("" for nobody's), and whether only a chat has such a name."""
    said = _SAID.fullmatch(name)
    if said:
        return "user" if said["mine"] else "assistant", True
    if name in ("prompt", "response") and (plain or not colon):
        return "", False
    if name in _INSTRUCTIONS:
        return "system", False
    if name in _MINE:
        return "user", False
    return ("assistant", bool(_PROGRAM.fullmatch(name))) if name in _THEIRS or _PROGRAM.fullmatch(name) else ("", False)


def _fences(text: str) -> list[tuple[int, int]]:
    """Where code blocks begin and end; one that is never closed is none."""
    found, opened, begun = list[tuple[int, int]](), "", 0
    for fence in _FENCE.finditer(text):
        if not opened:
            opened, begun = fence[1], fence.start()
        elif fence[1].startswith(opened) and not fence[2].strip():
            found.append((begun, fence.end()))
            opened = ""
    return found


def _form_of(text: str) -> _Form | None:
    """The form of a transcript's turns, None for what is no transcript."""
    openings = _openings(text)
    forms = dict.fromkeys(each.form for each in openings if each.side)
    return next((form for form in forms if _holds([each for each in openings if each.form == form], text)), None)


def _holds(openings: Sequence[_Opening], text: str) -> bool:
    """Whether the lines of one form open the turns of a conversation between a person and a program."""
    timed = all(each.time for each in openings if each.side)
    openings = [each for each in openings if each.side or each.time or not timed]
    first = next(number for number, each in enumerate(openings) if each.side)
    turns = [each for each in openings if each.side]
    sides = [each.side for each in turns if each.side != "system"]
    exchanges = sum(pair == ("user", "assistant") for pair in pairwise(sides))
    programs = {each.name.lower() for each in turns if each.side == "assistant"}
    if not exchanges or sides.count("user") < len(programs) or len(sides) > 3 * exchanges + 1:
        return False
    lead, others = openings[:first], [each for each in openings[first:] if not each.side]
    speak_again = {each.name.lower() for each in lead} & {each.name.lower() for each in others}
    if speak_again or not _is_lead(text, lead, turns[0].start):
        return False
    certain = any(each.certain for each in turns)
    said = any(_SAID.fullmatch(each.name.lower()) for each in turns)
    if turns[0].form.sign == "line":  # names alone on plain lines
        return certain and (said or exchanges > 1) and sides == ["user", "assistant"] * (len(sides) // 2)
    if others and (timed or not certain or turns[0].form.sign or turns[0].form.bullet):
        return not timed and _only_in_answers(openings[first:])
    if exchanges > 1 or timed or said:
        return True
    return _is_exchange(turns, text, alone=certain and not others and not turns[0].form.sign)


def _is_exchange(turns: Sequence[_Opening], text: str, *, alone: bool) -> bool:
    """Whether a single question and answer are one: the person asks, or nothing but the two is in the file."""
    ends = [*(each.start for each in turns[1:]), len(text)]
    if any(
        each.side == "user" and _QUESTION.search(text, each.words, end) for each, end in zip(turns, ends, strict=True)
    ):
        return True
    return alone and all(line.startswith("#") for line in text[: turns[0].start].splitlines() if line.strip())


def _is_lead(text: str, named: Sequence[_Opening], end: int) -> bool:
    """Whether what is above the first turn is a title or the like: short, and set off from the turns."""
    lead = _FRONT_MATTER.sub("", text[:end])
    lines = lead.splitlines()
    if len([line for line in lines if line.strip()]) > _LEAD_MAX_LINES or len(lead) > _LEAD_MAX_CHARS:
        return False
    return not named or text[named[-1].start : end].rstrip(" \t").endswith("\n\n")


def _only_in_answers(openings: Sequence[_Opening]) -> bool:
    """Whether lines that look like turns of others are in answers alone, each name once: headings, remarks, lists."""
    above, seen = "", set[str]()
    for each in openings:
        if not each.side and (above == "user" or each.name.lower() in seen):
            return False
        seen |= {each.name.lower()} if not each.side else set()
        above = each.side or above
    sides = [each.side for each in openings if each.side]
    return sides.count("user") > 1


def _recognises(sample: Sample) -> bool:
    if sample.form != "text" or sample.source.suffix not in _SUFFIXES:
        return False
    return _form_of(sample.text.replace("\r\n", "\n")) is not None


class _Times:
    """Times as people write them: a clock alone goes on from the day that is known."""

    def __init__(self, day: str, zone: tzinfo) -> None:
        self._day, self._zone = day, zone

    def read(self, text: str) -> str:
        """UTC ISO 8601; "" for what is not a time, or where day and month cannot be told apart."""
        if not _CLOCK_ALONE.fullmatch(text):
            found = "" if _EITHER_ORDER.search(text) else local_time(text, self._zone) or shown_time(text, self._zone)
        elif not self._day:
            return ""
        else:
            local = datetime.fromisoformat(self._day).astimezone(self._zone)
            found = shown_time(f"{local:%Y-%m-%d} {text}", self._zone)
            if found and found < self._day:  # past midnight
                found = shown_time(f"{local + timedelta(days=1):%Y-%m-%d} {text}", self._zone)
        self._day = found or self._day
        return found


def _read(sample: Sample) -> Iterator[Item]:
    data = sample.source.text_bytes(_TEXT_MAX_BYTES)
    text = lenient_text(data).replace("\r\n", "\n")
    form = _form_of(sample.text.replace("\r\n", "\n"))
    turns = [each for each in _openings(text) if each.form == form and each.side]
    ends = [*(each.start for each in turns[1:]), len(text)]
    lead = text[: turns[0].start]
    fields = {name.lower(): value for name, value in _LEAD_FIELD.findall(lead)}
    dated = local_time(fields.get("date") or fields.get("created", ""), sample.zone)
    times = _Times(dated, sample.zone)
    messages: list[Message] = []
    for turn, end in zip(turns, ends, strict=True):
        words = without_elements(text[turn.words : end], _FOLDED)
        if turn.form.quote:
            words = re.sub(r"(?m)^>[ \t]?", "", words)
        time, words = _timed(turn.time, words, times)
        if words:
            mine = turn.side != "assistant"
            messages.append(
                Message(
                    id=f"message-{len(messages)}",
                    speaker="user" if mine else "assistant",
                    text=words,
                    time=time,
                    model="" if mine or not re.search(r"\d", turn.name) else turn.name,
                    part="instructions" if turn.side == "system" else "transcript",
                )
            )
    headings = [line.lstrip("# ").strip() for line in lead.splitlines() if line.startswith("# ")]
    stem = PurePosixPath(sample.source.name).stem.replace("-", " ").replace("_", " ")
    changed = iso_time(sample.source.modified_ms)
    yield Conversation(
        kind="transcript",
        id=place_of(sample, data),
        title=fields.get("title") or next(iter(headings), "") or stem,
        messages=messages,
        raw=data,
        created=dated or changed,
        updated=changed,
        labels={"begins": (same_file(sample, data),)},
    )


def _timed(time: str, words: str, times: _Times) -> tuple[str, str]:
    """A turn's time and its words, without a time that is written above or below them."""
    words = words.strip().removesuffix("---").strip()
    if below := _BELOW.search(words):
        return times.read(below[1].replace("/", "-")), words[: below.start()].strip()
    above = _FIRST_LINE.match(f"{words}\n") if not time else None
    if above and (above["mark"] or not _CLOCK_ALONE.fullmatch(above["time"])):
        moment = times.read(above["time"])
        if moment or _CLOCK_ALONE.fullmatch(above["time"]):
            return moment, words[above.end() :].strip()
    return times.read(time), words


TRANSCRIPT = Kind("transcript", "written transcript", _recognises, _read)
