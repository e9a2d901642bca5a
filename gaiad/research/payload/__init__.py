"""The research payload (PAYLOAD): built from a run's trail, pure; kept, one file a tenant, when the run ends."""
