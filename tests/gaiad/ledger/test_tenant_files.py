import asyncio

import pytest

from gaiad.errors import Conflict
from gaiad.ledger.tenant_files import TenantFiles

TABLE = "CREATE TABLE notes (text TEXT NOT NULL)"


@pytest.fixture
async def files(tmp_path):
    one = TenantFiles(tmp_path / "notes", [TABLE], 0x1234)
    yield one
    await one.close()


async def add(files, tenant, text):
    await files.write(tenant, lambda connection: connection.execute("INSERT INTO notes VALUES (?)", (text,)).rowcount)


async def notes(files, tenant):
    return await files.read(
        tenant, lambda connection: [row[0] for row in connection.execute("SELECT text FROM notes")], ["no file"]
    )


async def test_every_tenant_has_its_own_file(files, tmp_path):
    await asyncio.gather(*(add(files, tenant, f"of {tenant}") for tenant in ("b", "a", "_house")))
    assert [path.name for path in sorted((tmp_path / "notes").glob("*.db"))] == ["_house.db", "a.db", "b.db"]
    assert files.tenants() == ["_house", "a", "b"]
    assert await notes(files, "a") == ["of a"]


async def test_many_first_uses_at_once_open_one_file(files):
    await asyncio.gather(*(add(files, "a", str(number)) for number in range(20)))
    assert sorted(map(int, await notes(files, "a"))) == list(range(20))


async def test_a_tenant_without_a_file_is_read_as_nothing(files, tmp_path):
    assert await notes(files, "a") == ["no file"]
    assert not (tmp_path / "notes").exists()


async def test_another_programs_file_is_not_touched(files, tmp_path):
    other = TenantFiles(tmp_path / "notes", [TABLE], 0x9999)
    await add(other, "a", "theirs")
    await other.close()
    with pytest.raises(Conflict, match="not the gaiad database expected here"):
        await add(files, "a", "ours")
