"""One tenant as the archive works with it: its name, its folder, its database."""

from dataclasses import dataclass
from pathlib import Path

from gaiad.store.file import DatabaseFile


@dataclass(frozen=True, slots=True)
class Tenant:
    """`root` holds tenant.db and vectors/."""

    name: str
    root: Path
    file: DatabaseFile

    @property
    def vectors_root(self) -> Path:
        return self.root / "vectors"
