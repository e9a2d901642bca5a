"""Recovery points: a manifest names the version of every state, with its hash; the states themselves are there already.

A manifest is verified when it is made, and again when it is read. The newest that is whole is the one that counts:
damaged ones are passed over by name. Rows of the newest KEPT manifests stay; the versions they name stay all.

A continuation token is the id of partial state and when it ends, signed (HMAC-SHA-256) with a key that only this
tenant's database has, and with the tenant and the task in what is signed. The key travels with backups.
"""

import base64
import hmac
import secrets
import sqlite3
from collections.abc import Mapping
from hashlib import sha256 as _sha256
from typing import Any, NamedTuple

import msgspec

from gaiad.base.clock import iso_of_ms
from gaiad.base.errors import Conflict, Forbidden, NotFound
from gaiad.context.bodies import Body, DamagedBody, Folders, insert_body, read_body, read_json
from gaiad.context.records import SYSTEM, add_version, components, current_iteration, task_ids
from gaiad.wire.context_keeping import (
    CheckpointEntry,
    CheckpointManifest,
    CheckpointRow,
    CompletedWork,
    Continuation,
    ContinuationStorage,
    ContinuedState,
    PassedOver,
    RecoveryState,
    VerificationResult,
)

KEPT = 100
"""Checkpoints of a tenant."""


class _Whole(NamedTuple):
    manifest: CheckpointManifest
    states: dict[str, bytes]
    passed_over: list[PassedOver]
    damaged: list[str]


def make_manifest(
    connection: sqlite3.Connection,
    folders: Folders,
    checkpoint_id: str,
    now_ms: int,
    reason: str,
    configuration: Mapping[str, Any],
) -> CheckpointManifest:
    """The manifest of this snapshot; every body it names was read and matched its hash."""
    entries, damaged = [], []
    for component in components(connection):
        version, sha256 = connection.execute(
            "SELECT version, sha256 FROM context_versions WHERE component = ? ORDER BY version DESC LIMIT 1",
            (component,),
        ).fetchone()
        try:
            size = len(read_body(connection, folders, sha256))
            entries.append(CheckpointEntry(component=component, version=version, sha256=sha256, bytes=size))
        except DamagedBody as error:
            damaged.append(f"{component}: {error.message}")
    system = next((entry for entry in entries if entry.component == SYSTEM), None)
    data = read_json(connection, folders, system.sha256)["checkpoint_data"] if system else {}
    outputs = connection.execute("SELECT agent, sum(outputs) FROM context_effectiveness GROUP BY agent ORDER BY agent")
    return CheckpointManifest(
        checkpoint_id=checkpoint_id,
        created_at=iso_of_ms(now_ms),
        reason=reason,
        iteration=current_iteration(connection),
        last_record=last_record(connection),
        versions=_versions(connection),
        entries=entries,
        in_flight_tasks=data.get("in_flight_tasks", []),
        recovery_metadata=data.get("recovery_metadata", {}),
        completed=dict(outputs.fetchall()),
        system_configuration=dict(configuration),
        damaged=damaged,
    )


def last_record(connection: sqlite3.Connection) -> int:
    """The number of the newest record."""
    return int(connection.execute("SELECT coalesce(max(number), 0) FROM context_records").fetchone()[0])


def _versions(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT coalesce(sum(version), 0) FROM context_components").fetchone()[0])


def add_checkpoint(connection: sqlite3.Connection, manifest: CheckpointManifest) -> CheckpointRow:
    """Keep a manifest; the oldest beyond KEPT go."""
    body = msgspec.json.encode(manifest)
    values = (manifest.checkpoint_id, _sha256(body).hexdigest(), body)
    connection.execute("INSERT INTO context_checkpoints (id, sha256, body) VALUES (?, ?, ?)", values)
    connection.execute(
        "DELETE FROM context_checkpoints WHERE number <= (SELECT max(number) FROM context_checkpoints) - ?", (KEPT,)
    )
    return _row(manifest, values[1])


def list_checkpoints(connection: sqlite3.Connection, limit: int) -> list[CheckpointRow]:
    """The last ones, newest first; of one that cannot be read only the name and what is wrong."""
    found = connection.execute(
        "SELECT id, sha256, body FROM context_checkpoints ORDER BY number DESC LIMIT ?", (limit,)
    ).fetchall()
    rows = []
    for checkpoint_id, sha256, body in found:
        try:
            rows.append(_row(_manifest(checkpoint_id, sha256, body), sha256))
        except DamagedBody as error:
            rows.append(
                CheckpointRow(
                    checkpoint_id=checkpoint_id, created_at="", reason="", iteration=0, components=0, bytes=0,
                    sha256=sha256, damaged=[error.message],
                )
            )  # fmt: skip
    return rows


def newest_covers(connection: sqlite3.Connection) -> bool:
    """Whether nothing was stored or rolled back since the newest checkpoint."""
    row = connection.execute("SELECT id, sha256, body FROM context_checkpoints ORDER BY number DESC LIMIT 1").fetchone()
    if row is None:
        return last_record(connection) == 0
    try:
        manifest = _manifest(*row)
    except DamagedBody:
        return False
    return (manifest.last_record, manifest.versions) == (last_record(connection), _versions(connection))


def recover(connection: sqlite3.Connection, folders: Folders, checkpoint_id: str) -> RecoveryState:
    """From the newest checkpoint that is whole, or the one named if it is.

    Raises NotFound without one, Conflict when none is whole.
    """
    manifest, states, passed_over, damaged = _whole(connection, folders, checkpoint_id)
    finished, active = [], []
    for name, task in zip(task_ids(manifest.in_flight_tasks), manifest.in_flight_tasks, strict=True):
        query = "SELECT 1 FROM context_records WHERE kind = 'output' AND task_id = ?"
        if connection.execute(query, (name,)).fetchone():
            finished.append(name)
        else:
            active.append(task)
    return RecoveryState(
        checkpoint_id=manifest.checkpoint_id,
        checkpoint_timestamp=manifest.created_at,
        system_configuration=manifest.system_configuration,
        active_tasks=active,
        completed_work=CompletedWork(outputs_by_agent=manifest.completed, finished_since=finished),
        resume_points={name: msgspec.Raw(content) for name, content in states.items()},
        recovery_metadata=manifest.recovery_metadata,
        data_integrity=VerificationResult(
            verified=not damaged,
            bodies=len(states),
            bytes=sum(map(len, states.values())),
            passed_over=passed_over,
            damaged=[*manifest.damaged, *damaged],
        ),
    )


def restore(
    connection: sqlite3.Connection, folders: Folders, checkpoint_id: str, now_ms: int
) -> tuple[str, dict[str, int], list[PassedOver]]:
    """Make the states of a checkpoint the current ones, each as a new version; what came after it is kept.

    The checkpoint used, the version each changed component is at now, and what was passed over. Raises as `recover`.
    """
    manifest, _, passed_over, _ = _whole(connection, folders, checkpoint_id)
    now = dict(connection.execute("SELECT component, version FROM context_components").fetchall())
    restored = {}
    for entry in manifest.entries:
        if now[entry.component] != entry.version:
            query = "SELECT record FROM context_versions WHERE component = ? AND version = ?"
            (record,) = connection.execute(query, (entry.component, entry.version)).fetchone()
            restored[entry.component] = add_version(
                connection, entry.component, now_ms, record, entry.sha256, entry.version
            )
    return manifest.checkpoint_id, restored, passed_over


def _whole(connection: sqlite3.Connection, folders: Folders, checkpoint_id: str) -> _Whole:
    """The checkpoint named, or the newest, or the next one before it that is whole. Where none is, the newest whose
    manifest can be read, with an earlier version of each component that is damaged.
    """
    below = 1 << 53
    if checkpoint_id:
        row = connection.execute("SELECT number FROM context_checkpoints WHERE id = ?", (checkpoint_id,)).fetchone()
        if row is None:
            raise NotFound(f"no checkpoint is called {checkpoint_id!r}; `gaiad context checkpoints` lists them")
        below = row[0] + 1
    passed_over: list[PassedOver] = []
    in_part: CheckpointManifest | None = None
    query = "SELECT id, sha256, body FROM context_checkpoints WHERE number < ? ORDER BY number DESC"
    for name, sha256, body in connection.execute(query, (below,)).fetchall():
        try:
            manifest = _manifest(name, sha256, body)
            in_part = in_part or manifest
            states = {entry.component: read_body(connection, folders, entry.sha256) for entry in manifest.entries}
            return _Whole(manifest, states, passed_over, [])
        except DamagedBody as error:
            passed_over.append(PassedOver(checkpoint_id=name, problem=error.message))
    if not passed_over:
        raise NotFound("no checkpoint has been made yet; `gaiad context checkpoints --make` makes one")
    if in_part is not None and (found := _in_part(connection, folders, in_part, passed_over)).states:
        return found
    problems = "; ".join(f"{one.checkpoint_id}: {one.problem}" for one in passed_over[:3])
    raise Conflict(f"no checkpoint is whole ({problems}); restore the last backup (gaiad restore DIR)")


def _in_part(
    connection: sqlite3.Connection, folders: Folders, manifest: CheckpointManifest, passed_over: list[PassedOver]
) -> _Whole:
    """What can be recovered of a checkpoint that is not whole: one damaged component does not stop the others."""
    states: dict[str, bytes] = {}
    entries, damaged = [], []
    query = "SELECT version, sha256 FROM context_versions WHERE component = ? AND version <= ? ORDER BY version DESC"
    for entry in manifest.entries:
        name = entry.component
        for version, sha256 in connection.execute(query, (name, entry.version)).fetchall():
            try:
                states[name] = read_body(connection, folders, sha256)
            except DamagedBody:
                continue
            entries.append(CheckpointEntry(component=name, version=version, sha256=sha256, bytes=len(states[name])))
            break
        if name not in states:
            damaged.append(f"{name}: no version up to {entry.version} is whole")
        elif entries[-1].version != entry.version:
            damaged.append(
                f"{name}: version {entry.version} is damaged; version {entries[-1].version} stands in for it"
            )
    return _Whole(msgspec.structs.replace(manifest, entries=entries), states, passed_over, damaged)


def _manifest(name: str, sha256: str, body: bytes) -> CheckpointManifest:
    if _sha256(body).hexdigest() != sha256:
        raise DamagedBody(f"the manifest of {name} does not match its hash")
    return msgspec.json.decode(body, type=CheckpointManifest)


def _row(manifest: CheckpointManifest, sha256: str) -> CheckpointRow:
    return CheckpointRow(
        checkpoint_id=manifest.checkpoint_id,
        created_at=manifest.created_at,
        reason=manifest.reason,
        iteration=manifest.iteration,
        components=len(manifest.entries),
        bytes=sum(entry.bytes for entry in manifest.entries),
        sha256=sha256,
        damaged=manifest.damaged,
    )


_FORMAT = "ctn1"
_KEY = "continuations"


def store_continuation(
    connection: sqlite3.Connection, tenant: str, wanted: ContinuationStorage, body: Body, name: str, now_ms: int
) -> Continuation:
    """Keep partial state under the id `name`; an earlier token of the same task is stale from here on."""
    expires_ms = now_ms + wanted.expires_in_s * 1000
    insert_body(connection, body)
    connection.execute(
        "INSERT INTO context_continuations (id, agent, task_id, stored_ms, expires_ms, sha256)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        (name, wanted.agent_type, wanted.task_id, now_ms, expires_ms, body.sha256),
    )
    fresh = secrets.token_bytes(32)
    connection.execute("INSERT INTO context_keys VALUES (?, ?) ON CONFLICT DO NOTHING", (_KEY, fresh))
    signature = _signature(_key(connection), name, tenant, wanted.task_id, expires_ms)
    return Continuation(
        continuation_token=f"{_FORMAT}.{name}.{expires_ms}.{signature}", expires_at=iso_of_ms(expires_ms)
    )


def continued(
    connection: sqlite3.Connection, folders: Folders, tenant: str, task_id: str, token: str, now_ms: int
) -> ContinuedState:
    """What a token stands for. Raises Forbidden, in words, for one that is foreign, altered, expired or stale."""
    name, expires_ms = _opened(connection, tenant, task_id, token)
    if expires_ms <= now_ms:
        raise Forbidden(f"the continuation token expired at {iso_of_ms(expires_ms)}; start task {task_id} again")
    row = connection.execute(
        "SELECT number, agent, stored_ms, sha256 FROM context_continuations WHERE id = ?", (name,)
    ).fetchone()
    if row is None:
        raise Forbidden(f"what this token of task {task_id} stands for is not here: a backup without it was restored")
    number, agent, stored_ms, sha256 = row
    later = connection.execute(
        "SELECT stored_ms FROM context_continuations WHERE agent = ? AND task_id = ? AND number > ? LIMIT 1",
        (agent, task_id, number),
    ).fetchone()
    if later:
        raise Forbidden(
            f"the continuation token is stale: task {task_id} stored a later state at {iso_of_ms(later[0])}"
        )
    return ContinuedState(
        agent_type=agent,
        task_id=task_id,
        stored_at=iso_of_ms(stored_ms),
        expires_at=iso_of_ms(expires_ms),
        partial_state=read_json(connection, folders, sha256),
    )


def check_token(connection: sqlite3.Connection, tenant: str, task_id: str, token: str) -> None:
    """Raise Forbidden for a token that was not made here for this task; when it ends does not matter."""
    _opened(connection, tenant, task_id, token)


def _opened(connection: sqlite3.Connection, tenant: str, task_id: str, token: str) -> tuple[str, int]:
    """Id and end of a token that is ours."""
    parts = token.split(".")
    key = _key(connection)
    if len(parts) != 4 or parts[0] != _FORMAT or not (parts[2].isascii() and parts[2].isdigit()) or not key:
        raise Forbidden("this is not a continuation token of this memory; hand it back exactly as it was given")
    name, expires_ms = parts[1], int(parts[2])
    wanted = _signature(key, name, tenant, task_id, expires_ms)
    if not hmac.compare_digest(wanted.encode(), parts[3].encode()):
        raise Forbidden(
            f"this continuation token is not for task {task_id} in tenant {tenant}: it was made for another, or altered"
        )
    return name, expires_ms


def _key(connection: sqlite3.Connection) -> bytes:
    row = connection.execute("SELECT value FROM context_keys WHERE name = ?", (_KEY,)).fetchone()
    return bytes(row[0]) if row else b""


def _signature(key: bytes, name: str, tenant: str, task_id: str, expires_ms: int) -> str:
    signed = "\0".join((_FORMAT, name, tenant, task_id, str(expires_ms))).encode()
    return base64.urlsafe_b64encode(hmac.digest(key, signed, "sha256")).rstrip(b"=").decode()
