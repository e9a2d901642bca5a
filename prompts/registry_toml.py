"""Registry files as people write them: TOML read so that every complaint names the file and the line.

What an entry means is the business of its struct; here stands only how entries get out of a text.
"""

import re
import tomllib
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")
_TOML_LINE = re.compile(r"\(at line (\d+), column \d+\)")
_HEADER = re.compile(r"\s*\[\[?\s*([^\]]+?)\s*\]")
_KEY = re.compile(r"""\s*([\w\-."']+(?:\s*\.\s*[\w\-"']+)*)\s*=""")
_PATH_PART = re.compile(r"[.\[]([\w\-]+)")
_UNKNOWN_FIELD = re.compile(r"unknown field `([^`]+)`")
_MULTI_LINE = re.compile(r'"""|' + r"'''")
_JOINERS = {"\u200c", "\u200d"}  # scripts and emoji need them; all other invisible characters hide text


class Problem(msgspec.Struct, frozen=True):
    """What is wrong in a registry file, with the remedy. `line` is 1-based; 0 stands for the file as a whole.

    `entry` is the name of the persona or task instruction it is about, "" when it is about none.
    """

    file: str
    line: int
    message: str
    entry: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.message}" if self.line else f"{self.file}: {self.message}"


class Source(msgspec.Struct, frozen=True):
    """One registry file: what to call it, its text, and the TOML in it."""

    file: str
    text: str
    table: dict[str, Any]

    def problem(self, path: tuple[str, ...], message: str) -> Problem:
        """A complaint about the value at `path`."""
        return Problem(self.file, line_of(self.text, path), message, path[0] if path else "")


def read_source(file: str, data: bytes) -> Source | Problem:
    """The file's TOML, or why there is none."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        return Problem(file, data.count(b"\n", 0, error.start) + 1, "is not UTF-8; save it as UTF-8")
    try:
        return Source(file, text, tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        found = _TOML_LINE.search(str(error))
        line = int(found[1]) if found else text.count("\n") + 1
        return Problem(file, line, f"is not TOML: {_TOML_LINE.sub('', str(error)).strip()}; mend this line")


def convert(source: Source, path: tuple[str, ...], value: object, kind: type[T]) -> T | Problem:
    """`value`, which stands at `path` in the source, as a `kind`; or what does not fit and where."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        reason, _, place = str(error).partition(" - at `$")
        inner = tuple(_PATH_PART.findall(place))
        unknown = _UNKNOWN_FIELD.search(reason)
        where = (*path, *inner, unknown[1]) if unknown else (*path, *inner)
        said = ".".join((*path, *inner))
        return source.problem(
            where, f"{said + ': ' if said else ''}{reason}; the shipped files in constants show the form"
        )


def line_of(text: str, path: tuple[str, ...]) -> int:
    """The 1-based line where the value at `path` is written, or the deepest part of the path that has a line; 0: none.

    A number in the path counts tables in a list (`[[...]]`); elements of plain lists have the line of their key.
    """
    best, depth = 0, 0
    for number, written in _written_paths(text):
        common = _common(written, path)
        if common > depth:
            best, depth = number, common
    return best


def _written_paths(text: str) -> Iterator[tuple[int, tuple[str, ...]]]:
    """(line, path) of every header and key; the insides of multi-line strings are passed over."""
    table: tuple[str, ...] = ()
    elements: dict[tuple[str, ...], int] = {}
    inside = ""
    for number, line in enumerate(text.splitlines(), start=1):
        was_inside = inside
        for mark in _MULTI_LINE.findall(line):
            inside = "" if inside == mark else inside or mark
        if was_inside:
            continue
        header, key = _HEADER.match(line), _KEY.match(line)
        if header:
            table = _split(header[1])
            if line.lstrip().startswith("[["):
                elements[table] = elements.get(table, -1) + 1
                table = (*table, str(elements[table]))
            yield number, table
        elif key:
            yield number, table + _split(key[1])


def _split(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip().strip("\"'") for part in dotted.split("."))


def _common(written: tuple[str, ...], path: tuple[str, ...]) -> int:
    """How many parts of `path` the written path names, 0 when it goes elsewhere."""
    return len(written) if written == path[: len(written)] else 0


def text_fault(text: str) -> str:
    """What is wrong with a text that a model shall read, in words with the remedy; "" when nothing is."""
    if not text.strip():
        return "is blank; write something or leave the key out"
    for place, character in enumerate(text, start=1):
        category = unicodedata.category(character)
        hidden = category in {"Cf", "Cc", "Co", "Cs", "Cn", "Zl", "Zp"} and character not in _JOINERS | {"\n", "\t"}
        if hidden:
            return f"has the invisible character U+{ord(character):04X} at place {place}; remove it"
    return ""


def texts_in(value: object, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    """(path, text) of every string in a struct's builtins, depth first."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from texts_in(inner, (*path, str(key)))
    elif isinstance(value, list | tuple):
        for number, inner in enumerate(value):
            yield from texts_in(inner, (*path, str(number)))
