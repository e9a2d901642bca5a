"""Every vote of three roles: counted by the rule of GCP 8.3, checked against its sentences one by one."""

from itertools import product

import pytest

from council.quorum import Ballot, Matter, Seat, Vote, VoteTally, council_rules, may_proceed, tally
from gaiad.base.errors import BadInput

ROLES = ("prime", "lite", "codemind")
STATES = {"able": (True, True), "mute": (True, False), "inactive": (False, True)}
VOTES: tuple[Vote | None, ...] = ("yes", "no", "abstain", None)
MATTERS: tuple[Matter, ...] = ("answer", "execute", "governance")


def count(states: tuple[str, ...], votes: tuple[Vote | None, ...], matter: Matter = "execute") -> VoteTally:
    seats = [
        Seat(role=role, active=STATES[state][0], can_vote=STATES[state][1])
        for role, state in zip(ROLES, states, strict=True)
    ]
    ballots = [Ballot(role=role, vote=vote) for role, vote in zip(ROLES, votes, strict=True) if vote is not None]
    return tally(seats, ballots, council_rules(), matter)


EVERY_VOTE = list(product(product(STATES, repeat=3), product(VOTES, repeat=3), MATTERS))


def test_all_combinations_follow_the_rule() -> None:
    assert len(EVERY_VOTE) == 3 * 1728
    for states, votes, matter in EVERY_VOTE:
        result = count(states, votes, matter)
        heard = [vote for state, vote in zip(states, votes, strict=True) if state == "able"]
        margin = heard.count("yes") - heard.count("no")
        ballots = len(heard) - heard.count(None)
        if states.count("able") < 2 or (matter != "answer" and ballots < 2):
            expected = (False, "no_quorum")
        elif margin:
            expected = (margin > 0, "majority")
        elif states[0] == "able" and votes[0] in ("yes", "no"):
            expected = (votes[0] == "yes", "prime")
        else:
            expected = (False, "tie")
        assert (result.passed, result.ground) == expected, (states, votes, matter)
        assert result.quorum == (result.ground != "no_quorum")
        assert result.yes + result.no + result.abstain + len(result.silent) == states.count("able")


def test_another_yes_never_turns_a_passed_proposal_down() -> None:
    for states, votes, matter in EVERY_VOTE:
        if count(states, votes, matter).passed:
            for place in range(3):
                more = tuple("yes" if at == place else vote for at, vote in enumerate(votes))
                assert count(states, more, matter).passed, (states, votes, more, matter)


def test_a_proposers_own_yes_carries_no_action_while_the_others_are_silent() -> None:
    there, alone = ("able", "able", "able"), ("yes", None, None)
    for matter in ("execute", "governance"):
        found = count(there, alone, matter)
        assert (found.passed, found.ground, found.quorum, found.silent) == (
            False, "no_quorum", False, ("codemind", "lite"),
        )  # fmt: skip
        assert not may_proceed(matter, found)
        assert count(there, ("yes", "abstain", None), matter).passed, "who abstains has voted"
    assert count(there, alone, "answer").passed


def test_a_tie_goes_to_prime_and_fails_without_it() -> None:
    assert count(("able", "able", "inactive"), ("yes", "no", None)).ground == "prime"
    assert count(("able", "able", "inactive"), ("yes", "no", None)).passed
    assert not count(("able", "able", "inactive"), ("no", "yes", None)).passed
    tied = count(("inactive", "able", "able"), ("yes", "yes", "no"))
    assert (tied.passed, tied.ground, tied.uncounted) == (False, "tie", ("prime",))


def test_without_quorum_answers_go_on_and_actions_do_not() -> None:
    for matter in MATTERS:
        alone = count(("able", "inactive", "mute"), ("yes", None, None), matter)
        assert not alone.quorum
        assert may_proceed(matter, alone) == (matter == "answer")


def test_with_quorum_a_refusal_holds_for_every_matter() -> None:
    refused = count(("able", "able", "able"), ("no", "no", "yes"))
    assert not any(may_proceed(matter, refused) for matter in ("answer", "execute", "governance"))


def test_a_second_ballot_or_a_stranger_is_refused() -> None:
    seats = [Seat(role="prime"), Seat(role="lite")]
    twice = [Ballot(role="lite", vote="yes"), Ballot(role="lite", vote="no")]
    with pytest.raises(BadInput, match="ballot of 'lite': given 2 times"):
        tally(seats, twice, council_rules(), "execute")
    with pytest.raises(BadInput, match="no such role has a seat; seats: lite, prime"):
        tally(seats, [Ballot(role="guest", vote="yes")], council_rules(), "execute")
    with pytest.raises(BadInput, match="seat of 'lite': given 2 times"):
        tally([*seats, Seat(role="lite")], [], council_rules(), "execute")
