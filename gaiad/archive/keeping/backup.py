"""A backup is a folder of plain database files and a manifest with their hashes; it is named only once it is whole."""

import hashlib
import os
import shutil
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from gaiad import __version__
from gaiad.archive.storing.migrations import APPLICATION_ID, archive_migrations
from gaiad.archive.storing.tenant import Tenant, check_tenant_name
from gaiad.errors import BadInput, Conflict, NotFound
from gaiad.store.database import connect, translate
from gaiad.store.file import DatabaseFile

MANIFEST = "manifest.json"
_FORMAT = 1
_CHUNK_BYTES = 1 << 20


class BackupFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file: its path in the backup, its bytes, and the schema version inside."""

    path: str
    sha256: str
    size: int
    schema: int


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What a backup holds. `tenants` are names; their databases lie at tenants/<name>/archive.db."""

    format: int
    gaiad: str
    created_at: str
    tenants: list[str]
    counts: dict[str, int]
    files: list[BackupFile]


def write_backup(
    directory: Path,
    tenants: Sequence[Tenant],
    others: Mapping[str, DatabaseFile],
    created_at: str,
    counts: dict[str, int],
) -> dict[str, Any]:
    """Copy the databases while they are in use; `others` are further files by their name in the backup.

    Returns {directory, bytes, tenants, counts}. Raises Conflict when `directory` holds something, BadInput when it
    cannot be made.
    """
    directory = directory.absolute()
    partial = directory.with_name(f".{directory.name}.partial-{os.getpid()}")
    try:
        if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
            raise Conflict(f"{directory} is not empty; name a folder that does not exist yet")
        directory.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(mode=0o700)
        files = _copy_files(partial, tenants, others)
        manifest = Manifest(
            format=_FORMAT,
            gaiad=__version__,
            created_at=created_at,
            tenants=[tenant.name for tenant in tenants],
            counts=counts,
            files=files,
        )
        _write_durably(partial / MANIFEST, msgspec.json.format(msgspec.json.encode(manifest), indent=2))
        _sync_folder(partial)
        partial.rename(directory)
        _sync_folder(directory.parent)
    except OSError as error:
        raise BadInput(f"{directory}: the backup cannot be written ({error.strerror or error})") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return {
        "directory": str(directory),
        "bytes": sum(file.size for file in files),
        "tenants": manifest.tenants,
        "counts": counts,
    }


def read_manifest(directory: Path) -> Manifest:
    """The manifest of a backup whose every file matches its hash and can be opened by this gaiad.

    Raises NotFound without a manifest, BadInput for damage, Conflict for a newer schema.
    """
    path = directory / MANIFEST
    try:
        manifest = msgspec.json.decode(path.read_bytes(), type=Manifest)
    except FileNotFoundError as error:
        raise NotFound(f"{directory} is not a gaiad backup: it has no {MANIFEST}") from error
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: cannot be read ({error}); use another backup") from error
    if manifest.format > _FORMAT:
        raise Conflict(f"{path} was written by gaiad {manifest.gaiad}, newer than this one; upgrade gaiad")
    listed = {file.path for file in manifest.files}
    for name in manifest.tenants:
        if f"tenants/{check_tenant_name(name)}/archive.db" not in listed:
            raise BadInput(f"{path}: tenant {name} has no database listed; use another backup")
    for file in manifest.files:
        _check_backup_file(directory, file)
    return manifest


def copy_tenants(directory: Path, manifest: Manifest, target: Path) -> None:
    """Lay the tenants' databases out under `target`, migrated to this gaiad's schema and on disk."""
    for name in manifest.tenants:
        folder = target / name
        folder.mkdir(parents=True, mode=0o700)
        shutil.copyfile(directory / "tenants" / name / "archive.db", folder / "archive.db")
        DatabaseFile.open(folder / "archive.db", archive_migrations(), APPLICATION_ID, readers=1).close()
        sync_file(folder / "archive.db")
        _sync_folder(folder)
    _sync_folder(target)


def _copy_files(partial: Path, tenants: Sequence[Tenant], others: Mapping[str, DatabaseFile]) -> list[BackupFile]:
    sources = {f"tenants/{tenant.name}/archive.db": tenant.file for tenant in tenants} | dict(others)
    files = []
    for name, source in sources.items():
        copy = partial / name
        copy.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        source.backup(copy)
        sync_file(copy)
        _sync_folder(copy.parent)
        sha256, size = hash_file(copy)
        files.append(BackupFile(path=name, sha256=sha256, size=size, schema=schema_version(copy)))
    return files


def _check_backup_file(directory: Path, file: BackupFile) -> None:
    path = directory / file.path
    if not path.resolve().is_relative_to(directory.resolve()):
        raise BadInput(f"{directory / MANIFEST} lists {file.path!r}, outside the backup; use another backup")
    try:
        sha256, size = hash_file(path)
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror}); use another backup") from error
    if (sha256, size) != (file.sha256, file.size):
        raise BadInput(f"{path}: does not match its hash in the manifest, so it is damaged; use another backup")
    known = len(archive_migrations())
    if file.path.startswith("tenants/") and schema_version(path) > known:
        raise Conflict(
            f"{path} was written by a newer gaiad (schema {file.schema}, this one knows {known}); upgrade gaiad"
        )


def schema_version(path: Path) -> int:
    """The user_version of a database file that nobody has open."""
    connection = connect(path, read_only=True)
    try:
        return int(connection.execute("PRAGMA user_version").fetchone()[0])
    except sqlite3.Error as error:
        raise translate(error, path) from error
    finally:
        connection.close()


def hash_file(path: Path) -> tuple[str, int]:
    """(SHA-256 in hexadecimal, size in bytes)."""
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
            size += len(chunk)
    return digest.hexdigest(), size


def _write_durably(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    sync_file(path)


def sync_file(path: Path) -> None:
    """Bring the file's bytes to the disk."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
