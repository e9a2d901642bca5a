"""The vector index on disk: data files with a manifest that names their SHA-256, never changed once written.

A file that does not match its manifest is not loaded: hnswlib crashes on a flipped bit. The manifest is replaced last
and atomically, so a crash leaves either the old index or the new one.
"""

import hashlib
import os
import secrets
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from gaiad.base.errors import GaiadError

Vectors = NDArray[np.float32]
Ids = NDArray[np.int64]
MANIFEST = "manifest.json"
_FORMAT = 1
_READ_BYTES = 1 << 20


class BrokenIndex(GaiadError):
    """The files are not what was written: the message says which and how. The index is rebuilt from the database."""


class DataFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    size: int
    sha256: str


class VectorManifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the base part holds. `ids` lists the covered pages (int64, rising); `rows` vectors, or hnswlib's own file.

    `pages_change` is the archive's counter of pages rewritten or deleted: at another count, ids may mean other pages.
    """

    format: int = _FORMAT
    kind: Literal["exact", "hnsw"]
    fingerprint: str
    dimension: int
    count: int
    pages_change: int
    ids: DataFile
    rows: DataFile
    search_width: int = 0
    recall: float = 1.0


def write_exact(folder: Path, ids: Ids, matrix: Vectors, fingerprint: str, pages_change: int) -> VectorManifest:
    """Write an exact index of `matrix` (len(ids), dimension) and make it the folder's index."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    manifest = VectorManifest(
        kind="exact",
        fingerprint=fingerprint,
        dimension=matrix.shape[1],
        count=len(ids),
        pages_change=pages_change,
        ids=write_data(folder, "ids", np.ascontiguousarray(ids, "<i8").data),
        rows=write_data(folder, "rows", np.ascontiguousarray(matrix, "<f4").data),
    )
    write_manifest(folder, manifest)
    return manifest


def write_data(folder: Path, stem: str, body: memoryview) -> DataFile:
    """Write a new data file, flushed to disk, and say what it holds."""
    path = new_name(folder, stem)
    content = body.cast("B") if body.nbytes else memoryview(b"")
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    return DataFile(path.name, len(content), hashlib.sha256(content).hexdigest())


def new_name(folder: Path, stem: str) -> Path:
    """A path no file has yet."""
    return folder / f"{stem}-{secrets.token_hex(6)}.bin"


def describe(path: Path) -> DataFile:
    """Flush a file another library wrote to disk, and say what it holds."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())
    return DataFile(path.name, path.stat().st_size, _digest(path))


def write_manifest(folder: Path, manifest: VectorManifest) -> None:
    """Make `manifest` the folder's index, then remove what it does not name."""
    temporary = folder / f"{MANIFEST}.new"
    with temporary.open("wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(manifest)))
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(folder / MANIFEST)
    directory = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
    keep = {MANIFEST, manifest.ids.name, manifest.rows.name}
    for path in folder.glob("*.bin"):
        if path.name not in keep:
            path.unlink(missing_ok=True)


def read_manifest(folder: Path) -> VectorManifest | None:
    """The folder's manifest, None when there is none. Raises BrokenIndex when it cannot be read."""
    path = folder / MANIFEST
    try:
        manifest = msgspec.json.decode(path.read_bytes(), type=VectorManifest)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise BrokenIndex(f"{path} cannot be read ({error})") from error
    if manifest.format != _FORMAT:
        raise BrokenIndex(f"{path} has format {manifest.format}, this gaiad reads {_FORMAT}")
    if manifest.ids.size != manifest.count * 8:
        raise BrokenIndex(
            f"{path} counts {manifest.count} vectors, but its list of pages has {manifest.ids.size} bytes"
        )
    if manifest.kind == "exact" and manifest.rows.size != manifest.count * manifest.dimension * 4:
        raise BrokenIndex(f"{path} does not fit its own data file: {manifest.rows.size} bytes of vectors")
    return manifest


def verify(folder: Path, file: DataFile) -> Path:
    """The data file's path once it is what the manifest says. Raises BrokenIndex."""
    path = folder / file.name
    if path.parent != folder or not path.is_file():
        raise BrokenIndex(f"{path} is missing")
    if path.stat().st_size != file.size:
        raise BrokenIndex(f"{path} has {path.stat().st_size} bytes instead of {file.size}")
    if _digest(path) != file.sha256:
        raise BrokenIndex(f"{path} failed its checksum")
    return path


def read_ids(folder: Path, manifest: VectorManifest) -> Ids:
    """The covered pages' ids. Raises BrokenIndex."""
    return np.frombuffer(verify(folder, manifest.ids).read_bytes(), "<i8").astype(np.int64)


def read_exact(folder: Path, manifest: VectorManifest) -> Vectors:
    """The vectors of an exact index, (count, dimension). Raises BrokenIndex."""
    path = verify(folder, manifest.rows)
    return np.fromfile(path, "<f4").reshape(manifest.count, manifest.dimension).astype(np.float32, copy=False)


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_READ_BYTES):
            digest.update(block)
    return digest.hexdigest()
