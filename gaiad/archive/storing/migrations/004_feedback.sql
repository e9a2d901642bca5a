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
