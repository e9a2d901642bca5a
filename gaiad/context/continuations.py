"""Continuation tokens: an agent stores partial state, and goes on from it with the token it was given.

A token is the id of what was stored and when it ends, signed (HMAC-SHA-256) with a key that only this tenant's
database has, and with the tenant and the task in what is signed. The key travels with backups, so a token is good on
another day, after an upgrade and after a restore.
"""

import base64
import hmac
import secrets
import sqlite3

from gaiad.base.clock import iso_of_ms
from gaiad.base.errors import Forbidden
from gaiad.context.bodies import Body, Folders, insert_body, read_json
from gaiad.wire.context_keeping import Continuation, ContinuationStorage, ContinuedState

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
