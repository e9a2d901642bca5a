import gzip
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from gaiad.archive.archive import LocalArchive
from gaiad.archive.reading.derive import sha256_hex
from gaiad.archive.storing import text_index
from gaiad.archive.storing.migrations import APPLICATION_ID, archive_migrations
from gaiad.archive.storing.records import compress
from gaiad.errors import Conflict
from gaiad.memory_schemas import SessionTurn, TurnMessage
from gaiad.ports import Call
from gaiad.schemas import SearchRequest
from gaiad.store.file import DatabaseFile

SCHEMA_2 = Path(__file__).resolve().parents[3] / "data" / "archive_schema_2.db.gz"
"""Written by gaiad at schema 2: TP-1 in two revisions, TP-2, one torn file in quarantine, a vector for every page."""
DATA = b"<packet><id>OLD</id><content>A packet from an older schema.</content></packet>"


def write_version(path: Path, version: int) -> None:
    """A database as gaiad wrote it at that schema version, with one packet in it."""
    file = DatabaseFile.open(path, archive_migrations()[:version], APPLICATION_ID)
    sha256 = sha256_hex(DATA)
    file.write(
        lambda c: (
            c.execute(
                "INSERT INTO packets (packet_id, revision, sha256, size, dialect, media_type, timestamp_ms,"
                " timestamp_derived, zone_missing, id_derived, session_id, topic, original_model, current_model,"
                " summary, verdict, canonical, source, modified_ms, received_ms, derived_version)"
                " VALUES ('OLD', 1, ?, ?, 'generic', 'application/xml', 0, 1, 0, 0, '', '', '', '', '', 'unverifiable',"
                " x'', 'old.xml', 1700000000000, 1700000000000, 0)",
                (sha256, len(DATA)),
            ).rowcount
        )
    )
    file.write(lambda c: c.execute("INSERT INTO originals VALUES (1, 'zlib', ?)", (compress(DATA),)).rowcount)
    file.close()


@pytest.mark.parametrize("version", range(1, len(archive_migrations()) + 1))
async def test_every_older_schema_opens_with_its_packets_and_can_be_reindexed(
    open_archive: Callable[..., object], call: Call, tmp_path: Path, make_packet: Callable[..., bytes], version: int
) -> None:
    path = tmp_path / "home" / "tenants" / "local" / "archive.db"
    write_version(path, version)
    archive: LocalArchive = await open_archive()  # type: ignore[misc]
    assert (await archive.original("OLD", call))[0] == DATA
    report = await archive.reindex(call, lambda done, total: None)
    assert (report["packets"], report["problems"]) == (1, [])
    assert (await archive.ingest_documents([("n.xml", make_packet())], call))[0].outcome == "accepted"
    assert (await archive.verify_packets(None, call)).problems == []
    file = archive._tenants.get("local").tenant.file
    assert file.read(lambda c: c.execute("PRAGMA user_version").fetchone()) == (len(archive_migrations()),)
    assert file.write(text_index.check_contents) == ""


async def test_an_archive_of_a_newer_gaiad_is_refused_untouched(
    open_archive: Callable[..., object], tmp_path: Path
) -> None:
    path = tmp_path / "home" / "tenants" / "local" / "archive.db"
    newer = [*archive_migrations(), "CREATE TABLE later (a);"]
    DatabaseFile.open(path, newer, APPLICATION_ID).close()
    before = path.read_bytes()
    with pytest.raises(Conflict, match="newer gaiad"):
        await open_archive()  # type: ignore[misc]
    assert path.read_bytes() == before


def rows(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """Everything in a schema 2 database's own tables."""
    connection = sqlite3.connect(path)
    tables = ("packets", "originals", "metadata", "integrity_chain", "pages", "vector_spaces", "vectors", "quarantine")
    found = {table: connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall() for table in tables}
    connection.close()
    return found


async def test_a_real_archive_of_schema_2_loses_nothing_and_takes_turns(
    open_archive: Callable[..., object], call: Call, tmp_path: Path
) -> None:
    path = tmp_path / "home" / "tenants" / "local" / "archive.db"
    path.parent.mkdir(parents=True)
    path.write_bytes(gzip.decompress(SCHEMA_2.read_bytes()))
    before = rows(path)
    assert [len(before[table]) for table in ("packets", "quarantine")] == [3, 1]
    assert len(before["vectors"]) > 5
    archive: LocalArchive = await open_archive()  # type: ignore[misc]
    renamed = [(number, f"{name} (pages alone)", *rest) for number, name, *rest in before["vector_spaces"]]
    assert rows(path) == {**before, "vector_spaces": renamed}  # vectors of another text are another space
    assert (await archive.verify_packets(None, call)).problems == []
    assert (await archive.sweep([], call))["problems"] == []
    assert {hit.packet_id for hit in (await archive.search(SearchRequest(query="pier", mode="bm25"), call)).hits} == {
        "TP-1"
    }
    assert [summary.revision for summary in (await archive.packet_detail("TP-1", call)).revisions] == [2, 1]
    assert (await archive.facets(call)).people["Anna"] == 1
    assert await archive.sessions(call) == []
    turn = SessionTurn(session_id="s", turn_id="t", messages=[TurnMessage(role="user", content="Is the lamp lit?")])
    await archive.remember_turn(turn, call)
    report = await archive.reindex(call, lambda done, total: None)
    assert (report["packets"], report["pages_changed"], report["sessions"], report["problems"]) == (4, 0, 1, [])
    after = rows(path)
    for table in ("originals", "pages", "vectors", "quarantine", "metadata"):
        assert [row for row in before[table] if row not in after[table]] == []
    assert (await archive.session_turns("s", call))[0].user == "Is the lamp lit?"
