"""The folder watch with real files, real inotify and real time."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gaiad.base.config import Config, FolderConfig
from gaiad.base.home import Home
from gaiad.intake.watch import FolderWatch, watched_folders
from tests.makers.waiting import until


@pytest.fixture
def tmp_path(tmp_path: Path) -> Path:
    return tmp_path.resolve()


def with_folders(config: Config, *folders: tuple[Path | str, str]) -> Config:
    entries = [FolderConfig(path=str(path), tenant=tenant) for path, tenant in folders]
    return msgspec.structs.replace(config, intake=msgspec.structs.replace(config.intake, folders=entries))


@pytest.fixture
async def watch(service: Any, home: Home) -> AsyncIterator[FolderWatch]:
    watch = FolderWatch(service, home)
    yield watch
    await watch.stop()


async def started(watch: FolderWatch) -> None:
    await watch.start()
    await asyncio.wait_for(watch.first_scan.wait(), 30)


async def test_a_new_file_is_ingested_once_it_is_closed(watch: FolderWatch, service: Any, home: Home) -> None:
    await started(watch)
    (home.inbox / "a.xml").write_bytes(b"<a/>")
    await until(lambda: service.contents() == {"a.xml": b"<a/>"})
    await asyncio.sleep(0.2)
    assert len(service.ingested) == 1
    assert service.metrics.counters()["watch_accepted"] == 1
    assert [event.data["path"] for event in service.hub.since(0)] == [str(home.inbox / "a.xml")]


async def test_the_inbox_is_made_private(watch: FolderWatch, home: Home) -> None:
    await started(watch)
    assert home.inbox.stat().st_mode & 0o777 == 0o700


async def test_what_lay_there_before_the_start_is_ingested_in_order(
    watch: FolderWatch, service: Any, home: Home
) -> None:
    (home.inbox / "b").mkdir(parents=True)
    for name in ("c.xml", "a.xml", "b/deep.xml"):
        (home.inbox / name).write_bytes(b"<x/>")
        os.utime(home.inbox / name, (1_000_000, 1_000_000))
    await started(watch)
    assert [Path(path).name for _, path, _ in service.ingested] == ["a.xml", "c.xml", "deep.xml"]


async def test_a_slowly_growing_file_waits_until_it_is_whole(watch: FolderWatch, service: Any, home: Home) -> None:
    await started(watch)
    with (home.inbox / "slow.xml").open("wb", buffering=0) as file:
        for piece in (b"<a>", b"1", b"2", b"3", b"</a>"):
            file.write(piece)
            await asyncio.sleep(0.15)  # longer than the settle time of 0.06 s: only the close tells
            assert service.ingested == []
    await until(lambda: service.contents() == {"slow.xml": b"<a>123</a>"})
    assert len(service.ingested) == 1


async def test_a_writer_that_never_closes_is_read_after_a_long_quiet(
    watch: FolderWatch, service: Any, home: Home
) -> None:
    await started(watch)
    with (home.inbox / "open.xml").open("wb", buffering=0) as file:
        file.write(b"<a/>")
        await until(lambda: "open.xml" in service.contents())


async def test_a_rename_into_the_folder_is_read_at_once(
    watch: FolderWatch, service: Any, home: Home, tmp_path: Path
) -> None:
    await started(watch)
    (tmp_path / "elsewhere.xml").write_bytes(b"<a/>")
    (tmp_path / "elsewhere.xml").rename(home.inbox / "moved.xml")
    (home.inbox / "half.xml.tmp").write_bytes(b"<b/>")
    await asyncio.sleep(0.2)
    (home.inbox / "half.xml.tmp").rename(home.inbox / "whole.xml")
    await until(lambda: service.contents() == {"moved.xml": b"<a/>", "whole.xml": b"<b/>"})


async def test_a_directory_moved_in_is_read_with_all_below_it(
    watch: FolderWatch, service: Any, home: Home, tmp_path: Path
) -> None:
    await started(watch)
    (tmp_path / "tree" / "below").mkdir(parents=True)
    (tmp_path / "tree" / "below" / "a.xml").write_bytes(b"<a/>")
    (tmp_path / "tree").rename(home.inbox / "tree")
    await until(lambda: "a.xml" in service.contents())
    (home.inbox / "tree" / "below" / "later.xml").write_bytes(b"<b/>")
    await until(lambda: "later.xml" in service.contents())


async def test_hidden_and_partial_names_are_passed_over(watch: FolderWatch, service: Any, home: Home) -> None:
    await started(watch)
    for name in (".hidden.xml", "a.xml.part", "b.xml~", "c.tmp"):
        (home.inbox / name).write_bytes(b"<a/>")
    (home.inbox / "seen.xml").write_bytes(b"<a/>")
    await until(lambda: "seen.xml" in service.contents())
    watch.rescan()
    await asyncio.sleep(0.3)
    assert list(service.contents()) == ["seen.xml"]


async def test_a_burst_of_500_files_is_read_whole_and_in_batches(watch: FolderWatch, service: Any, home: Home) -> None:
    await started(watch)
    for number in range(500):
        (home.inbox / f"{number:03}.xml").write_bytes(b"<a>%d</a>" % number)
    await until(lambda: len(service.contents()) == 500)
    assert len(service.ingested) == 500
    assert max(service.batches) <= service.config.intake.batch_files
    assert service.contents()["123.xml"] == b"<a>123</a>"


async def test_a_file_that_vanishes_before_it_is_read_is_no_error(watch: FolderWatch, service: Any, home: Home) -> None:
    await started(watch)
    (home.inbox / "gone.xml").write_bytes(b"<a/>")
    (home.inbox / "gone.xml").unlink()
    (home.inbox / "stays.xml").write_bytes(b"<b/>")
    await until(lambda: service.contents() == {"stays.xml": b"<b/>"})
    await asyncio.sleep(0.2)
    assert "watch_errors" not in service.metrics.counters()


async def test_a_changed_file_is_read_again(watch: FolderWatch, service: Any, home: Home) -> None:
    await started(watch)
    (home.inbox / "a.xml").write_bytes(b"<a/>")
    await until(lambda: len(service.ingested) == 1)
    (home.inbox / "a.xml").write_bytes(b"<changed/>")
    await until(lambda: service.contents() == {"a.xml": b"<changed/>"})


async def test_links_out_of_the_folder_are_refused_and_told_once(
    watch: FolderWatch, service: Any, home: Home, tmp_path: Path
) -> None:
    secret = tmp_path / "secret.xml"
    secret.write_bytes(b"<secret/>")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "b.xml").write_bytes(b"<secret/>")
    await started(watch)
    (home.inbox / "link.xml").symlink_to(secret)
    (home.inbox / "directory").symlink_to(tmp_path / "outside")
    await until(lambda: len(service.hub.since(0)) == 2)
    watch.rescan()
    await asyncio.sleep(0.3)
    assert service.ingested == []
    assert {(Path(event.data["path"]).name, event.data["outcome"]) for event in service.hub.since(0)} == {
        ("link.xml", "failed"),
        ("directory", "failed"),
    }
    assert all("link out of the watched folder" in event.data["reason"] for event in service.hub.since(0))


async def test_a_fifo_is_refused_and_does_not_block(watch: FolderWatch, service: Any, home: Home) -> None:
    await started(watch)
    os.mkfifo(home.inbox / "pipe.xml")
    watch.rescan()
    await until(lambda: any("not a regular file" in event.data["reason"] for event in service.hub.since(0)))


async def test_a_name_that_is_not_utf8_is_ingested_and_can_be_told(
    watch: FolderWatch, service: Any, home: Home
) -> None:
    await started(watch)
    (home.inbox / os.fsdecode(b"\xff.xml")).write_bytes(b"<a/>")
    await until(lambda: len(service.hub.since(0)) == 1)
    assert msgspec.json.encode(service.hub.since(0)[0])
    assert service.hub.since(0)[0].data["path"].endswith("\\udcff.xml")


async def test_a_missing_folder_is_named_and_watched_once_it_appears(
    watch: FolderWatch, service: Any, home: Home, config: Config, tmp_path: Path
) -> None:
    folder = tmp_path / "later"
    service.config = with_folders(config, (folder, "work"))
    await started(watch)
    assert "is missing" in service.notes[f"folder {folder}"]
    folder.mkdir()
    watch.rescan()
    await until(lambda: f"folder {folder}" not in service.notes)
    (folder / "a.xml").write_bytes(b"<a/>")
    await until(lambda: [(tenant, content) for tenant, _, content in service.ingested] == [("work", b"<a/>")])
    assert service.folders == [(home.inbox, "local"), (folder, "work")]


async def test_a_folder_deleted_and_made_again_is_watched_again(watch: FolderWatch, service: Any, home: Home) -> None:
    await started(watch)
    home.inbox.rmdir()
    await until(lambda: home.inbox.is_dir())
    await asyncio.sleep(0.1)
    (home.inbox / "a.xml").write_bytes(b"<a/>")
    await until(lambda: "a.xml" in service.contents())


async def test_new_settings_change_the_folders(
    watch: FolderWatch, service: Any, home: Home, config: Config, tmp_path: Path
) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    service.config = with_folders(config, (one, "local"))
    await started(watch)
    service.config = with_folders(config, (two, "local"))
    watch.rescan()
    await until(lambda: service.folders == [(home.inbox, "local"), (two, "local")])
    await asyncio.sleep(0.1)
    (one / "no.xml").write_bytes(b"<a/>")
    (two / "yes.xml").write_bytes(b"<a/>")
    await until(lambda: "yes.xml" in service.contents())
    assert "no.xml" not in service.contents()


async def test_an_archive_in_trouble_is_told_and_the_files_are_offered_again(
    watch: FolderWatch, service: Any, home: Home
) -> None:
    await started(watch)
    service.unavailable = 1
    (home.inbox / "a.xml").write_bytes(b"<a/>")
    await until(lambda: "the disk is full" in service.notes.get("watch", ""))
    await until(lambda: "a.xml" in service.contents())
    assert "watch" not in service.notes


async def test_lost_events_lead_to_a_scan(watch: FolderWatch, service: Any, home: Home) -> None:
    await started(watch)
    watch._events.stop()  # nothing is heard any more
    (home.inbox / "unheard.xml").write_bytes(b"<a/>")
    await asyncio.sleep(0.2)
    assert service.ingested == []
    watch._buffer.lose()
    await until(lambda: "unheard.xml" in service.contents())
    assert service.metrics.counters()["watch_overflows"] == 1
    (home.inbox / "heard.xml").write_bytes(b"<a/>")
    await until(lambda: "heard.xml" in service.contents())


def test_a_folder_in_a_folder_keeps_its_own_tenant(home: Home, config: Config, tmp_path: Path) -> None:
    outer, inner = tmp_path / "outer", tmp_path / "outer" / "inner"
    folders, problems = watched_folders(home, with_folders(config, (outer, "one"), (inner, "two"), ("relative", "x")))
    by_root = {folder.root: folder for folder in folders}
    assert not by_root[outer].covers(inner / "a.xml")
    assert by_root[inner].covers(inner / "a.xml")
    assert by_root[outer].covers(outer / "a.xml")
    assert "'relative' is not absolute" in problems[0]


def test_the_home_is_never_read_as_part_of_a_watched_folder(home: Home, config: Config) -> None:
    folders, _ = watched_folders(home, with_folders(config, (home.root.parent, "local")))
    around = next(folder for folder in folders if folder.root == home.root.parent)
    assert not around.covers(home.root / "state.db")
    assert not around.covers(home.inbox / "a.xml")
