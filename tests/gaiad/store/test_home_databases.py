import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from gaiad.base.errors import BadInput, Conflict
from gaiad.store.home_databases import HomeDatabases, migrate_database, read_database, read_state


def tables(path: Path) -> set[str]:
    with read_database(path) as connection:
        return {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def test_one_file_a_tenant_has_every_table_and_state_those_of_the_daemon(tmp_path: Path) -> None:
    databases = HomeDatabases(tmp_path)
    databases.file("local")
    databases.file("work")
    assert set(databases.files()) == {"state.db", "tenants/local/tenant.db", "tenants/work/tenant.db"}
    databases.close()
    assert tables(tmp_path / "tenants" / "local" / "tenant.db") >= {
        "packets", "pages", "sessions", "feedback", "cognition_packets", "turn_records", "approvals", "deliveries",
        "council_messages", "escalations", "seeds", "seed_runs", "research_runs", "jobs", "job_log",
    }  # fmt: skip
    assert tables(tmp_path / "state.db") >= {"audit", "rfcs", "reflections", "spans", "council_messages"}


async def test_looking_at_a_tenant_makes_no_file_and_a_bad_name_is_refused(tmp_path: Path) -> None:
    databases = HomeDatabases(tmp_path)
    assert await databases.read("nobody", lambda _: "there", "nothing") == "nothing"
    for name in ("", "..", "../x", "a/b", ".hidden", "a\0b", "Local"):
        with pytest.raises(BadInput, match="use 1 to 64 of"):
            await databases.write(name, lambda _: None)
        with pytest.raises(BadInput, match="use 1 to 64 of"):
            await databases.read(name, lambda _: None, None)
    assert databases.tenants() == []
    assert read_state(tmp_path, lambda _: "there") is None


@pytest.mark.parametrize("name", ["audit.db", "governance.db", "tenants/local/archive.db"])
def test_a_home_of_an_earlier_gaiad_is_refused_untouched(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_bytes(b"earlier")
    with pytest.raises(Conflict, match=r"was written by an earlier version that this one cannot read; use another"):
        HomeDatabases(tmp_path)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [tmp_path / name]


@pytest.mark.parametrize("name", ["state.db", "tenants/local/tenant.db"])
def test_a_file_of_an_edited_schema_with_the_same_number_is_refused_untouched(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    migrate_database(path)
    with closing(sqlite3.connect(path)) as connection:
        (owner,) = connection.execute("PRAGMA application_id").fetchone()
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute(f"PRAGMA application_id = {owner ^ 1}")
    before = path.read_bytes()
    with pytest.raises(
        Conflict, match=rf"{path.name} was written by another version that this one cannot read; use an"
    ):
        migrate_database(path)
    assert path.read_bytes() == before


def test_a_state_of_an_earlier_gaiad_is_refused_untouched(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE jobs (job_id TEXT)")
        connection.execute(f"PRAGMA application_id = {0x67616973}")
        connection.execute("PRAGMA user_version = 1")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(Conflict, match=r"state\.db is not a gaiad database"):
        _ = HomeDatabases(tmp_path).state
    assert (path.read_bytes(), list(tmp_path.iterdir())) == (before, [path])
