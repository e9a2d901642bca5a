"""The seed's tree of folders: one file a record, checkpoints, aggregates and configuration; written whole, read back.

`manifest.json` has the order and hash of every record, so that another gaiad gets the same history from it. Vectors are
not in it: they follow from the summaries. A tree without a manifest is read folder by folder.
"""

import os
import re
import shutil
import sqlite3
from collections.abc import Iterator, Mapping
from hashlib import sha256 as _sha256
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from gaiad import __version__
from gaiad.base.errors import BadInput, Conflict
from gaiad.base.home import sync_folder
from gaiad.context.aggregates import trends
from gaiad.context.bodies import MAX_BODY_BYTES, Folders, read_body
from gaiad.context.records import components
from gaiad.wire.context import AgentOutput, ContextRecord, MetaReviewStorage, RecordKind, StateUpdate
from gaiad.wire.context_keeping import CheckpointManifest, TreeEntry, TreeManifest, TreeReport
from gaiad.wire.context_reviews import EffectivenessTrend, IterationTotals, PatternTrend, TrendQuery

MANIFEST = "manifest.json"
_FOLDER = re.compile(r"iteration_([0-9]{1,7})")
KINDS: Mapping[RecordKind, type[ContextRecord]] = {
    "state": StateUpdate,
    "output": AgentOutput,
    "review": MetaReviewStorage,
}
SCHEMAS: Mapping[str, Any] = {
    "state_update": StateUpdate,
    "agent_output": AgentOutput,
    "meta_review": MetaReviewStorage,
    "checkpoint": CheckpointManifest,
    "manifest": TreeManifest,
    "effectiveness_metrics": list[EffectivenessTrend],
    "pattern_history": list[PatternTrend],
    "research_progress": list[IterationTotals],
}
"""JSON Schemas that are exported with the tree, by the kind of file."""
_PLACES: Mapping[RecordKind, tuple[str, str]] = {
    "state": ("system_state.json", "earlier_states"),
    "review": ("meta_review.json", "earlier_reviews"),
}


class TreeRecord(NamedTuple):
    """A record read from a tree; `record_id` is "" where the tree does not say."""

    record: ContextRecord
    iteration: int
    record_id: str


# ------------------------------------------------------------------------------------------------------------ writing


def write_tree(
    connection: sqlite3.Connection, folders: Folders, directory: Path, at: str, configuration: Mapping[str, Any]
) -> TreeReport:
    """Export everything of this snapshot to a new folder; blocks.

    Raises Conflict when the folder holds something, BadInput when it cannot be written, DamagedBody.
    """
    partial = directory.with_name(f".{directory.name}.partial-{os.getpid()}")
    try:
        if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
            raise Conflict(f"{directory} is not empty; name a folder that does not exist yet")
        partial.mkdir(parents=True, mode=0o700)
        entries = list(_write_records(connection, folders, partial))
        heads = dict(_heads(connection))
        _write(
            partial / MANIFEST, TreeManifest(format=1, gaiad=__version__, exported_at=at, records=entries, heads=heads)
        )
        _write_rest(connection, partial, configuration)
        if directory.exists():
            directory.rmdir()
        partial.rename(directory)
        sync_folder(directory.parent)
    except OSError as error:
        raise BadInput(f"{directory}: cannot write the export ({error.strerror or error})") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return report(directory, [entry.kind for entry in entries])


def _write_records(connection: sqlite3.Connection, folders: Folders, root: Path) -> Iterator[TreeEntry]:
    newest = dict(
        connection.execute(
            "SELECT max(number), id FROM context_records WHERE kind <> 'output' GROUP BY kind, iteration"
        ).fetchall()
    )
    rows = connection.execute("SELECT number, id, kind, iteration, sha256 FROM context_records ORDER BY number")
    for number, record_id, kind, iteration, sha256 in rows.fetchall():
        first, earlier = _PLACES.get(kind, ("", "agent_outputs"))
        name = first if number in newest else f"{earlier}/{record_id}.json"
        path = f"iterations/iteration_{iteration:03d}/{name}"
        _write_bytes(root / path, read_body(connection, folders, sha256))
        yield TreeEntry(path=path, id=record_id, kind=kind, iteration=iteration, sha256=sha256)


def _heads(connection: sqlite3.Connection) -> Iterator[tuple[str, str]]:
    query = "SELECT sha256 FROM context_versions WHERE component = ? ORDER BY version DESC LIMIT 1"
    for component in components(connection):
        yield component, connection.execute(query, (component,)).fetchone()[0]


def _write_rest(connection: sqlite3.Connection, root: Path, configuration: Mapping[str, Any]) -> None:
    """Checkpoints, aggregates, configuration: for people; an import makes them itself."""
    for name, body in connection.execute("SELECT id, body FROM context_checkpoints").fetchall():
        _write_bytes(root / "checkpoints" / f"{name}.json", body)
    found = trends(connection, TrendQuery(iterations=1000))
    _write(root / "aggregates" / "effectiveness_metrics.json", found.effectiveness)
    _write(root / "aggregates" / "pattern_history.json", found.patterns)
    _write(root / "aggregates" / "research_progress.json", found.iterations)
    context = configuration.get("context", {})
    _write(root / "configuration" / "system_config.json", configuration)
    _write(root / "configuration" / "retention_policy.json", context)
    for name, kind in SCHEMAS.items():
        _write(root / "configuration" / "schemas" / f"{name}.json", msgspec.json.schema(kind))


def _write(path: Path, value: object) -> None:
    _write_bytes(path, msgspec.json.format(msgspec.json.encode(value), indent=2))


def _write_bytes(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.write_bytes(content)


# ------------------------------------------------------------------------------------------------------------ reading


def read_tree(directory: Path) -> tuple[list[TreeRecord], dict[str, str]]:
    """The records of a tree in the order to store them, and the hashes of the current states; blocks.

    Raises BadInput naming the file for what cannot be read, does not fit or does not match its hash.
    """
    if not (directory / "iterations").is_dir():
        raise BadInput(f"{directory} is not an export: it has no iterations/")
    if not (directory / MANIFEST).is_file():
        return [_read(directory, path, kind, iteration, "", "") for path, kind, iteration in _found(directory)], {}
    try:
        manifest = msgspec.json.decode((directory / MANIFEST).read_bytes(), type=TreeManifest)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadInput(f"{directory / MANIFEST}: cannot be read ({error})") from error
    read = [_read(directory, one.path, one.kind, one.iteration, one.sha256, one.id) for one in manifest.records]
    return read, manifest.heads


def _found(directory: Path) -> Iterator[tuple[str, RecordKind, int]]:
    """Every file of a tree without a manifest: (path, kind, iteration), an iteration's review last."""
    for folder in sorted((directory / "iterations").iterdir()):
        if not (match := _FOLDER.fullmatch(folder.name)) or int(match[1]) < 1:
            continue
        iteration = int(match[1])
        for kind, pattern in (
            ("state", "earlier_states/*.json"),
            ("output", "agent_outputs/*.json"),
            ("state", "system_state.json"),
            ("review", "earlier_reviews/*.json"),
            ("review", "meta_review.json"),
        ):
            for path in sorted(folder.glob(pattern)):
                yield path.relative_to(directory).as_posix(), kind, iteration  # type: ignore[misc]


def _read(directory: Path, name: str, kind: RecordKind, iteration: int, sha256: str, record_id: str) -> TreeRecord:
    path = directory / name
    try:
        inside = path.resolve().is_relative_to(directory.resolve())
        if not inside or path.stat().st_size > MAX_BODY_BYTES * 2:
            raise BadInput(f"{path}: is outside the export, or too large for a record")
        content = path.read_bytes()
        if sha256 and _sha256(content).hexdigest() != sha256:
            raise BadInput(f"{path}: does not match its hash in {MANIFEST}, so it is damaged; nothing was imported")
        record = msgspec.json.decode(content, type=KINDS[kind])
    except (OSError, ValueError, msgspec.MsgspecError) as error:
        raise BadInput(f"{path}: cannot be read as a {kind} ({error}); nothing was imported") from error
    if isinstance(record, MetaReviewStorage) and record.iteration_number != iteration:
        raise BadInput(f"{path}: it reviews iteration {record.iteration_number}; nothing was imported")
    return TreeRecord(record, iteration, record_id)


def report(directory: Path, kinds: list[RecordKind], known: int = 0) -> TreeReport:
    """Records by kind, and how many were known before."""
    return TreeReport(
        directory=str(directory),
        states=kinds.count("state"),
        outputs=kinds.count("output"),
        reviews=kinds.count("review"),
        known=known,
    )
