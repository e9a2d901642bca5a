"""Registry files of a home: which there are, and their TOML read so that every complaint names the file and the line.

A home may have `registry/personas/*.toml` and `registry/task_instructions/*.toml`. Anything else there is a complaint,
for whoever put it there expects it to do something. Names that begin with a dot are editors' own and passed over.
"""

import os
import re
import stat
import tomllib
import unicodedata
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

T = TypeVar("T")
_TOML_LINE = re.compile(r"\(at line (\d+), column \d+\)")
_HEADER = re.compile(r"\s*\[\[?\s*([^\]]+?)\s*\]")
_KEY = re.compile(r"""\s*([\w\-."']+(?:\s*\.\s*[\w\-"']+)*)\s*=""")
_PATH_PART = re.compile(r"[.\[]([\w\-]+)")
_UNKNOWN_FIELD = re.compile(r"unknown field `([^`]+)`")
_MULTI_LINE = re.compile(r'"""|' + r"'''")
_JOINERS = {"\u200c", "\u200d"}  # scripts and emoji need them; all other invisible characters hide text


class RegistryProblem(msgspec.Struct, frozen=True):
    """What is wrong in a registry file, with the remedy. `line` is 1-based; 0 means the file as a whole.

    `entry` is the name of the persona or task instruction it is about, "" when it is about none.
    """

    file: str
    line: int
    message: str
    entry: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.message}" if self.line else f"{self.file}: {self.message}"


class RegistryFile(msgspec.Struct, frozen=True):
    """One registry file: what to call it, its text, and the TOML in it."""

    file: str
    text: str
    table: dict[str, Any]

    def problem(self, path: tuple[str, ...], message: str) -> RegistryProblem:
        """A complaint about the value at `path`."""
        return RegistryProblem(self.file, line_of(self.text, path), message, path[0] if path else "")


def read_source(file: str, data: bytes) -> RegistryFile | RegistryProblem:
    """The file's TOML, or why there is none."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        return RegistryProblem(file, data.count(b"\n", 0, error.start) + 1, "is not UTF-8; save it as UTF-8")
    try:
        return RegistryFile(file, text, tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        found = _TOML_LINE.search(str(error))
        line = int(found[1]) if found else text.count("\n") + 1
        return RegistryProblem(file, line, f"is not TOML: {_TOML_LINE.sub('', str(error)).strip()}; correct this line")


def convert(source: RegistryFile, path: tuple[str, ...], value: object, kind: type[T]) -> T | RegistryProblem:
    """`value`, which is at `path` in the source, as a `kind`; or what does not fit and where."""
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
    """What is wrong with a text that a model should read, in words with the remedy; "" when nothing is."""
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


Kind = Literal["personas", "task_instructions"]
KINDS: tuple[Kind, ...] = ("personas", "task_instructions")
MOST_FILES = 200
MOST_BYTES = 65_536


class PromptFileStamp(msgspec.Struct, frozen=True):
    """What tells that a file was changed: its path, times in ns, size in bytes, inode and mode."""

    path: str
    modified_ns: int
    changed_ns: int
    size: int
    inode: int
    mode: int


class LoadedFiles(msgspec.Struct, frozen=True):
    """The readable files by kind, in the order of their names, and what is wrong with the others."""

    sources: dict[Kind, list[RegistryFile]]
    problems: list[RegistryProblem]


def stamps(home: Path) -> tuple[PromptFileStamp, ...]:
    """The state of the home's registry files; equal as long as nobody touched them. Microseconds for a few files."""
    return tuple(_stamp(path) for path in _listing(home).paths)


def read_files(home: Path) -> LoadedFiles:
    """Read every registry file of the home. Nothing is raised for a file's sake: what cannot be read is a problem."""
    listing = _listing(home)
    found = LoadedFiles({kind: [] for kind in KINDS}, list(listing.problems))
    for number, path in enumerate(listing.paths):
        kind = next((kind for kind in KINDS if path.parent.name == kind and path.suffix == ".toml"), None)
        if kind is None:
            wanted = " and ".join(f"registry/{kind}/*.toml" for kind in KINDS)
            found.problems.append(RegistryProblem(str(path), 0, f"is not read, only {wanted} are; move or remove it"))
            continue
        if number >= MOST_FILES:
            found.problems.append(
                RegistryProblem(str(path), 0, f"is above the {MOST_FILES} files of a registry; merge some")
            )
            continue
        read = _read(path)
        if isinstance(read, RegistryProblem):
            found.problems.append(read)
        else:
            found.sources[kind].append(read)
    return found


class _Listing(msgspec.Struct, frozen=True):
    """What is in the registry's folder and in the two inside it, sorted, without those two."""

    paths: list[Path]
    problems: list[RegistryProblem]


def _listing(home: Path) -> _Listing:
    root = home / "registry"
    folders = [root / kind for kind in KINDS]
    listing = _Listing([], [])
    for folder in (root, *folders):
        try:
            entries = sorted(folder.iterdir())
        except FileNotFoundError:
            continue
        except OSError as error:
            listing.problems.append(
                RegistryProblem(str(folder), 0, f"cannot be read as a folder ({error.strerror}); fix this")
            )
            continue
        listing.paths.extend(path for path in entries if path not in folders and not path.name.startswith("."))
    return listing


def _stamp(path: Path) -> PromptFileStamp:
    try:
        status = path.stat()
    except OSError:  # a link to nowhere, or removed this moment; reading it says so
        return PromptFileStamp(str(path), 0, 0, 0, 0, 0)
    return PromptFileStamp(
        str(path), status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino, status.st_mode
    )


def _read(path: Path) -> RegistryFile | RegistryProblem:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return RegistryProblem(str(path), 0, "is not a regular file; replace it with one")
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        return RegistryProblem(str(path), 0, f"cannot be read ({error.strerror}); correct or remove it")
    if len(data) > MOST_BYTES:
        return RegistryProblem(str(path), 0, f"is longer than {MOST_BYTES} bytes; split it")
    return read_source(str(path), data)
