"""Who has shown what it can do: stages, reviews and votes go to them, and what nobody can do is left out."""

from msgspec import structs

from council.limits import council_limits
from council.quorum import Seat, council_rules
from council.roles import ROLES, assign_reviewer, assign_stage, role_table, voters
from council.stage_steps import step_table
from council.stages import stage_table
from council.state_machine import End, Rulebook, TurnStateMachine, doable

CHAIN = ("plan", "refine", "act", "verify")


def seats(**duties: set[str]) -> list[Seat]:
    able = {role: frozenset(duties.get(role, set())) for role in ROLES}
    return [Seat(role=role, can_vote="vote" in able[role], duties=able[role]) for role in ROLES]


def test_a_stage_goes_to_who_can_do_it_whoever_it_belongs_to() -> None:
    found = assign_stage(role_table(), "verify", seats(lite={"verify"}))
    assert found is not None
    assert (found.role, found.stands_in_for) == ("lite", "codemind")
    assert assign_stage(role_table(), "verify", seats(prime={"plan", "vote"})) is None


def test_everybody_may_act_and_only_the_able_review_and_vote() -> None:
    here = seats(lite={"review"}, prime={"vote"})
    assert assign_stage(role_table(), "act", here) is not None
    assert assign_reviewer(role_table(), here, "prime") == "lite"
    assert assign_reviewer(role_table(), here, "lite") is None
    assert voters(here) == ("prime",)


def test_stages_that_nobody_can_do_are_left_out() -> None:
    assert doable(CHAIN, seats()) == ("act",)
    assert doable(CHAIN, seats(lite={"plan", "refine"})) == ("plan", "refine", "act")
    assert doable(CHAIN, [Seat(role=role) for role in ROLES]) == CHAIN


def test_a_turn_that_only_verifies_ends_unverified_where_nobody_can() -> None:
    stages = structs.replace(stage_table(), chains={"full": ("verify",)})
    book = Rulebook(
        roles=role_table(), stages=stages, steps=step_table(), limits=council_limits(), quorum=council_rules()
    )
    end = TurnStateMachine("full", book, acted_by="prime").begin(seats(prime={"vote"}, lite={"vote"}))
    assert isinstance(end, End)
    assert (end.ending, end.why) == ("unverified", "no role has a model that has shown that it can verify")


def test_a_turn_of_full_depth_takes_only_the_stages_that_somebody_can_do() -> None:
    book = Rulebook(
        roles=role_table(), stages=stage_table(), steps=step_table(), limits=council_limits(), quorum=council_rules()
    )
    machine, here = TurnStateMachine("full", book), seats(prime={"vote"}, lite={"vote"})
    first = machine.begin(here)
    assert first.stage == "act"
    end = machine.done("ok", 10, here)
    assert (end.ending, end.reduced_quorum) == ("answered", False)
