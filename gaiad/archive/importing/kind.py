"""What a kind of source is: a name, how its files are recognised, and how they become conversations.

Recognition is strict and by content alone: each kind names what only its files have. The table is `kinds/__init__.py`.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from gaiad.archive.importing.json_stream import Unreadable
from gaiad.archive.importing.large_record import LargeArray, LargeObject
from gaiad.archive.importing.sample import ExportRecord, Problem, Sample
from gaiad.archive.reading.conversation import Conversation

RAW_TOO_LONG = "raw records too long to keep"
KEPT_RAW_BYTES = 16 * 1024 * 1024
WORDS_MAX_BYTES = 64 * 1024 * 1024
Item = Conversation | Problem
Reads = Callable[[Sample], Iterator[Item | None]]
Converts = Callable[[ExportRecord, Sample], Iterable[Conversation]]


@dataclass(frozen=True, slots=True)
class Kind:
    """`title` is what people call it. `read` yields conversations and problems in the source's order.

    In place of an item that the sample says to skip it may yield None.
    """

    name: str
    title: str
    recognises: Callable[[Sample], bool]
    read: Reads


def of_records(name: str, title: str, matches: Callable[[ExportRecord], bool], convert: Converts) -> Kind:
    """A kind whose files are JSON records, one conversation each: in an array, in an object's array, or one alone.

    `convert` yields exactly one conversation.
    """

    def alone(sample: Sample) -> bool:
        return sample.whole is not None and matches(sample.whole)

    def recognises(sample: Sample) -> bool:
        return any(matches(record) for record in sample.first) or alone(sample)

    def read(sample: Sample) -> Iterator[Item | None]:
        keys = {record.key for record in sample.first if matches(record)}
        for record in sample.take_whole() if alone(sample) else sample.records(keys):
            if record is None or isinstance(record, Problem):
                yield record
            elif record.value:
                item = item_of(record, sample)
                del record  # what was decoded of a large conversation is not kept while it is stored
                yield item

    def item_of(record: ExportRecord, sample: Sample) -> Item:
        try:
            if not matches(record):
                return Problem(record.where, f"is not what a {title} holds")
            found = next(iter(convert(record, sample)))
        except Unreadable as error:
            return Problem(record.where, str(error))
        if not record.raw:
            found.left_out[RAW_TOO_LONG] = 1
        return found

    return Kind(name, title, recognises, read)


def same_file(sample: Sample, data: bytes) -> str:
    """What a file has in common with its copy in another folder or a zip: its own name and its bytes."""
    name = PurePosixPath(sample.source.name).name
    return hashlib.sha256(name.encode() + b"\0" + data).hexdigest()[:24]


def place_of(sample: Sample, data: bytes) -> str:
    """The id of a file that has no other: its path, or for one that was sent to the page its name and its bytes."""
    return f"{sample.source.label} {same_file(sample, data)}" if sample.source.sent else sample.source.label


# ------------------------------------------------------------------------------------- looking into foreign records


def as_text(value: Any) -> str:
    """A string, or "" for anything else."""
    return value if isinstance(value, str) else ""


def as_list(value: Any) -> list[Any]:
    """A list, or [] for anything else."""
    if isinstance(value, LargeArray):
        return value.whole()
    return value if isinstance(value, list) else []


def as_dict(value: Any) -> dict[str, Any]:
    """A dict, or {} for anything else."""
    if isinstance(value, LargeObject):
        return value.whole()
    return value if isinstance(value, dict) else {}


def dicts(value: Any) -> list[dict[str, Any]]:
    """The dicts of a list."""
    return [each for each in as_list(value) if isinstance(each, dict)]


def joined(texts: Iterable[str]) -> str:
    """Texts that are not empty, trimmed, with an empty line between."""
    return "\n\n".join(text.strip() for text in texts if text.strip())


def named(kind: str, name: str) -> str:
    """How an attachment appears in a message's text: `[image: sketch.png]`."""
    return f"[{kind}: {' '.join(name.split())[:200] or 'unnamed'}]"


def without_elements(
    text: str,
    opening: re.Pattern[str],
    closing: str = "",
    replace: Callable[[re.Match[str], str], str] = lambda _opened, _inner: "",
) -> str:
    """The text with what `replace` gives for each element, in a time that grows with its length however it is made.

    An element runs from `opening` to the next `closing`, or to `</NAME>` where NAME is the opening's first group.
    """
    kept: list[str] = []
    unclosed: set[str] = set()
    at = 0
    for found in opening.finditer(text):
        end_mark = closing or f"</{found[1]}>"
        if found.start() < at or end_mark in unclosed:
            continue
        end = text.find(end_mark, found.end())
        if end < 0:
            unclosed.add(end_mark)
            continue
        kept += (text[at : found.start()], replace(found, text[found.end() : end]))
        at = end + len(end_mark)
    return "".join((*kept, text[at:])) if kept else text


class SourceLines:
    """The lines of a session's file, kept while they are few enough to be its record."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._size = 0

    def add(self, line: bytes) -> None:
        self._size += len(line) + 1
        if self._size <= KEPT_RAW_BYTES:
            self._data += line + b"\n"

    def record(self, left_out: Counter[str]) -> bytes:
        """The bytes, or none, with a note in `left_out`."""
        if self._size <= KEPT_RAW_BYTES:
            return bytes(self._data)
        left_out[RAW_TOO_LONG] = 1
        return b""


def check_words(total_bytes: int) -> None:
    """Raise Unreadable when a session has more words than one conversation may."""
    if total_bytes > WORDS_MAX_BYTES:
        raise Unreadable(f"has more than {WORDS_MAX_BYTES // (1024 * 1024)} MiB of words in one conversation")


@dataclass(frozen=True, slots=True)
class Branch:
    """Ids from the first message to the last; `cycle` when the way up came back to itself."""

    path: list[str]
    cycle: bool


def active_branch(parents: Mapping[str, str], times: Mapping[str, str], current: str) -> Branch:
    """`parents` has an entry for every message, "" or an unknown id above the first; `times` are sortable texts.

    Without a known `current` the newest leaf is taken: a message nobody answers, the one with the latest time.
    """
    leaf = current if current in parents else _newest_leaf(parents, times)
    path: list[str] = []
    seen: set[str] = set()
    while leaf in parents:
        if leaf in seen:
            return Branch(path[::-1], cycle=True)
        seen.add(leaf)
        path.append(leaf)
        leaf = parents[leaf]
    return Branch(path[::-1], cycle=False)


def _newest_leaf(parents: Mapping[str, str], times: Mapping[str, str]) -> str:
    answered = set(parents.values())
    leaves = [each for each in parents if each not in answered] or list(parents)
    numbered = [(times.get(each, ""), number, each) for number, each in enumerate(leaves)]
    return max(numbered)[2] if numbered else ""
