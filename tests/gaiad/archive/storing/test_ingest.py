import os
import socket
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from gaiad.archive.archive import LocalArchive
from gaiad.archive.reading import disk
from gaiad.base.config import Config
from gaiad.base.errors import Cancelled, NotFound
from gaiad.base.ports import RequestContext
from gaiad.wire.schemas import PacketFilter, SearchRequest

Make = Callable[..., bytes]


async def found(archive: LocalArchive, query: str, call: RequestContext) -> set[str]:
    response = await archive.search(SearchRequest(query=query, mode="bm25"), call)
    return {hit.packet_id for hit in response.hits}


async def test_a_packet_is_accepted_searchable_and_counted(
    archive: LocalArchive, call: RequestContext, tmp_path: Path, make_packet: Make
) -> None:
    path = tmp_path / "one.xml"
    path.write_bytes(make_packet())
    (outcome,) = await archive.ingest_files([path], call)
    assert (outcome.outcome, outcome.packet_id, outcome.path) == ("accepted", "TP-1", str(path))
    assert outcome.dialect
    assert outcome.integrity == "unverifiable"
    assert await found(archive, "harbour", call) == {"TP-1"}
    assert await found(archive, "November", call) == {"TP-1"}
    counts = await archive.counts()
    assert counts["packets"] == 1
    assert counts["pages"] > 0


async def test_the_same_bytes_again_are_a_duplicate_even_within_one_batch(
    archive: LocalArchive, call: RequestContext, make_packet: Make
) -> None:
    data = make_packet()
    outcomes = await archive.ingest_documents([("a.xml", data), ("b.xml", data)], call)
    again = await archive.ingest_documents([("c.xml", data)], call)
    assert [outcome.outcome for outcome in (*outcomes, *again)] == ["accepted", "duplicate", "duplicate"]
    assert again[0].packet_id == "TP-1"
    assert (await archive.counts())["packets"] == 1


async def test_other_bytes_under_a_known_id_are_a_revision_and_both_stay(
    archive: LocalArchive, call: RequestContext, make_packet: Make
) -> None:
    first, second = make_packet(content="An old walrus."), make_packet(content="A new heron.")
    outcomes = await archive.ingest_documents([("a.xml", first), ("b.xml", second)], call)
    assert [outcome.outcome for outcome in outcomes] == ["accepted", "revised"]
    assert await found(archive, "heron", call) == {"TP-1"}
    assert await found(archive, "walrus", call) == set()
    detail = await archive.packet_detail("TP-1", call)
    assert [summary.revision for summary in detail.revisions] == [2, 1]
    assert (await archive.original("TP-1", call))[0] == second
    assert (await archive.original("TP-1", call, revision=1))[0] == first
    old_page = f"{detail.revisions[1].sha256[:16]}-0000"
    assert (await archive.pages([old_page], call))[0].page_id == old_page
    assert (await archive.counts())["packets"] == 1
    assert (await archive.ingest_documents([("b.xml", second)], call))[0].outcome == "duplicate"
    assert (await archive.ingest_documents([("a.xml", first)], call))[0].outcome == "revised"
    assert await found(archive, "walrus", call) == {"TP-1"}
    assert [each.revision for each in (await archive.packet_detail("TP-1", call)).revisions] == [3, 2]


async def test_what_cannot_be_read_is_quarantined_with_line_and_reason_and_its_bytes(
    archive: LocalArchive, call: RequestContext, tmp_path: Path, make_packet: Make
) -> None:
    path = tmp_path / "torn.xml"
    path.write_bytes(b"<transmission_packet>\n<header>\n</wrong>\n</transmission_packet>")
    (outcome,) = await archive.ingest_files([path], call)
    assert outcome.outcome == "quarantined"
    assert outcome.reason.startswith("line 3")
    (row,) = await archive.quarantined(call)
    assert (row["path"], row["line"], row["kept"]) == (str(path), 3, True)
    assert (await archive.counts())["quarantined"] == 1
    (again,) = await archive.ingest_files([path], call)
    assert again == outcome
    assert (await archive.counts())["quarantined"] == 1
    path.write_bytes(make_packet())
    assert (await archive.ingest_files([path], call))[0].outcome == "accepted"
    assert (await archive.counts())["quarantined"] == 0
    assert await archive.quarantined(call) == []


async def test_a_file_over_the_limit_is_quarantined_unread(
    open_archive: Callable[..., object],
    config: Config,
    call: RequestContext,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limits = msgspec.structs.replace(config.packets, max_bytes=1000)
    archive = await open_archive(config=msgspec.structs.replace(config, packets=limits))  # type: ignore[misc]
    path = tmp_path / "large.xml"
    with path.open("wb") as file:
        file.truncate(5_000_000_000)

    def refuse(descriptor: int, size: int) -> bytes:
        raise AssertionError("it was read")

    monkeypatch.setattr(disk, "_read_all", refuse)
    (outcome,) = await archive.ingest_files([path], call)
    assert outcome.outcome == "quarantined"
    assert "5000000000 bytes" in outcome.reason
    assert "packets.max_bytes" in outcome.reason
    assert (await archive.quarantined(call))[0]["kept"] is False
    (document,) = await archive.ingest_documents([("large.xml", b"<a>" + b"x" * 1000 + b"</a>")], call)
    assert document.outcome == "quarantined"


async def test_odd_files_are_outcomes_and_never_errors(
    archive: LocalArchive, call: RequestContext, tmp_path: Path, make_packet: Make
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    good, schema, pipe, unreadable = (folder / name for name in ("good.xml", "s.xsd", "pipe.xml", "device.xml"))
    good.write_bytes(make_packet())
    schema.write_bytes(b"<schema/>")
    os.mkfifo(pipe)
    unreadable.symlink_to("/dev/zero")
    (folder / "folder.xml").mkdir()
    (folder / "loop.xml").symlink_to(folder / "loop.xml")
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(folder / "s.xml"))
    server.close()
    names = ["gone.xml", "s.xsd", "pipe.xml", "device.xml", "folder.xml", "loop.xml", "s.xml", "nul\0.xml", "good.xml"]
    outcomes = await archive.ingest_files([folder / name for name in names], call)
    assert [outcome.outcome for outcome in outcomes] == [
        "failed",
        "ignored",
        "ignored",
        "ignored",
        "ignored",
        "failed",
        "failed",
        "failed",
        "accepted",
    ]
    assert "gone" in outcomes[0].reason
    assert "named pipe" in outcomes[2].reason
    assert all(outcome.reason for outcome in outcomes[:-1])


async def test_a_link_out_of_the_watched_folder_is_ignored_and_one_inside_is_read(
    archive: LocalArchive, call: RequestContext, tmp_path: Path, make_packet: Make
) -> None:
    folder, secret = tmp_path / "in", tmp_path / "secret.xml"
    folder.mkdir()
    secret.write_bytes(make_packet("SECRET"))
    (folder / "real.xml").write_bytes(make_packet("TP-2"))
    (folder / "out.xml").symlink_to(secret)
    (folder / "inside.xml").symlink_to(folder / "real.xml")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "x.xml").write_bytes(make_packet("SECRET-2"))
    (folder / "sub").symlink_to(tmp_path / "elsewhere")
    paths = [folder / "out.xml", folder / "sub" / "x.xml", folder / "inside.xml"]
    outcomes = await archive.ingest_files(paths, call, folder)
    assert [outcome.outcome for outcome in outcomes] == ["ignored", "ignored", "accepted"]
    assert "leads out" in outcomes[0].reason
    with pytest.raises(NotFound):
        await archive.packet_detail("SECRET", call)
    assert await archive.changed_files(paths, call) == []
    named_by_a_person = await archive.ingest_files([folder / "out.xml"], call)
    assert named_by_a_person[0].outcome == "accepted"


async def test_a_file_that_changes_while_it_is_read_is_read_again_and_then_fails(
    archive: LocalArchive, call: RequestContext, tmp_path: Path, make_packet: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "growing.xml"
    path.write_bytes(make_packet())
    real, reads = disk._read_all, []

    def grow(times: int) -> Callable[[int, int], bytes]:
        def read(descriptor: int, size: int) -> bytes:
            data = real(descriptor, size)
            reads.append(size)
            if len(reads) <= times:
                with path.open("ab") as file:
                    file.write(b"\n")
            return data

        return read

    monkeypatch.setattr(disk, "_read_all", grow(9))
    (outcome,) = await archive.ingest_files([path], call)
    assert outcome.outcome == "failed"
    assert "still being written" in outcome.reason
    assert len(reads) == 2
    reads.clear()
    monkeypatch.setattr(disk, "_read_all", grow(1))
    assert (await archive.ingest_files([path], call))[0].outcome == "accepted"


async def test_unchanged_files_are_known_and_changed_ones_are_named(
    archive: LocalArchive, call: RequestContext, tmp_path: Path, make_packet: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [tmp_path / f"{number}.xml" for number in range(3)]
    for number, path in enumerate(paths):
        path.write_bytes(make_packet(f"TP-{number}"))
    assert await archive.changed_files([*paths, tmp_path / "gone.xml"], call) == paths
    await archive.ingest_files(paths, call)
    assert await archive.changed_files(paths, call) == []
    replacement = tmp_path / "new"
    replacement.write_bytes(make_packet("TP-9"))  # same size, and the same modified time as a copying tool sets it
    status = paths[1].stat()
    os.utime(replacement, ns=(status.st_atime_ns, status.st_mtime_ns))
    replacement.rename(paths[1])
    assert paths[1].stat().st_size == status.st_size
    assert await archive.changed_files(paths, call) == [paths[1]]

    def refuse(*_: object) -> None:
        raise AssertionError("it was read")

    outcomes = await archive.ingest_files([paths[1]], call)
    assert [(outcome.outcome, outcome.packet_id) for outcome in outcomes] == [("accepted", "TP-9")]
    monkeypatch.setattr(disk, "_read_once", refuse)
    outcomes = await archive.ingest_files(paths, call)
    assert [(outcome.outcome, outcome.packet_id) for outcome in outcomes] == [
        ("duplicate", "TP-0"),
        ("duplicate", "TP-9"),
        ("duplicate", "TP-2"),
    ]


async def test_names_that_are_not_unicode_and_text_that_is_not_are_survived(
    archive: LocalArchive, call: RequestContext, tmp_path: Path, make_packet: Make
) -> None:
    path = tmp_path / os.fsdecode(b"caf\xe9.xml")
    path.write_bytes(make_packet())
    half = b'{"packet_id": "HALF", "content": "half a pair \\ud83d and on"}'
    outcomes = await archive.ingest_files([path], call)
    assert outcomes[0].outcome == "accepted"
    assert outcomes[0].path.endswith("caf\\xe9.xml")
    (outcome,) = await archive.ingest_documents([("half.json", half)], call)
    assert outcome.outcome in ("accepted", "quarantined")
    assert await archive.changed_files([path], call) == []


async def test_a_fault_in_a_reader_fails_one_file_only(
    archive: LocalArchive, call: RequestContext, make_packet: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gaiad.archive.reading import derive

    real = derive.read_packet

    def faulty(data: bytes, name: str, *rest: object) -> object:
        if name == "bad.xml":
            raise KeyError("oops")
        return real(data, name, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(derive, "read_packet", faulty)
    outcomes = await archive.ingest_documents([("bad.xml", make_packet("A")), ("good.xml", make_packet("B"))], call)
    assert [outcome.outcome for outcome in outcomes] == ["failed", "accepted"]
    assert "oops" in outcomes[0].reason


async def test_a_cancelled_ingest_stops_and_keeps_what_was_committed(
    archive: LocalArchive, tmp_path: Path, make_packet: Make, call: RequestContext
) -> None:
    paths = [tmp_path / f"{number}.xml" for number in range(200)]
    for number, path in enumerate(paths):
        path.write_bytes(make_packet(f"TP-{number}"))

    class Impatient(RequestContext):
        seen = 0

        def check(self, monotonic_now: float) -> None:
            self.seen += 1
            if self.seen > 100:
                self.cancel()
            super().check(monotonic_now)

    with pytest.raises(Cancelled):
        await archive.ingest_files(paths, Impatient())
    counts = await archive.counts()
    assert counts["packets"] == 100
    outcomes = await archive.ingest_files(paths, call)
    assert [outcome.outcome for outcome in outcomes] == ["duplicate"] * 100 + ["accepted"] * 100


async def test_tenants_share_nothing(archive: LocalArchive, call: RequestContext, make_packet: Make) -> None:
    other = RequestContext(tenant="work")
    with pytest.raises(NotFound, match="work"):
        await archive.list_packets(PacketFilter(tenant="work"), other)
    await archive.ingest_documents([("a.xml", make_packet())], other)
    assert archive.tenants() == ["local", "work"]
    assert await found(archive, "harbour", other) == {"TP-1"}
    assert await found(archive, "harbour", call) == set()
    assert (await archive.ingest_documents([("a.xml", make_packet())], call))[0].outcome == "accepted"
    assert (await archive.counts(["work"]))["packets"] == 1
    assert (await archive.counts())["packets"] == 2


async def test_counts_are_the_same_after_a_restart(
    open_archive: Callable[..., object], call: RequestContext, make_packet: Make
) -> None:
    archive: LocalArchive = await open_archive()  # type: ignore[misc]
    await archive.ingest_documents(
        [("a.xml", make_packet()), ("b.xml", make_packet(content="Other.")), ("c.xml", b"<torn")], call
    )
    before = await archive.counts()
    await archive.close()
    again: LocalArchive = await open_archive()  # type: ignore[misc]
    assert await again.counts() == before
    assert before["quarantined"] == 1
