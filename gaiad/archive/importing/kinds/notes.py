"""Markdown notes, an Obsidian vault's among them: a file is a note, with its headings, wiki links and tags."""

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from gaiad.archive.importing.json_stream import lenient_text
from gaiad.archive.importing.kind import Item, Kind, place_of, same_file
from gaiad.archive.importing.local_times import local_time
from gaiad.archive.importing.sample import Sample
from gaiad.archive.reading.conversation import Conversation, Message, iso_time

_TEXT_MAX_BYTES = 8 * 1024 * 1024
_SUFFIXES = frozenset((".md", ".markdown", ".mdx"))
_FRONT = re.compile(r"\A---[ \t]*\n(.*?)\n(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_FIELD = re.compile(r"^([A-Za-z_][\w -]*):[ \t]*(.*)$")
_HEADING = re.compile(r"^(#{1,3})[ \t]+(.+?)[ \t]*#*$")
_FENCE = re.compile(r"^[ \t]*(```|~~~)")
_TAG = re.compile(r"(?<![\w/#&])#([^\W\d][\w/-]*)")
_LINK = re.compile(r"!?\[\[([^\]|#\n]+)")
_DAY = re.compile(r"(?<!\d)(\d{4}-\d\d-\d\d)(?!\d)")
_DATES = ("date", "created", "created_at", "creation date", "updated", "modified")


def _recognises(sample: Sample) -> bool:
    return sample.source.suffix in _SUFFIXES and sample.form in ("text", "xml", "html", "array", "object")


def _read(sample: Sample) -> Iterator[Item]:
    data = sample.source.text_bytes(_TEXT_MAX_BYTES)
    text = lenient_text(data).replace("\r\n", "\n")
    front = _FRONT.match(text)
    fields = _fields(front[1]) if front else {}
    body = text[front.end() :] if front else text
    sections = _sections(body)
    messages = (
        [Message(id="front matter", speaker="", text=front[1], part="content")] if front and front[1].strip() else []
    )
    messages += [Message(id=path, speaker="", text=words, part="content") for path, words in sections]
    stem = PurePosixPath(sample.source.name).stem
    changed = iso_time(sample.source.modified_ms)
    day = _DAY.search(stem)
    dates = [date for key in _DATES for value in fields.get(key, []) if (date := local_time(value, sample.zone))]
    yield Conversation(
        kind="note",
        id=place_of(sample, data),
        title=(fields.get("title") or [stem])[0] or stem,
        messages=messages,
        raw=data,
        created=dates[0] if dates else local_time(day[1], sample.zone) if day else changed,
        updated=changed,
        tags=tuple(dict.fromkeys([*(each.lstrip("#") for each in fields.get("tags", [])), *_tags(body)])),
        labels={
            name: values
            for name, values in (
                ("alias", tuple(fields.get("aliases", []))),
                ("link", tuple(dict.fromkeys(each.strip() for each in _LINK.findall(body)))),
                ("begins", (same_file(sample, data),)),
            )
            if values
        },
    )


def _fields(front: str) -> dict[str, list[str]]:
    """The front matter's fields, each as a list of plain values; what is nested deeper stays in the text only."""
    found: dict[str, list[str]] = {}
    key = ""
    for line in front.split("\n"):
        field = _FIELD.match(line)
        if field:
            key = field[1].strip().lower()
            value = field[2].strip()
            inner = value[1:-1] if value.startswith("[") and value.endswith("]") else value
            parts = inner.split(",") if inner != value or key in ("tags", "aliases") else [value]
            found[key] = [each.strip().strip("\"'") for each in parts if each.strip()]
        elif key and line.lstrip().startswith("- "):
            found[key].append(line.lstrip()[2:].strip().strip("\"'"))
    return {"tags": found.get("tag", []), "aliases": found.get("alias", []), **found}


def _sections(body: str) -> list[tuple[str, str]]:
    """(path of headings, text with its heading) down to the third level; code fences hold no headings."""
    sections: list[tuple[str, list[str]]] = [("", [])]
    path: list[str] = []
    fence = ""
    for line in body.split("\n"):
        mark = _FENCE.match(line)
        if mark:
            fence = "" if fence == mark[1] else fence or mark[1]
        heading = None if fence or mark else _HEADING.match(line)
        if heading:
            level = len(heading[1])
            path = [*path[: level - 1], heading[2]]
            sections.append((" / ".join(each for each in path if each), []))
        sections[-1][1].append(line)
    return [(name, words) for name, lines in sections if (words := "\n".join(lines).strip())]


def _tags(body: str) -> list[str]:
    fence = ""
    found: list[str] = []
    for line in body.split("\n"):
        mark = _FENCE.match(line)
        if mark:
            fence = "" if fence == mark[1] else fence or mark[1]
        elif not fence:
            found += _TAG.findall(re.sub(r"`[^`]*`|\]\([^)]*\)|https?://\S+", "", line))
    return found


NOTE = Kind("note", "Markdown note", _recognises, _read)
