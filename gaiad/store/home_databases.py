"""The databases of a home: `state.db` for the daemon, `tenants/<name>/tenant.db` for each tenant.

Every store keeps its tables in these. A tenant's file is opened at first use; looking at one that does not exist makes
none. Deleting, exporting or moving a tenant is work on one folder, and no query reaches another tenant's rows.
"""

import asyncio
import os
import re
import sqlite3
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from importlib.resources import files
from itertools import count
from pathlib import Path
from typing import TypeVar
from zlib import crc32

from gaiad.base.errors import BadInput, Conflict, GaiadError, Unavailable
from gaiad.base.home import make_private_directory, replace_file
from gaiad.base.logs import get_logger
from gaiad.store.database import Damaged
from gaiad.store.file import DatabaseFile, migrate_file, reading_offline
from gaiad.wire.council import HOUSE

T = TypeVar("T")
STATE_DATABASE, TENANT_DATABASE, TENANTS = "state.db", "tenant.db", "tenants"
IN_USE = "in-use"
"""An empty file in a tenant's folder: packets were stored there."""
_FAMILY = 0x67410000  # "gA"; the lower half of a file's application id is its first script's checksum
_EARLIER = ("audit.db", "governance.db", f"{TENANTS}/*/archive.db")
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_RETRY_AFTER_S = 2.0
_NEEDED = (
    "SELECT * FROM audit ORDER BY number DESC LIMIT 2",
    "SELECT * FROM council_messages ORDER BY full_id DESC LIMIT 2",
    "SELECT kind, number FROM audit ORDER BY kind DESC, number DESC LIMIT 2",
    "SELECT type, full_id FROM council_messages ORDER BY type DESC, full_id DESC LIMIT 2",
)
_log = get_logger("gaiad.store")


def check_tenant_name(name: str) -> str:
    """`name` when it can name a tenant. Raises BadInput with the rule."""
    if not _NAME.fullmatch(name):
        raise BadInput(f"tenant {name!r}: use 1 to 64 of a-z, 0-9, - and _, starting with a letter or digit")
    return name


def refuse_earlier(home: Path) -> None:
    """Raise Conflict for a home of an earlier gaiad, before anything in it is touched."""
    for pattern in _EARLIER:
        if found := next(home.glob(pattern), None):
            raise Conflict(
                f"{found} was written by an earlier version that this one cannot read; use another home (--home)"
            )


def migrations(kind: str) -> list[str]:
    """The numbered scripts of `state` or `tenant`; a released one is never edited, only followed by the next."""
    folder = files("gaiad.store").joinpath("schema")
    return [folder.joinpath(f"{kind}_001.sql").read_text(encoding="utf-8")]


def migrate_database(path: Path) -> None:
    """Create or migrate a database by its name, state.db or tenant.db. Raises Conflict for a newer or foreign one."""
    migrate_file(path, *_schema(path))


def read_database(path: Path) -> AbstractContextManager[sqlite3.Connection]:
    """A read snapshot of a state.db or tenant.db, also beside a daemon. Raises Conflict."""
    return reading_offline(path, *_schema(path))


def read_state(home: Path, work: Callable[[sqlite3.Connection], T]) -> T | None:
    """`work` on a home's state.db, whether a daemon runs or not; None where there is none. Raises Conflict."""
    path = home / STATE_DATABASE
    if not path.is_file():
        return None
    with read_database(path) as connection:
        return work(connection)


def _schema(path: Path) -> tuple[list[str], int]:
    scripts = migrations("state" if path.name == STATE_DATABASE else "tenant")
    return scripts, _FAMILY | crc32(scripts[0].encode()) & 0xFFFF


class HomeDatabases:
    """Safe from any thread; `readers` is how many reads of a tenant's file run at once."""

    def __init__(self, home: Path, readers: int = 2, second: Path | None = None) -> None:
        """`second` is a folder elsewhere that gets every commit too. Raises Conflict for a home of an earlier gaiad,
        and for a second place that belongs to another home; BadInput for one that cannot be made.
        """
        refuse_earlier(home)
        self.home = home
        self._second = second
        if second is not None:
            _claim(second, home)
        self._readers = readers
        self._tenants: dict[str, DatabaseFile] = {}
        self._state: DatabaseFile | None = None
        self._opening = threading.RLock()
        self._closed_because = ""
        self.damaged: dict[str, str] = {}
        """Tenants that cannot be opened, and why; they are left alone, and the others are served."""
        self._set_aside = ""

    def check_tenants(self) -> None:
        """Open every tenant found; blocks. Those that cannot be are `damaged`."""
        self.damaged = {}
        for tenant in sorted({path.name for path in self._found("*") if _NAME.fullmatch(path.name)}):
            try:
                if problem := self._lost(self.folder(tenant)):
                    raise Conflict(problem)
                if self.exists(tenant):
                    self.file(tenant)
            except GaiadError as error:
                self.damaged[tenant] = error.message

    def _lost(self, folder: Path) -> str:
        """What to do about a tenant whose file is gone though packets were in it; "" when nothing is lost."""
        path = folder / TENANT_DATABASE
        held = any((folder / name).exists() for name in (IN_USE, "vectors"))
        if not held or (path.exists() and path.stat().st_size) or self._has_second(folder.name):
            return ""
        return (
            f"{path} is missing or empty, but the tenant held packets; put the file back or restore the last backup"
            f" (gaiad restore DIR). To start over, move {folder} away and ingest the packets again"
        )

    @property
    def state(self) -> DatabaseFile:
        """The daemon's own file; a damaged one is moved aside for a new one. Raises Conflict."""
        with self._opening:
            if self._state is None:
                try:
                    self._state = self._open_state()
                except Damaged as error:
                    self._set_aside = self._move_aside(error)
                    self._state = self._open_state()
            return self._state

    def _open_state(self) -> DatabaseFile:
        """With a look at what every start reads and writes."""
        path = self.home / STATE_DATABASE
        second = self._second / STATE_DATABASE if self._second else None
        file = DatabaseFile.open(path, *_schema(path), readers=1, second=second)
        try:
            file.read(lambda connection: [connection.execute(sql).fetchall() for sql in _NEEDED])
        except Damaged:
            file.close()
            raise
        return file

    def _move_aside(self, error: Damaged) -> str:
        """Put state.db with its log out of the way; what happened, in words."""
        taken = {path.name for path in self.home.glob(f"{STATE_DATABASE}.damaged-*")}
        number = next(number for number in count(1) if f"{STATE_DATABASE}.damaged-{number}" not in taken)
        for suffix in ("-wal", "-shm", ""):
            path = self.home / f"{STATE_DATABASE}{suffix}"
            if path.exists():
                path.rename(self.home / f"{STATE_DATABASE}.damaged-{number}{suffix}")
        _log.error("state_moved_aside", reason=error.message, to=f"{STATE_DATABASE}.damaged-{number}")
        return (
            f"{self.home / STATE_DATABASE} was damaged and is now {STATE_DATABASE}.damaged-{number}: audit, governance"
            " and the council's messages begin again. To have them back, restore the last backup (gaiad restore DIR)"
        )

    def problems(self) -> list[str]:
        """What is damaged, in words."""
        opened = [*self._tenants.values(), *([self._state] if self._state else [])]
        tenants = [f"tenant {name} cannot be used: {why}" for name, why in self.damaged.items()]
        found = [self._set_aside, *tenants, *(file.problem for file in opened)]
        return [words for words in found if words]

    def folder(self, tenant: str) -> Path:
        """Where a tenant's files are. Raises BadInput for a name that cannot be one."""
        return self.home / TENANTS / check_tenant_name(tenant)

    def body_folders(self, tenant: str) -> tuple[Path, ...]:
        """Where a tenant's large bodies are written, and read from the first that has them whole. Raises BadInput."""
        folder = self.folder(tenant)
        return (folder, self._second / TENANTS / tenant) if self._second else (folder,)

    async def place_failed(self, tenant: str, folder: Path, error: GaiadError) -> None:
        """A body could not be written to one of its two folders: that place is left until it was copied again."""
        file = await asyncio.to_thread(self.file, tenant)
        await asyncio.to_thread(file.place_failed, error, first=folder == self.folder(tenant))

    def _found(self, pattern: str) -> list[Path]:
        places = [self.home, *([self._second] if self._second else [])]
        return [path for place in places for path in (place / TENANTS).glob(pattern)]

    def _has_second(self, tenant: str) -> bool:
        return self._second is not None and (self._second / TENANTS / tenant / TENANT_DATABASE).exists()

    def exists(self, tenant: str) -> bool:
        """Whether there is such a tenant. Raises BadInput."""
        return tenant == HOUSE or (self.folder(tenant) / TENANT_DATABASE).exists() or self._has_second(tenant)

    def tenants(self) -> list[str]:
        """Those that have a file and are not damaged, by name."""
        found = {path.parent.name for path in self._found(f"*/{TENANT_DATABASE}")}
        return sorted(name for name in found if name not in self.damaged)

    def file(self, tenant: str) -> DatabaseFile:
        """The tenant's file, made when there is none; state.db for HOUSE. Raises BadInput, Conflict, Unavailable."""
        if tenant == HOUSE:
            return self.state
        path = self.folder(tenant) / TENANT_DATABASE
        with self._opening:
            if self._closed_because:
                raise Unavailable(f"{self._closed_because}; try again shortly", _RETRY_AFTER_S)
            if tenant in self.damaged:
                raise Conflict(self.damaged[tenant])
            if tenant not in self._tenants:
                second = self._second / TENANTS / tenant / TENANT_DATABASE if self._second else None
                self._tenants[tenant] = DatabaseFile.open(path, *_schema(path), self._readers, second)
            return self._tenants[tenant]

    async def write(self, tenant: str, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` on the tenant's writer; durable when this returns. Raises BadInput, Conflict, Unavailable."""
        file = self._tenants.get(tenant)
        if file is None:
            file = await asyncio.to_thread(self.file, tenant)
        return await file.awrite(work)

    async def read(self, tenant: str, work: Callable[[sqlite3.Connection], T], without: T) -> T:
        """Run `work` in one snapshot of the tenant's file; `without` is the result for an unknown tenant."""
        file = self._tenants.get(tenant)
        if file is None:
            if not await asyncio.to_thread(self.exists, tenant):
                return without
            file = await asyncio.to_thread(self.file, tenant)
        return await file.aread(work)

    def files(self) -> dict[str, DatabaseFile]:
        """All of them, opened, by path under the home: what a backup copies."""
        paths = {f"{TENANTS}/{name}/{TENANT_DATABASE}": self.file(name) for name in self.tenants()}
        return {STATE_DATABASE: self.state, **paths}

    def exchange(self, move: Callable[[], None], reason: str) -> None:
        """Close every file, run `move`, which may replace them, and serve what is there then; blocks.

        Whoever reads or writes meanwhile gets Unavailable with `reason`.
        """
        with self._opening:
            state, self._closed_because = self.state, reason
            try:
                self._close_files()
                move()
                if self._second:
                    _set_aside(self._second)
            finally:
                state.reopen()
                self._closed_because, self._set_aside = "", ""

    def close(self) -> None:
        """Finish what is being written and close every file."""
        with self._opening:
            self._close_files()

    def _close_files(self) -> None:
        closing, self._tenants = list(self._tenants.values()), {}
        for file in [*closing, *([self._state] if self._state else [])]:
            file.close()


def _claim(second: Path, home: Path) -> None:
    """Note in a second place whose it is. Raises Conflict for another home's, BadInput when it cannot be made."""
    owner, name = second / "home.txt", os.fsencode(home.resolve())
    try:
        make_private_directory(second)
        if not owner.exists():
            replace_file(owner, name)
        if owner.read_bytes() != name:
            raise Conflict(f"{second} is the second place of another home; set another context.secondary")
    except OSError as error:
        raise BadInput(f"context.secondary = {second}: cannot be used ({error.strerror})") from error


def _set_aside(second: Path) -> None:
    """What was restored counts: what the second place holds is moved out of its way, never deleted."""
    taken = [path.name for path in second.glob("replaced-*")]
    aside = second / f"replaced-{next(number for number in count(1) if f'replaced-{number}' not in taken)}"
    aside.mkdir(mode=0o700)
    for path in [*second.glob(f"{STATE_DATABASE}*"), *second.glob(TENANTS)]:
        path.rename(aside / path.name)
