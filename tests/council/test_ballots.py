"""A round closes once, by the rule, and says why; whatever else comes is recorded beside it."""

import random
from typing import get_args

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from council.ballots import BallotForm, Proposal, VotingRound, ballot_schema, read_ballot
from council.limits import VotingLimits, council_limits
from council.quorum import Matter, Seat, Vote, council_rules
from council.voting import Voting
from gaiad.base.errors import BadInput, Conflict, NotFound
from tests.makers.form_texts import form_texts

ROLES = ("prime", "lite", "codemind")
VOTES: tuple[Vote, ...] = get_args(Vote)
MATTERS: tuple[Matter, ...] = get_args(Matter)
RULES = council_rules()


def form(vote: Vote = "yes") -> BallotForm:
    return BallotForm(vote=vote, confidence=0.8, reason="the plan is sound")


def seats(*active: str, mute: tuple[str, ...] = ()) -> list[Seat]:
    return [Seat(role=role, active=role in active, can_vote=role not in mute) for role in ROLES]


def opened(matter: Matter = "execute", deadline: float = 60.0) -> VotingRound:
    proposal = Proposal(
        proposal_id="env_1", matter=matter, proposer="lite", content="run it", opened_at=0.0, deadline=deadline
    )
    return VotingRound(proposal, seats(*ROLES), RULES)


def test_it_closes_when_all_active_voters_have_voted() -> None:
    voting = opened()
    voting.cast("prime", form("yes"), 1.0)
    voting.cast("lite", form("no"), 2.0)
    assert voting.advance(3.0, seats(*ROLES)) is None
    voting.cast("codemind", form("yes"), 4.0)
    decision = voting.advance(5.0, seats(*ROLES))
    assert decision is not None
    assert (decision.passed, decision.may_proceed, decision.closed_by, decision.at) == (True, True, "all_voted", 5.0)
    assert decision.reason == "passed by majority (2 yes, 1 no, 0 abstained)"
    assert voting.advance(6.0, seats(*ROLES)) is None, "decided once"
    assert voting.decision == decision


def test_nobody_waits_for_a_role_that_is_known_to_be_silent() -> None:
    voting = opened(deadline=60.0)
    voting.cast("prime", form("yes"), 1.0)
    assert voting.advance(2.0, seats(*ROLES), ["lite"]) is None, "codemind may still vote"
    decision = voting.advance(3.0, seats(*ROLES), ["lite", "codemind", "prime"])
    assert decision is not None
    assert (decision.closed_by, decision.tally.silent, decision.at) == ("all_heard", ("codemind", "lite"), 3.0)


def test_a_round_that_nobody_waits_for_is_withdrawn_and_decides_nothing() -> None:
    voting = Voting(RULES, VotingLimits(deadline_s=60.0, kept_rounds=2, late_s=5.0, ballot_tokens=96))
    voting.open("env_1", "execute", "lite", "run it", 0.0, seats(*ROLES))
    voting.withdraw("env_1")
    assert (voting.open_rounds(), voting.advance(99.0, seats(*ROLES))) == ([], [])
    with pytest.raises(NotFound):
        voting.cast("env_1", "prime", form(), 1.0)
    voting.open("env_2", "execute", "lite", "run it", 0.0, seats(*ROLES))
    voting.advance(60.0, seats(*ROLES))
    with pytest.raises(Conflict, match="is decided"):
        voting.withdraw("env_2")


def test_it_closes_at_its_deadline_and_names_the_silent() -> None:
    voting = opened(deadline=60.0)
    voting.cast("lite", form("yes"), 1.0)
    voting.cast("codemind", form("abstain"), 1.0)
    assert voting.advance(59.9, seats(*ROLES)) is None
    decision = voting.advance(60.0, seats(*ROLES))
    assert decision is not None
    assert (decision.passed, decision.closed_by) == (True, "deadline")
    assert "silent: prime" in decision.reason


@pytest.mark.parametrize("matter", MATTERS)
def test_one_ballot_decides_no_action_and_no_rule_though_all_are_there(matter: Matter) -> None:
    voting = opened(matter)
    voting.cast("prime", form("yes"), 1.0)
    decision = voting.advance(60.0, seats(*ROLES))
    assert decision is not None
    assert decision.may_proceed == (matter == "answer")
    if matter != "answer":
        assert decision.reason == (
            f"no quorum: 2 ballots are needed and 1 were cast, though enough roles are active; the {matter} is refused "
            "(1 yes, 0 no, 0 abstained; silent: codemind, lite)"
        )


def test_a_second_ballot_and_a_late_one_are_recorded_and_not_counted() -> None:
    voting = opened()
    assert voting.cast("lite", form("no"), 1.0).uncounted == ""
    assert voting.cast("lite", form("yes"), 2.0).uncounted == "second"
    assert voting.cast("prime", form("yes"), 60.0).uncounted == "late"
    decision = voting.advance(61.0, seats(*ROLES))
    assert decision is not None
    assert (decision.tally.yes, decision.tally.no) == (0, 1)
    assert voting.cast("codemind", form("yes"), 62.0).uncounted == "late"
    assert len(voting.ballots) == 4
    assert voting.decision == decision


def test_a_role_that_falls_silent_is_not_waited_for_and_its_ballot_is_not_counted() -> None:
    voting = opened()
    voting.cast("prime", form("no"), 1.0)
    voting.cast("lite", form("yes"), 2.0)
    voting.cast("codemind", form("no"), 3.0)
    decision = voting.advance(4.0, seats("lite", "codemind"))
    assert decision is not None
    assert decision.reason == (
        "failed: a tie, and no vote of prime to break it (1 yes, 1 no, 0 abstained; not counted: prime)"
    )


def test_prime_decides_a_tie() -> None:
    voting = opened()
    voting.cast("prime", form("yes"), 1.0)
    voting.cast("lite", form("no"), 1.0)
    decision = voting.advance(2.0, seats("prime", "lite"))
    assert decision is not None
    assert decision.reason.startswith("passed: a tie, decided by prime's own vote")


@pytest.mark.parametrize("matter", MATTERS)
def test_without_quorum_only_an_answer_goes_on(matter: Matter) -> None:
    for present in ((), ("prime",)):
        voting = opened(matter)
        for role in present:
            voting.cast(role, form("yes"), 1.0)
        decision = voting.advance(2.0, seats(*present))
        assert decision is not None
        assert (decision.passed, decision.may_proceed) == (False, matter == "answer")
        assert decision.reduced_quorum
        said = "continues, marked reduced_quorum" if matter == "answer" else f"the {matter} is refused"
        assert said in decision.reason


def test_roles_without_a_model_that_can_vote_make_no_quorum() -> None:
    decision = opened().advance(1.0, seats(*ROLES, mute=ROLES))
    assert decision is not None
    assert not decision.may_proceed


def test_wrong_input_is_named() -> None:
    voting = opened()
    with pytest.raises(BadInput, match="ballot of 'guest': no such role has a seat; seats: codemind, lite, prime"):
        voting.cast("guest", form(), 1.0)
    for confidence in (float("nan"), 1.5, -0.5):
        with pytest.raises(BadInput, match=f"confidence {confidence} is outside"):
            voting.cast("lite", BallotForm(vote="yes", confidence=confidence, reason="?"), 1.0)
    for confidence in (0.0, 1.0):
        opened().cast("lite", BallotForm(vote="yes", confidence=confidence, reason="?"), 1.0)
    with pytest.raises(BadInput, match="the round was opened with codemind, lite, prime"):
        voting.advance(1.0, [Seat(role="prime")])
    with pytest.raises(BadInput, match=r"its deadline 0 is not after its opening 0"):
        opened(deadline=0.0)


def test_a_ballot_is_read_as_its_schema_has_it() -> None:
    assert read_ballot(msgspec.json.encode(form("abstain")).decode()) == form("abstain")
    schema = ballot_schema(96)
    assert list(schema["properties"]) == ["vote", "confidence", "reason"]
    for text in form_texts(30, schema=schema):
        drawn = read_ballot(text)
        assert len(drawn.reason) <= 96 * 2
    for text in ("yes", "\ud800", '{"vote": "maybe"}', '{"vote": "yes", "confidence": 2, "reason": "x"}'):
        with pytest.raises(BadInput, match="no ballot"):
            read_ballot(text)


def test_a_proposal_is_opened_once_and_the_oldest_closed_rounds_are_forgotten() -> None:
    voting = Voting(RULES, VotingLimits(deadline_s=60.0, kept_rounds=2, late_s=5.0, ballot_tokens=96))
    everybody = seats(*ROLES)
    for number in range(4):
        voting.open(f"env_{number}", "answer", "lite", "?", float(number), everybody)
    with pytest.raises(Conflict, match="'env_1' was opened before"):
        voting.open("env_1", "answer", "lite", "?", 5.0, everybody)
    decided = voting.advance(61.0, everybody)
    assert [decision.proposal_id for decision in decided] == ["env_0", "env_1"]
    voting.advance(100.0, everybody)
    with pytest.raises(NotFound, match="'env_0'"):
        voting.cast("env_0", "lite", form(), 101.0)
    assert voting.cast("env_3", "lite", form(), 101.0).uncounted == "late"


def test_five_thousand_votes_of_a_day() -> None:
    chance = random.Random(7)
    voting = Voting(RULES, council_limits().voting)
    decided: set[str] = set()
    now, cast, opened_so_far = 0.0, 0, 0
    while cast < 5000:
        now += chance.random() * 20
        present = [Seat(role=role, active=chance.random() < 0.8) for role in ROLES]
        opened_so_far += 1
        name = f"env_{opened_so_far}"
        voting.open(name, chance.choice(MATTERS), "lite", "?", now, present)
        for one in voting.open_rounds():
            for role in ROLES:
                if chance.random() < 0.6:
                    voting.cast(one.proposal.proposal_id, role, form(chance.choice(VOTES)), now)
                    cast += 1
        for decision in voting.advance(now, present):
            assert decision.proposal_id not in decided
            decided.add(decision.proposal_id)
            active = sum(seat.active for seat in present)
            found = decision.tally
            voted = found.yes + found.no + found.abstain
            assert found.quorum == ((active if decision.matter == "answer" else voted) >= 2)
            assert not decision.passed or active >= 2
            assert decision.may_proceed <= (decision.passed or (decision.matter == "answer" and active < 2))
    assert len(decided) > 500


class Rounds(RuleBasedStateMachine):
    """Roles come and go, vote in time, twice, late; proposals overlap."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.present = dict.fromkeys(ROLES, True)
        self.able = dict.fromkeys(ROLES, True)
        self.voting = Voting(RULES, VotingLimits(deadline_s=60.0, kept_rounds=50, late_s=5.0, ballot_tokens=96))
        self.names: list[str] = []
        self.decided: set[str] = set()
        self.first: dict[tuple[str, str], tuple[Vote, float]] = {}

    def seats(self) -> list[Seat]:
        return [Seat(role=role, active=self.present[role], can_vote=self.able[role]) for role in ROLES]

    @rule(matter=st.sampled_from(MATTERS))
    def open(self, matter: Matter) -> None:
        self.names.append(f"env_{len(self.names)}")
        self.voting.open(self.names[-1], matter, "lite", "?", self.now, self.seats())

    @rule(seconds=st.sampled_from([0.5, 20.0, 59.5, 60.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule(role=st.sampled_from(ROLES), which=st.sampled_from(["present", "able"]), value=st.booleans())
    def change(self, role: str, which: str, value: bool) -> None:
        getattr(self, which)[role] = value

    @rule(data=st.data(), role=st.sampled_from(ROLES), vote=st.sampled_from(VOTES))
    def cast(self, data: st.DataObject, role: str, vote: Vote) -> None:
        if not self.names:
            return
        name = data.draw(st.sampled_from(self.names[-4:]))
        made = self.voting.cast(name, role, form(vote), self.now)
        deadline = self.voting.round(name).proposal.deadline
        in_time = name not in self.decided and self.now < deadline
        if (name, role) in self.first:
            assert made.uncounted == "second"
        else:
            assert made.uncounted == ("" if in_time else "late")
            self.first[name, role] = (vote, self.now if in_time else -1.0)

    @rule()
    def advance(self) -> None:
        seats = self.seats()
        for decision in self.voting.advance(self.now, seats):
            assert decision.proposal_id not in self.decided
            self.decided.add(decision.proposal_id)
            voters = {seat.role for seat in seats if seat.active and seat.can_vote}
            counted = {
                role: vote
                for (name, role), (vote, at) in self.first.items()
                if name == decision.proposal_id and at >= 0 and role in voters
            }
            deadline = self.voting.round(decision.proposal_id).proposal.deadline
            assert voters == set(counted) or self.now >= deadline
            quorum = (len(voters) if decision.matter == "answer" else len(counted)) >= 2
            assert decision.reduced_quorum != quorum
            margin = list(counted.values()).count("yes") - list(counted.values()).count("no")
            expected = quorum and (margin > 0 or (margin == 0 and counted.get("prime") == "yes"))
            assert decision.passed == expected
            if decision.matter != "answer":
                assert decision.may_proceed <= quorum

    @invariant()
    def a_decision_stays_and_all_ballots_are_kept(self) -> None:
        for name in self.names:
            one = self.voting.round(name)
            assert (one.decision is not None) == (name in self.decided)
            roles = [cast.role for cast in one.ballots if not cast.uncounted]
            assert len(roles) == len(set(roles))


TestRounds = Rounds.TestCase
TestRounds.settings = settings(max_examples=40, stateful_step_count=40)
