"""Google Takeout's "My Activity" of Gemini, JSON or HTML: an entry is one prompt with its answer, the newest first.

Entries that name their conversation (a link to gemini.google.com/app/...) are joined to it; every other entry is a
conversation of its own, for nothing in the file says which belong together.
"""

import hashlib
import itertools
import re
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import Any

import msgspec

from gaiad.archive.importing.json_stream import Unreadable, lenient_text
from gaiad.archive.importing.kind import Item, Kind, as_dict, as_list, as_text, dicts, joined, named
from gaiad.archive.importing.local_times import shown_time
from gaiad.archive.importing.sample import ExportRecord, Problem, Sample
from gaiad.archive.reading.conversation import Conversation, Message, iso_time

_BLOCKS = frozenset(("p", "div", "ul", "ol", "table", "blockquote", "pre", "h1", "h2", "h3", "h4", "h5", "h6", "hr"))
_SILENT = frozenset(("script", "style", "head"))
_GAPS = re.compile(r"\n{3,}")
_SPACES = re.compile(r"[ \t\r\f\v]+")


class _ActivityParser(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self.links: list[str] = []
        self.silent = self.code = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _SILENT:
            self.silent += 1
        elif tag == "br":
            self.parts.append("\n")
        elif tag == "li":
            self.parts.append("\n- ")
        elif tag == "tr":
            self.parts.append("\n")
        elif tag in ("td", "th"):
            self.parts.append(" | ")
        elif tag == "a":
            self.links.append(dict(attrs).get("href") or "")
        elif tag in _BLOCKS:
            self.parts.append(f"\n\n{'#' * int(tag[1]) + ' ' if tag[0] == 'h' and tag[1].isdigit() else ''}")
        if tag == "pre":
            self.code += 1
            self.parts.append("```\n")

    def handle_endtag(self, tag: str) -> None:
        if tag in _SILENT:
            self.silent = max(0, self.silent - 1)
        elif tag == "pre":
            self.code = max(0, self.code - 1)
            self.parts.append("\n```\n\n")
        elif tag == "a" and self.links:
            address = self.links.pop()
            if address.startswith("http") and address not in "".join(self.parts[-2:]):
                self.parts.append(f" ({address})")
        elif tag in _BLOCKS:
            self.parts.append("\n\n")

    def handle_data(self, data: str) -> None:
        if not self.silent:
            self.parts.append(data if self.code else _SPACES.sub(" ", data.replace("\n", " ")))


def html_text(markup: str) -> str:
    """The words of `markup`; text without markup comes back trimmed."""
    reader = _ActivityParser()
    reader.feed(markup)
    reader.close()
    lines = (
        line.rstrip() if line.startswith(("    ", "```")) else line.strip()
        for line in "".join(reader.parts).split("\n")
    )
    return _GAPS.sub("\n\n", "\n".join(lines)).strip()


_THREAD = re.compile(r"gemini\.google\.com/(?:u/\d+/)?(?:app(?:/c)?|gem/[\w-]+)/([\w-]{8,})")
_PREFIXES = (  # in files with too few entries to see what they share
    "Prompted", "Asked", "Said", "Submitted query", "Added chat from link:", "Eingegebener Prompt:",
    "Gav instruktionen", "送信したメッセージ:", "プロンプト:", "已提示:", "Vous avez dit", "Has dicho:",
    "Hiciste la petición", "Preguntado:", "Υποβλήθηκε το ερώτημα",
)  # fmt: skip
_SAMPLE_TITLES = 200
_PREFIX_CHARS = 48
_HELD_BYTES = 64 * 1024 * 1024
_THREAD_MAX_BYTES = 24 * 1024 * 1024
_THREAD_ENTRIES = 20_000
_CELL = b'<div class="outer-cell'
_BODY = re.compile(
    r'<div class="content-cell[^"]*body-1">(.*?)</div>\s*(?:<div class="content-cell|</div>|\Z)', re.DOTALL
)
_TIME_OF_DAY = re.compile(r"\d:\d\d:\d\d")
_FILE_LINE = re.compile(r"""\s*-\s*(?:&nbsp;)?\s*<a\b[^>]*\bhref=["'](?!\w+://)[^>]*>(.*?)</a>\s*""", re.DOTALL)
_COUNT_LINE = re.compile(r"\D{0,40}\d+\D{0,60}")
_BREAK = re.compile(r"<br\s*/?>|(?=<(?:p|ul|ol|h\d|pre|table|div|blockquote)\b)")


@dataclass(slots=True)
class _Exchange:
    """One prompt and its answer; `thread` is "" when it names no conversation."""

    prompt: str
    answer: str
    time: str
    thread: str
    raw: bytes


# ------------------------------------------------------------------------------------------------------------- JSON


def _recognises(sample: Sample) -> bool:
    if sample.form == "html":
        return b"mdl-cell" in sample.head and (b"outer-cell" in sample.head or b"My Activity" in sample.head)
    return any(_is_activity(record.value) for record in sample.first)


def _is_activity(value: Any) -> bool:
    entry = as_dict(value)
    products = " ".join(each for each in as_list(entry.get("products")) if isinstance(each, str))
    about = f"{as_text(entry.get('header'))} {products}"
    return "title" in entry and "time" in entry and ("Gemini" in about or "Bard" in about)


def _entries(sample: Sample) -> Iterator[_Exchange | Problem]:
    prefix = _prefix([as_text(as_dict(record.value).get("title")) for record in _records(sample, _SAMPLE_TITLES)])
    for record in sample.records():
        if isinstance(record, Problem):
            yield record
        elif _is_activity(record.value) and (entry := _entry(record, prefix)) is not None:
            yield entry


def _records(sample: Sample, most: int) -> Iterator[ExportRecord]:
    for number, record in enumerate(sample.records()):
        if number >= most:
            return
        if isinstance(record, ExportRecord) and as_list(as_dict(record.value).get("safeHtmlItem")):
            yield record


def _entry(record: ExportRecord, prefix: str) -> _Exchange | None:
    value = as_dict(record.value)
    answer = joined(html_text(as_text(each.get("html"))) for each in dicts(value.get("safeHtmlItem")))
    answer = answer or html_text(as_text(value.get("description")))
    title = as_text(value.get("title"))
    prompt = _without_prefix(title, prefix)
    if not answer and prompt == title.strip():
        return None  # feedback, a setting, a visit: nobody said anything
    files = [as_text(each.get("name")) for each in dicts(value.get("attachedFiles"))]
    files += [each for each in as_list(value.get("attachedFiles")) if isinstance(each, str)]
    pictures = [as_text(value.get("imageFile"))] if value.get("imageFile") else []
    shown = [*(named("file", each) for each in files if each), *(named("image", each) for each in pictures if each)]
    links = [as_text(value.get("titleUrl"))]
    links += [as_text(each.get("url")) for key in ("details", "subtitles") for each in dicts(value.get(key))]
    thread = next((found[1] for link in links if (found := _THREAD.search(link))), "")
    return _Exchange(joined((prompt, "\n".join(shown))), answer, iso_time(value.get("time")), thread, record.raw)


def _prefix(titles: list[str]) -> str:
    """What the person's language puts before every prompt: the start that most titles share, up to a space or colon."""
    plain = [" ".join(title.split()) for title in titles if title]
    first = Counter(title.split(" ", 1)[0] for title in plain).most_common(1)
    if len(plain) < 3 or first[0][1] < 0.8 * len(plain):
        return ""
    shared = [title for title in plain if title.split(" ", 1)[0] == first[0][0]]
    low, high = min(shared), max(shared)
    length = next(
        (at for at, pair in enumerate(zip(low, high, strict=False)) if pair[0] != pair[1]), min(len(low), len(high))
    )
    cut = max(low.rfind(" ", 0, length), low.rfind(":", 0, length))
    return low[: cut + 1].strip() if 0 < cut < _PREFIX_CHARS else ""


def _without_prefix(title: str, prefix: str) -> str:
    """The prompt with its line breaks, without what is before it; spaces may be U+00A0 or U+202F."""
    for known in (*_PREFIXES, prefix):
        words = known.rstrip(":").split()
        colon = r"\s*[:：]\s*" if known.endswith(":") else r"(?:\s*[:：])?\s+"
        found = re.match(r"\s*" + r"\s+".join(map(re.escape, words)) + colon, title) if words else None
        if found:
            return title[found.end() :].strip()
    return title.strip()


# ------------------------------------------------------------------------------------------------------------- HTML


def _cells(sample: Sample) -> Iterator[bytes]:
    """The activity's cells, a chunk at a time. Raises Unreadable for one beyond all measure."""
    rest, begun = b"", False
    for chunk in sample.source.chunks():
        *cells, rest = (rest + chunk).split(_CELL)
        for cell in cells:
            if begun:
                yield cell
            begun = True
        if len(rest) > _HELD_BYTES:
            raise Unreadable("has an entry that does not end; export it again")
    if begun:
        yield rest


def _html_entries(sample: Sample) -> Iterator[_Exchange | Problem]:
    prefix = _prefix([shown.title for shown, _ in itertools.islice(_shown_cells(sample), _SAMPLE_TITLES)])
    for shown, raw in _shown_cells(sample):
        prompt = _without_prefix(shown.title, prefix)
        if not shown.answer and prompt == shown.title.strip():
            continue
        files = "\n".join(named("file", each) for each in shown.files)
        yield _Exchange(joined((prompt, files)), shown.answer, shown.time, shown.thread, raw)


@dataclass(frozen=True, slots=True)
class _Shown:
    """A cell as a person sees it: the title as displayed, and the names of attached files."""

    title: str
    files: list[str]
    answer: str
    time: str
    thread: str


def _shown_cells(sample: Sample) -> Iterator[tuple[_Shown, bytes]]:
    """Gemini's cells that have a time, with their bytes."""
    for raw in _cells(sample):
        cell = lenient_text(raw)
        body = _BODY.search(cell)
        if body is None or ("Gemini" not in cell and "Bard" not in cell):
            continue
        shown = _shown(body[1], cell, sample)
        if shown is not None:
            yield shown, raw


def _shown(body: str, cell: str, sample: Sample) -> _Shown | None:
    """The lines up to the time are the prompt and what was attached, the rest is the answer."""
    position = 0
    lines, files = list[str](), list[str]()
    for found in _BREAK.finditer(body):
        markup = body[position : found.start()]
        position = found.end()
        line = html_text(markup)
        time = shown_time(line, sample.zone) if _TIME_OF_DAY.search(line) else ""
        if time:
            thread = _THREAD.search(cell)
            answer = html_text(body[position:])
            return _Shown("\n".join(lines), files, answer, time, thread[1] if thread else "")
        attached = _FILE_LINE.fullmatch(markup)
        if attached:
            if not files and len(lines) > 1 and _COUNT_LINE.fullmatch(lines[-1]):
                lines.pop()  # "Attached 1 file."
            files.append(html_text(attached[1]))
        elif line:
            lines.append(line)
    return None


# ---------------------------------------------------------------------------------------------------- conversations


class _Thread:
    """The entries of one conversation, packed: all of a file's have to be held until its end."""

    def __init__(self) -> None:
        self._packed: list[bytes] = []
        self._size = 0
        self.too_long = False

    def take(self, entry: _Exchange) -> int:
        """How many bytes it holds more."""
        self._size += len(entry.raw)
        self.too_long = self.too_long or self._size > _THREAD_MAX_BYTES or len(self._packed) >= _THREAD_ENTRIES
        if self.too_long:
            self._packed.clear()
            return 0
        self._packed.append(zlib.compress(msgspec.msgpack.encode(entry), 1))
        return len(self._packed[-1])

    def entries(self) -> list[_Exchange]:
        return [msgspec.msgpack.decode(zlib.decompress(each), type=_Exchange) for each in self._packed]


def _read(sample: Sample) -> Iterator[Item]:
    threads: dict[str, _Thread] = {}
    held = 0
    for entry in _html_entries(sample) if sample.form == "html" else _entries(sample):
        if isinstance(entry, Problem):
            yield entry
        elif not entry.thread:
            yield _conversation(_own_id(entry), [entry])
        else:
            held += threads.setdefault(entry.thread, _Thread()).take(entry)
            if held > _HELD_BYTES:
                raise Unreadable("is too large to join its conversations; let Takeout split the archive")
    for name, thread in threads.items():
        if thread.too_long:
            yield Problem(f"conversation {name}", "is longer than one conversation may be")
        else:
            yield _conversation(name, sorted(thread.entries(), key=lambda each: each.time.rstrip("Z")))


def _own_id(entry: _Exchange) -> str:
    return f"{entry.time or 'undated'}-{hashlib.sha256(entry.prompt.encode()).hexdigest()[:8]}"


def _conversation(name: str, entries: list[_Exchange]) -> Conversation:
    return Conversation(
        kind="gemini_takeout",
        id=name,
        title="",
        messages=[
            Message(id=f"{_own_id(entry)}-{speaker}", speaker=speaker, text=text, time=entry.time)
            for entry in entries
            for speaker, text in (("user", entry.prompt), ("assistant", entry.answer))
            if text
        ],
        raw=b"\n".join(entry.raw for entry in entries),
    )


TAKEOUT = Kind("gemini_takeout", "Gemini activity of Google Takeout", _recognises, _read)
