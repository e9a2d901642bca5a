"""One tenant: a folder with one database file and one vector index. Isolation and deletion are file work."""

import re
from dataclasses import dataclass
from pathlib import Path

from gaiad.archive.storing.migrations import APPLICATION_ID, archive_migrations
from gaiad.errors import BadInput
from gaiad.store.file import DatabaseFile

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


@dataclass(frozen=True, slots=True)
class Tenant:
    """An open tenant: `root` holds archive.db and vectors/."""

    name: str
    root: Path
    file: DatabaseFile

    @property
    def vectors_root(self) -> Path:
        return self.root / "vectors"


def check_tenant_name(name: str) -> str:
    """`name` when it can name a tenant. Raises BadInput with the rule."""
    if not _NAME.fullmatch(name):
        raise BadInput(f"tenant {name!r}: use 1 to 64 of a-z, 0-9, - and _, starting with a letter or digit")
    return name


def open_tenant(home: Path, name: str, readers: int) -> Tenant:
    """Open (or make) the tenant's folder and database under `home`/tenants. Raises BadInput, Conflict."""
    root = home / "tenants" / check_tenant_name(name)
    root.mkdir(parents=True, exist_ok=True, mode=0o700)
    file = DatabaseFile.open(root / "archive.db", archive_migrations(), APPLICATION_ID, readers)
    return Tenant(name=name, root=root, file=file)
