"""Which registry files lie in a home, and their bytes: the only part of the registry that touches the disk.

A home may have `registry/personas/*.toml` and `registry/task_instructions/*.toml`. Anything else there is a complaint,
for whoever put it there expects it to do something. Names that begin with a dot are editors' own and passed over.
"""

import os
import stat
from pathlib import Path
from typing import Literal

import msgspec

from prompts.registry_toml import Problem, Source, read_source

Kind = Literal["personas", "task_instructions"]
KINDS: tuple[Kind, ...] = ("personas", "task_instructions")
MOST_FILES = 200
MOST_BYTES = 65_536


class Stamp(msgspec.Struct, frozen=True):
    """What tells that a file was changed: its path, times in ns, size in bytes, inode and mode."""

    path: str
    modified_ns: int
    changed_ns: int
    size: int
    inode: int
    mode: int


class Found(msgspec.Struct, frozen=True):
    """The readable files by kind, in the order of their names, and what is wrong with the others."""

    sources: dict[Kind, list[Source]]
    problems: list[Problem]


def stamps(home: Path) -> tuple[Stamp, ...]:
    """The state of the home's registry files; equal as long as nobody touched them. Microseconds for a few files."""
    return tuple(_stamp(path) for path in _listing(home).paths)


def read_files(home: Path) -> Found:
    """Read every registry file of the home. Nothing is raised for a file's sake: what cannot be read is a problem."""
    listing = _listing(home)
    found = Found({kind: [] for kind in KINDS}, list(listing.problems))
    for number, path in enumerate(listing.paths):
        kind = next((kind for kind in KINDS if path.parent.name == kind and path.suffix == ".toml"), None)
        if kind is None:
            wanted = " and ".join(f"registry/{kind}/*.toml" for kind in KINDS)
            found.problems.append(Problem(str(path), 0, f"is not read, only {wanted} are; move or remove it"))
            continue
        if number >= MOST_FILES:
            found.problems.append(Problem(str(path), 0, f"is above the {MOST_FILES} files of a registry; merge some"))
            continue
        read = _read(path)
        if isinstance(read, Problem):
            found.problems.append(read)
        else:
            found.sources[kind].append(read)
    return found


class _Listing(msgspec.Struct, frozen=True):
    """What stands in the registry's folder and in the two inside it, sorted, without those two."""

    paths: list[Path]
    problems: list[Problem]


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
            listing.problems.append(Problem(str(folder), 0, f"cannot be read as a folder ({error.strerror}); mend it"))
            continue
        listing.paths.extend(path for path in entries if path not in folders and not path.name.startswith("."))
    return listing


def _stamp(path: Path) -> Stamp:
    try:
        status = path.stat()
    except OSError:  # a link to nowhere, or removed this moment; reading it says so
        return Stamp(str(path), 0, 0, 0, 0, 0)
    return Stamp(str(path), status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino, status.st_mode)


def _read(path: Path) -> Source | Problem:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return Problem(str(path), 0, "is no regular file; replace it by one")
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        return Problem(str(path), 0, f"cannot be read ({error.strerror}); mend or remove it")
    if len(data) > MOST_BYTES:
        return Problem(str(path), 0, f"is longer than {MOST_BYTES} bytes; split it")
    return read_source(str(path), data)
