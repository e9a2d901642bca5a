-- One tenant's memory. `packets` and `originals` are the truth; pages, their text index, metadata, integrity rows and
-- vectors are derived from the originals and rebuilt by reindex.

CREATE TABLE packets (
    id                INTEGER PRIMARY KEY,
    packet_id         TEXT NOT NULL,
    revision          INTEGER NOT NULL,
    current           INTEGER NOT NULL DEFAULT 1,     -- 1 for the newest revision of packet_id: the one searched
    sha256            TEXT NOT NULL UNIQUE,           -- of the original bytes
    size              INTEGER NOT NULL,               -- of the original, bytes
    dialect           TEXT NOT NULL,
    media_type        TEXT NOT NULL,
    timestamp_ms      INTEGER NOT NULL,               -- UTC
    timestamp_derived INTEGER NOT NULL,
    zone_missing      INTEGER NOT NULL,
    id_derived        INTEGER NOT NULL,
    session_id        TEXT NOT NULL,
    topic             TEXT NOT NULL,
    original_model    TEXT NOT NULL,
    current_model     TEXT NOT NULL,
    summary           TEXT NOT NULL,
    verdict           TEXT NOT NULL,
    canonical         BLOB NOT NULL,                  -- msgpack of the Packet without its sections
    source            TEXT NOT NULL,                  -- path or name it came from
    modified_ms       INTEGER NOT NULL,               -- file time at ingest: derived timestamps rest on it
    received_ms       INTEGER NOT NULL,
    derived_version   INTEGER NOT NULL                -- version of reader and page rule that made the derived rows
);
CREATE UNIQUE INDEX packets_by_revision ON packets (packet_id, revision);
CREATE INDEX packets_by_time ON packets (timestamp_ms) WHERE current = 1;
CREATE INDEX packets_by_model ON packets (original_model COLLATE NOCASE) WHERE current = 1;
CREATE INDEX packets_by_session ON packets (session_id) WHERE current = 1;

CREATE TABLE originals (
    packet INTEGER PRIMARY KEY REFERENCES packets (id),
    codec  TEXT NOT NULL,                             -- zlib
    body   BLOB NOT NULL
);

CREATE TABLE metadata (
    packet INTEGER NOT NULL REFERENCES packets (id) ON DELETE CASCADE,
    key    TEXT NOT NULL,                             -- tag, phrase, person, artifact, metric:<name>
    value  TEXT NOT NULL COLLATE NOCASE,
    number REAL
);
CREATE INDEX metadata_by_value ON metadata (key, value);
CREATE INDEX metadata_by_number ON metadata (key, number) WHERE number IS NOT NULL;
CREATE INDEX metadata_by_packet ON metadata (packet);

CREATE TABLE integrity_chain (
    packet        INTEGER NOT NULL REFERENCES packets (id) ON DELETE CASCADE,
    position      INTEGER NOT NULL,
    hash          TEXT NOT NULL,
    previous_hash TEXT NOT NULL,
    timestamp     TEXT NOT NULL,
    signer        TEXT NOT NULL,
    note          TEXT NOT NULL,
    PRIMARY KEY (packet, position)
) WITHOUT ROWID;
CREATE INDEX integrity_by_hash ON integrity_chain (hash);

CREATE TABLE pages (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,   -- never used twice: vectors outside this file are keyed by it
    page_id      TEXT NOT NULL UNIQUE,                -- <first 16 hex of the original's sha256>-<sequence>
    packet       INTEGER NOT NULL REFERENCES packets (id) ON DELETE CASCADE,
    sequence     INTEGER NOT NULL,                    -- from 0, reading order within the packet
    section      TEXT NOT NULL,
    path         TEXT NOT NULL,
    speaker      TEXT NOT NULL,
    heading      TEXT NOT NULL,                       -- topic and date in words, part of the page's own key
    text         TEXT NOT NULL,                       -- exact
    start        INTEGER NOT NULL,                    -- byte span in the original
    end          INTEGER NOT NULL,
    timestamp_ms INTEGER NOT NULL,
    active       INTEGER NOT NULL                     -- 0 for pages of superseded revisions: kept, citable, not searched
);
CREATE UNIQUE INDEX pages_in_order ON pages (packet, sequence);

CREATE VIEW searchable_pages AS SELECT id, text, speaker, heading FROM pages WHERE active = 1;
CREATE VIRTUAL TABLE pages_text USING fts5 (
    text, speaker, heading,
    content = 'searchable_pages', content_rowid = 'id',
    tokenize = 'porter unicode61 remove_diacritics 2'
);
CREATE VIRTUAL TABLE pages_terms USING fts5vocab ('pages_text', 'row');

CREATE TABLE vector_spaces (
    id          INTEGER PRIMARY KEY,
    fingerprint TEXT NOT NULL UNIQUE,
    dimension   INTEGER NOT NULL,
    created_ms  INTEGER NOT NULL
);
CREATE TABLE vectors (
    space INTEGER NOT NULL REFERENCES vector_spaces (id) ON DELETE CASCADE,
    page  INTEGER NOT NULL REFERENCES pages (id) ON DELETE CASCADE,
    body  BLOB NOT NULL,                              -- float16, little endian, length 1
    PRIMARY KEY (space, page)
) WITHOUT ROWID;
CREATE INDEX vectors_by_page ON vectors (page);

CREATE TABLE quarantine (
    id     INTEGER PRIMARY KEY,
    path   TEXT NOT NULL,
    sha256 TEXT NOT NULL,                             -- "" when over the size limit: it was not read
    size   INTEGER NOT NULL,
    reason TEXT NOT NULL,
    line   INTEGER NOT NULL,                          -- 0 when unknown
    at_ms  INTEGER NOT NULL,
    body   BLOB,                                      -- zlib; NULL when over the size limit
    resolved INTEGER NOT NULL DEFAULT 0,              -- 1 once the same path or the same bytes were accepted
    UNIQUE (path, sha256)
);
CREATE INDEX quarantine_open ON quarantine (at_ms) WHERE resolved = 0;
CREATE INDEX quarantine_by_hash ON quarantine (sha256);

CREATE TABLE files (                                  -- what is known of watched files, so that a rescan reads only news
    path            TEXT PRIMARY KEY,
    size            INTEGER NOT NULL,
    modified_ns     INTEGER NOT NULL,
    changed_ns      INTEGER NOT NULL,                 -- inode change time: a copy may keep size and modified time
    sha256          TEXT NOT NULL,
    outcome         TEXT NOT NULL,
    packet_id       TEXT NOT NULL,
    reason          TEXT NOT NULL,
    derived_version INTEGER NOT NULL                  -- of the reader that judged it: a newer one looks again
) WITHOUT ROWID;
