"""Reads the head of a GGUF cheaply: what kind of model it is, without loading it or importing a model library.

The daemon needs the vector's width before the worker is up, and a clear refusal of files that are not models. Values
are hostile until checked: every length is bounded by the file's size.
"""

import contextlib
import hashlib
import struct
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from gaiad.base.errors import BadInput
from gaiad.base.home import replace_file

MAGIC = b"GGUF"
VERSIONS = (2, 3)
MAX_KEYS = 4096
_STRING, _ARRAY = 8, 9
SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
_POOLINGS = {0: "none", 1: "mean", 2: "cls", 3: "last", 4: "rank"}


class GgufHeader(msgspec.Struct, frozen=True, kw_only=True):
    """What a GGUF says of itself. `context` is in tokens; `pooling` is "mean" when the file names none."""

    architecture: str
    name: str
    embedding: int
    context: int
    pooling: str
    tensors: int
    bytes: int


def read_header(path: Path) -> GgufHeader:
    """Read the metadata before the vocabulary. Raises BadInput naming the file and what is wrong with it."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            return _read(path, file, size)
    except FileNotFoundError:
        raise BadInput(f"{path}: no such model file; check the path, or fetch one with `gaiad models pull`") from None
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror}); check that it is a file you may read") from error
    except DamagedGguf as damage:
        raise BadInput(f"{path}: {damage}; replace it with a complete GGUF") from damage


class DamagedGguf(Exception):
    """The file is not a complete GGUF; says what is wrong with it, without its name."""


def _read(path: Path, file: BinaryIO, size: int) -> GgufHeader:
    tensors, keys = read_counts(file, size)
    if tensors == 0:
        raise DamagedGguf("has no weights (it is a vocabulary-only file)")
    metadata = read_metadata(file, keys, size, before_vocabulary=True)
    architecture = metadata.get("general.architecture")
    width = metadata.get(f"{architecture}.embedding_length_out", metadata.get(f"{architecture}.embedding_length"))
    context = metadata.get(f"{architecture}.context_length")
    if not isinstance(architecture, str) or not isinstance(width, int) or not isinstance(context, int):
        raise DamagedGguf("does not give its architecture, embedding length or context length")
    if not (0 < width <= 65536 and 0 < context <= 1 << 24):
        raise DamagedGguf(f"has impossible sizes (embedding length {width}, context length {context})")
    return GgufHeader(
        architecture=architecture,
        name=str(metadata.get("general.name", path.stem)),
        embedding=width,
        context=context,
        pooling=_POOLINGS.get(metadata.get(f"{architecture}.pooling_type", 1), "mean"),
        tensors=tensors,
        bytes=size,
    )


def read_counts(file: BinaryIO, size: int) -> tuple[int, int]:
    """How many tensors and metadata keys the file says it has. Raises DamagedGguf."""
    magic = file.read(4)
    if magic != MAGIC:
        raise DamagedGguf(f"is not a GGUF (it starts with {magic!r}, not {MAGIC!r})")
    version = read_number(file, "<I")
    if version not in VERSIONS:
        raise DamagedGguf(f"is GGUF version {version}, versions {VERSIONS[0]} and {VERSIONS[1]} can be read")
    tensors, keys = read_number(file, "<Q"), read_number(file, "<Q")
    if keys > MAX_KEYS or tensors > size:
        raise DamagedGguf(f"has a damaged header ({keys} keys, {tensors} tensors)")
    return tensors, keys


def read_metadata(file: BinaryIO, keys: int, size: int, *, before_vocabulary: bool) -> dict[str, Any]:
    """Scalars, strings and the lengths of arrays by key, all or those before the vocabulary. Raises DamagedGguf."""
    found: dict[str, Any] = {}
    for _ in range(keys):
        key = read_text(file, size)
        kind = read_number(file, "<I")
        if kind == _ARRAY:
            if before_vocabulary and key == "tokenizer.ggml.tokens":
                break
            found[key] = skip_array(file, size)
        else:
            found[key] = read_value(file, kind, size)
    return found


def read_value(file: BinaryIO, kind: int, size: int) -> Any:
    """A scalar or a string of the given kind. Raises DamagedGguf."""
    if kind == _STRING:
        return read_text(file, size)
    if kind not in SCALARS:
        raise DamagedGguf(f"has a metadata value of unknown type {kind}")
    return read_number(file, SCALARS[kind])


def skip_array(file: BinaryIO, size: int) -> int:
    """Go past an array, whose kind and count come first; its count. Raises DamagedGguf."""
    kind, count = read_number(file, "<I"), read_number(file, "<Q")
    if count > size:
        raise DamagedGguf(f"has an array of {count} values in {size} bytes")
    if kind in SCALARS:
        file.seek(count * struct.calcsize(SCALARS[kind]), 1)
    else:
        for _ in range(count):
            read_value(file, kind, size)
    return int(count)


def read_text(file: BinaryIO, size: int) -> str:
    """A string, with its length before it. Raises DamagedGguf."""
    length = read_number(file, "<Q")
    if length > size:
        raise DamagedGguf(f"has a string of {length} bytes in {size}")
    return read_exactly(file, length).decode("utf-8", "replace")


def read_number(file: BinaryIO, form: str) -> Any:
    """One number in a `struct` form. Raises DamagedGguf."""
    return struct.unpack(form, read_exactly(file, struct.calcsize(form)))[0]


def read_exactly(file: BinaryIO, count: int) -> bytes:
    data = file.read(count)
    if len(data) < count:
        raise DamagedGguf("ends inside its header (truncated)")
    return data


class HashStamp(msgspec.Struct, frozen=True, kw_only=True):
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
    write_stamp(path, HashStamp(size=about.st_size, modified_ns=about.st_mtime_ns, sha256=digest))
    return digest


def write_stamp(path: Path, stamp: HashStamp) -> None:
    """Note the hash; a folder that may not be written to only costs the hashing next time."""
    with contextlib.suppress(OSError):
        replace_file(stamp_path(path), msgspec.json.encode(stamp), 0o644)


def _read_stamp(path: Path) -> HashStamp | None:
    try:
        return msgspec.json.decode(stamp_path(path).read_bytes(), type=HashStamp)
    except (OSError, msgspec.DecodeError):
        return None
