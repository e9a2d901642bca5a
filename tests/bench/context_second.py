"""What a second place saves, as JSON rows: `python -m tests.bench.context_second [SMALL_FOLDER]`.

Records are stored while the first place fails: its pages overwritten, its bodies removed, its disk full (SMALL_FOLDER,
a tmpfs of about 24 MiB) or every write refused with EIO (a preloaded shim; needs a C compiler). Each row says how many
of the acknowledged records are read whole while it is degraded, and after it came back.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gaiad.base.clock import SystemClock
from gaiad.base.errors import GaiadError
from gaiad.base.ports import RequestContext
from gaiad.context.store import ContextStore
from gaiad.store.home_databases import HomeDatabases
from gaiad.store.secondary import BODIES
from tests.bench.context_faults import fill

_CALL, _CLOCK = RequestContext(), SystemClock()
_EIO_UNDER, _EIO_WHILE = "EIO_UNDER", "EIO_WHILE"
_SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static int fails(int fd) {
    char link[64], path[4096];
    const char *under = getenv("EIO_UNDER"), *when = getenv("EIO_WHILE");
    if (!under || !when || access(when, F_OK)) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    if (n < 0) return 0;
    path[n] = 0;
    return !strncmp(path, under, strlen(under));
}
#define WRAP(name, type, args, call) \
    type name args { \
        static type (*real) args; \
        if (!real) real = dlsym(RTLD_NEXT, #name); \
        if (fails(fd)) { errno = EIO; return -1; } \
        return real call; \
    }
WRAP(pwrite, ssize_t, (int fd, const void *b, size_t n, off_t o), (fd, b, n, o))
WRAP(pwrite64, ssize_t, (int fd, const void *b, size_t n, off64_t o), (fd, b, n, o))
WRAP(write, ssize_t, (int fd, const void *b, size_t n), (fd, b, n))
WRAP(fsync, int, (int fd), (fd))
WRAP(fdatasync, int, (int fd), (fd))
WRAP(ftruncate, int, (int fd, off_t n), (fd, n))
WRAP(ftruncate64, int, (int fd, off64_t n), (fd, n))
"""


async def whole(store: ContextStore, ids: list[str]) -> int:
    found = 0
    for record_id in ids:
        try:
            await store.record(record_id, _CALL)
            found += 1
        except GaiadError:
            pass
    return found


async def measure(name: str, home: Path, second: Path, fail: Callable[[Path], None], heal: Callable[[], None]) -> None:
    databases = HomeDatabases(home, second=second)
    store = ContextStore(databases, _CLOCK, None)
    ids, _ = await fill(store, 100)
    file = databases.file("local")
    fail(home / "tenants" / "local")
    more, refused = await fill(store, 200)
    ids += more
    row: dict[str, Any] = {"fault": name, "acknowledged": len(ids), "refused": refused[:60]}
    row["whole_degraded"] = await whole(store, ids)
    row["degraded"] = databases.problems()[0].split(": ")[0][-60:] if databases.problems() else ""
    heal()
    assert file._secondary is not None
    file._secondary._retry_at = 0.0
    more, refused = await fill(store, 10)
    ids += more
    row["back_home"] = file.path == home / "tenants" / "local" / "tenant.db"
    row["problems"] = databases.problems()
    databases.close()
    alone = HomeDatabases(home)  # what the home holds without its second place
    row["whole_at_home"], row["of"] = await whole(ContextStore(alone, _CLOCK, None), ids), len(ids)
    alone.close()
    print(json.dumps(row), flush=True)


def overwrite(folder: Path) -> None:
    HomeDatabases(folder.parents[1]).close()
    path = folder / "tenant.db"
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\x5a" * (path.stat().st_size - 4096))


def remove_bodies(folder: Path) -> None:
    for path in (folder / BODIES).rglob("*"):
        if path.is_file():
            path.unlink()


def main(small: Path | None) -> None:
    with tempfile.TemporaryDirectory(prefix="gaiad-second-") as scratch:
        root = Path(scratch)
        asyncio.run(measure("pages overwritten", root / "a", root / "a2", overwrite, lambda: None))
        asyncio.run(measure("bodies removed", root / "b", root / "b2", remove_bodies, lambda: None))
        if small:
            ballast = small / "ballast"
            home, heal = small / "home", ballast.unlink
            asyncio.run(measure("full disk", home, root / "c2", lambda _: fill_up(ballast), heal))
        shim, source = root / "shim.so", root / "shim.c"
        source.write_text(_SHIM)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", str(shim), str(source), "-ldl"], check=True)
        environment = {
            **os.environ,
            "LD_PRELOAD": str(shim),
            _EIO_UNDER: f"{root / 'd'}/",
            _EIO_WHILE: str(root / "eio"),
        }
        subprocess.run([sys.executable, "-m", __spec__.name, "--eio", str(root)], env=environment, check=True)


def fill_up(ballast: Path) -> None:
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            return


if __name__ == "__main__":
    if sys.argv[1:2] == ["--eio"]:
        folder = Path(sys.argv[2])
        switch = folder / "eio"
        asyncio.run(measure("EIO", folder / "d", folder / "d2", lambda _: switch.touch(), lambda: switch.unlink()))
    else:
        main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
