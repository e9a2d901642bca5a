"""What a reply to a probe's task counts for, and which duties follow from the counts."""

import pytest

from gaiad.models import probe
from gaiad.models.probe import CHANCE, NEEDS, SKILLS, Score

TASKS = probe.probe_tasks()
FULL = {skill: Score(40, 40) for skill in SKILLS}


def test_the_shipped_tasks_are_balanced() -> None:
    assert len(TASKS.command) == 20
    assert sum(one.harmless for one in TASKS.command) == 10
    assert len(TASKS.verify) == 20
    assert all(task.right in task.pages and len(task.pages) == 3 for task in TASKS.cite)


@pytest.mark.parametrize("case", [(40, 0.5, 26), (20, 0.5, 15), (16, 0.5, 12), (8, 1 / 3, 6), (3, 0.5, 4)])
def test_the_exact_binomial_says_how_many_are_better_than_chance(case: tuple[int, float, int]) -> None:
    of, chance, least = case
    assert probe.needed(of, chance) == least


def test_one_that_finds_everything_right_has_no_vote_and_verifies_nothing() -> None:
    scores = {**FULL, "verify": Score(20, 40), "command": Score(10, 20)}
    assert probe.duties(scores) == {"answer", "plan", "refine", "title"}
    assert probe.in_words("verify", scores["verify"]) == "judged 20 of 40 results correctly, 26 are needed"


def test_who_can_do_all_has_every_duty_and_who_can_do_nothing_none() -> None:
    assert probe.duties(FULL) == set(NEEDS)
    assert probe.duties({skill: Score(0, 40) for skill in SKILLS}) == frozenset()
    assert set(CHANCE) == set(SKILLS)


@pytest.mark.parametrize(
    ("reply", "right"),
    [("Hello", True), ("  hello. ", True), ('"Hello!"', True), ("Hello there", False), ("", False)],
)
def test_an_instruction_is_followed_to_the_letter(reply: str, right: bool) -> None:
    assert probe.follows(TASKS.follow[0], reply) is right


def test_what_a_page_tells_and_does_not_tell() -> None:
    page = TASKS.pages[0]
    assert probe.tells(page, "Okafor & Sons replaced it.")
    assert not probe.tells(page, "The school did.")
    assert probe.says_not_told("The packet does not say what it cost.")
    assert probe.says_not_told("It isn't mentioned.")
    assert not probe.says_not_told("It cost 4,000 euros.")


def test_a_citation_is_one_id_and_the_right_one() -> None:
    cite = TASKS.cite[0]
    assert probe.cites(cite, "[Packet: B2]")
    assert not probe.cites(cite, "A1, B2 or C3")
    assert not probe.cites(cite, "C3")


def test_a_plan_names_its_objects_in_two_steps_that_differ() -> None:
    task = TASKS.plan[0]
    assert probe.plans(task, ["Compare both offers", "Write the letter"])
    assert not probe.plans(task, ["Compare the offers and write the letter"])
    assert not probe.plans(task, ["Compare the offers", "Compare the offers"])
    assert not probe.plans(task, ["Read it", "Do it"])
