"""Whatever is tried in whatever order, nothing is merged without the right that its kind asks for."""

import random
from contextlib import AsyncExitStack
from pathlib import Path
from typing import get_args

import pytest

from council.governance.rules import prime_agrees
from gaiad.base.errors import GaiadError
from gaiad.base.ports import RequestContext
from gaiad.identity.signing import sign_rfc
from gaiad.identity.trust import open_identity
from gaiad.ledger.audit import verify_home
from gaiad.service.governance import GovernanceService
from gaiad.wire.governance import RfcKind, RfcProposal, RfcRecord, RfcSignature
from tests.makers.governed import APPROVE, NO, OBJECT, YES, House

ROLES = ("prime", "lite", "codemind")
Turn = tuple[str, tuple[frozenset[str], dict[str, str], str]]
STEPS = ("review", "vote", "merge", "forge")
COURSES = 48
TURNS = 6


def some_turn(chance: random.Random, open_now: list[str]) -> Turn:
    """Mostly a step that is open, mostly with everybody there and of a sound mind."""
    step = chance.choice(open_now) if open_now and chance.random() < 0.6 else chance.choice(STEPS)
    present = frozenset(role for role in ROLES if chance.random() < 0.8)
    ballots = {role: chance.choice((YES, YES, YES, NO, "no ballot")) for role in ROLES}
    return step, (present, ballots, chance.choice((APPROVE, APPROVE, APPROVE, OBJECT, "no review")))


async def take(governing: GovernanceService, house: House, record: RfcRecord, turn: Turn) -> None:
    """Try one step with these roles present; a refusal is an answer too."""
    step, (present, ballots, review) = turn
    house.present = sorted(present)
    for role in ROLES:
        house.says[(role, "ballot")] = ballots[role]
        house.says[(role, "rfc_review")] = review
    signature = sign_rfc(record, house.folder) if record.kind in ("identity", "security") else None
    if step == "forge":
        signature = RfcSignature(key_id="0" * 16, signature="A" * 88)
    try:
        if step in ("merge", "forge"):
            await governing.merge(record.rfc_id, signature, RequestContext())
        else:
            await getattr(governing, step)(record.rfc_id, RequestContext())
    except GaiadError:
        pass


def is_right(before: RfcRecord, after: RfcRecord, turn: Turn) -> None:
    """The state moved only as the step and the kind allow."""
    step, (present, _, _) = turn
    if after.state == before.state:
        return
    assert before.state != "merged"
    if after.state == "reviewed":
        assert step == "review"
        assert {each.role for each in after.reviews} == {"prime", "lite"}
    elif after.state in ("passed", "failed"):
        assert (step, before.state) == ("vote", "reviewed")
        assert len(present) >= 2
        assert not after.votes[-1].reduced_quorum
        assert after.votes[-1].passed == (after.state == "passed")
    else:
        assert after.state == "merged"
        assert step == "merge" or after.kind in ("constant", "process")
        assert after.kind in ("identity", "security") or before.state == "passed"
        assert after.kind != "security" or prime_agrees(after)


async def whole(root: Path, kind: RfcKind, chance: random.Random) -> str:
    """One RFC through some turns; the state it came to."""
    house = House(root)
    async with AsyncExitStack() as stack:
        stack.callback(house.audit.close)
        governing = await house.open(stack)
        attached = house.identity() if kind == "identity" else ""
        after = await governing.propose(
            RfcProposal(title="T", text="t", kind=kind, identity_toml=attached), RequestContext()
        )
        for _ in range(TURNS):
            before, turn = after, some_turn(chance, after.next_steps)
            await take(governing, house, before, turn)
            after = await governing.show(before.rfc_id)
            is_right(before, after, turn)
            started = open_identity(house.home, house.folder, house.audit)
            assert (started.version == "1.1.0") == (kind == "identity" and after.state == "merged")
    assert verify_home(house.home).ok
    return after.state


@pytest.mark.parametrize("kind", get_args(RfcKind))
async def test_any_course(kind: RfcKind, tmp_path: Path) -> None:
    ends = []
    for number in range(COURSES // 4):
        (folder := tmp_path / str(number)).mkdir()
        ends.append(await whole(folder, kind, random.Random(f"{kind} {number}")))
    assert "merged" in ends, "the courses reach the end that is to be guarded"
