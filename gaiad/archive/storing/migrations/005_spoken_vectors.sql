-- A spoken page is embedded with the end of what was said before it. Vectors of the pages alone are another space: under
-- another name, so that the present embedder fills its own in the background; the old one goes when that is complete.

UPDATE vector_spaces SET fingerprint = fingerprint || ' (pages alone)';
DELETE FROM changes WHERE name LIKE 'vectors:%';
