"""Vectors of one tenant: durable in the database, scanned exactly or through an index that a child built."""
