"""Brings the databases of a backup that are not the memory's into the files that are in use.

Whoever has such a file open goes on with it: its content is exchanged in one transaction, so nothing is closed and no
write falls between two files. What a file held before is copied aside first.
"""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gaiad.archive.keeping.backup import Manifest, sync_file
from gaiad.errors import BadInput, Conflict, GaiadError
from gaiad.store.file import DatabaseFile

STAGING = "databases.restoring"
_MEMORY = "tenants/"


@dataclass(frozen=True)
class Others:
    """What a home keeps besides its memory.

    `files` gives all of it, by path under the home, opened; `by_tenant` opens or makes `<folder>/<tenant>.db`.
    `apart` are paths that somebody else restores.
    """

    files: Callable[[], Mapping[str, DatabaseFile]] = dict
    by_tenant: Mapping[str, Callable[[str], DatabaseFile]] = field(default_factory=dict)
    apart: frozenset[str] = frozenset()


class OtherFiles:
    """One restore of them. `prepare` changes nothing that is in use; `exchange` does, and `undo` takes that back."""

    def __init__(self, home: Path, directory: Path, manifest: Manifest, others: Others) -> None:
        self._staging = home / STAGING
        self._directory = directory
        self._names = [
            file.path for file in manifest.files if not file.path.startswith(_MEMORY) and file.path not in others.apart
        ]
        self._others = others
        self._files: dict[str, DatabaseFile] = {}
        self._exchanged: list[tuple[DatabaseFile, Path]] = []

    def prepare(self) -> None:
        """Copies that fit this gaiad, of all that is to be exchanged; an empty one for what the backup does not have.

        A backup of the memory alone leaves everything else as it is. Raises BadInput, Conflict.
        """
        if not self._names:
            return
        try:
            shutil.rmtree(self._staging, ignore_errors=True)
            for name in self._names:
                copy = self._staging / name
                copy.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                shutil.copyfile(self._directory / name, copy)
            self._files = self._opened()
            for name, file in self._files.items():
                file.fit(self._staging / name)
        except (OSError, GaiadError) as error:
            self.finish()
            raise _unwritten(self._staging, error) from error

    def exchange(self, aside: Path) -> None:
        """Each file's content copied into the folder `aside`, then the backup's put in. All of them, or none."""
        try:
            for name, file in self._files.items():
                before = aside / name
                before.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                file.backup(before)
                sync_file(before)
                file.replace(self._staging / name)
                self._exchanged.append((file, before))
        except (OSError, GaiadError) as error:
            self.undo()
            raise _unwritten(aside, error) from error

    def undo(self) -> None:
        """Put back what was exchanged, last first. Raises Conflict, Unavailable when that cannot be written either."""
        while self._exchanged:
            file, before = self._exchanged.pop()
            file.replace(before)
        self.finish()

    def finish(self) -> None:
        """The copies are needed no more."""
        shutil.rmtree(self._staging, ignore_errors=True)

    def _opened(self) -> dict[str, DatabaseFile]:
        found = {name: file for name, file in self._others.files().items() if name not in self._others.apart}
        for name in self._names:
            if name not in found:
                found[name] = self._made(name)
        return found

    def _made(self, name: str) -> DatabaseFile:
        """The file of a tenant that has none in this home yet."""
        folder, _, file = name.partition("/")
        opened = self._others.by_tenant.get(folder)
        if opened is None or not file.endswith(".db"):
            raise Conflict(f"{self._directory} holds {name!r}, which this gaiad does not know; upgrade gaiad")
        return opened(file.removesuffix(".db"))


def interrupted(home: Path) -> str:
    """What a restore that a crash cut off means for the person; "" when there was none."""
    if not (home / STAGING).exists():
        return ""
    return (
        "a restore was cut off, so turns, votes and the council's log may be of two times; run `gaiad restore DIR`"
        " again, what was there before stands in before-restore-*"
    )


def _unwritten(place: Path, error: OSError | GaiadError) -> GaiadError:
    if isinstance(error, GaiadError):
        return error
    return BadInput(f"{place}: the backup cannot be copied in ({error.strerror or error}); nothing was changed")
