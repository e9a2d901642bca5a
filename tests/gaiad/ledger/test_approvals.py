"""The queue of commands: found by name within its tenant, one decision each, and what the audit has of it."""

import asyncio

import pytest

from gaiad.base.errors import BadInput, Conflict, NotFound
from gaiad.base.ids import short
from gaiad.base.ports import RequestContext
from gaiad.ledger.approvals import APPROVED, ASKED, ApprovalLog, asked_in_audit
from gaiad.store.home_databases import HomeDatabases
from gaiad.wire.governance import Approval
from tests.makers.audits import open_audit


def approval(name="apr_01", **changed):
    made = {
        "id": name,
        "command": ["ls"],
        "sha256": "ab" * 32,
        "proposed_by": "prime",
        "votes": [],
        "risk_level": "low",
        "expires_at": "2025-12-01T13:00:00Z",
        "turn_id": "turn_01",
    }
    return Approval(**(made | changed))


@pytest.fixture
async def log(tmp_path):
    opened = ApprovalLog(HomeDatabases(tmp_path))
    yield opened
    opened._databases.close()


@pytest.fixture
def audit(tmp_path, clock):
    opened = open_audit(tmp_path, clock)
    yield opened
    opened.close()


async def test_one_is_found_by_its_id_or_its_digits_in_its_tenant_only(log):
    await log.add("work", approval())
    for name in ("apr_01", short("apr_01")):
        assert (await log.find("work", name)).command == ["ls"]
        with pytest.raises(NotFound):
            await log.find("local", name)
    assert log.tenants() == ["work"]


@pytest.mark.parametrize("tenant", ["../work", "", ".hidden", "a/b"])
async def test_a_tenant_that_is_no_name_of_a_file_is_refused(log, tenant):
    with pytest.raises(BadInput):
        await log.find(tenant, "apr_01")


async def test_of_many_decisions_at_once_one_is_kept(log):
    await log.add("local", approval())
    tried = (log.change("local", "apr_01", "waiting", state=state) for state in ("running", "denied") * 10)
    found = await asyncio.gather(*tried, return_exceptions=True)
    kept = [one for one in found if isinstance(one, Approval)]
    assert len(kept) == 1
    assert sum(isinstance(one, Conflict) for one in found) == 19
    assert (await log.find("local", "apr_01")).state == kept[0].state


async def test_those_in_a_state_come_oldest_first_and_all_of_them_newest_first(log):
    for number in range(4):
        await log.add("local", approval(f"apr_0{number}", state="denied" if number == 1 else "waiting"))
    assert [one.id for one in await log.in_state("local", ("waiting",))] == ["apr_00", "apr_02", "apr_03"]
    assert [one.id for one in await log.newest("local", 2)] == ["apr_03", "apr_02"]


async def test_the_audit_tells_a_command_that_was_asked_for_from_all_others(audit):
    body = {"id": "apr_01", "sha256": "ab" * 32}
    row = await audit.append(ASKED, "council", body, RequestContext("work"))
    asked = approval(audit_row=row)
    assert asked_in_audit(audit, asked, "work")
    assert not asked_in_audit(audit, asked, "local")
    for changed in ({"sha256": "cd" * 32}, {"name": "apr_02"}, {"audit_row": row + 1}, {"audit_row": 0}):
        assert not asked_in_audit(audit, approval(**{"audit_row": row, **changed}), "work")
    other = await audit.append("council.vote", "council", body, RequestContext("work"))
    assert not asked_in_audit(audit, approval(audit_row=other), "work")


async def test_what_was_decided_once_is_not_asked_any_more(audit):
    body = {"id": "apr_01", "sha256": "ab" * 32}
    row = await audit.append(ASKED, "council", body, RequestContext("work"))
    await audit.append(APPROVED, "uid 1", {"id": "apr_02"}, RequestContext("work"))
    assert asked_in_audit(audit, approval(audit_row=row), "work")
    await audit.append(APPROVED, "uid 1", body, RequestContext("work"))
    assert not asked_in_audit(audit, approval(audit_row=row), "work")
