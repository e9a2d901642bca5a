import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gaiad.archive.archive import LocalArchive
from gaiad.archive.reading import derive
from gaiad.archive.storing import records
from gaiad.base.config import Config
from gaiad.base.errors import Cancelled, NotFound
from gaiad.base.ports import RequestContext
from gaiad.wire.schemas import SearchRequest

Make = Callable[..., bytes]
Open = Callable[..., Awaitable[LocalArchive]]
LONG = "The heron waits by the weir. " * 120


def quiet(done: int, total: int) -> None:
    pass


def database(tmp_path: Path) -> sqlite3.Connection:
    return sqlite3.connect(tmp_path / "home" / "tenants" / "local" / "tenant.db", isolation_level=None)


def tamper(tmp_path: Path, statement: str, *values: Any) -> None:
    connection = database(tmp_path)
    connection.execute(statement, values)
    connection.close()


async def fill(archive: LocalArchive, call: RequestContext, make_packet: Make, count: int = 5) -> None:
    documents = [(f"{number}.xml", make_packet(f"TP-{number}", content=f"{LONG} {number}")) for number in range(count)]
    documents.append(("4b.xml", make_packet("TP-4", content="A second telling.")))
    outcomes = await archive.ingest_documents(documents, call)
    assert {outcome.outcome for outcome in outcomes} == {"accepted", "revised"}


async def test_verify_passes_all_revisions_and_names_what_was_tampered_with(
    archive: LocalArchive, call: RequestContext, make_packet: Make, tmp_path: Path
) -> None:
    await fill(archive, call, make_packet)
    seen: list[tuple[int, int]] = []
    report = await archive.verify_packets(None, call, lambda done, total: seen.append((done, total)))
    assert (report.checked, report.ok, report.problems) == (6, 6, [])
    assert seen[-1] == (6, 6)
    tamper(tmp_path, "UPDATE pages SET start = start + 1 WHERE page_id LIKE '%-0002' AND packet = 1")
    tamper(tmp_path, "UPDATE packets SET verdict = 'verified' WHERE id = 2")
    tamper(tmp_path, "UPDATE originals SET body = ? WHERE packet = 3", records.compress(b"<other/>"))
    tamper(tmp_path, "UPDATE originals SET body = x'00' WHERE packet = 4")
    report = await archive.verify_packets(None, call)
    assert (report.checked, report.ok) == (6, 2)
    problems = "\n".join(report.problems)
    assert "packet TP-0 revision 1: 1 of" in problems
    assert "the first is number 2" in problems
    assert "TP-1 revision 1: integrity is stored as verified" in problems
    assert "TP-2 revision 1: its original has SHA-256" in problems
    assert "TP-3 revision 1: the stored original is damaged" in problems
    one = await archive.verify_packets(["TP-4"], call)
    assert (one.checked, one.ok) == (2, 2)
    with pytest.raises(NotFound, match="TP-99"):
        await archive.verify_packets(["TP-99"], call)


async def test_reindex_restores_everything_derived_and_keeps_ids_and_vectors_of_unchanged_pages(
    archive: LocalArchive, call: RequestContext, make_packet: Make, tmp_path: Path
) -> None:
    await fill(archive, call, make_packet)
    before = await archive.packet_detail("TP-1", call)
    rows_before = database(tmp_path).execute("SELECT id, page_id, text, active FROM pages ORDER BY id").fetchall()
    tamper(tmp_path, "INSERT INTO vector_spaces VALUES (1, 'space', 2, 0)")
    tamper(tmp_path, "INSERT INTO vectors SELECT 1, id, x'00000000' FROM pages")
    tamper(tmp_path, "UPDATE pages SET text = 'forged' WHERE packet = 2 AND sequence = 1")
    tamper(tmp_path, "UPDATE packets SET topic = 'forged', timestamp_ms = 0 WHERE id = 2")
    tamper(tmp_path, "DELETE FROM metadata")
    progress: list[tuple[int, int]] = []
    report = await archive.reindex(call, lambda done, total: progress.append((done, total)))
    assert (report["packets"], report["pages_changed"], report["problems"]) == (6, 1, [])
    assert report["text_index"].startswith("rebuilt")
    assert progress[-1] == (6, 6)
    after = await archive.packet_detail("TP-1", call)
    assert after == before
    connection = database(tmp_path)
    assert connection.execute("SELECT id, page_id, text, active FROM pages ORDER BY id").fetchall() == rows_before
    (vectors,) = connection.execute("SELECT count(*) FROM vectors").fetchone()
    assert vectors == len(rows_before) - 1
    assert (await archive.verify_packets(None, call)).problems == []
    assert (await archive.reindex(call, quiet))["text_index"] == "in order"


async def test_reindex_follows_a_new_page_rule_and_a_reader_that_understands_more(
    open_archive: Open, config: Config, call: RequestContext, make_packet: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = await open_archive()
    await fill(archive, call, make_packet)
    await archive.ingest_documents([("odd.xml", b"<torn")], call)
    before = await archive.counts()
    await archive.close()
    smaller = msgspec.structs.replace(config.archive, page_max_chars=300, page_overlap_chars=0)
    archive = await open_archive(config=msgspec.structs.replace(config, archive=smaller))
    assert "run gaiad reindex" in (await archive.verify_packets(["TP-0"], call)).problems[0]
    real = derive.read_packet

    def wiser(data: bytes, *rest: Any) -> Any:
        if data == b"<torn":
            mended = real(make_packet("TP-TORN", content="Mended."), *rest)
            return msgspec.structs.replace(mended, sha256=derive.sha256_hex(data), size=len(data))
        packet = real(data, *rest)
        return msgspec.structs.replace(packet, packet_id="TP-3") if packet.packet_id == "TP-2" else packet

    monkeypatch.setattr(derive, "read_packet", wiser)
    report = await archive.reindex(call, quiet)
    assert (report["released"], report["problems"]) == (1, [])
    detail = await archive.packet_detail("TP-3", call)
    assert [summary.revision for summary in detail.revisions] == [2, 1]
    with pytest.raises(NotFound):
        await archive.packet_detail("TP-2", call)
    assert (await archive.packet_detail("TP-TORN", call)).packet.pages > 0
    counts = await archive.counts()
    assert counts["pages"] > before["pages"]
    assert (counts["packets"], counts["quarantined"]) == (before["packets"], 0)
    assert (await archive.sweep([], call))["problems"] == []
    assert await archive.counts() == counts


async def test_a_cancelled_reindex_stops(archive: LocalArchive, call: RequestContext, make_packet: Make) -> None:
    await fill(archive, call, make_packet, 70)
    with pytest.raises(Cancelled):
        await archive.reindex(call, lambda done, total: call.cancel())


async def test_sweep_is_silent_when_all_is_well(
    archive: LocalArchive, call: RequestContext, make_packet: Make, tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    (folder / "deep").mkdir(parents=True)
    path = folder / "deep" / "a.xml"
    path.write_bytes(make_packet())
    (folder / "note.txt").write_text("not a packet")
    await archive.ingest_files([path], call)
    report = await archive.sweep([folder], call)
    assert (report["problems"], report["repaired"]) == ([], [])
    assert report["checked"]["packets"] == report["checked"]["originals"] == 1
    assert report["checked"]["files"] == 2


async def test_sweep_names_what_is_wrong_and_mends_what_is_derived(
    archive: LocalArchive, call: RequestContext, make_packet: Make, tmp_path: Path
) -> None:
    await fill(archive, call, make_packet)
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "new.xml").write_bytes(make_packet("TP-NEW"))
    tamper(tmp_path, "INSERT INTO pages_text (pages_text) VALUES ('delete-all')")
    tamper(tmp_path, "UPDATE originals SET body = x'00' WHERE packet = 4")
    tamper(tmp_path, "DELETE FROM pages WHERE packet = 3 AND sequence = 1")
    tamper(tmp_path, "UPDATE packets SET derived_version = 0 WHERE id = 1")
    tamper(
        tmp_path,
        "INSERT INTO files VALUES ('/lost.xml', 1, 1, 1, 'feed', 'accepted', 'TP-X', '', ?)",
        derive.DERIVED_VERSION,
    )
    report = await archive.sweep([folder, tmp_path / "absent"], call)
    problems, repaired = "\n".join(report["problems"]), "\n".join(report["repaired"])
    assert "TP-3 revision 1: the stored original is damaged" in problems
    assert "1 packets whose pages are missing" in problems
    assert "1 packets read by an older gaiad" in problems
    assert f"{folder / 'new.xml'}: not in the archive" in problems
    assert "absent: the watched folder is gone" in problems
    assert "rebuilt from the pages" in repaired
    assert "/lost.xml" in repaired
    hits = await archive.search(SearchRequest(query="heron", mode="bm25"), call)
    assert hits.hits
    again = await archive.sweep([], call)
    assert again["repaired"] == []
