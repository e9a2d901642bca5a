"""A day of the council on the pure machines together: who beats decides who counts in the votes of that moment.

2,880 heartbeats a role with random outages, and 5,000 votes: never a decision without a quorum (roles that are there,
for commands and rules also their ballots), never two for one proposal, and Prime decides ties. What is expected is
reckoned here anew, from a log of beats and ballots.
"""

import random
from typing import get_args

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from council.ballots import BallotForm, Decision
from council.heartbeat import Heartbeat
from council.limits import council_limits
from council.quorum import Matter, Seat, Vote, council_rules
from council.voting import Voting
from gaiad.base.errors import Conflict

ROLES = ("prime", "lite", "codemind")
VOTES: tuple[Vote, ...] = get_args(Vote)
MATTERS: tuple[Matter, ...] = get_args(Matter)
LIMITS = council_limits()
BEAT_S, SILENT_S, ROUND_S = 30.0, 90.0, LIMITS.voting.deadline_s
DAY_S, BEATS, BALLOTS = 86_400.0, 2_880, 5_000
STEPS = 40


class Day:
    """Time goes on probe by probe. A role answers its probe unless it is out; `votes` are cast in between."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.now = 0.0
        self.heartbeat = Heartbeat(ROLES, 0.0, LIMITS.heartbeat)
        self.voting = Voting(council_rules(), LIMITS.voting)
        self.out_until = dict.fromkeys(ROLES, 0.0)
        self.probes = dict.fromkeys(ROLES, 0)
        self.answered: dict[str, float] = {}
        self.cast: dict[str, dict[str, Vote]] = {}
        self.opened_at: dict[str, float] = {}
        self.matters: dict[str, Matter] = {}
        self.decided: dict[str, Decision] = {}
        self.ballots = 0
        self.ties = 0

    def there(self) -> set[str]:
        """Reckoned from what was answered, not asked of the heartbeat."""
        return {role for role, at in self.answered.items() if self.now - at <= SILENT_S}

    def seats(self) -> list[Seat]:
        """As the room makes them: by the heartbeat's state at this moment."""
        return [Seat(role=role, active=self.heartbeat.state(role, self.now) == "ready") for role in ROLES]

    def fall_out(self, role: str, seconds: float) -> None:
        self.out_until[role] = max(self.out_until[role], self.now + seconds)

    def pass_until(self, then: float) -> None:
        """Half a beat at a time; rounds whose time has come are closed as it goes."""
        while self.now < then:
            self.now = min(then, self.now + BEAT_S / 2)
            for role in self.heartbeat.due(self.now):
                self.probes[role] += 1
                if self.now >= self.out_until[role]:
                    self.heartbeat.beat(role, self.now)
                    self.answered[role] = self.now
            self.close()

    def propose(self, matter: Matter) -> str:
        name = f"msg_{len(self.opened_at)}"
        self.voting.open(name, matter, self.chance.choice(ROLES), "?", self.now, self.seats())
        self.opened_at[name], self.matters[name], self.cast[name] = self.now, matter, {}
        return name

    def vote(self, name: str, role: str, vote: Vote) -> None:
        """In time, late or a second time: only a first ballot in time counts."""
        in_time = name not in self.decided and self.now < self.opened_at[name] + ROUND_S
        first = role not in {one.role for one in self.voting.round(name).ballots}
        made = self.voting.cast(name, role, BallotForm(vote=vote, confidence=0.5, reason="?"), self.now)
        assert (made.uncounted == "") == (in_time and first)
        if in_time and first:
            self.cast[name][role] = vote
        self.ballots += 1

    def close(self) -> None:
        for decision in self.voting.advance(self.now, self.seats()):
            assert decision.proposal_id not in self.decided, "decided once"
            self.decided[decision.proposal_id] = decision
            self.judge(decision)

    def judge(self, decision: Decision) -> None:
        there, name = self.there(), decision.proposal_id
        counted = {role: vote for role, vote in self.cast[name].items() if role in there}
        assert there <= set(counted) or self.now >= self.opened_at[name] + ROUND_S, "nobody there was left out"
        yes, no = list(counted.values()).count("yes"), list(counted.values()).count("no")
        quorum = len(there if decision.matter == "answer" else counted) >= 2
        assert decision.reduced_quorum != quorum
        if not quorum:
            assert not decision.passed
            assert decision.may_proceed == (decision.matter == "answer")
        elif yes != no:
            assert decision.passed == (yes > no)
        else:
            self.ties += 1
            assert decision.passed == (counted.get("prime") == "yes"), "Prime's own vote, else it fails"
        if quorum:
            assert decision.may_proceed == decision.passed

    def end(self) -> None:
        """Nothing stays open, and nothing is decided again."""
        self.pass_until(max(self.now, DAY_S) + ROUND_S)
        assert self.voting.open_rounds() == []
        assert set(self.decided) == set(self.opened_at)


class SimulatedDay(RuleBasedStateMachine):
    """Hypothesis chooses who falls out, when, and who says what; the hours between are filled from a seed."""

    @initialize(seed=st.integers(0, 2**16))
    def morning(self, seed: int) -> None:
        self.day = Day(seed)
        self.names: list[str] = []

    @rule(role=st.sampled_from(ROLES), seconds=st.sampled_from([20.0, 61.0, 95.0, 600.0, 7200.0]))
    def falls_out(self, role: str, seconds: float) -> None:
        self.day.fall_out(role, seconds)

    @rule(seconds=st.sampled_from([1.0, 15.0, 59.0, 60.0, 91.0, 900.0]))
    def waits(self, seconds: float) -> None:
        self.day.pass_until(self.day.now + seconds)

    @rule(matter=st.sampled_from(MATTERS), votes=st.dictionaries(st.sampled_from(ROLES), st.sampled_from(VOTES)))
    def proposes(self, matter: Matter, votes: dict[str, Vote]) -> None:
        self.names.append(self.day.propose(matter))
        for role, vote in votes.items():
            self.day.vote(self.names[-1], role, vote)

    @rule(back=st.integers(0, 3), role=st.sampled_from(ROLES), vote=st.sampled_from(VOTES))
    def votes(self, back: int, role: str, vote: Vote) -> None:
        if self.names:
            self.day.vote(self.names[-1 - min(back, len(self.names) - 1)], role, vote)

    @rule()
    def opens_one_again(self) -> None:
        if self.names:
            try:
                self.day.voting.open(self.names[-1], "execute", "lite", "?", self.day.now, self.day.seats())
            except Conflict:
                return
            raise AssertionError("a proposal was opened twice")

    @invariant()
    def who_counts_is_who_answered(self) -> None:
        day: Day | None = getattr(self, "day", None)
        if day is not None:
            assert {role for role in ROLES if day.heartbeat.state(role, day.now) == "ready"} == day.there()

    def teardown(self) -> None:
        """The rest of the day, by chance."""
        if (day := getattr(self, "day", None)) is not None:
            fill(day, DAY_S - BEAT_S, BALLOTS - day.ballots)
            assert day.probes == dict.fromkeys(ROLES, BEATS)
            assert day.ballots >= BALLOTS
            day.end()


TestSimulatedDay = SimulatedDay.TestCase
TestSimulatedDay.settings = settings(max_examples=5, stateful_step_count=STEPS)


def fill(day: Day, until: float, ballots: int = 0) -> None:
    """Outages and votes at random until then; at least so many ballots, spread over the time."""
    chance, begun, before = day.chance, day.now, day.ballots
    while day.now < until:
        day.pass_until(min(until, day.now + chance.uniform(5, 90)))
        if chance.random() < 0.02:
            day.fall_out(chance.choice(ROLES), chance.expovariate(1 / 600))
        wanted = ballots * (day.now - begun) / (until - begun)
        while day.ballots - before < wanted or chance.random() < 0.3:
            name = day.propose(chance.choice(MATTERS))
            for role in chance.sample(ROLES, chance.randrange(4)):
                day.vote(name, role, chance.choice(VOTES))


def test_a_whole_day_of_beats_and_five_thousand_votes() -> None:
    day = Day(seed=20251201)
    fill(day, DAY_S - BEAT_S, BALLOTS)
    assert day.probes == dict.fromkeys(ROLES, BEATS)
    assert day.ballots >= BALLOTS
    day.end()
    reduced = sum(decision.reduced_quorum for decision in day.decided.values())
    assert 0 < reduced < len(day.decided), "there were times with and without a quorum"
    assert day.ties > 100
    assert sum(decision.passed for decision in day.decided.values()) > 500


def test_the_same_day_comes_out_the_same_again() -> None:
    """Nothing but the log of beats and ballots decides: no order of a dict, no clock of the machine."""

    def decided() -> list[tuple[str, bool, str]]:
        day = Day(seed=7)
        fill(day, 7_200, 400)
        day.pass_until(day.now + ROUND_S)
        return [(name, decision.passed, decision.reason) for name, decision in day.decided.items()]

    assert decided() == decided()
