"""The only door: what intake may ask for, one module a domain."""
