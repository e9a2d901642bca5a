"""What is said of packets: how far it may move a ranking, for which questions, and that it can be taken back."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaiad.archive.finding import feedback as finding_feedback
from gaiad.archive.finding.feedback import ELSEWHERE, GENERAL, FeedbackVote, Opinions, added, opinion, strength
from gaiad.archive.finding.query_terms import parse_query
from gaiad.archive.storing import feedback

WORDS = st.frozensets(st.sampled_from(["pump", "seal", "lamp", "tide", "heron", "kiln"]), max_size=6)
VERDICTS = st.lists(st.builds(FeedbackVote, st.none() | WORDS, st.sampled_from((-1, 1))), max_size=12)
SHARES = st.floats(0.0, 0.5, width=32)
SCORES = st.lists(st.floats(0.0, 4.0, width=32), min_size=2, max_size=30)


@given(VERDICTS, WORDS)
def test_all_that_is_said_together_stays_between_minus_one_and_one(verdicts, asked):
    assert -1.0 <= opinion(verdicts, asked) <= 1.0
    assert opinion([], asked) == 0.0


@given(WORDS, WORDS)
def test_a_verdict_counts_most_for_its_own_question_and_never_nothing(said_for, asked):
    counts = strength(FeedbackVote(said_for, 1), asked)
    assert ELSEWHERE <= counts <= 1.0
    assert counts <= strength(FeedbackVote(said_for, 1), said_for) or not said_for
    assert strength(FeedbackVote(None, -1), asked) == GENERAL


@given(SCORES, st.data(), SHARES)
def test_a_page_moves_by_at_most_its_share_and_never_passes_a_clearly_better_one(scores, data, share):
    total = np.array(scores, np.float32)
    thought = {i: data.draw(st.floats(-1.0, 1.0, width=32)) for i in range(len(scores))}
    moved = added(total, np.arange(len(scores), dtype=np.int64), Opinions(share, thought))
    assert (np.abs(moved) <= share * total + 1e-6).all()
    after = total + moved
    clear = (1 + share) / (1 - share)
    for better in range(len(scores)):
        below = total * np.float32(clear) < total[better] * (1 - 1e-5)
        assert (after[below] <= after[better]).all()


def say(shelf, packet_id, useful, query=""):
    shelf.tenant.file.write(lambda c: feedback.give(c, packet_id, query, 1, useful=useful))


@pytest.fixture
def pumps(shelf):
    shelf.packet("tp-1", ["The pump at the north pier hums, and its seal was changed in March."])
    shelf.packet("tp-2", ["The pump at the north pier hums, and its seal was changed in April."])
    shelf.packet("tp-3", ["A heron stood on the pier."])
    return shelf


async def ranked(shelf, embedder, query="pump seal at the north pier", **fields):
    return await shelf.find(query, embedder, explain=True, **fields)


async def test_a_useful_packet_goes_up_and_one_of_no_use_goes_down(pumps, embedder):
    await pumps.embed_all(embedder)
    plain = [hit.packet_id for hit in (await ranked(pumps, embedder)).hits]
    second = plain[1]
    say(pumps, second, useful=True)
    response = await ranked(pumps, embedder)
    assert [hit.packet_id for hit in response.hits][:2] == [second, plain[0]]
    say(pumps, second, useful=False)
    assert [hit.packet_id for hit in (await ranked(pumps, embedder)).hits][:2] == plain[:2]


async def test_the_explanation_names_it_and_the_parts_add_up(pumps, embedder):
    await pumps.embed_all(embedder)
    before = {hit.packet_id: hit.score for hit in (await ranked(pumps, embedder)).hits}
    say(pumps, "tp-1", useful=False, query="pump seal at the north pier")
    share = pumps.config.search.weight_feedback
    for hit in (await ranked(pumps, embedder)).hits:
        assert sum(hit.explanation.boosts.values()) == pytest.approx(hit.score, abs=1e-5)
        if hit.packet_id == "tp-1":
            assert hit.explanation.boosts["feedback"] == pytest.approx(-share * before["tp-1"], rel=1e-4)
        else:
            assert "feedback" not in hit.explanation.boosts


async def test_it_counts_more_for_the_question_it_was_said_of(pumps, embedder):
    await pumps.embed_all(embedder)
    say(pumps, "tp-1", useful=True, query="when was the seal changed")

    async def gain(query):
        hits = {hit.packet_id: hit for hit in (await ranked(pumps, embedder, query)).hits}
        boost = hits["tp-1"].explanation.boosts["feedback"]
        return boost / (hits["tp-1"].score - boost)

    share = pumps.config.search.weight_feedback
    assert await gain("when was the seal changed") == pytest.approx(share, rel=1e-4)
    assert ELSEWHERE * share < await gain("when was the seal of the pump changed") < share
    assert await gain("heron") == pytest.approx(ELSEWHERE * share, rel=1e-4)


async def test_a_page_of_another_matter_stays_below_however_useful_it_is_said_to_be(pumps, embedder):
    await pumps.embed_all(embedder)
    say(pumps, "tp-3", useful=True, query="pump seal at the north pier")
    say(pumps, "tp-1", useful=False, query="pump seal at the north pier")
    assert [hit.packet_id for hit in (await ranked(pumps, embedder)).hits][-1] == "tp-3"


async def test_it_outlives_a_restart_and_goes_with_a_reset_or_its_packet(pumps, embedder):
    say(pumps, "tp-1", useful=True)
    say(pumps, "tp-2", useful=True, query="seal")
    pumps.close()
    pumps.reopen()
    await pumps.embed_all(embedder)

    async def moved():
        hits = (await ranked(pumps, embedder)).hits
        return {hit.packet_id for hit in hits if "feedback" in hit.explanation.boosts}

    assert await moved() == {"tp-1", "tp-2"}
    assert pumps.tenant.file.write(lambda c: feedback.reset(c, "tp-1")) == 1
    assert await moved() == {"tp-2"}
    assert pumps.tenant.file.write(lambda c: c.execute("DELETE FROM packets WHERE packet_id = 'tp-3'").rowcount) == 1
    assert [row.packet_id for row in pumps.tenant.file.read(lambda c: feedback.newest(c, 9))] == ["tp-2"]
    pumps.tenant.file.write(lambda c: c.execute("UPDATE packets SET packet_id = 'tp-9' WHERE packet_id = 'tp-2'"))
    assert [row.packet_id for row in pumps.tenant.file.read(lambda c: feedback.newest(c, 9))] == ["tp-9"]
    pages = pumps.tenant.file.read(
        lambda c: c.execute(
            "SELECT p.id, p.text, p.speaker, p.heading FROM pages p JOIN packets k ON k.id = p.packet"
            " WHERE k.packet_id = 'tp-9'"
        ).fetchall()
    )
    pumps.retire([row[0] for row in pages])
    pumps.tenant.file.write(lambda c: c.execute("DELETE FROM packets WHERE packet_id = 'tp-9'"))
    assert pumps.tenant.file.read(lambda c: feedback.newest(c, 9)) == []
    assert await moved() == set()


async def test_new_packets_cost_no_look_at_the_questions_of_verdicts(pumps, embedder, monkeypatch):
    await pumps.embed_all(embedder)
    say(pumps, "tp-1", useful=True, query="seal of the pump")
    read = []
    monkeypatch.setattr(finding_feedback, "parse_query", lambda *asked: read.append(asked[0]) or parse_query(*asked))
    for number in range(3):
        pumps.packet(f"tp-new-{number}", [f"The pump has a new seal, number {number}."])
        await pumps.embed_all(embedder)
        hits = {hit.packet_id: hit for hit in (await ranked(pumps, embedder)).hits}
        assert [packet for packet, hit in hits.items() if "feedback" in hit.explanation.boosts] == ["tp-1"]
    assert read == ["seal of the pump"]
    say(pumps, "tp-new-1", useful=False)
    hits = {hit.packet_id: hit for hit in (await ranked(pumps, embedder)).hits}
    assert {packet for packet, hit in hits.items() if "feedback" in hit.explanation.boosts} == {"tp-1", "tp-new-1"}


async def test_switched_off_it_moves_nothing(make_shelf, embedder):
    shelf = make_shelf(weight_feedback=0.0)
    shelf.packet("tp-1", ["The pump hums."])
    await shelf.embed_all(embedder)
    say(shelf, "tp-1", useful=True)
    assert "feedback" not in (await ranked(shelf, embedder, "pump")).hits[0].explanation.boosts
