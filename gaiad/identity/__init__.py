"""The home's identity: its key, its signature, and whether it may be trusted (GCP 3.3)."""
