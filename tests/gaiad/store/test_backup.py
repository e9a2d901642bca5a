import asyncio
import json
import os
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path

import pytest

from gaiad.base.errors import BadInput, Conflict, GaiadError, NotFound, Unavailable
from gaiad.base.ports import RequestContext
from gaiad.store import backup as backup_module
from gaiad.store.database import Damaged
from gaiad.wire.schemas import PacketFilter, SearchRequest
from tests.makers.archives import OwnArchive

Make = Callable[..., bytes]
Open = Callable[..., Awaitable[OwnArchive]]


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def ids(archive: OwnArchive, call: RequestContext) -> set[str]:
    return {summary.packet_id for summary in await archive.list_packets(PacketFilter(limit=1000), call)}


async def test_a_backup_taken_while_packets_come_in_is_whole_and_restores(
    archive: OwnArchive, open_archive: Open, call: RequestContext, make_packet: Make, tmp_path: Path
) -> None:
    await archive.ingest_documents([(f"{n}.xml", make_packet(f"TP-{n}")) for n in range(50)], call)
    await archive.ingest_documents([("w.xml", make_packet("TP-W"))], RequestContext(tenant="other"))
    target = tmp_path / "backups" / "one"
    more = archive.ingest_documents([(f"m{n}.xml", make_packet(f"TP-M{n}")) for n in range(100)], call)
    _, result = await asyncio.gather(more, archive.backup(target))
    manifest = json.loads((target / "manifest.json").read_bytes())
    assert manifest["tenants"] == ["local", "other"]
    assert result.tenants == ["local", "other"]
    assert [file["path"] for file in manifest["files"]] == [
        "tenants/local/tenant.db",
        "tenants/other/tenant.db",
        "state.db",
    ]
    assert sorted(path.name for path in target.parent.iterdir()) == ["one"]

    other = await open_archive(tmp_path / "other")
    await other.ingest_documents([("x.xml", make_packet("TP-OLD"))], call)
    aside = await other.restore(target)
    restored = await ids(other, call)
    assert restored >= {f"TP-{n}" for n in range(50)}
    assert "TP-OLD" not in restored
    assert other.tenants() == ["local", "other"]
    assert (await other.verify_packets(None, call)).problems == []
    assert (await other.counts())["packets"] == len(restored) + 1
    assert (await other.search(SearchRequest(query="lantern", mode="bm25"), call)).hits
    await other.ingest_documents([("y.xml", make_packet("TP-NEW"))], call)
    before = sqlite3.connect(aside / "tenants" / "local" / "tenant.db")
    assert before.execute("SELECT packet_id FROM packets").fetchall() == [("TP-OLD",)]
    before.close()


async def test_a_backup_never_overwrites_and_leaves_nothing_when_it_fails(
    archive: OwnArchive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    occupied = tmp_path / "occupied"
    occupied.mkdir()
    (occupied / "letter.txt").write_text("mine")
    with pytest.raises(Conflict, match="not empty"):
        await archive.backup(occupied)
    (tmp_path / "empty").mkdir()
    await archive.backup(tmp_path / "empty")
    with pytest.raises(Conflict):
        await archive.backup(tmp_path / "empty")

    def fail(path: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(backup_module, "sync_file", fail)
    with pytest.raises(BadInput, match="No space left"):
        await archive.backup(tmp_path / "third")
    assert names_in(tmp_path) == ["empty", "home", "occupied"]


async def test_a_damaged_database_makes_no_backup(
    archive: OwnArchive, call: RequestContext, make_packet: Make, tmp_path: Path
) -> None:
    await archive.ingest_documents([("a.xml", make_packet())], call)
    database = tmp_path / "home" / "tenants" / "local" / "tenant.db"
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (size,) = connection.execute("PRAGMA page_size").fetchone()
        (root,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'deliveries'").fetchone()
    with database.open("r+b") as file:
        file.seek((root - 1) * size)
        file.write(b"\xff" * size)
    with pytest.raises(Damaged, match=r"tenant\.db is damaged .* no backup was written"):
        await archive.backup(tmp_path / "backup")
    assert names_in(tmp_path) == ["home"]


async def test_a_backup_leaves_out_no_tenant_that_cannot_be_used(
    archive: OwnArchive, open_archive: Open, call: RequestContext, make_packet: Make, tmp_path: Path
) -> None:
    await archive.ingest_documents([("a.xml", make_packet())], RequestContext(tenant="work"))
    await archive.close()
    (tmp_path / "home" / "tenants" / "work" / "tenant.db").write_bytes(b"")
    again = await open_archive(tmp_path / "home")
    with pytest.raises(Damaged, match="tenant work cannot be used, so no backup was written"):
        await again.backup(tmp_path / "backup")
    assert names_in(tmp_path) == ["home"]
    assert any("tenant work" in problem for problem in await again.check_databases())


@pytest.mark.parametrize("damage", ["flip", "truncate", "missing", "manifest", "escape", "newer", "newer_format"])
async def test_a_backup_that_is_not_sound_changes_nothing(
    archive: OwnArchive, call: RequestContext, make_packet: Make, tmp_path: Path, damage: str
) -> None:
    await archive.ingest_documents([("a.xml", make_packet())], call)
    target = tmp_path / "backup"
    await archive.backup(target)
    database, manifest_path = target / "tenants" / "local" / "tenant.db", target / "manifest.json"
    manifest = json.loads(manifest_path.read_bytes())
    if damage == "flip":
        data = bytearray(database.read_bytes())
        data[len(data) // 2] ^= 1
        database.write_bytes(data)
    elif damage == "truncate":
        os.truncate(database, 4096)
    elif damage == "missing":
        database.unlink()
    elif damage == "manifest":
        manifest_path.write_bytes(b"{")
    elif damage == "escape":
        manifest["files"][0]["path"] = "../home/tenants/local/tenant.db"
    elif damage == "newer":
        connection = sqlite3.connect(database)
        connection.execute(f"PRAGMA user_version = {2}")
        connection.close()
        manifest["files"][0]["sha256"], manifest["files"][0]["size"] = backup_module.hash_file(database)
    else:
        manifest["format"] = 99
    if damage in ("escape", "newer", "newer_format"):
        manifest_path.write_text(json.dumps(manifest))
    with pytest.raises(GaiadError) as caught:
        await archive.restore(target)
    assert isinstance(caught.value, Conflict if damage.startswith("newer") else BadInput)
    assert await ids(archive, call) == {"TP-1"}
    assert {path.name.split("-")[0] for path in (tmp_path / "home").iterdir()} == {"tenants", "state.db"}


async def test_a_folder_that_is_no_backup_is_named(archive: OwnArchive, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="manifest"):
        await archive.restore(tmp_path)


async def test_an_exchange_that_fails_leaves_everything_as_it_was(
    archive: OwnArchive, call: RequestContext, make_packet: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await archive.backup(tmp_path / "backup")
    await archive.ingest_documents([("a.xml", make_packet())], call)

    def fail(*_: Path) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(backup_module, "_mark_ready", fail)
        with pytest.raises(BadInput, match="No space left"):
            await archive.restore(tmp_path / "backup")
    assert await ids(archive, call) == {"TP-1"}
    await archive.ingest_documents([("b.xml", make_packet("TP-2"))], call)
    await archive.restore(tmp_path / "backup")
    assert await ids(archive, call) == set()


async def test_calls_during_a_restore_finish_or_are_told_to_come_back(
    archive: OwnArchive, call: RequestContext, make_packet: Make, tmp_path: Path
) -> None:
    await archive.ingest_documents([(f"{n}.xml", make_packet(f"TP-{n}")) for n in range(20)], call)
    await archive.backup(tmp_path / "backup")
    running, told = True, []

    async def keep_searching() -> None:
        while running:
            try:
                assert (await archive.search(SearchRequest(query="lantern", mode="bm25"), call)).hits
            except Unavailable as error:
                told.append(error.retry_after_s)
            await asyncio.sleep(0)

    async def restore() -> None:
        nonlocal running
        await asyncio.sleep(0.05)
        await archive.restore(tmp_path / "backup")
        running = False

    await asyncio.gather(keep_searching(), restore())
    assert len(await ids(archive, call)) == 20


@pytest.mark.parametrize("moved", [False, True])
async def test_a_restore_that_a_crash_interrupted_is_finished_or_dropped_at_start(
    open_archive: Open, call: RequestContext, make_packet: Make, tmp_path: Path, moved: bool
) -> None:
    archive = await open_archive()
    await archive.ingest_documents([("a.xml", make_packet("TP-THEN"))], call)
    await archive.backup(tmp_path / "backup")
    await archive.ingest_documents([("b.xml", make_packet("TP-NOW"))], call)
    await archive.close()
    home = tmp_path / "home"
    backup_module.prepare_restore(home, tmp_path / "backup", backup_module.read_manifest(tmp_path / "backup"))
    if moved:
        (home / "restore.partial" / "before-restore-x").touch()
        (home / "restore.partial").rename(home / "restore.ready")
        (home / "before-restore-x").mkdir()
        (home / "tenants").rename(home / "before-restore-x" / "tenants")
    backup_module.finish_interrupted(home)
    again = await open_archive()
    assert await ids(again, call) == ({"TP-THEN"} if moved else {"TP-THEN", "TP-NOW"})
    assert not list(home.glob("restore.*"))
    assert (home / "before-restore-x" / "state.db").exists() == moved
