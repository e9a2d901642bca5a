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
