"""What Context Memory survives, as JSON rows: `python -m tests.bench.context_faults [SMALL_FOLDER]`.

SMALL_FOLDER is a file system of a few MiB that may be filled up (a tmpfs). Without it the full disk is left out. Each
row says what was done, what was refused or named, and how many of the records acknowledged before are still read whole.
"""

import asyncio
import json
import random
import sqlite3
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

from gaiad.base.clock import SystemClock
from gaiad.base.errors import GaiadError
from gaiad.base.ports import RequestContext
from gaiad.context.bodies import ROW_BYTES
from gaiad.context.store import ContextStore
from gaiad.context.upkeep import ContextUpkeep
from gaiad.store.home_databases import HomeDatabases
from gaiad.store.secondary import BODIES
from gaiad.wire.context import StateQuery
from tests.makers.context import output, state

_CALL, _CLOCK = RequestContext(), SystemClock()
Damage = Callable[[Path], None]


def noise(number: int, size: int) -> list[str]:
    return [sha256(f"{number} {part}".encode()).hexdigest() for part in range(size // 66)]


async def fill(store: ContextStore, count: int, size: int = 3_000) -> tuple[list[str], str]:
    """Ids that were acknowledged, and why the rest was refused."""
    ids: list[str] = []
    try:
        ids.append((await store.add(state(), _CALL)).id)
        for number in range(count):
            large = ROW_BYTES * 2 if number % 10 == 9 else size
            made = output(f"t{number}", f"agent-{number % 5}", primary=noise(number, large), own={"step": number})
            ids.append((await store.add(made, _CALL)).id)
    except GaiadError as error:
        return ids, error.message
    return ids, ""


async def check(home: Path, ids: list[str]) -> dict[str, Any]:
    """After opening again: records read whole, what a full state names as damaged, and whether it can be recovered."""
    databases = HomeDatabases(home)
    try:
        store, whole, named = ContextStore(databases, _CLOCK, None), 0, set[str]()
        for record_id in ids:
            try:
                await store.record(record_id, _CALL)
                whole += 1
            except GaiadError as error:
                named.add(type(error).__name__)
        try:
            found = await store.state(StateQuery(request_type="full"), _CALL)
            state_is = "whole" if found.complete else f"partial, {len(found.damaged)} named"
        except GaiadError as error:
            state_is = type(error).__name__
        try:
            recovered = await store.recovery("", _CALL)
            recovery = f"yes, {len(recovered.data_integrity.passed_over)} checkpoints passed over"
        except GaiadError as error:
            recovery = type(error).__name__
        try:
            await store.add(output("afterwards", primary=noise(-1, 100)), _CALL)
            writes = "yes"
        except GaiadError as error:
            writes = type(error).__name__
    except GaiadError as error:
        return {"opens": error.message[:80]}
    finally:
        databases.close()
    return {"whole": whole, "of": len(ids), "errors": sorted(named), "state": state_is, "recovery": recovery,
            "writes_again": writes}  # fmt: skip


async def damaged(name: str, damage: Damage, *, packed: bool = False) -> dict[str, Any]:
    """A home with 100 records and three checkpoints, damaged while it is closed."""
    with tempfile.TemporaryDirectory(prefix="gaiad-faults-") as scratch:
        home = Path(scratch) / "home"
        databases = HomeDatabases(home)
        store = ContextStore(databases, _CLOCK, None)
        ids, _ = await fill(store, 50)
        for reason in ("first", "second"):
            await store.checkpoint(reason, {}, _CALL)
        more, _ = await fill(store, 100)
        await store.checkpoint("third", {}, _CALL)
        if packed:
            await ContextUpkeep(databases, _CLOCK).clean_up(1, _CALL, dry_run=False)
        databases.file("local").empty_log()
        databases.close()
        damage(home / "tenants" / "local")
        return {"fault": name, **await check(home, list(dict.fromkeys([*ids, *more])))}


def flip(path: Path, draw: random.Random, start: int = 0) -> None:
    content = bytearray(path.read_bytes())
    content[draw.randrange(start, len(content))] ^= 1 << draw.randrange(8)
    path.write_bytes(content)


def flip_body(folder: Path) -> None:
    flip(max((folder / BODIES).rglob("*"), key=lambda path: path.is_file() and path.stat().st_size), random.Random(1))


def remove_bodies(folder: Path) -> None:
    for path in (folder / BODIES).rglob("*"):
        if path.is_file():
            path.unlink()


def flip_blob(table: str, where: str) -> Damage:
    """A bit in the body of a row."""

    def work(folder: Path) -> None:
        with closing(sqlite3.connect(folder / "tenant.db")) as connection:
            number, body = connection.execute(f"SELECT rowid, body FROM {table} WHERE {where}").fetchone()
            changed = bytearray(body)
            changed[len(body) // 2] ^= 4
            connection.execute(f"UPDATE {table} SET body = ? WHERE rowid = ?", (bytes(changed), number))
            connection.commit()

    return work


def flip_pages(seed: int) -> Damage:
    return lambda folder: flip(folder / "tenant.db", random.Random(seed), 4096)


async def full_disk(folder: Path) -> dict[str, Any]:
    """Filled until it refuses; then a little is freed."""
    ballast, home = folder / "ballast", folder / "home"
    ballast.write_bytes(bytes(512 << 10))
    databases = HomeDatabases(home)
    store = ContextStore(databases, _CLOCK, None)
    await store.add(state(), _CALL)
    await store.checkpoint("first", {}, _CALL)
    ids, refused = await fill(store, 10_000)
    databases.close()
    ballast.unlink()
    return {"fault": "full disk", "refused": refused.rpartition("; ")[2][:60], **await check(home, ids)}


async def measure(small: Path | None) -> list[dict[str, Any]]:
    rows = [await full_disk(small)] if small else []
    rows += [
        await damaged("a bit of a body in a file", flip_body),
        await damaged("every body in a file is gone", remove_bodies),
        await damaged("a bit of a body in a row", flip_blob("context_bodies", "place = 'row' AND size > 1000")),
        await damaged("a bit of a pack", flip_blob("context_packs", "1"), packed=True),
        await damaged("the newest checkpoint", flip_blob("context_checkpoints", "1 ORDER BY number DESC")),
        *[await damaged(f"a bit of the database file, draw {seed}", flip_pages(seed)) for seed in range(1, 7)],
    ]  # fmt: skip
    return rows


if __name__ == "__main__":
    for row in asyncio.run(measure(Path(sys.argv[1]) if len(sys.argv) > 1 else None)):
        print(json.dumps(row))
