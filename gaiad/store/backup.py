"""Backup and restore of a home's databases, with the large bodies that lie beside them.

A backup is a folder of plain database files and a manifest with their hashes; it gets its name only once it is whole.
A restore prepares a complete copy beside the living files and then exchanges them; what was there is moved aside, never
deleted, and an exchange that a crash interrupts is finished at the next start.
"""

import hashlib
import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from gaiad import __version__
from gaiad.base.errors import BadInput, Conflict, NotFound
from gaiad.base.home import sync_folder
from gaiad.store.database import Damaged, find_damage
from gaiad.store.home_databases import (
    STATE_DATABASE,
    TENANT_DATABASE,
    TENANTS,
    HomeDatabases,
    check_tenant_name,
    migrate_database,
    read_database,
)
from gaiad.store.secondary import BODIES

MANIFEST = "manifest.json"
_FORMAT = 2
_CHUNK_BYTES = 1 << 20
_STAGING = "restore.partial"
_READY = "restore.ready"
_EXCHANGED = (STATE_DATABASE, TENANTS)
_BODY = re.compile(rf"{TENANTS}/[^/]+/{BODIES}/([0-9a-f]{{2}})/(\1[0-9a-f]{{62}})")


class BackupFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file: its path in the backup and its bytes."""

    path: str
    sha256: str
    size: int


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What a backup holds. `tenants` are names; their databases are at tenants/<name>/tenant.db.

    Large bodies, named by their hash, are at tenants/<name>/bodies/<its first two digits>/<hash>.
    """

    format: int
    gaiad: str
    created_at: str
    tenants: list[str]
    counts: dict[str, int]
    files: list[BackupFile]


def write_backup(directory: Path, databases: HomeDatabases, created_at: str, counts: dict[str, int]) -> Manifest:
    """Copy the databases while they are in use; blocks.

    Raises Conflict when `directory` holds something, Damaged when a database is, BadInput when it cannot be written.
    """
    directory = directory.absolute()
    partial = directory.with_name(f".{directory.name}.partial-{os.getpid()}")
    try:
        if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
            raise Conflict(f"{directory} is not empty; name a folder that does not exist yet")
        directory.parent.mkdir(parents=True, exist_ok=True)
        _sweep_partials(directory.parent)
        partial.mkdir(mode=0o700)
        files = _copy_files(partial, databases)
        tenants = [Path(file.path).parts[1] for file in files if Path(file.path).name == TENANT_DATABASE]
        manifest = Manifest(
            format=_FORMAT, gaiad=__version__, created_at=created_at, tenants=tenants, counts=counts, files=files
        )
        (partial / MANIFEST).write_bytes(msgspec.json.format(msgspec.json.encode(manifest), indent=2))
        sync_file(partial / MANIFEST)
        sync_folder(partial)
        partial.rename(directory)
        sync_folder(directory.parent)
    except OSError as error:
        raise BadInput(f"{directory}: cannot write the backup ({error.strerror or error})") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return manifest


def _sweep_partials(folder: Path) -> None:
    """Remove what backups left that were killed; one of a process that still runs stays."""
    for left in folder.glob(".*.partial-*"):
        pid = left.name.rpartition("-")[2]
        ours = left.is_dir() and not left.is_symlink() and left.stat().st_uid == os.getuid()
        if ours and pid.isdigit() and (int(pid) == os.getpid() or not Path(f"/proc/{pid}").exists()):
            shutil.rmtree(left, ignore_errors=True)


def read_manifest(directory: Path) -> Manifest:
    """The manifest of a backup whose every file matches its hash and can be opened by this gaiad.

    Raises NotFound without a manifest, BadInput for damage, Conflict for a newer or older schema.
    """
    path = directory / MANIFEST
    try:
        manifest = msgspec.json.decode(path.read_bytes(), type=Manifest)
    except FileNotFoundError as error:
        raise NotFound(f"{directory} is not a gaiad backup: it has no {MANIFEST}") from error
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: cannot be read ({error}); use another backup") from error
    if manifest.format != _FORMAT:
        age = "a newer" if manifest.format > _FORMAT else "an earlier"
        raise Conflict(f"{path} was written by {age} gaiad ({manifest.gaiad}), which this one cannot read")
    expected = {STATE_DATABASE, *(_tenant_path(name) for name in manifest.tenants)}
    if {file.path for file in manifest.files if not _is_body(file, manifest.tenants)} != expected:
        raise BadInput(f"{path}: files and tenants do not match; use another backup")
    for file in manifest.files:
        _check_file(directory / file.path, file)
    return manifest


def prepare_restore(home: Path, directory: Path, manifest: Manifest) -> Path:
    """A complete, migrated copy of the backup beside the living files, for `exchange`; blocks.

    Raises BadInput when it cannot be written, Conflict.
    """
    staging = home / _STAGING
    _remove(staging)
    _remove(home / _READY)
    try:
        for file in manifest.files:
            copy = staging / file.path
            copy.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            shutil.copyfile(directory / file.path, copy)
            if not _BODY.fullmatch(file.path):
                migrate_database(copy)
            sync_file(copy)
            sync_folder(copy.parent)
        (staging / TENANTS).mkdir(exist_ok=True, mode=0o700)
        sync_folder(staging)
    except OSError as error:
        _remove(staging)
        raise BadInput(f"{home}: cannot copy the backup ({error.strerror or error}); free some space") from error
    except Conflict:
        _remove(staging)
        raise
    return staging


def exchange(databases: HomeDatabases, aside: Path, last_change: Callable[[Path], None]) -> None:
    """Put the prepared copy in place of the living databases, which move to the folder `aside`; blocks.

    `last_change` may still change the copied state.db, while nothing is open. Whatever it raises leaves all as it was.
    """
    home = databases.home

    def move() -> None:
        last_change(home / _STAGING / STATE_DATABASE)
        _mark_ready(home, aside)
        finish_interrupted(home)

    try:
        databases.exchange(move, "a restore is running")
    except OSError as error:
        raise BadInput(f"{home}: cannot exchange the databases ({error.strerror or error})") from error
    finally:
        _remove(home / _STAGING)


def _mark_ready(home: Path, aside: Path) -> None:
    """From here on the exchange is finished, now or at the next start."""
    (home / _STAGING / aside.name).touch()
    sync_folder(home / _STAGING)
    (home / _STAGING).rename(home / _READY)


def finish_interrupted(home: Path) -> None:
    """Go on with an exchange that a crash interrupted; at the start, before anything is opened. Raises OSError."""
    ready = home / _READY
    if not ready.exists():
        _remove(home / _STAGING)
        return
    aside = home / next(path.name for path in ready.iterdir() if path.name not in _EXCHANGED)
    aside.mkdir(exist_ok=True, mode=0o700)
    for name in _EXCHANGED:
        if not (ready / name).exists():
            continue
        for living in sorted(home.glob(f"{name}*")):  # a log that a crash left goes with its database
            living.rename(aside / living.name)
        (ready / name).rename(home / name)
        sync_folder(home)
    _remove(ready)


def hash_file(path: Path) -> tuple[str, int]:
    """(SHA-256 in hexadecimal, size in bytes)."""
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
            size += len(chunk)
    return digest.hexdigest(), size


def sync_file(path: Path) -> None:
    """Bring the file's bytes to the disk."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _tenant_path(name: str) -> str:
    return f"{TENANTS}/{check_tenant_name(name)}/{TENANT_DATABASE}"


def _copy_files(partial: Path, databases: HomeDatabases) -> list[BackupFile]:
    """The tenants first: what the audit says of them is then in the copy of state.db."""
    for tenant, why in databases.damaged.items():
        raise Damaged(f"tenant {tenant} cannot be used, so no backup was written: {why}")
    files = []
    for name, source in sorted(databases.files().items(), key=lambda item: item[0] == STATE_DATABASE):
        copy = partial / name
        copy.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        source.backup(copy)
        if damage := find_damage(copy):
            raise Damaged(
                f"{source.path} is damaged ({damage[0]}); no backup was written. Restore the last good one (gaiad"
                " restore DIR)"
            )
        files.append(_copied(copy, name))
        if name != STATE_DATABASE:  # after its database: whatever that names is there by then
            files += _copy_bodies(partial, databases.body_folders(Path(name).parent.name), Path(name).parent)
    return files


def _copy_bodies(partial: Path, folders: Sequence[Path], tenant: Path) -> Iterator[BackupFile]:
    found = {
        source.relative_to(folder): source for folder in reversed(folders) for source in folder.glob(f"{BODIES}/??/*")
    }
    for within, source in sorted(found.items()):
        name = (tenant / within).as_posix()
        if _BODY.fullmatch(name):
            copy = partial / name
            copy.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            shutil.copyfile(source, copy)
            yield _copied(copy, name)


def _copied(copy: Path, name: str) -> BackupFile:
    sync_file(copy)
    sync_folder(copy.parent)
    sha256, size = hash_file(copy)
    return BackupFile(path=name, sha256=sha256, size=size)


def _is_body(file: BackupFile, tenants: list[str]) -> bool:
    """Whether it is a body of one of these tenants. One that was damaged already is kept as it is."""
    return _BODY.fullmatch(file.path) is not None and Path(file.path).parts[1] in tenants


def _check_file(path: Path, file: BackupFile) -> None:
    try:
        sha256, size = hash_file(path)
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror}); use another backup") from error
    if (sha256, size) != (file.sha256, file.size):
        raise BadInput(f"{path}: does not match its hash in the manifest, so it is damaged; use another backup")
    if not _BODY.fullmatch(file.path):
        with read_database(path):
            pass


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
