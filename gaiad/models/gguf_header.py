"""Reads the head of a GGUF cheaply: what kind of model it is, without loading it or importing a model library.

The daemon needs the vector's width before the worker is up, and a clear refusal of files that are no models. Values are
hostile until checked: every length is bounded by the file's size.
"""

import struct
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from gaiad.errors import BadInput

MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_MAX_KEYS = 4096
_STRING, _ARRAY = 8, 9
_SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
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
        raise BadInput(f"{path}: no such model file; run `python -m gaiad.models.provision` or mend the path") from None
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror}); check that it is a file you may read") from error
    except _Damaged as damage:
        raise BadInput(f"{path}: {damage}; replace it with a complete GGUF") from damage


class _Damaged(Exception):
    pass


def _read(path: Path, file: BinaryIO, size: int) -> GgufHeader:
    magic = file.read(4)
    if magic != MAGIC:
        raise _Damaged(f"is not a GGUF (it starts with {magic!r}, not {MAGIC!r})")
    version = _number(file, "<I")
    if version not in _VERSIONS:
        raise _Damaged(f"is GGUF version {version}, versions {_VERSIONS[0]} and {_VERSIONS[1]} can be read")
    tensors, keys = _number(file, "<Q"), _number(file, "<Q")
    if tensors == 0:
        raise _Damaged("holds no weights (a vocabulary-only file)")
    if keys > _MAX_KEYS or tensors > size:
        raise _Damaged(f"has a damaged header ({keys} keys, {tensors} tensors)")
    metadata = _metadata(file, keys, size)
    architecture = metadata.get("general.architecture")
    width = metadata.get(f"{architecture}.embedding_length_out", metadata.get(f"{architecture}.embedding_length"))
    context = metadata.get(f"{architecture}.context_length")
    if not isinstance(architecture, str) or not isinstance(width, int) or not isinstance(context, int):
        raise _Damaged("names no architecture, embedding length or context length")
    if not (0 < width <= 65536 and 0 < context <= 1 << 24):
        raise _Damaged(f"has impossible sizes (embedding length {width}, context length {context})")
    return GgufHeader(
        architecture=architecture,
        name=str(metadata.get("general.name", path.stem)),
        embedding=width,
        context=context,
        pooling=_POOLINGS.get(metadata.get(f"{architecture}.pooling_type", 1), "mean"),
        tensors=tensors,
        bytes=size,
    )


def _metadata(file: BinaryIO, keys: int, size: int) -> dict[str, Any]:
    """Scalars and strings by key; stops at the vocabulary, which is long and needed by nobody here."""
    found: dict[str, Any] = {}
    for _ in range(keys):
        key = _text(file, size)
        kind = _number(file, "<I")
        if kind == _ARRAY:
            if key == "tokenizer.ggml.tokens":
                break
            _skip_array(file, size)
        else:
            found[key] = _value(file, kind, size)
    return found


def _value(file: BinaryIO, kind: int, size: int) -> Any:
    if kind == _STRING:
        return _text(file, size)
    if kind not in _SCALARS:
        raise _Damaged(f"has a metadata value of unknown type {kind}")
    return _number(file, _SCALARS[kind])


def _skip_array(file: BinaryIO, size: int) -> None:
    kind, count = _number(file, "<I"), _number(file, "<Q")
    if count > size:
        raise _Damaged(f"has an array of {count} values in {size} bytes")
    if kind in _SCALARS:
        file.seek(count * struct.calcsize(_SCALARS[kind]), 1)
        return
    for _ in range(count):
        _value(file, kind, size)


def _text(file: BinaryIO, size: int) -> str:
    length = _number(file, "<Q")
    if length > size:
        raise _Damaged(f"has a string of {length} bytes in {size}")
    return _exactly(file, length).decode("utf-8", "replace")


def _number(file: BinaryIO, form: str) -> Any:
    return struct.unpack(form, _exactly(file, struct.calcsize(form)))[0]


def _exactly(file: BinaryIO, count: int) -> bytes:
    data = file.read(count)
    if len(data) < count:
        raise _Damaged("ends inside its header (truncated)")
    return data
