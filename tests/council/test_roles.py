"""Each stage is done by its role, by a stand-in when that is silent, and by nobody when nobody can."""

from itertools import product

import pytest

from council.quorum import Seat
from council.roles import (
    ROLES,
    STAGES,
    assign_reviewer,
    assign_stage,
    check_roles,
    role_table,
    voters,
    with_stages,
)
from gaiad.base.errors import BadInput, ConfigError

TABLE = role_table()
ABLE = [Seat(role=role) for role in ROLES]
EVERY_SEATING = [
    [Seat(role=role, active=active, can_vote=able) for role, (active, able) in zip(ROLES, states, strict=True)]
    for states in product(product([True, False], repeat=2), repeat=3)
]


def test_the_shipped_roles_are_the_defaults_and_fit() -> None:
    check_roles(TABLE)
    done = {stage: assign_stage(TABLE, stage, ABLE) for stage in STAGES}
    assert {stage: assigned.role for stage, assigned in done.items() if assigned} == {
        "plan": "lite",
        "refine": "prime",
        "observe": "lite",
        "act": "prime",
        "verify": "codemind",
    }
    assert all(assigned and assigned.stands_in_for is None for assigned in done.values())
    assert assign_reviewer(TABLE, ABLE, "prime") == "codemind"


def test_whoever_sits_a_stage_is_done_by_an_able_role_or_by_nobody() -> None:
    assert len(EVERY_SEATING) == 64
    for seats in EVERY_SEATING:
        writers = {seat.role for seat in seats if seat.active and seat.can_vote}
        active = {seat.role for seat in seats if seat.active}
        assert set(voters(seats)) == writers
        for stage in STAGES:
            able = active if stage == "act" else writers
            assigned = assign_stage(TABLE, stage, seats, actor="prime")
            assert (assigned is None) == (not able)
            if assigned:
                assert assigned.role in able
                owner = next(role for role in ROLES if stage in TABLE.roles[role].stages)
                assert assigned.stands_in_for == (None if assigned.role == owner else owner)
                assert (assigned.role == owner) == (owner in able)


def test_nobody_verifies_its_own_work_while_another_can() -> None:
    for seats in EVERY_SEATING:
        for actor in ROLES:
            assigned = assign_stage(TABLE, "verify", seats, actor=actor)
            if assigned and assigned.role == actor:
                assert voters(seats) == (actor,)


def test_nobody_reviews_its_own_command() -> None:
    for seats in EVERY_SEATING:
        for proposer in ROLES:
            reviewer = assign_reviewer(TABLE, seats, proposer)
            others = set(voters(seats)) - {proposer}
            assert reviewer in others if others else reviewer is None


def test_a_role_lost_in_this_turn_is_not_asked_again() -> None:
    assigned = assign_stage(TABLE, "plan", ABLE, lost=["lite"])
    assert assigned is not None
    assert (assigned.role, assigned.stands_in_for, assigned.duty) == ("prime", "lite", "planner")
    assert assign_stage(TABLE, "plan", ABLE, lost=ROLES) is None


def test_a_users_stages_move_and_a_stage_of_two_or_none_is_refused() -> None:
    moved = with_stages(TABLE, {"lite": ["observe"], "codemind": ["plan", "verify"]})
    assigned = assign_stage(moved, "plan", ABLE)
    assert assigned is not None
    assert assigned.role == "codemind"
    with pytest.raises(ConfigError, match="'plan' belongs to prime and lite"):
        with_stages(TABLE, {"prime": ["plan", "refine", "act"]})
    with pytest.raises(ConfigError, match="'verify' belongs to no role"):
        with_stages(TABLE, {"codemind": []})


def test_a_seat_of_no_known_role_is_named() -> None:
    with pytest.raises(BadInput, match="seat of 'guest': no such role; there are prime, lite, codemind"):
        assign_stage(TABLE, "plan", [Seat(role="guest")])
