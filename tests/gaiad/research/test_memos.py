"""Seeds of a plan from a real archive: the latest memo of the session, then what matches, within its tokens."""

import pytest

from gaiad.base.ports import RequestContext
from gaiad.research.familiar import MOST_TOKENS, plan_seeds
from gaiad.wire.memory import SessionTurn, TurnMessage


def turn(session, number, said, **labels):
    messages = [TurnMessage(role="user", content=said), TurnMessage(role="assistant", content="Noted.")]
    return SessionTurn(session_id=session, turn_id=f"{session}-{number}", messages=messages, **labels)


@pytest.fixture
async def filled(archive, call):
    await archive.remember_turns(
        [
            turn("garden", 1, "We decided to plant walnuts with Marguerite Duval on 2025-03-04."),
            turn("garden", 2, "We decided to buy slate for the roof from Anselm Brack."),
            turn("garden", 3, "We decided to call Theodora Finch about the fence."),
            turn("harbour", 1, "We decided to ship walnuts with Ottokar Lindqvist."),
            turn("harbour", 2, "We decided to paint the crane for Wilhelmina Rask."),
        ],
        call,
    )
    return archive


def at(seeds, word):
    (place,) = [number for number, seed in enumerate(seeds) if word in seed]
    return place


async def test_the_latest_memo_comes_first_and_then_what_shares_words_with_the_question(filled, call):
    seeds = await plan_seeds(filled, "garden", "Who plants the walnuts?", call)
    assert "Theodora Finch" in seeds[0]
    assert at(seeds, "Marguerite Duval") == 1
    assert at(seeds, "Ottokar Lindqvist") == 2
    assert not [seed for seed in seeds if "Anselm Brack" in seed or "Wilhelmina Rask" in seed]


async def test_another_sessions_memos_are_found_from_a_new_session(filled, call):
    seeds = await plan_seeds(filled, "new", "Who ships walnuts?", call)
    assert {"Ottokar Lindqvist", "Marguerite Duval"} <= {name for seed in seeds for name in
            ("Ottokar Lindqvist", "Marguerite Duval") if name in seed}  # fmt: skip


async def test_seeds_stay_within_their_tokens_and_none_comes_twice(archive, call):
    said = "We decided to count the boats number {} with Captain Number{} at the outer harbour wall before the storm."
    await archive.remember_turns([turn("long", n, said.format(n, n)) for n in range(40)], call)
    seeds = await plan_seeds(archive, "long", "Which boats were counted before the storm?", call)
    assert len(seeds) == len(set(seeds)) > 2
    assert sum(len(seed.encode()) for seed in seeds) <= MOST_TOKENS * 3
    assert "Number39" in seeds[0]
    assert "Number38" in seeds[1]  # of equal matches the newest


@pytest.mark.parametrize("question", ["", "??", "the of and"])
async def test_a_question_without_words_gets_the_latest_memo_alone(filled, call, question):
    (seed,) = await plan_seeds(filled, "garden", question, call)
    assert "Theodora Finch" in seed


@pytest.mark.parametrize("tenant", ["local", "elsewhere"])
async def test_where_nothing_is_remembered_there_are_no_seeds(archive, tenant):
    assert await plan_seeds(archive, "nobody", "walnuts?", RequestContext(tenant=tenant)) == []


@pytest.mark.parametrize("session", ["vault", "new"])
async def test_what_some_channel_does_not_see_seeds_no_plan_on_any(filled, call, session):
    said = "We decided to hide the walnuts of Zenobia Quarles in the vault."
    await filled.remember_turns([turn("vault", 1, said, policy_tags=["secret"])], call)
    question = "Where did Zenobia Quarles hide the walnuts?"
    assert any("Zenobia" in seed for seed in await plan_seeds(filled, session, question, call))
    seeds = await plan_seeds(filled, session, question, call.without((), ["secret"]))
    assert seeds
    assert not [seed for seed in seeds if "Zenobia" in seed]
