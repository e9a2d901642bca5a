"""Files, folders and zip archives as a list of sources to read; nothing is ever unpacked to disk."""

import codecs
import os
import zipfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO

from gaiad.archive.importing.json_stream import SpillFile, Unreadable
from gaiad.archive.reading.disk import path_text

_CHUNK = 1 << 20
_PASSED_OVER = frozenset((".git", ".obsidian", ".trash", ".venv", "node_modules", "__pycache__", "__MACOSX"))
_PROGRAM_FILES = frozenset(("[Content_Types].xml", "META-INF/MANIFEST.MF", "META-INF/container.xml"))  # docx, jar, epub
_MAX_MEMBERS = 200_000
_MAX_RATIO = 200  # a chat export packs five to twenty times
_RATIO_FREE_BYTES = 64 * 1024 * 1024
_OPENS = (b"[", b"{")
_UTF16 = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}

Opener = Callable[[], AbstractContextManager[IO[bytes]]]


@dataclass(frozen=True, slots=True)
class Source:
    """One file, or one member of a zip. `label` is for people, `name` is its path below what was given.

    `weight` is what reading it costs of all bytes to read; `path` is None inside a zip. `sent` when it was sent to the
    page: such a file has a name and no place.
    """

    label: str
    name: str
    size: int
    weight: int
    modified_ms: int
    path: Path | None
    opener: Opener = field(repr=False)
    sent: bool = False

    @property
    def suffix(self) -> str:
        return PurePosixPath(self.name.lower()).suffix

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """The bytes. Raises Unreadable."""
        try:
            with self.opener() as stream:
                yield stream
        except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError) as error:
            raise Unreadable(f"cannot be unpacked ({error})") from error
        except OSError as error:
            raise Unreadable(f"cannot be read: {error.strerror or error}") from error

    def chunks(self) -> Iterator[bytes]:
        """The bytes as UTF-8 without a byte order mark, a mebibyte at a time. Raises Unreadable."""
        with self.open() as stream:
            first = stream.read(_CHUNK)
            encoding = _UTF16.get(first[:2])
            if encoding is None and b"\0" in first[:2] and first[:2].strip(b"\0") in _OPENS:  # JSON without a mark
                encoding = "utf-16-le" if first[1:2] == b"\0" else "utf-16-be"
            decode = codecs.getincrementaldecoder(encoding)("replace").decode if encoding else None
            chunk, read = first.removeprefix(codecs.BOM_UTF8), 0
            while chunk:
                read += len(chunk)
                self._check_size(read)
                yield decode(chunk).lstrip("\ufeff").encode("utf-8", "replace") if decode else chunk
                chunk = stream.read(_CHUNK)

    def head(self, size: int) -> bytes:
        """The first `size` bytes, as `chunks` gives them."""
        found = b""
        for chunk in self.chunks():
            found += chunk
            if len(found) >= size:
                break
        return found[:size]

    def text_bytes(self, limit: int) -> bytes:
        """All bytes. Raises Unreadable when there are more than `limit`."""
        found = bytearray()
        for chunk in self.chunks():
            found += chunk
            if len(found) > limit:
                raise Unreadable(f"is larger than {limit // (1024 * 1024)} MiB")
        return bytes(found)

    def copy(self) -> SpillFile:
        """All bytes, as `chunks` gives them, in a file without a name. Raises Unreadable."""
        file = SpillFile()
        for chunk in self.chunks():
            file.write(chunk)
        return file

    def raw_bytes(self, limit: int) -> bytes:
        """All bytes as they are. Raises Unreadable when there are more than `limit`."""
        with self.open() as stream:
            found = stream.read(limit + 1)
        if len(found) > limit:
            raise Unreadable(f"is larger than {limit // (1024 * 1024)} MiB; unpack the archive and import the file")
        return found

    def lines(self, limit: int) -> Iterator[bytes | None]:
        """Lines without their ends; None for one longer than `limit`. Raises Unreadable."""
        rest, too_long = b"", False
        for chunk in self.chunks():
            pieces = chunk.split(b"\n")
            pieces[0] = rest + pieces[0]
            rest = pieces.pop()
            for piece in pieces:
                yield None if too_long or len(piece) > limit else piece.rstrip(b"\r")
                too_long = False
            if len(rest) > limit:
                rest, too_long = b"", True
        if rest or too_long:
            yield None if too_long else rest.rstrip(b"\r")

    def _check_size(self, read: int) -> None:
        if self.path is None and read > _RATIO_FREE_BYTES and read > self.weight * _MAX_RATIO:
            raise Unreadable(f"unpacks to more than {_MAX_RATIO} times its size; it is not read on")


@dataclass(frozen=True, slots=True)
class RefusedPath:
    """A path or archive that holds nothing to read, and why."""

    label: str
    reason: str


def sources(given: Path, shown: str = "") -> Iterator[Source | RefusedPath]:
    """What is to be read behind a path, in a fixed order: folders are walked, zip archives opened in place.

    `shown` stands for the path in messages and records, when it is only where an upload was put.
    """
    if not given.is_dir():
        yield from _file(given, PurePosixPath(shown).name or given.name, shown)
        return
    for folder, folders, names in os.walk(given):
        folders[:] = sorted(each for each in folders if each not in _PASSED_OVER)
        for name in sorted(names):
            path = Path(folder) / name
            if path.is_file() and not path.is_symlink() and name != ".DS_Store":
                yield from _file(path, path.relative_to(given).as_posix())


def _file(path: Path, name: str, shown: str = "") -> Iterator[Source | RefusedPath]:
    label = shown or path_text(path)
    try:
        status = path.stat()
        if not path.is_file():
            yield RefusedPath(label, "is not a regular file")
            return
        with path.open("rb") as stream:
            is_zip = stream.read(4) in (b"PK\x03\x04", b"PK\x05\x06")
    except OSError as error:
        yield RefusedPath(label, f"cannot be read: {error.strerror or error}")
        return
    modified_ms = status.st_mtime_ns // 1_000_000
    if is_zip:
        yield from _members(path, label, modified_ms)
    else:
        size = status.st_size
        yield Source(label, path_text(name), size, size, modified_ms, path, lambda: path.open("rb"), bool(shown))


def _members(path: Path, label: str, modified_ms: int) -> Iterator[Source | RefusedPath]:
    try:
        with zipfile.ZipFile(path) as archive:
            members = [each for each in archive.infolist() if not each.is_dir()]
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        yield RefusedPath(label, f"is a damaged zip archive ({error}); download it again")
        return
    if any(each.filename in _PROGRAM_FILES for each in members):
        yield RefusedPath(label, "is a document or program of another kind; gaiad imports conversations and notes")
        return
    if len(members) > _MAX_MEMBERS:
        yield RefusedPath(label, f"holds {len(members):,} files, the limit is {_MAX_MEMBERS:,}")
        return
    for member in sorted(members, key=lambda each: each.filename):
        parts = PurePosixPath(member.filename.replace("\\", "/")).parts
        shown = path_text(member.filename)
        if any(part in _PASSED_OVER for part in parts) or parts[-1:] == (".DS_Store",):
            continue
        if member.flag_bits & 1:
            yield RefusedPath(f"{label}/{shown}", "is encrypted; unpack the archive and import the folder")
            continue
        yield Source(
            f"{label}/{shown}",
            shown,
            member.file_size,
            member.compress_size,
            modified_ms,
            None,
            _opener(path, member.filename),
        )


def _opener(path: Path, member: str) -> Opener:
    @contextmanager
    def opened() -> Iterator[IO[bytes]]:
        with zipfile.ZipFile(path) as archive, archive.open(member) as stream:
            yield stream

    return opened
