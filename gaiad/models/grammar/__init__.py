"""Forms of a reply: schemas and contracts become GBNF, which is checked before it is used (decision 3)."""
