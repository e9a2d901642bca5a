"""Puts a backup in the place of the tenants' folder; what was there is moved aside, never deleted.

The new folder is complete and on disk before the old one moves, so a crash between the two moves is finished at the
next start.
"""

import shutil
from pathlib import Path

from gaiad.archive.keeping.backup import Manifest, copy_tenants
from gaiad.errors import BadInput

_STAGING = "tenants.restoring"
_READY = "tenants.restored"


def stage(home: Path, directory: Path, manifest: Manifest) -> Path:
    """A complete copy of the backup's tenants beside the living ones. Raises BadInput when it cannot be written."""
    staging, ready = home / _STAGING, home / _READY
    shutil.rmtree(staging, ignore_errors=True)
    shutil.rmtree(ready, ignore_errors=True)
    try:
        staging.mkdir(mode=0o700)
        copy_tenants(directory, manifest, staging)
        staging.rename(ready)
    except OSError as error:
        raise BadInput(
            f"{home}: the backup cannot be copied in ({error.strerror or error}); free some space"
        ) from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return ready


def exchange(home: Path, aside: Path) -> None:
    """Move the tenants' folder into the folder `aside`, and the staged one in. Nothing may be open in it."""
    living, old = home / "tenants", aside / "tenants"
    try:
        aside.mkdir(exist_ok=True, mode=0o700)
        living.rename(old)
        try:
            (home / _READY).rename(living)
        except OSError:
            old.rename(living)
            raise
    except OSError as error:
        raise BadInput(f"{living}: cannot be exchanged ({error.strerror or error}); nothing was changed") from error


def undo(home: Path, aside: Path) -> None:
    """Bring the old folder back after the new one could not be opened."""
    (home / "tenants").rename(home / _READY)
    (aside / "tenants").rename(home / "tenants")


def finish_interrupted(home: Path) -> None:
    """What a crash left of a restore: completed when the old folder had moved already, dropped when not."""
    living, ready = home / "tenants", home / _READY
    if ready.is_dir() and not living.exists():
        ready.rename(living)
    for leftover in (ready, home / _STAGING):
        shutil.rmtree(leftover, ignore_errors=True)
