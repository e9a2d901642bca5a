"""What is older than its tenant's days is deleted as if a person had; other tenants and newer records stay."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from gaiad.archive.archive import LocalArchive
from gaiad.base.clock import FrozenClock
from gaiad.base.ids import IdMaker
from gaiad.base.ports import RequestContext
from gaiad.service.memory import ForgetService
from gaiad.wire.schemas import PacketFilter

DAY_S = 24 * 60 * 60


class Audit:
    def __init__(self) -> None:
        self.rows: list[tuple[str, str, int]] = []

    async def append(self, kind: str, actor: str, body: dict[str, Any], call: RequestContext) -> None:
        self.rows.append((kind, actor, body["packets"]))


@pytest.fixture
async def archive(open_archive: Callable[..., Awaitable[LocalArchive]], make_packet: Any, clock: FrozenClock) -> Any:
    archive = await open_archive()
    for tenant in ("local", "work"):
        documents = [(f"{tenant}.xml", make_packet(f"TP-{tenant}"))]
        await archive.ingest_documents(documents, RequestContext(tenant))
    clock.advance(40 * DAY_S)
    await archive.ingest_documents([("new.xml", make_packet("TP-new"))], RequestContext("work"))
    return archive


async def test_only_the_old_of_the_tenant_that_has_a_limit_goes_and_can_be_put_back(
    archive: LocalArchive, clock: FrozenClock, tmp_path: Path
) -> None:
    async def ids(tenant: str) -> set[str]:
        return {one.packet_id for one in await archive.list_packets(PacketFilter(), RequestContext(tenant))}

    audit = Audit()
    service = ForgetService(archive, audit, IdMaker(clock), tmp_path / "inbox", [])
    await service.expire({"work": 60, "local": 0})
    assert await ids("work") == {"TP-work", "TP-new"}
    await service.expire({"work": 30, "gone": 1})
    assert (await ids("work"), await ids("local")) == ({"TP-new"}, {"TP-local"})
    assert audit.rows == [("memory.forgotten", "retention", 1)]
    await service.expire({"work": 30})
    assert len(audit.rows) == 1
    (deletion,) = await service.undoable(RequestContext("work"))
    assert await service.undo(deletion.forget_id, RequestContext("work")) == 1
    assert await ids("work") == {"TP-work", "TP-new"}
