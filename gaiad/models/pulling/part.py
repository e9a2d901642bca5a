"""An unfinished download: its bytes in NAME.gguf.part, their SHA-256 so far, and a note of what they are a part of.

Whatever ends the process, the next pull reads the note and goes on behind the last byte, or starts again when the note
is of something else. The note stays beside the finished file as NAME.gguf.source.json.
"""

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from gaiad.errors import GaiadError
from gaiad.models.pulling.tries import PullFailed

_READ_BYTES = 1 << 20

Progress = Callable[[int, int], None]


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """Where bytes come from: an address or a path, its version there, and the hash and size promised (-1: unknown)."""

    address: str
    validator: str = ""
    sha256: str = ""
    size: int = -1


def part_path(target: Path) -> Path:
    return target.with_name(target.name + ".part")


def source_path(target: Path) -> Path:
    """The note on a finished file."""
    return target.with_name(target.name + ".source.json")


def read_note(path: Path) -> Note | None:
    """A note that cannot be read is none."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Note)
    except (OSError, msgspec.DecodeError):
        return None


def write_note(path: Path, note: Note) -> None:
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    temporary.write_bytes(msgspec.json.encode(note))
    temporary.replace(path)


class Part:
    """The .part file of `target`, open for going on. Bytes are in the file as soon as `append` returns.

    `kept` are bytes of an earlier pull, `spliced` says that the bytes came in more than one answer.
    """

    def __init__(self, target: Path) -> None:
        self.path = part_path(target)
        self.note: Note | None = None
        self.size = 0
        self.kept = 0
        self.spliced = False
        self._note_path = self.path.with_name(self.path.name + ".json")
        self._digest = hashlib.sha256()
        self._file: BinaryIO = self._open()

    def _open(self) -> BinaryIO:
        try:
            return os.fdopen(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644), "r+b", buffering=0)
        except OSError as error:
            raise unwritable(self.path, error) from error

    def go_on(self, address: str, sha256: str, show: Progress) -> bool:
        """Keep the bytes of an earlier try when they are of the same file: same hash, or same address and version.

        False when there were bytes of something else, which are gone now.
        """
        note = read_note(self._note_path)
        size = self.stored_bytes()
        if note is None or not size or not _same_file(note, address, sha256):
            self.forget()
            return not size
        self.note = note
        while block := self._file.read(_READ_BYTES):
            self._digest.update(block)
            self.size += len(block)
            show(self.size, size)
        self.kept, self.spliced = self.size, True
        return True

    def begin(self, note: Note) -> None:
        """From the first byte, of what `note` says."""
        self.forget()
        with self._writing():
            write_note(self._note_path, note)
        self.note = note

    def forget(self) -> None:
        """Empty the file; a note never stands on bytes of something else."""
        with self._writing():
            self._file.truncate(0)
        self._file.seek(0)
        self._note_path.unlink(missing_ok=True)
        self._digest = hashlib.sha256()
        self.note, self.size, self.kept, self.spliced = None, 0, 0, False

    def append(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            with self._writing():
                written = self._file.write(view) or 0
            self._digest.update(view[:written])
            self.size += written
            view = view[written:]

    def finish(self) -> str:
        """Bring the bytes to the disk; their SHA-256 in hex."""
        with self._writing():
            os.fsync(self._file.fileno())
        return self._digest.hexdigest()

    def close(self) -> None:
        """An empty part is nothing to keep."""
        empty = not self.stored_bytes()
        self._file.close()
        if empty:
            self.remove()

    def stored_bytes(self) -> int:
        """What is in the file, of whatever it is a part."""
        return os.fstat(self._file.fileno()).st_size

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)
        self._note_path.unlink(missing_ok=True)

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise unwritable(self.path, error) from error


def unwritable(path: Path, error: OSError) -> GaiadError:
    """What to say when the disk is full or the folder not ours."""
    return PullFailed(
        f"{path}: cannot be written ({error.strerror}); free space or set GAIAD_MODELS to another folder,"
        " then run the same command again"
    )


def _same_file(note: Note, address: str, sha256: str) -> bool:
    if sha256 and note.sha256:
        return sha256 == note.sha256
    return note.address == address and bool(note.validator or sha256)
