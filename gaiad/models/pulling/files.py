"""The models folder as a pull sees it: an unfinished download and its note, and a checked file taking its name.

Nothing that is stored is ever lost: a name goes to a new file only after the old one has another name. Whatever ends
the process, the next pull reads the note and goes on behind the last byte, or starts again when the note is of
something else.
"""

import contextlib
import errno
import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from gaiad.base.errors import BadInput, Conflict, GaiadError
from gaiad.models.gguf.gguf_header import (
    MAGIC,
    MAX_KEYS,
    VERSIONS,
    DamagedGguf,
    HashStamp,
    file_sha256,
    read_number,
    read_text,
    read_value,
    skip_array,
    stamp_path,
    write_stamp,
)
from gaiad.models.gguf.gguf_info import read_info
from gaiad.models.pulling.http import Listener, PullFailed, shard_of

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


RESERVE_BYTES = 64 << 20
_BLOCK_BYTES = 1 << 20
_ARRAY = 9

Free = Callable[[Path], int]


@contextlib.contextmanager
def alone(target: Path) -> Iterator[None]:
    """Keep other pulls of this name away; the system lets go when the process ends. Raises Conflict."""
    path = target.with_name(target.name + ".lock")
    while True:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise unwritable(path, error) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(descriptor)
            raise Conflict(f"{target}: another pull is at work on it; wait for that or choose --as NAME") from error
        if _is_same(descriptor, path):
            break
        os.close(descriptor)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(descriptor)


def _is_same(descriptor: int, path: Path) -> bool:
    """Whether the locked file still is the one of that name: the pull before may have removed it."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def free_bytes(path: Path) -> int:
    return shutil.disk_usage(path).free


def check_space(path: Path, needed: int, free: Free = free_bytes) -> None:
    """Raise PullFailed with the numbers unless `needed` more bytes and a reserve fit beside `path`."""
    available = free(path.parent)
    if needed > 0 and available < needed + RESERVE_BYTES:
        raise PullFailed(
            f"{path.parent}: {needed:,} bytes are needed (and {RESERVE_BYTES:,} in reserve), {available:,} are free;"
            " make room or set GAIAD_MODELS to a folder on another disk"
        )


def bring_in(source: Path, target: Path, listener: Listener) -> tuple[Path, str, str]:
    """The file under a passing name in the models folder, its SHA-256, and "linked" or "copied".

    The source stays as it is. Raises BadInput, Conflict when it changes meanwhile, PullFailed.
    """
    passing = target.with_name(target.name + ".copy")
    passing.unlink(missing_ok=True)
    try:
        before = source.stat()
        try:
            os.link(source.resolve(), passing)
            how, copy = "linked", None
        except OSError:
            check_space(target, before.st_size)
            how, copy = "copied", passing
        digest = _hash(source, copy, lambda done: listener.show(target.name, done, before.st_size))
        after = source.stat()
    except OSError as error:
        passing.unlink(missing_ok=True)
        if error.errno in (errno.ENOSPC, errno.EROFS, errno.EDQUOT):
            raise unwritable(passing, error) from error
        raise unreadable(source, error) from error
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
        passing.unlink(missing_ok=True)
        raise Conflict(f"{source}: changed while it was read; wait until it is complete")
    return passing, digest, how


def hash_file(path: Path, label: str, listener: Listener) -> str:
    """SHA-256 of a file of the user's, beside which nothing is noted. Raises BadInput."""
    try:
        size = path.stat().st_size
        return _hash(path, None, lambda done: listener.show(label, done, size))
    except OSError as error:
        raise unreadable(path, error) from error


def unreadable(path: Path, error: OSError) -> BadInput:
    return BadInput(f"{path}: cannot be read ({error.strerror}); check that it is a file you may read")


def _hash(source: Path, copy: Path | None, show: Callable[[int], None]) -> str:
    digest, done = hashlib.sha256(), 0
    with contextlib.ExitStack() as files:
        reading = files.enter_context(source.open("rb"))
        writing = files.enter_context(copy.open("xb")) if copy is not None else None
        while block := reading.read(_BLOCK_BYTES):
            digest.update(block)
            if writing is not None:
                writing.write(block)
            done += len(block)
            show(done)
        if writing is not None:
            writing.flush()
            os.fsync(writing.fileno())
    return digest.hexdigest()


def check_model(path: Path, name: str, sha256: str) -> None:
    """Raise DamagedGguf unless the file is a complete GGUF; `name` tells which part of a model it is."""
    shard = shard_of(name)
    if shard is not None and _check_shard(path, shard.number, shard.count):
        return
    _stamp(path, sha256)
    try:
        read_info(path)
    except BadInput as error:
        raise DamagedGguf(error.message.removeprefix(f"{path}: ").partition(";")[0]) from error
    finally:
        stamp_path(path).unlink(missing_ok=True)


def _check_shard(path: Path, number: int, count: int) -> bool:
    """Whether the header says only which part the file is. Raises DamagedGguf when it is another part."""
    size = path.stat().st_size
    with path.open("rb") as file:
        magic = file.read(len(MAGIC))
        if magic != MAGIC:
            raise DamagedGguf(f"is not a GGUF (it starts with {magic!r}, not {MAGIC!r})")
        version, tensors, keys = read_number(file, "<I"), read_number(file, "<Q"), read_number(file, "<Q")
        if version not in VERSIONS or keys > MAX_KEYS:
            raise DamagedGguf(f"has a damaged header (version {version}, {keys} keys)")
        found: dict[str, object] = {}
        for _ in range(keys):
            key, kind = read_text(file, size), read_number(file, "<I")
            if kind == _ARRAY:
                skip_array(file, size)
            else:
                found[key] = read_value(file, kind, size)
    if found.get("split.no") != number - 1 or found.get("split.count") != count:
        raise DamagedGguf(
            f"is part {found.get('split.no')} (from 0) of {found.get('split.count')} by what it says itself"
        )
    return number > 1 or tensors == 0


def keep_aside(target: Path, sha256: str) -> Path:
    """Another name for the file that `target` is now, so that the name can go to a new one. Raises Conflict."""
    aside = target.with_name(f"{target.stem}.{sha256[:12]}.gguf")
    if aside.exists() and file_sha256(aside) != sha256:
        raise Conflict(f"{aside}: exists, so the old file cannot be kept as {target.name}; move it away")
    if not aside.exists():
        try:
            os.link(target, aside)
        except OSError:
            target.replace(aside)
    return aside


def set_aside_bad(path: Path, target: Path) -> Path:
    """Keep what was downloaded and is wrong as NAME.gguf.bad, where no pull goes on with it."""
    bad = target.with_name(target.name + ".bad")
    path.replace(bad)
    return bad


def take_name(path: Path, target: Path, sha256: str) -> None:
    """The checked file gets its name, at once and with its hash noted."""
    try:
        path.replace(target)
        folder = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise unwritable(target, error) from error
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    _stamp(target, sha256)


def _stamp(path: Path, sha256: str) -> None:
    """Note the hash that was computed on the way, so that nobody reads the file again for it."""
    about = path.stat()
    write_stamp(path, HashStamp(size=about.st_size, modified_ns=about.st_mtime_ns, sha256=sha256))
