"""Numbered migrations of a tenant's archive database; a released one is never edited, only followed by the next."""

from importlib.resources import files

APPLICATION_ID = 0x67616961  # "gaia"
_FILES = ("001_archive.sql", "002_changes.sql", "003_sessions.sql", "004_feedback.sql", "005_spoken_vectors.sql")


def archive_migrations() -> list[str]:
    """The scripts in order; the database's user_version counts how many have run."""
    return [files(__name__).joinpath(name).read_text(encoding="utf-8") for name in _FILES]
