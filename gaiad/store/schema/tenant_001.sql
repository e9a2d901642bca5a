-- One tenant's database: its memory, the logs of its turns, what waits for a person or a channel, its research and jobs.
-- Each part has one owner, named above its tables; nobody else writes them. Deleting a tenant is deleting its folder.

-- ------------------------------------------------------------------------------------------------ gaiad/archive
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

CREATE TABLE forgotten (                               -- deleted packets, as they were, while undo is possible
    forget_id TEXT NOT NULL,
    sha256    TEXT NOT NULL,
    packet_id TEXT NOT NULL,
    revision  INTEGER NOT NULL,
    at_ms     INTEGER NOT NULL,
    purge_ms  INTEGER NOT NULL,
    fields    BLOB NOT NULL,                            -- msgpack of the row of packets
    codec     TEXT NOT NULL,
    body      BLOB NOT NULL,
    PRIMARY KEY (forget_id, sha256)
) WITHOUT ROWID;
CREATE INDEX forgotten_by_time ON forgotten (purge_ms);

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

-- What search keeps in memory must notice when rows under it change. Inserts are seen by the highest id; everything else
-- bumps a counter here, whoever writes. `pages_postings` lets a term's postings be read without a match.

CREATE TABLE changes (
    name  TEXT PRIMARY KEY,                           -- pages, active, packets; vectors:<space> counts a written index
    value INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO changes VALUES ('pages', 0), ('active', 0), ('packets', 0);

CREATE TRIGGER pages_deleted AFTER DELETE ON pages BEGIN
    UPDATE changes SET value = value + 1 WHERE name = 'pages';
END;
CREATE TRIGGER pages_rewritten AFTER UPDATE OF id, packet, sequence, section, speaker, heading, text, timestamp_ms ON pages
BEGIN
    UPDATE changes SET value = value + 1 WHERE name = 'pages';
END;
CREATE TRIGGER pages_switched AFTER UPDATE OF active ON pages WHEN old.active <> new.active BEGIN
    UPDATE changes SET value = value + 1 WHERE name = 'active';
END;
CREATE TRIGGER packets_deleted AFTER DELETE ON packets BEGIN
    UPDATE changes SET value = value + 1 WHERE name = 'packets';
END;
CREATE TRIGGER packets_updated AFTER UPDATE ON packets BEGIN
    UPDATE changes SET value = value + 1 WHERE name = 'packets';
END;

CREATE INDEX pages_inactive ON pages (packet) WHERE active = 0;
CREATE VIRTUAL TABLE pages_postings USING fts5vocab ('pages_text', 'instance');

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

-- What the person said of packets: useful or not, at all or for a question. Nothing else knows it, so it is no derived
-- row: it stays through reindex and goes only when it is reset or its packet is deleted.

CREATE TABLE feedback (
    packet_id TEXT NOT NULL,
    query     TEXT NOT NULL,                          -- what was asked; "" for a word on the packet itself
    useful    INTEGER NOT NULL,                       -- 1 or 0
    at_ms     INTEGER NOT NULL,                       -- UTC
    PRIMARY KEY (packet_id, query)
) WITHOUT ROWID;
INSERT INTO changes VALUES ('feedback', 0);

CREATE TRIGGER feedback_given AFTER INSERT ON feedback BEGIN
    UPDATE changes SET value = value + 1 WHERE name = 'feedback';
END;
CREATE TRIGGER feedback_changed AFTER UPDATE ON feedback BEGIN
    UPDATE changes SET value = value + 1 WHERE name = 'feedback';
END;
CREATE TRIGGER feedback_reset AFTER DELETE ON feedback BEGIN
    UPDATE changes SET value = value + 1 WHERE name = 'feedback';
END;
CREATE TRIGGER packet_gone_with_feedback AFTER DELETE ON packets
WHEN NOT EXISTS (SELECT 1 FROM packets WHERE packet_id = old.packet_id) BEGIN
    DELETE FROM feedback WHERE packet_id = old.packet_id;
END;
CREATE TRIGGER packet_renamed_with_feedback AFTER UPDATE OF packet_id ON packets
WHEN old.packet_id <> new.packet_id AND NOT EXISTS (SELECT 1 FROM packets WHERE packet_id = old.packet_id) BEGIN
    UPDATE OR REPLACE feedback SET packet_id = new.packet_id WHERE packet_id = old.packet_id;
END;

-- ------------------------------------------------------------------------------------------------- gaiad/ledger

CREATE TABLE cognition_packets (                       -- every packet sent to a model, with its reply
    full_id    TEXT PRIMARY KEY,
    short_id   TEXT NOT NULL,
    turn_id    TEXT NOT NULL,
    session_id TEXT NOT NULL,
    made_at    TEXT NOT NULL,
    body       BLOB NOT NULL,
    model      TEXT NOT NULL DEFAULT ''                -- fingerprint; '' for calls that carry no conversation on
) WITHOUT ROWID;
CREATE INDEX cognition_by_short_id ON cognition_packets (short_id);
CREATE INDEX cognition_by_turn ON cognition_packets (turn_id);
CREATE INDEX cognition_by_session ON cognition_packets (session_id, full_id);
CREATE INDEX cognition_by_session_and_model ON cognition_packets (session_id, model, full_id);

CREATE TABLE turn_records (
    turn_id    TEXT PRIMARY KEY,
    short_id   TEXT NOT NULL,
    session_id TEXT NOT NULL,
    status     TEXT NOT NULL,
    at         TEXT NOT NULL,
    body       BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX turn_records_by_short_id ON turn_records (short_id);
CREATE INDEX turn_records_by_session ON turn_records (session_id, at);
CREATE INDEX turn_records_by_time ON turn_records (at);
CREATE INDEX turn_records_running ON turn_records (turn_id) WHERE status = 'RUNNING';

CREATE TABLE approvals (                               -- commands that wait or waited for a person
    id       TEXT PRIMARY KEY,
    short_id TEXT NOT NULL,
    state    TEXT NOT NULL,
    body     BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX approvals_by_short_id ON approvals (short_id);
CREATE INDEX approvals_by_state ON approvals (state, id);

CREATE TABLE deliveries (                              -- messages to channels outside; `text` is emptied once delivered
    number     INTEGER PRIMARY KEY,
    id         TEXT NOT NULL UNIQUE,
    channel    TEXT NOT NULL,
    address    TEXT NOT NULL,
    turn_id    TEXT NOT NULL,
    block      INTEGER NOT NULL,
    piece      INTEGER NOT NULL,
    marker     TEXT NOT NULL,
    after      TEXT NOT NULL,
    text       TEXT NOT NULL,
    state      TEXT NOT NULL,
    attempts   INTEGER NOT NULL,
    outside_id TEXT NOT NULL,
    reason     TEXT NOT NULL,
    at         TEXT NOT NULL,
    UNIQUE (turn_id, channel, block, piece)
);
CREATE INDEX deliveries_open ON deliveries (channel, address, number) WHERE state = 'waiting';
CREATE INDEX deliveries_out ON deliveries (channel, address, number) WHERE state = 'delivered';

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

-- --------------------------------------------------------------------------------------------- council/initiative

CREATE TABLE seeds (
    seed_id     TEXT PRIMARY KEY,
    key         TEXT NOT NULL UNIQUE,
    text        TEXT NOT NULL,
    state       TEXT NOT NULL CHECK (state IN ('open', 'taken', 'proposed', 'passed', 'failed', 'dropped')),
    turn_id     TEXT NOT NULL,
    added_at    TEXT NOT NULL,
    changed_at  TEXT NOT NULL,
    proposal    TEXT NOT NULL DEFAULT '',
    proposal_id TEXT NOT NULL DEFAULT '',
    reason      TEXT NOT NULL DEFAULT '',
    failures    INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE INDEX seeds_by_state ON seeds (state, seed_id);
CREATE TABLE seed_runs (
    run_id     TEXT PRIMARY KEY,
    seed_id    TEXT NOT NULL REFERENCES seeds (seed_id),
    day        TEXT NOT NULL,
    started_at TEXT NOT NULL,
    ended_at   TEXT NOT NULL DEFAULT '',
    tokens     INTEGER NOT NULL,
    outcome    TEXT NOT NULL DEFAULT '',
    why        TEXT NOT NULL DEFAULT ''
) WITHOUT ROWID;
CREATE INDEX seed_runs_by_day ON seed_runs (day);

-- ------------------------------------------------------------------------------------------------ gaiad/research

CREATE TABLE research_runs (                           -- ended ones; a run under way is a row of `jobs`
    research_id    TEXT PRIMARY KEY,
    query          TEXT NOT NULL,
    started_at     TEXT NOT NULL,
    status         TEXT NOT NULL,
    outcome        TEXT NOT NULL,
    confidence     REAL NOT NULL,
    sources        INTEGER NOT NULL,
    contradictions INTEGER NOT NULL,
    iterations     INTEGER NOT NULL,
    reviewed_at    TEXT NOT NULL DEFAULT '',
    body           BLOB NOT NULL                       -- zlib of the result and payload
) WITHOUT ROWID;
CREATE INDEX research_runs_to_review ON research_runs (research_id)
WHERE outcome = 'PARTIAL' OR (outcome = 'SUCCESS' AND confidence < 0.5);
CREATE TABLE research_sources (
    research_id TEXT NOT NULL REFERENCES research_runs (research_id) ON DELETE CASCADE,
    source_id   TEXT NOT NULL,
    packet_id   TEXT NOT NULL,
    sha256      TEXT NOT NULL,
    PRIMARY KEY (research_id, source_id)
) WITHOUT ROWID;

-- ------------------------------------------------------------------------------------------------- gaiad/context

CREATE TABLE context_bodies (                          -- JSON by the hash of its bytes
    sha256 TEXT PRIMARY KEY,
    size   INTEGER NOT NULL,
    place  TEXT NOT NULL CHECK (place IN ('row', 'file', 'pack', 'part')), -- file: bodies/ in the tenant's folder
    stored INTEGER NOT NULL,                           -- bytes that it takes by itself
    body   BLOB,                                       -- zstd, when it is in this row
    whole  TEXT,                                       -- the body that it is a part of
    pack   INTEGER REFERENCES context_packs (number),
    start  INTEGER                                     -- in the whole or the pack
);
CREATE INDEX context_bodies_by_pack ON context_bodies (pack) WHERE pack IS NOT NULL;
CREATE TABLE context_packs (                           -- bodies of older iterations, one after the other, zstd
    number INTEGER PRIMARY KEY,
    body   BLOB NOT NULL
);
CREATE TABLE context_usage (
    name  TEXT PRIMARY KEY,                            -- json: bytes of all bodies; stored: what they take
    value INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO context_usage VALUES ('json', 0), ('stored', 0);
CREATE TRIGGER context_body_stored AFTER INSERT ON context_bodies WHEN new.place <> 'part' BEGIN
    UPDATE context_usage SET value = value + CASE name WHEN 'json' THEN new.size ELSE new.stored END;
END;
CREATE TRIGGER context_body_packed AFTER UPDATE OF stored ON context_bodies BEGIN
    UPDATE context_usage SET value = value + new.stored - old.stored WHERE name = 'stored';
END;
CREATE TRIGGER context_body_deleted AFTER DELETE ON context_bodies WHEN old.place <> 'part' BEGIN
    UPDATE context_usage SET value = value - CASE name WHEN 'json' THEN old.size ELSE old.stored END;
END;
CREATE TRIGGER context_pack_deleted AFTER DELETE ON context_packs BEGIN
    UPDATE context_usage SET value = value - length(old.body) WHERE name = 'stored';
END;
CREATE TRIGGER context_pack_stored AFTER INSERT ON context_packs BEGIN
    UPDATE context_usage SET value = value + length(new.body) WHERE name = 'stored';
END;
CREATE TABLE context_records (
    number    INTEGER PRIMARY KEY,
    id        TEXT NOT NULL UNIQUE,
    kind      TEXT NOT NULL CHECK (kind IN ('state', 'output', 'review')),
    iteration INTEGER NOT NULL,
    at_ms     INTEGER NOT NULL,                        -- the record's own timestamp
    stored_ms INTEGER NOT NULL,
    agent     TEXT NOT NULL,                           -- "" but for outputs
    task_id   TEXT NOT NULL,
    sha256    TEXT NOT NULL REFERENCES context_bodies (sha256),
    summary   TEXT NOT NULL
);
CREATE UNIQUE INDEX context_records_by_hash ON context_records (kind, sha256);
CREATE INDEX context_records_by_time ON context_records (kind, at_ms);
CREATE INDEX context_records_by_iteration ON context_records (kind, iteration, number);
CREATE INDEX context_outputs_by_agent ON context_records (agent, at_ms) WHERE kind = 'output';
CREATE INDEX context_outputs_by_task ON context_records (task_id) WHERE kind = 'output';

CREATE TABLE context_components (                      -- what has versions, and the newest of each
    component TEXT PRIMARY KEY,                        -- system, or agent:NAME
    version   INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE context_versions (
    component     TEXT NOT NULL,
    version       INTEGER NOT NULL,                    -- from 1
    at_ms         INTEGER NOT NULL,
    record        INTEGER NOT NULL REFERENCES context_records (number),
    sha256        TEXT NOT NULL REFERENCES context_bodies (sha256),
    restored_from INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (component, version)
) WITHOUT ROWID;

CREATE TABLE context_hypotheses (                      -- what outputs name, counted as they come
    hypothesis TEXT PRIMARY KEY,
    first_ms   INTEGER NOT NULL,
    last_ms    INTEGER NOT NULL,
    mentions   INTEGER NOT NULL,
    defined_by INTEGER NOT NULL                        -- the newest output with its text; 0 for none
) WITHOUT ROWID;
CREATE INDEX context_hypotheses_by_time ON context_hypotheses (last_ms);
CREATE TABLE context_mentions (
    hypothesis TEXT NOT NULL,
    record     INTEGER NOT NULL REFERENCES context_records (number),
    PRIMARY KEY (hypothesis, record)
) WITHOUT ROWID;
CREATE TABLE context_parents (
    child  TEXT NOT NULL,
    parent TEXT NOT NULL,
    PRIMARY KEY (child, parent)
) WITHOUT ROWID;
CREATE INDEX context_children ON context_parents (parent, child);
CREATE TABLE context_effectiveness (                   -- sums over the outputs of an iteration
    iteration  INTEGER NOT NULL,
    agent      TEXT NOT NULL,
    strategy   TEXT NOT NULL,
    outputs    INTEGER NOT NULL,
    confidence REAL NOT NULL,
    consumed   REAL NOT NULL,
    PRIMARY KEY (iteration, agent, strategy)
) WITHOUT ROWID;
CREATE TABLE context_patterns (                        -- of the newest review of each iteration
    pattern   TEXT NOT NULL,
    iteration INTEGER NOT NULL,
    count     INTEGER NOT NULL,
    PRIMARY KEY (pattern, iteration)
) WITHOUT ROWID;
CREATE TABLE context_iterations (
    iteration INTEGER PRIMARY KEY,
    states    INTEGER NOT NULL,
    outputs   INTEGER NOT NULL,
    reviews   INTEGER NOT NULL,
    bytes     INTEGER NOT NULL,                        -- of JSON
    first_ms  INTEGER NOT NULL,
    last_ms   INTEGER NOT NULL
);
CREATE TABLE context_vectors (                         -- of the summaries of states
    fingerprint TEXT NOT NULL,                         -- of the embedder
    record      INTEGER NOT NULL REFERENCES context_records (number),
    body        BLOB NOT NULL,                         -- float16, little endian, length 1
    PRIMARY KEY (fingerprint, record)
) WITHOUT ROWID;

CREATE TABLE context_advice (                          -- what reviews advise an agent, and what came of it
    number     INTEGER PRIMARY KEY,
    agent      TEXT NOT NULL,
    version    INTEGER NOT NULL,                       -- of the agent's advice, from 1
    text       TEXT NOT NULL,
    review     INTEGER NOT NULL REFERENCES context_records (number),
    iteration  INTEGER NOT NULL,
    state      TEXT NOT NULL CHECK (state IN ('active', 'retired', 'struck')),
    why        TEXT NOT NULL DEFAULT '',               -- it is not active any longer
    given_ms   INTEGER NOT NULL,
    ended_ms   INTEGER NOT NULL DEFAULT 0,
    counted    INTEGER NOT NULL,                       -- 1: outcomes are turns, counted at reflections; 0: confidence scores
    before_n   INTEGER NOT NULL,                       -- outcomes before and since, and the sum of their values (0 to 1)
    before_sum REAL NOT NULL,
    after_n    INTEGER NOT NULL DEFAULT 0,
    after_sum  REAL NOT NULL DEFAULT 0
);
CREATE INDEX context_advice_by_agent ON context_advice (agent, state);
CREATE TABLE context_checkpoints (
    number INTEGER PRIMARY KEY,
    id     TEXT NOT NULL UNIQUE,
    sha256 TEXT NOT NULL,
    body   BLOB NOT NULL                               -- the manifest's JSON
);
CREATE TABLE context_continuations (
    number     INTEGER PRIMARY KEY,
    id         TEXT NOT NULL UNIQUE,
    agent      TEXT NOT NULL,
    task_id    TEXT NOT NULL,
    stored_ms  INTEGER NOT NULL,
    expires_ms INTEGER NOT NULL,
    sha256     TEXT NOT NULL REFERENCES context_bodies (sha256)
);
CREATE INDEX context_continuations_by_task ON context_continuations (agent, task_id, number);
CREATE TABLE context_keys (                            -- what tokens are signed with: this tenant's alone
    name  TEXT PRIMARY KEY,
    value BLOB NOT NULL
) WITHOUT ROWID;

-- -------------------------------------------------------------------------------------------------- gaiad/store

CREATE TABLE jobs (
    job_id          TEXT PRIMARY KEY,
    kind            TEXT NOT NULL,
    state           TEXT NOT NULL CHECK (state IN ('queued', 'running', 'done', 'failed', 'cancelled')),
    done            INTEGER NOT NULL DEFAULT 0,
    total           INTEGER NOT NULL DEFAULT 0,
    note            TEXT NOT NULL DEFAULT '',
    payload         BLOB NOT NULL,
    cursor          BLOB NOT NULL DEFAULT '{}',
    result          BLOB NOT NULL DEFAULT '{}',
    attempts        INTEGER NOT NULL DEFAULT 0,        -- starts that were not followed by an orderly stop
    cancel_wanted   INTEGER NOT NULL DEFAULT 0,
    idempotency_key TEXT NOT NULL DEFAULT '',
    created_at      TEXT NOT NULL,
    updated_at      TEXT NOT NULL
);
CREATE INDEX jobs_by_state ON jobs (state, job_id);
CREATE UNIQUE INDEX jobs_by_key ON jobs (kind, idempotency_key) WHERE idempotency_key <> '';
CREATE TABLE job_log (
    job_id TEXT NOT NULL REFERENCES jobs (job_id) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    body   BLOB NOT NULL,
    PRIMARY KEY (job_id, number)
) WITHOUT ROWID;

CREATE TABLE journal (                                 -- steps of runs that may be cut off; gone when the run has ended
    run        TEXT NOT NULL,                          -- research_id or turn_id
    key        TEXT NOT NULL,                          -- of what is asked, and for which time in the run
    name       TEXT NOT NULL,
    begun_ms   INTEGER NOT NULL,
    ended_ms   INTEGER,
    result     BLOB,                                   -- JSON, zlib
    PRIMARY KEY (run, key)
);
CREATE INDEX journal_by_time ON journal (begun_ms);
