"""SHA-256 of a model file, remembered beside it, so that 90 MB are not hashed at every start.

The note holds size and modification time; when either differs the file is hashed again. `fresh=True` never trusts it.
"""

import hashlib
import os
from pathlib import Path

import msgspec

from gaiad.errors import BadInput


class Stamp(msgspec.Struct, frozen=True, kw_only=True):
    """What was hashed: bytes, modification time in nanoseconds, and the SHA-256 in hex."""

    size: int
    modified_ns: int
    sha256: str


def stamp_path(path: Path) -> Path:
    """Where the note on `path` lies."""
    return path.with_name(path.name + ".stamp.json")


def file_sha256(path: Path, *, fresh: bool = False) -> str:
    """SHA-256 in hex, from the note when size and time still match. Raises BadInput when the file cannot be read."""
    try:
        about = path.stat()
        noted = None if fresh else _read_stamp(path)
        if noted is not None and (noted.size, noted.modified_ns) == (about.st_size, about.st_mtime_ns):
            return noted.sha256
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror}); check the path and its permissions") from error
    write_stamp(path, Stamp(size=about.st_size, modified_ns=about.st_mtime_ns, sha256=digest))
    return digest


def write_stamp(path: Path, stamp: Stamp) -> None:
    """Note the hash; a folder that may not be written to only costs the hashing next time."""
    target = stamp_path(path)
    temporary = target.with_name(f"{target.name}.{os.getpid()}")
    try:
        temporary.write_bytes(msgspec.json.encode(stamp))
        temporary.replace(target)
    except OSError:
        temporary.unlink(missing_ok=True)


def _read_stamp(path: Path) -> Stamp | None:
    try:
        return msgspec.json.decode(stamp_path(path).read_bytes(), type=Stamp)
    except (OSError, msgspec.DecodeError):
        return None
