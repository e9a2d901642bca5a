-- Conversations: which packets are turns of which session, and the memos of their pages. All of it follows from the
-- originals whose packets.source is session_turn (written by the memorizer alone: no file or document can have that
-- source), and reindex makes it anew.

CREATE TABLE sessions (
    id             INTEGER PRIMARY KEY,
    session_id     TEXT NOT NULL UNIQUE,
    title          TEXT NOT NULL,
    description    TEXT NOT NULL,
    agent_id       TEXT NOT NULL,
    classification TEXT NOT NULL,                      -- JSON arrays and object
    policy_tags    TEXT NOT NULL,
    metadata       TEXT NOT NULL,
    created_ms     INTEGER NOT NULL,                   -- UTC
    updated_ms     INTEGER NOT NULL,
    turns          INTEGER NOT NULL,
    pages          INTEGER NOT NULL
);
CREATE INDEX sessions_by_time ON sessions (updated_ms);

CREATE TABLE turns (
    packet     INTEGER PRIMARY KEY REFERENCES packets (id) ON DELETE CASCADE,
    session    INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    turn_id    TEXT NOT NULL UNIQUE,
    sequence   INTEGER NOT NULL,                       -- from 0, rising, within the session
    first_page INTEGER NOT NULL                        -- number of its first page within the session
);
CREATE UNIQUE INDEX turns_in_order ON turns (session, sequence);

CREATE TABLE memos (
    page         INTEGER PRIMARY KEY REFERENCES pages (id) ON DELETE CASCADE,
    memo_version INTEGER NOT NULL,                     -- of the rules that made it
    body         BLOB NOT NULL                         -- msgpack
);
CREATE TABLE session_knows (                           -- names, dates and sentences some memo of the session has already
    session INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    key     TEXT NOT NULL,
    PRIMARY KEY (session, key)
) WITHOUT ROWID;

CREATE INDEX packets_remembered ON packets (session_id) WHERE source = 'session_turn';
