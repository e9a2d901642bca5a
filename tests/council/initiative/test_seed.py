"""A thought goes from state to state as the table says, and is known again in other clothes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from council.initiative.seed_store import SEED_STATES, SeedState, check_step, cut_thought, thought_key
from gaiad.base.errors import Conflict

STEPS = {
    ("open", "taken"),
    ("open", "dropped"),
    ("taken", "open"),
    ("taken", "proposed"),
    ("taken", "dropped"),
    ("proposed", "open"),
    ("proposed", "passed"),
    ("proposed", "failed"),
    ("proposed", "dropped"),
}


@pytest.mark.parametrize("was", SEED_STATES)
@pytest.mark.parametrize("now", SEED_STATES)
def test_only_the_steps_of_the_table_are_taken(was: SeedState, now: SeedState) -> None:
    if (was, now) in STEPS:
        check_step("seed_1", was, now)
        return
    with pytest.raises(Conflict, match=rf"'seed_1' is {was} and cannot become {now}"):
        check_step("seed_1", was, now)


@given(st.lists(st.sampled_from(["Lisbon", "tram", "28", "März"]), min_size=1, max_size=6))
def test_case_space_and_punctuation_make_no_other_thought(words: list[str]) -> None:
    assert thought_key(" ".join(words)) == thought_key("  " + ",\n".join(words).upper() + " …!")


def test_other_words_are_another_thought_and_no_words_are_none() -> None:
    assert thought_key("Ask for the tram") != thought_key("Ask for the trams")
    assert thought_key(" … !?_ ") == ""


@given(st.text(max_size=60), st.integers(min_value=1, max_value=40))
def test_a_thought_is_cut_at_its_limit(text: str, most: int) -> None:
    cut = cut_thought(text, most)
    assert len(cut) <= most
    assert cut == text.strip() or cut.endswith("…")


def test_half_a_pair_of_utf16_is_no_fault() -> None:
    assert thought_key("a thought \ud83d")
    assert cut_thought("a thought \ud83d", 50)
