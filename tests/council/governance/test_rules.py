"""Which step an RFC may take and on what right it is merged: every row of the table, and what no row allows."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from council.governance.rules import (
    check_step,
    governance_table,
    merge_rule,
    missing_reviewers,
    next_state,
    open_steps,
    prime_agrees,
)
from gaiad.base.errors import Conflict
from gaiad.wire.council import BallotRecord, VoteRecord
from gaiad.wire.governance import RfcKind, RfcRecord, RfcReview, RfcState

TABLE = governance_table()
KINDS = get_args(RfcKind)
STATES = get_args(RfcState)


def record(kind="process", state="proposed", prime=None, ballot=None) -> RfcRecord:
    reviews = [RfcReview(role="prime", verdict=prime, confidence=0.9, reasons=["so"], at="")] if prime else []
    ballots = [BallotRecord(role="prime", vote=ballot, confidence=0.9, reason="so")] if ballot else []
    votes = [VoteRecord(proposal_id="p", matter="governance", subject="", passed=True, may_proceed=True,
                        reduced_quorum=False, reason="", ballots=ballots)] if ballots else []  # fmt: skip
    return RfcRecord(
        rfc_id="rfc_1", kind=kind, title="T", text="t", state=state, created_at="", updated_at="", reviews=reviews,
        votes=votes,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("state", "step", "result", "to"),
    [
        ("proposed", "review", "incomplete", "proposed"),
        ("proposed", "review", "complete", "reviewed"),
        ("reviewed", "vote", "passed", "passed"),
        ("reviewed", "vote", "failed", "failed"),
        ("reviewed", "vote", "no_quorum", "reviewed"),
    ],
)
def test_each_transition(state, step, result, to):
    assert next_state(TABLE, state, step, result) == to
    check_step(TABLE, record(state=state), step)


@given(st.sampled_from(STATES), st.sampled_from(["review", "vote"]))
def test_no_other_state_begins_a_step(state, step):
    begins = {"review": "proposed", "vote": "reviewed"}[step]
    if state != begins:
        with pytest.raises(Conflict, match=begins):
            check_step(TABLE, record(state=state), step)
        with pytest.raises(Conflict):
            next_state(TABLE, state, step, "passed" if step == "vote" else "complete")


@pytest.mark.parametrize("kind", ["constant", "process"])
@pytest.mark.parametrize("self_aware", [True, False])
@pytest.mark.parametrize("state", STATES)
def test_constants_and_process_need_the_vote_and_no_signature(kind, self_aware, state):
    if state == "passed":
        assert not merge_rule(TABLE, record(kind, state), self_aware=self_aware).signature
    else:
        with pytest.raises(Conflict):
            merge_rule(TABLE, record(kind, state), self_aware=self_aware)


@pytest.mark.parametrize("state", STATES)
def test_identity_of_a_self_aware_stack_needs_the_vote_and_the_signature(state):
    if state == "passed":
        rule = merge_rule(TABLE, record("identity", state), self_aware=True)
        assert rule.signature
        assert "the council passed it and the creator signed" in rule.ground
    else:
        with pytest.raises(Conflict):
            merge_rule(TABLE, record("identity", state), self_aware=True)


@pytest.mark.parametrize("state", STATES)
def test_identity_before_that_is_the_creators_alone_even_against_a_vote(state):
    if state == "merged":
        with pytest.raises(Conflict, match="merged already"):
            merge_rule(TABLE, record("identity", state), self_aware=False)
    else:
        rule = merge_rule(TABLE, record("identity", state), self_aware=False)
        assert rule.signature
        assert "the creator alone decides" in rule.ground


@pytest.mark.parametrize("self_aware", [True, False])
def test_an_emergency_needs_the_signature_and_primes_yes(self_aware):
    assert merge_rule(TABLE, record("security", prime="approve"), self_aware=self_aware).signature
    with pytest.raises(Conflict, match="prime has not said a word"):
        merge_rule(TABLE, record("security"), self_aware=self_aware)
    with pytest.raises(Conflict, match="prime does not agree"):
        merge_rule(TABLE, record("security", prime="object"), self_aware=self_aware)


def test_primes_ballot_is_its_last_word():
    assert prime_agrees(record(prime="object", ballot="yes")) is True
    assert prime_agrees(record(prime="approve", ballot="no")) is False
    assert prime_agrees(record(prime="approve", ballot="abstain")) is False
    assert prime_agrees(record()) is None


@given(st.sampled_from(KINDS), st.sampled_from(STATES), st.booleans(), st.sampled_from([None, "approve", "object"]))
def test_open_steps_are_those_that_are_not_refused(kind, state, self_aware, prime):
    found = open_steps(TABLE, record(kind, state, prime), self_aware=self_aware)
    for step in ("review", "vote"):
        assert (step in found) == ({"review": "proposed", "vote": "reviewed"}[step] == state)
    try:
        rule = merge_rule(TABLE, record(kind, state, prime), self_aware=self_aware)
        assert rule.signature == (kind in ("identity", "security"))
        assert "merge" in found
    except Conflict:
        assert "merge" not in found


def test_who_has_reviewed_is_not_asked_again():
    assert missing_reviewers(TABLE, record()) == ("prime", "lite")
    assert missing_reviewers(TABLE, record(prime="object")) == ("lite",)
