"""Governance (GCP 3.3, 11): how the council changes its own rules, by RFCs that are reviewed, voted on and merged."""
