"""A home's files without a daemon: for `gaiad packets verify` and the doctor. Opened, looked at and closed.

The home's lock is held meanwhile, so that no daemon starts under it.
"""

import asyncio
import fcntl
import os
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from gaiad.base.errors import Conflict, NotFound
from gaiad.wire.status import Check

if TYPE_CHECKING:
    from gaiad.archive.archive import LocalArchive
    from gaiad.base.home import Home
    from gaiad.wire.schemas import VerifyReport


def verify_packets(home: "Home", packet_ids: Sequence[str], tenant: str) -> "VerifyReport":
    """Compare packets of a home with their stored originals. Raises NotFound for an unknown home or tenant."""
    if not (home.root / "tenants" / tenant / "tenant.db").is_file():
        raise NotFound(f"{home.root}: no memory is called {tenant!r}; name another with --home or --tenant")
    with _locked(home.lock):
        return asyncio.run(_verify(home.root, packet_ids, tenant))


def check_index(home: "Home") -> Check:
    """Whether every memory of the home opens, with its numbers. Raises Conflict for a newer or foreign database."""
    if not (home.root / "tenants").is_dir():
        return Check(name="index", ok=True, detail=f"{home.root} has no packets yet")
    with _locked(home.lock):
        return asyncio.run(_check_index(home.root))


async def _verify(home: Path, packet_ids: Sequence[str], tenant: str) -> "VerifyReport":
    from gaiad.base.ports import RequestContext

    async with _archive(home) as archive:
        return await archive.verify_packets(list(packet_ids) or None, RequestContext(tenant=tenant), None)


async def _check_index(home: Path) -> Check:
    async with _archive(home) as archive:
        counts = await archive.counts()
        problems = archive.degraded()
    return Check(
        name="index",
        ok=not problems,
        detail="; ".join([f"{counts['vectors']} of {counts['pages']} pages have vectors", *problems]),
        remedy="start the daemon: it rebuilds what is damaged" if problems else "",
    )


@asynccontextmanager
async def _archive(home: Path) -> "AsyncIterator[LocalArchive]":
    from gaiad.archive.archive import LocalArchive
    from gaiad.base.clock import SystemClock
    from gaiad.base.config import load_config, user_files
    from gaiad.base.metrics import Metrics
    from gaiad.store.home_databases import HomeDatabases

    config = load_config(user_files(home, os.environ))
    with closing(HomeDatabases(home, config.archive.readers)) as databases:
        archive = LocalArchive(databases, config, SystemClock(config.user.timezone), None, Metrics())
        await archive.start()
        try:
            yield archive
        finally:
            await archive.close()


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise Conflict(
                f"{path.parent}: a daemon is using this home; wait until it is ready, then try again"
            ) from error
        yield
