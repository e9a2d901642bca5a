"""Brings a person's own history in: exports of chat programs, sessions of coding agents, notes (decision 27)."""
