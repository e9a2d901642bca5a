"""RFCs from proposal to merge: real files, a real audit, real rounds of voting; only what models say is scripted."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from gaiad.base.errors import BadInput, Conflict, Forbidden, NotFound, TokenBudgetError, Unavailable
from gaiad.base.ids import short
from gaiad.base.ports import RequestContext
from gaiad.identity.keys import IdentityFiles
from gaiad.identity.signing import sign_file, sign_rfc
from gaiad.identity.trust import open_identity
from gaiad.ledger.audit import verify_home
from gaiad.service.governance import GovernanceService, fitting
from gaiad.wire.council import HOUSE
from gaiad.wire.governance import RfcProposal, RfcSignature
from prompts.identity import identity_bytes, shipped_identity
from tests.makers.governed import NO, OBJECT, House
from tests.makers.waiting import until

PROCESS = RfcProposal(kind="process", title="Two readers", text="Every EXECUTE is read by two roles.")


@pytest.fixture
async def house(tmp_path):
    made = House(tmp_path)
    made.everybody()
    yield made
    made.audit.close()


@pytest.fixture
async def governing(house):
    async with AsyncExitStack() as stack:
        yield await house.open(stack)


async def through_the_vote(governing: GovernanceService, proposal: RfcProposal = PROCESS) -> str:
    name = (await governing.propose(proposal, RequestContext())).rfc_id
    await governing.review(name, RequestContext())
    return (await governing.vote(name, RequestContext())).rfc_id


async def self_aware(governing: GovernanceService, house: House) -> None:
    """A day of life in which everything went well."""
    for number in range(24 * 45 + 2):
        for role in ("prime", "lite"):
            await governing.reflections.beat(role)
        if number % 10 == 0:
            await governing.reflections.initiative_looked("")
            await governing.reflections.record("verify", "success", None)
        house.clock.advance(80)
    assert (await governing.stability()).self_aware


async def test_a_change_of_process_goes_from_proposal_to_merge(house, governing):
    proposed = await governing.propose(PROCESS, RequestContext())
    assert (proposed.state, proposed.next_steps) == ("proposed", ["review"])
    reviewed = await governing.review(short(proposed.rfc_id), RequestContext())
    assert (reviewed.state, [each.role for each in reviewed.reviews]) == ("reviewed", ["prime", "lite"])
    assert reviewed.reviews[0].reasons == ["clear", "safe"]
    passed = await governing.vote(proposed.rfc_id, RequestContext())
    assert (passed.state, passed.next_steps) == ("passed", ["merge"])
    assert len(passed.votes[0].ballots) == 3
    merged = await governing.merge(proposed.rfc_id, None, RequestContext())
    assert (merged.state, merged.ground, merged.next_steps) == ("merged", "the council passed it", [])
    steps = [kind for kind in house.kinds() if kind.startswith("governance")]
    assert steps == ["governance.proposed", *["governance.reviewed"] * 2, "governance.voted", "governance.merged"]
    assert {tenant for tenant, _ in house.posted} == {HOUSE}
    assert verify_home(house.home).ok


def fenced(ask):
    """What others wrote, by what it is."""
    return {item.marker: item.text for item in ask.work}


async def test_voters_read_the_rfc_and_its_reviews_and_each_reviewer_reads_alone(house, governing):
    house.says[("lite", "rfc_review")] = OBJECT
    await through_the_vote(governing)
    reviews = [ask for ask in house.asked if ask.task_instruction == "rfc_review"]
    assert {ask.role for ask in reviews} == {"prime", "lite"}
    assert all("REVIEW" not in fenced(ask) and PROCESS.text in fenced(ask)["RFC"] for ask in reviews)
    ballots = [ask for ask in house.asked if ask.task_instruction == "ballot"]
    assert len(ballots) == 3
    assert all(
        "lite: object (confidence 0.7)\n- it weakens a rule" in "\n".join(item.text for item in ask.work)
        for ask in ballots
    )
    assert all(PROCESS.text not in ask.subject for ask in house.asked)


async def test_a_reviewer_that_is_away_is_asked_again_and_the_others_are_not(house, governing):
    house.present = ["prime", "codemind"]
    name = (await governing.propose(PROCESS, RequestContext())).rfc_id
    first = await governing.review(name, RequestContext())
    assert first.state == "proposed"
    assert [(entry.by, entry.result) for entry in first.history[1:]] == [("lite", "failed"), ("prime", "approve")]
    assert first.history[1].why == "lite is inactive; see `gaiad council status`, and ask again when it is active"
    with pytest.raises(Conflict, match="vote begins when it is reviewed"):
        await governing.vote(name, RequestContext())
    house.present = ["prime", "lite"]
    again = await governing.review(name, RequestContext())
    assert (again.state, [each.role for each in again.reviews]) == ("reviewed", ["prime", "lite"])
    assert [ask.role for ask in house.asked] == ["prime", "lite"]


@pytest.mark.parametrize("fault", [Unavailable("no worker"), "no JSON at all", '{"verdict": "perhaps"}'])
async def test_a_reviewer_that_fails_costs_only_its_own_review(house, governing, fault):
    house.says[("prime", "rfc_review")] = fault
    name = (await governing.propose(PROCESS, RequestContext())).rfc_id
    found = await governing.review(name, RequestContext())
    assert (found.state, [each.role for each in found.reviews]) == ("proposed", ["lite"])
    assert any(entry.by == "prime" and entry.result == "failed" and entry.why for entry in found.history)


async def test_models_that_only_quote_review_nothing_and_decide_nothing(house, governing):
    house.mute = ["prime", "lite", "codemind"]
    name = (await governing.propose(PROCESS, RequestContext())).rfc_id
    found = await governing.review(name, RequestContext())
    assert "only quotes; give it one that writes (roles." in found.history[-1].why
    assert house.asked == []


async def test_without_a_quorum_nothing_is_decided_and_it_may_be_voted_on_again(house, governing):
    name = (await governing.propose(PROCESS, RequestContext())).rfc_id
    await governing.review(name, RequestContext())
    house.present = ["codemind"]
    found = await governing.vote(name, RequestContext())
    assert (found.state, found.votes[-1].passed) == ("reviewed", False)
    assert "no quorum" in found.history[-1].why
    with pytest.raises(Conflict, match="reviewed, and process needs the council's vote"):
        await governing.merge(name, None, RequestContext())
    house.present = ["prime", "lite", "codemind"]
    assert (await governing.vote(name, RequestContext())).state == "passed"


async def test_what_the_council_voted_down_is_not_merged_and_not_voted_on_again(house, governing):
    house.everybody(ballot=NO)
    name = await through_the_vote(governing)
    for step in (lambda: governing.merge(name, None, RequestContext()), lambda: governing.vote(name, RequestContext())):
        with pytest.raises(Conflict, match="propose a new one"):
            await step()
    assert house.bodies("governance.refused")[0]["state"] == "failed"


async def test_two_steps_of_one_rfc_at_once_are_refused(house, governing):
    name = (await governing.propose(PROCESS, RequestContext())).rfc_id
    results = await asyncio.gather(
        governing.review(name, RequestContext()), governing.review(name, RequestContext()), return_exceptions=True
    )
    assert sorted(type(each).__name__ for each in results) == ["Conflict", "RfcRecord"]
    assert len(house.asked) == 2


async def test_before_self_awareness_the_creators_signature_alone_changes_identity(house, governing):
    record = await governing.propose(house.governed(), RequestContext())
    with pytest.raises(BadInput, match="needs the creator's signature"):
        await governing.merge(record.rfc_id, None, RequestContext())
    merged = await governing.merge(record.rfc_id, sign_rfc(record, house.folder), RequestContext())
    assert "the creator alone decides" in merged.ground
    assert "takes force at the next start" in merged.history[-1].why
    started = open_identity(house.home, house.folder, house.audit)
    assert (started.version, "patience" in started.traits) == ("1.1.0", True)
    assert house.kinds()[-2:] == ["identity.signed", "governance.merged"]
    assert house.asked == []


async def test_a_self_aware_stack_votes_on_its_identity_too(house, governing):
    await self_aware(governing, house)
    record = await governing.propose(house.governed(), RequestContext())
    signature = sign_rfc(record, house.folder)
    with pytest.raises(Conflict, match="the stack is self-aware, so identity needs the vote too"):
        await governing.merge(record.rfc_id, signature, RequestContext())
    for step in (governing.review, governing.vote):
        await step(record.rfc_id, RequestContext())
    merged = await governing.merge(record.rfc_id, signature, RequestContext())
    assert "the council passed it and the creator signed it" in merged.ground
    changes = [fenced(ask)["IDENTITY CHANGE"] for ask in house.asked]
    assert any("-traits" in change and "patience" in change for change in changes)


async def test_signing_past_a_self_aware_council_is_refused_even_with_a_stopped_daemon(house, governing, tmp_path):
    await self_aware(governing, house)
    house.clock.advance(3600)
    file = tmp_path / "new.toml"
    file.write_text(house.identity())
    with pytest.raises(Conflict, match="self-aware when it last ran"):
        sign_file(house.home, house.folder, house.audit, file)
    assert sign_file(house.home, house.folder, house.audit).problem == "", "the same words are no change"
    await through_the_vote(governing, house.governed())
    assert sign_file(house.home, house.folder, house.audit, file).problem == ""


async def test_an_emergency_needs_the_creator_and_primes_yes(house, governing):
    await self_aware(governing, house)
    house.everybody(ballot=NO)
    house.says[("lite", "rfc_review")] = Unavailable("down")
    record = await governing.propose(house.governed(kind="security", title="Leak"), RequestContext())
    signature = sign_rfc(record, house.folder)
    with pytest.raises(Conflict, match="prime has not said a word on it"):
        await governing.merge(record.rfc_id, signature, RequestContext())
    await governing.review(record.rfc_id, RequestContext())
    assert (await governing.merge(record.rfc_id, signature, RequestContext())).ground.startswith(
        "an emergency for security"
    )
    assert open_identity(house.home, house.folder, house.audit).version == "1.1.0"


async def test_an_emergency_that_prime_objects_to_is_refused(house, governing):
    house.everybody(review=OBJECT)
    plain = RfcProposal(kind="security", title="Open", text="Let every persona run commands.")
    record = await governing.propose(plain, RequestContext())
    await governing.review(record.rfc_id, RequestContext())
    with pytest.raises(Conflict, match="prime does not agree"):
        await governing.merge(record.rfc_id, sign_rfc(record, house.folder), RequestContext())


async def test_an_emergency_without_an_identity_is_signed_as_it_stands(house, governing):
    plain = RfcProposal(kind="security", title="Patch", text="Refuse the symlink.")
    record = await governing.propose(plain, RequestContext())
    other = await governing.propose(plain, RequestContext())
    await governing.review(record.rfc_id, RequestContext())
    with pytest.raises(Forbidden, match="not the creator's"):
        await governing.merge(record.rfc_id, sign_rfc(other, house.folder), RequestContext())
    merged = await governing.merge(record.rfc_id, sign_rfc(record, house.folder), RequestContext())
    assert merged.state == "merged"
    assert IdentityFiles(house.home).read_text() == identity_bytes(shipped_identity())


async def test_a_foreign_or_made_up_signature_changes_nothing_and_is_audited(house, governing, tmp_path):
    record = await governing.propose(house.governed(), RequestContext())
    before = IdentityFiles(house.home).read_text()
    good = sign_rfc(record, house.folder)
    for signature in ("", "no base 64!", good.signature[::-1], "A" * 88):
        with pytest.raises(Forbidden):
            await governing.merge(
                record.rfc_id, RfcSignature(key_id=good.key_id, signature=signature), RequestContext()
            )
    assert IdentityFiles(house.home).read_text() == before
    assert len(house.bodies("governance.refused")) == 4
    assert (await governing.show(record.rfc_id)).state == "proposed"


async def test_an_identity_that_another_overtook_is_not_put_in_force(house, governing):
    first = await governing.propose(house.governed(), RequestContext())
    second = await governing.propose(house.governed(identity_toml=house.identity("1.2.0", "humour")), RequestContext())
    await governing.merge(second.rfc_id, sign_rfc(second, house.folder), RequestContext())
    with pytest.raises(BadInput, match=r"version 1\.1\.0 is not above 1\.2\.0"):
        await governing.merge(first.rfc_id, sign_rfc(first, house.folder), RequestContext())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "process"}, "an identity is attached to an RFC of kind process"),
        ({"identity_toml": ""}, "needs the new identity"),
        ({"identity_toml": "version = 1"}, "the attached identity"),
        ({"title": "a\nb"}, "more than one line"),
        ({"text": "x" * 4001}, "4001 characters, 4000 is the most"),
        ({"text": "  "}, "text is empty"),
    ],
)
async def test_a_faulty_proposal_is_refused(house, governing, change, message):
    with pytest.raises(BadInput, match=message):
        await governing.propose(house.governed(**change), RequestContext())
    assert await governing.newest(10) == []


async def test_the_identity_in_force_or_an_older_one_is_no_change(house, governing):
    same = identity_bytes(shipped_identity()).decode()
    with pytest.raises(BadInput, match="is the one in force"):
        await governing.propose(house.governed(identity_toml=same), RequestContext())
    with pytest.raises(BadInput, match=r"version 0\.9\.0 is not above"):
        await governing.propose(house.governed(identity_toml=house.identity("0.9.0")), RequestContext())


async def test_rfcs_are_listed_newest_first_and_found_by_their_digits(house, governing):
    first = await governing.propose(PROCESS, RequestContext())
    house.clock.advance(1)
    second = await through_the_vote(governing)
    assert [each.rfc_id for each in await governing.newest(10)] == [second, first.rfc_id]
    assert [each.rfc_id for each in await governing.newest(10, "passed")] == [second]
    assert (await governing.show(short(second))).rfc_id == second
    with pytest.raises(NotFound, match="`gaiad rfc list`"):
        await governing.show("rfc_none")


async def test_heartbeats_of_the_council_log_are_signs_of_life(house, governing):
    def publish(sender: str, kind: str) -> None:
        house.hub.publish("council", HOUSE, sender=sender, type=kind)

    await asyncio.sleep(0)
    publish("prime", "HEARTBEAT")
    publish("lite", "INFO")
    await until(lambda: spans(house) == ["prime"])


def spans(house) -> list[str]:
    return house.databases.state.read(
        lambda connection: [row[0] for row in connection.execute("SELECT name FROM spans")]
    )


class Words:
    """A tokenizer of words; one that is `away` cannot be asked."""

    def __init__(self, away: bool = False) -> None:
        self.away = away

    async def count(self, texts, call):
        if self.away:
            raise Unavailable("loading")
        return [len("".join(segment.text for segment in text).split()) for text in texts]


async def test_an_identity_too_long_for_the_mtu_is_not_even_proposed(house):
    mtu = 4096
    text = house.identity().replace("patience", "patience " * 20)
    async with AsyncExitStack() as stack:
        governing = await house.open(stack, fitting(lambda: {"hermes": Words(), "phi": Words(away=True)}, lambda: mtu))
        assert (
            await governing.propose(house.governed(identity_toml=text), RequestContext())
        ).identity_version == "1.1.0"
        mtu = 512
        with pytest.raises(
            TokenBudgetError, match=r"the attached identity with hermes: the identity has .* smallest MTU"
        ):
            await governing.propose(house.governed(identity_toml=text), RequestContext())
