-- What belongs to the daemon and to no tenant: the audit of all tenants, governance, and messages of the whole council.

-- ------------------------------------------------------------------------------------------------- gaiad/ledger

CREATE TABLE audit (
    number          INTEGER PRIMARY KEY,
    at              TEXT NOT NULL,
    kind            TEXT NOT NULL,
    tenant          TEXT NOT NULL,
    actor           TEXT NOT NULL,
    body            TEXT NOT NULL,
    previous_sha256 TEXT NOT NULL,
    sha256          TEXT NOT NULL
);
CREATE INDEX audit_by_kind ON audit (kind, number);
CREATE TRIGGER audit_rows_stay BEFORE DELETE ON audit
BEGIN SELECT raise(ABORT, 'the audit is append-only: rows are never deleted'); END;
CREATE TRIGGER audit_rows_do_not_change BEFORE UPDATE ON audit
BEGIN SELECT raise(ABORT, 'the audit is append-only: rows are never changed'); END;
CREATE TRIGGER audit_rows_follow BEFORE INSERT ON audit
WHEN new.number <> (SELECT coalesce(max(number), 0) + 1 FROM audit)
BEGIN SELECT raise(ABORT, 'the audit is append-only: a row comes after the last'); END;

CREATE TABLE council_messages (
    full_id TEXT PRIMARY KEY,
    type    TEXT NOT NULL,
    turn_id TEXT NOT NULL,
    body    BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX council_messages_by_type ON council_messages (type, full_id);
CREATE INDEX council_messages_by_turn ON council_messages (turn_id, full_id) WHERE turn_id != '';
CREATE TABLE escalations (
    message_id  TEXT PRIMARY KEY,
    session_id  TEXT NOT NULL,
    answered_at TEXT NOT NULL,
    body        BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX escalations_open ON escalations (session_id) WHERE answered_at = '';

-- --------------------------------------------------------------------------------------------- council/governance

CREATE TABLE rfcs (
    rfc_id     TEXT PRIMARY KEY,
    short_id   TEXT NOT NULL,
    state      TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    body       BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX rfcs_by_short_id ON rfcs (short_id);
CREATE TABLE reflections (
    at_ms      INTEGER NOT NULL,
    stage      TEXT NOT NULL,
    outcome    TEXT NOT NULL,
    confidence REAL
);
CREATE INDEX reflections_by_time ON reflections (at_ms);
CREATE TABLE spans (
    name     TEXT NOT NULL,
    since_ms INTEGER NOT NULL,
    until_ms INTEGER NOT NULL,
    gap_ms   INTEGER NOT NULL,
    ended    TEXT NOT NULL DEFAULT ''
);
CREATE INDEX spans_by_name ON spans (name, until_ms);
