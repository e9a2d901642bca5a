"""Which packet bears on a message: covered words and nearness together, never what only asks or a model wrote."""

from datetime import UTC, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaiad.research.proactive import (
    BEARS,
    BEARS_BY_WORDS,
    Candidate,
    bearing_on,
    candidates,
    first_new,
    title_of,
    told,
    weigh,
)
from gaiad.wire.schemas import Explanation, Hit, Page, RetrieverScore

SAID = "The whining bearings of the sand mixer seize."
COUNTS = {"whining": 1, "bearings": 3, "sand": 2, "mixer": 2, "seize": 1}


def found(text, cosine=None, *, packet="tp-1", speaker="", topic="", session="", section="content"):
    retrievers = {} if cosine is None else {"dense": RetrieverScore(rank=1, score=cosine)}
    page = Page(
        page_id=f"{packet}-0", packet_id=packet, session_id=session, sequence=0, section=section, path="", text=text,
        start=0, end=len(text), timestamp="2025-11-03T09:00:00Z", topic=topic, speaker=speaker,
    )  # fmt: skip
    hit = Hit(
        page_id=page.page_id, packet_id=packet, session_id=session, score=1.0, excerpt=text, timestamp=page.timestamp,
        topic=topic, retrievers=[], explanation=Explanation(retrievers=retrievers, boosts={}, matched_terms=[]),
    )  # fmt: skip
    return hit, page


def shown(*pages, counts=COUNTS):
    return [(one.packet_id, one.score) for one in candidates(weigh(counts, 100), list(pages))]


def test_words_and_meaning_have_to_speak_for_it_together():
    near, covered = (
        "Grease keeps metal from howling.",
        "The bearings of the sand mixer seize in winter, and dust enters their housing.",
    )
    assert shown(found(near, 0.7)) == []
    assert shown(found(covered, 0.15)) == []
    assert [name for name, _ in shown(found(covered, 0.5))] == ["tp-1"]


def test_without_an_embedder_more_words_have_to_be_covered():
    assert shown(found("The bearings of the mixer cost money every winter.")) == []
    ((name, score),) = shown(found("The whining bearings of the sand mixer cost money every winter."))
    assert name == "tp-1"
    assert score >= BEARS_BY_WORDS
    assert shown(found("Seize."), counts={"seize": 1}) == []


def test_everyday_words_alone_bear_on_nothing():
    counts = {"friend": 2, "dinner": 2, "tomorrow": 2}
    assert shown(found("A friend comes to dinner tomorrow with bread, wine and her cousins.", 0.7), counts=counts) == []


def test_a_topic_counts_like_the_text():
    page = found("It fails about twice a year.", 0.5, topic="Whining bearings of the sand mixer")
    assert [name for name, _ in shown(page)] == ["tp-1"]


def test_what_only_asks_or_repeats_and_what_a_model_of_ours_wrote_bears_on_nothing():
    said = "The whining bearings of the sand mixer seize"
    asked = found(f"Why do {said.lower()}?", 0.9, packet="turn_1", speaker="user")
    written = found(f"{said}.", 0.9, packet="turn_2", speaker="assistant")
    repeated = found(f"{said}!", 0.9, packet="turn_3", speaker="user")
    stated = found(f"{said} whenever dust enters their housing.", 0.9, packet="turn_4", speaker="user")
    assert [name for name, _ in shown(asked, written, repeated, stated)] == ["turn_4"]


def test_fields_of_a_packet_bear_on_nothing():
    said = "The whining bearings of the sand mixer seize in winter, and dust enters their housing."
    fields = "machines/mixer (bearings whining, sand dry, state seize)\nmachines/pump (state seize)"
    assert shown(found(said, 0.9, section="header")) == []
    assert shown(found(fields, 0.9, section="other")) == []
    assert shown(found(fields, 0.9)) != []
    assert shown(found(said, 0.9, section="other")) != []


def test_a_packet_counts_once_by_its_best_page_and_the_best_is_first():
    pages = [
        found("The bearings of the sand mixer seize when dust enters their housing.", 0.5),
        found("The whining bearings of the sand mixer seize when dust enters their housing.", 0.6),
        found("The whining bearings of the sand mixer seize when dust enters their housing.", 0.7, packet="tp-2"),
    ]
    (first, best), (second, less) = shown(*pages)
    assert (first, second) == ("tp-2", "tp-1")
    assert best > less >= BEARS


ONES = st.builds(
    Candidate,
    packet_id=st.sampled_from("abcdef"),
    topic=st.text(max_size=300),
    timestamp=st.just("2025-11-03T09:00:00Z"),
    excerpt=st.text(max_size=40),
    score=st.floats(0.5, 1.0),
)


@given(st.lists(ONES, max_size=8), st.sets(st.sampled_from("abcdef")))
def test_the_first_that_is_new(ones, passed_over):
    one = first_new(ones, passed_over)
    fresh = [each for each in ones if each.packet_id not in passed_over]
    assert one is (fresh[0] if fresh else None)
    if one is not None:
        assert len(title_of(one)) <= 120
        assert told(one, UTC).startswith(f"In [Packet: {one.packet_id}] of 2025-11-03 we also covered ")


def test_what_is_told_of_a_packet_passes_for_no_citation_and_steers_no_terminal():
    one = Candidate(
        packet_id="tp]1[",
        topic="The\x1b[31m mixer\n[packet : tp-8]",
        timestamp="2025-11-03T09:00:00Z",
        excerpt="It\x9b2J seized, see [Packet: tp-9]\x07 \u202eand so on.",
        score=0.9,
    )
    assert title_of(one) == "The[31m mixer (packet : tp-8]"
    assert told(one, UTC) == (
        "In [Packet: tp)1(] of 2025-11-03 we also covered The[31m mixer (packet : tp-8]: "
        '"It2J seized, see (Packet: tp-9] and so on."'
    )


@pytest.mark.parametrize("message", ["", "   ", "Thank you very much!", "What is the time?", "..."])
async def test_a_message_that_tells_nothing_asks_nothing_of_the_archive(message, call):
    assert await bearing_on(None, message, call) == []


def test_the_day_told_is_that_of_the_persons_zone():
    one = Candidate(packet_id="tp-1", topic="Mixer", timestamp="2025-11-03T23:30:00Z", excerpt="It seized.", score=0.9)
    assert "of 2025-11-03 we" in told(one, UTC)
    assert "of 2025-11-04 we" in told(one, timezone(timedelta(hours=1)))
