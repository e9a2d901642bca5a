"""Searching a small archive: every mode, hostile queries, explanations, and what happens without an embedder."""

import pytest

from gaiad.archive.finding.search import similarity
from gaiad.base.errors import BadInput, Cancelled, NotFound, Unavailable
from gaiad.base.ports import RequestContext
from gaiad.wire.schemas import Filters, MetricRange, SearchRequest


@pytest.fixture
def talks(shelf):
    shelf.packet(
        "tp-1",
        [
            ("transcript", "Ada", "I adopted two kittens from the shelter in spring."),
            ("transcript", "Ben", "How lovely. What are they called?"),
            ("transcript", "Ada", "Pixel and Byte; they sleep on my keyboard."),
        ],
        at="2025-03-01T00:00:00+00:00",
        session="s-1",
        topic="pets",
        model="Claude 3",
        tags=["family"],
    )
    shelf.packet(
        "tp-2",
        [
            ("summary", "", "Recurrent coherence was measured across three runs."),
            ("behavior", "", "coherence 0.92, drift 0.1"),
            ("content", "", "The coherence metric rose when the transmission was repeated."),
        ],
        at="2025-06-01T00:00:00+00:00",
        session="s-2",
        topic="coherence study",
        model="Gemini",
        current_model="GPT-4o",
        metrics={"coherence": 0.92},
    )
    shelf.packet("tp-3", ["The transmission protocol of Züri uses naïve hashing."], at="2025-09-01T00:00:00+00:00")
    return shelf


async def test_words_are_found_by_stem_and_without_diacritics(talks):
    assert await talks.packets("adopting a kitten") == ["tp-1"]
    assert await talks.packets("zuri NAIVE hash") == ["tp-3"]


async def test_stop_words_count_only_when_nothing_else_is_asked(talks):
    assert await talks.packets("what are they") == ["tp-1", "tp-1"]
    assert (await talks.packets("what are the transmissions"))[0] in ("tp-2", "tp-3")
    assert "tp-1" not in await talks.packets("what are the transmissions")


async def test_bm25_ranks_a_rare_word_above_a_common_one(shelf):
    for number in range(20):
        shelf.packet(f"tp-{number}", ["common words in every page"])
    shelf.packet("tp-rare", ["zebra words of one page"])
    assert (await shelf.packets("common zebra"))[0] == "tp-rare"


async def test_dense_ranks_by_cosine(talks, embedder):
    await talks.embed_all(embedder)
    response = await talks.find("Pixel and Byte; they sleep on my keyboard.", embedder, mode="dense")
    assert response.hits[0].excerpt.startswith("Pixel and Byte")
    assert response.hits[0].retrievers == ["dense"]
    cosines = [hit.score for hit in response.hits]
    assert cosines == sorted(cosines, reverse=True)
    assert 0.5 < cosines[0] <= 1.0001


async def test_hybrid_names_both_retrievers(talks, embedder):
    await talks.embed_all(embedder)
    hit = (await talks.find("kittens shelter", embedder)).hits[0]
    assert (hit.packet_id, hit.speaker, hit.topic, hit.model) == ("tp-1", "Ada", "pets", "Claude 3")
    assert set(hit.retrievers) == {"bm25", "dense"}


async def test_page_ids_come_in_the_order_asked_for(talks):
    ids = [hit.page_id for hit in (await talks.find(mode="metadata", filters=Filters(since="2000-01-01"))).hits]
    asked = list(reversed(ids))
    assert [hit.page_id for hit in (await talks.find(mode="page_id", page_ids=asked)).hits] == asked


async def test_an_unknown_page_id_is_not_found(talks):
    with pytest.raises(NotFound, match="ffff-0"):
        await talks.find(mode="page_id", page_ids=["ffff-0"])


async def test_metadata_finds_packets_by_topic_model_and_tag_words(talks):
    assert await talks.packets("coherence gemini", mode="metadata") == ["tp-2"]
    assert await talks.packets("family", mode="metadata") == ["tp-1"]


async def test_metadata_without_words_lists_newest_first(talks):
    assert await talks.packets(mode="metadata", filters=Filters(since="2025-01-01")) == ["tp-3", "tp-2", "tp-1"]
    hits = (await talks.find(mode="metadata", filters=Filters(topics=["COHERENCE"]))).hits
    assert [hit.section for hit in hits] == ["summary"]


async def test_order_by_time(talks):
    assert await talks.packets("transmission", order="earliest") == ["tp-2", "tp-3"]
    assert await talks.packets("transmission", order="latest") == ["tp-3", "tp-2"]


@pytest.mark.parametrize(("order", "first"), [("earliest", "tp-early"), ("latest", "tp-late")])
async def test_a_brief_mention_before_or_after_many_pages_is_the_first_in_time(shelf, order, first):
    """Of few words of a long page it scores low; what speaks of it all the time must not push it out."""
    filler = " ".join(f"word{number}" for number in range(60))
    shelf.packet("tp-early", [f"{filler} heliostat mirror {filler}"], at="2025-01-01T00:00:00+00:00")
    shelf.packet("tp-one-word", ["mirror mirror mirror"], at="2024-01-01T00:00:00+00:00")
    shelf.packet("tp-dense", ["heliostat mirror heliostat mirror"] * 230, at="2025-06-01T00:00:00+00:00")
    shelf.packet("tp-late", [f"{filler} heliostat mirror {filler}"], at="2025-12-01T00:00:00+00:00")
    found = await shelf.packets("heliostat mirror", mode="bm25", order=order, limit=60)
    assert found[0] == first
    assert len(found) == 60
    assert "tp-one-word" not in found


async def test_phrases_must_stand_in_the_page_as_written(talks):
    assert await talks.packets("coherence", phrases=["Coherence  METRIC rose"]) == ["tp-2"]
    assert await talks.packets("coherence", phrases=["coherence rose"]) == []
    assert await talks.packets(phrases=["two kittens"]) == ["tp-1"]
    assert await talks.packets(phrases=["two kitten"]) == []


async def test_focus_limits_the_sections(talks):
    hits = (await talks.find("coherence", focus="behavioral_state")).hits
    assert [hit.section for hit in hits] == ["behavior"]
    hits = (await talks.find("coherence", focus="technical_content")).hits
    assert {hit.section for hit in hits} == {"summary", "content"}


async def test_neighbours_come_on_request(talks):
    hit = (await talks.find("kittens", adjacent=1)).hits[0]
    assert [near.excerpt for near in hit.adjacent] == ["How lovely. What are they called?"]
    hit = (await talks.find("kittens", adjacent=5)).hits[0]
    assert [near.page_id[-1] for near in hit.adjacent] == ["1", "2"]


async def test_neighbours_lift_a_page_that_has_none_of_the_words(talks, embedder):
    await talks.embed_all(embedder)
    hits = {hit.page_id[-2:]: hit for hit in (await talks.find("kittens adopted", embedder, explain=True)).hits[:3]}
    assert [hit.packet_id for hit in hits.values()] == ["tp-1"] * 3
    between = hits["-1"].explanation
    assert between.matched_terms == []
    assert "bm25" not in between.boosts
    assert between.boosts["window"] > 0
    assert "before" not in between.boosts  # nobody asked


async def test_what_follows_a_question_is_lifted_as_its_answer(shelf):
    shelf.packet(
        "tp-1", [("transcript", "Ada", "Which pears grow in the orchard?"), ("transcript", "Ben", "Old ones.")]
    )
    shelf.packet("tp-2", [("transcript", "Ada", "Pears grow in the orchard."), ("transcript", "Ben", "Old ones.")])
    hits = (await shelf.find("orchard pears", mode="hybrid", explain=True)).hits
    answers = {hit.packet_id: hit.explanation.boosts for hit in hits if hit.speaker == "Ben"}
    assert answers["tp-1"]["before"] > 0
    assert "before" not in answers["tp-2"]


async def test_a_page_with_what_the_question_asks_for_comes_first(shelf):
    told = {
        "when": "Ada: I moved to the old lighthouse last week, and it rained.",
        "number": "Ada: I moved to the old lighthouse with three boxes of it.",
        "names": "Ada: I moved to the old lighthouse near Lisbon, and it rained.",
    }
    for number, text in enumerate([*told.values(), "Ada: I moved to the old lighthouse and it was raining."]):
        shelf.packet(f"tp-{number}", [("transcript", "Ada", text)])
    for question, part in (("when", "when"), ("how many boxes", "number"), ("where", "names")):
        hits = (await shelf.find(f"{question} moved lighthouse", mode="hybrid", explain=True)).hits
        assert hits[0].explanation.boosts[part] > 0
        assert [hit.packet_id for hit in hits if part in hit.explanation.boosts] == [f"tp-{list(told).index(part)}"]


async def test_a_named_person_who_speaks_of_himself_is_lifted(shelf):
    shelf.packet(
        "tp-1", [("transcript", "Ada", "I bought the lantern."), ("transcript", "Ada", "The lantern was bought.")]
    )
    first, second = (await shelf.find("What lantern did Ada have bought?", mode="hybrid", explain=True)).hits[:2]
    boosts = {hit.page_id: hit.explanation.boosts for hit in (first, second)}
    assert sorted("own" in found for found in boosts.values()) == [False, True]


async def test_a_page_without_any_of_the_bare_words_comes_after_all_that_have_one(shelf, embedder):
    about = "The carpenter planed and oiled it for hours, and in the evening it closed without a sound again."
    shelf.packet("tp-about", ["Is it the oak door, the heavy oak door?", about, "The oak door of the barn: oak."])
    shelf.packet("tp-aside", ["Somebody left the door open."])
    await shelf.embed_all(embedder)
    hits = (await shelf.find("oak door", embedder, mode="hybrid", explain=True)).hits
    having = ["words" in hit.explanation.boosts for hit in hits]
    assert having == [True, True, True, False]
    asked = (await shelf.find("Who planed the oak door?", embedder, mode="hybrid", explain=True)).hits
    assert not any("words" in hit.explanation.boosts for hit in asked)


async def test_what_has_been_done_is_looked_for_in_several_sessions(shelf):
    shelf.packet("tp-1", ["Ada built a boat.", "Ada built a shed.", "Ada built a cart."], session="s-1")
    shelf.packet("tp-2", ["Ada built a kiln."], session="s-2")
    has = (await shelf.find("What has Ada built?", mode="hybrid", explain=True)).hits
    assert sorted(hit.packet_id for hit in has if "spread" not in hit.explanation.boosts) == ["tp-1", "tp-2"]
    assert all(hit.explanation.boosts["spread"] < 0 for hit in has if "spread" in hit.explanation.boosts)
    did = (await shelf.find("What did Ada build?", mode="hybrid", explain=True)).hits
    assert not any("spread" in hit.explanation.boosts for hit in did)


async def test_a_page_of_a_session_that_is_about_it_comes_before_others(shelf):
    shelf.packet("tp-1", [*["filler of no matter"] * 5, "the orchard"], session="s-1")
    shelf.packet("tp-2", [*["filler of no matter"] * 5, "the orchard"], session="s-2")
    shelf.packet("tp-3", ["an orchard of old pears, an orchard of plums", "filler of no matter"], session="s-2")
    found = await shelf.packets("orchard", mode="hybrid", limit=3)
    assert found[:2] == ["tp-3", "tp-2"]


async def test_a_question_gives_way_to_its_answer(shelf):
    shelf.packet("tp-1", [("transcript", "Ada", "Where did you buy the red lantern, at the market in the old town?")])
    shelf.packet("tp-2", [("transcript", "Ben", "We bought the red lantern at the market beside the old town hall.")])
    assert await shelf.packets("red lantern market town", mode="hybrid") == ["tp-2", "tp-1"]


async def test_names_and_numbers_of_a_packet_have_no_substance(shelf):
    text = "lantern market hall and some more words about the evening beside the river in the old town"
    shelf.packet("tp-1", [("header", "", text), ("behavior", "", text), ("content", "", text)])
    hits = (await shelf.find("lantern", mode="hybrid", explain=True)).hits
    assert hits[0].section == "content"
    assert ["substance" in hit.explanation.boosts for hit in hits] == [True, False, False]


async def test_irregular_forms_find_each_other(shelf):
    shelf.packet("tp-1", ["they bought a red lantern"])
    shelf.packet("tp-2", ["they drew a red lantern"])
    for mode in ("bm25", "hybrid"):
        assert (await shelf.packets("what did they buy", mode=mode))[:1] == ["tp-1"]


async def test_the_explained_parts_add_up_to_the_score(talks, embedder):
    await talks.embed_all(embedder)
    for mode in ("bm25", "dense", "hybrid"):
        for hit in (await talks.find("Ada kittens coherence", embedder, mode=mode, explain=True)).hits:
            assert hit.explanation is not None
            assert sum(hit.explanation.boosts.values()) == pytest.approx(hit.score, abs=1e-5)
            assert list(hit.explanation.retrievers) == hit.retrievers


async def test_an_explanation_names_ranks_raw_scores_and_terms(talks, embedder):
    await talks.embed_all(embedder)
    hit = (await talks.find("Ada kittens shelter", embedder, explain=True)).hits[0]
    assert hit.explanation.matched_terms == ["ada", "kittens", "shelter"]
    assert hit.explanation.retrievers["bm25"].rank == 1
    assert hit.explanation.retrievers["bm25"].score > 0
    assert hit.explanation.boosts["name"] > 0


async def test_boosts_reorder_and_never_exclude(talks, embedder):
    await talks.embed_all(embedder)
    plain = await talks.find("transmission", embedder)
    boosted = await talks.find(
        "transmission", embedder, boosts=Filters(since="2025-08-01", until="2025-10-01"), explain=True
    )
    assert {hit.page_id for hit in plain.hits} == {hit.page_id for hit in boosted.hits}
    assert boosted.hits[0].packet_id == "tp-3"
    assert boosted.hits[0].explanation.boosts["time"] > 0
    preferred = await talks.find("transmission", embedder, boosts=Filters(models=["gpt-4"]), explain=True)
    assert {hit.page_id for hit in plain.hits} == {hit.page_id for hit in preferred.hits}
    before = {hit.page_id: hit.score for hit in plain.hits}
    for hit in preferred.hits:
        gain = talks.config.search.weight_match if hit.packet_id == "tp-2" else 0.0
        assert hit.score - before[hit.page_id] == pytest.approx(gain, abs=1e-5)


async def test_people_asked_for_lift_their_pages(talks, embedder):
    await talks.embed_all(embedder)
    hits = (await talks.find("lovely keyboard", embedder, people=["Ben"], explain=True)).hits
    assert {hit.speaker for hit in hits if hit.explanation.boosts.get("name")} == {"Ben"}
    alone = (await talks.find("lovely keyboard", embedder)).hits
    of_ben = [[hit.speaker for hit in found].index("Ben") for found in (hits, alone)]
    assert of_ben[0] <= of_ben[1]


async def test_retired_pages_are_not_found_but_stay_citable(talks, embedder):
    await talks.embed_all(embedder)
    hit = (await talks.find("kittens", embedder)).hits[0]
    talks.retire([1, 2, 3])
    for mode in ("bm25", "dense", "hybrid"):
        assert "tp-1" not in await talks.packets("kittens keyboard", embedder, mode=mode)
    assert "tp-1" not in await talks.packets(mode="metadata", filters=Filters(since="2000-01-01"))
    assert await talks.packets(mode="page_id", page_ids=[hit.page_id]) == ["tp-1"]


async def test_pages_written_after_a_search_are_found_at_once(talks):
    assert await talks.packets("platypus") == []
    talks.packet("tp-9", ["a platypus appeared"])
    assert await talks.packets("platypus") == ["tp-9"]


async def test_without_an_embedder_hybrid_goes_on_by_words_and_says_so(talks):
    response = await talks.find("kittens", mode="hybrid")
    assert response.hits[0].packet_id == "tp-1"
    assert "embedder" in response.degraded[0]
    with pytest.raises(Unavailable, match="mode bm25"):
        await talks.find("kittens", mode="dense")


async def test_a_failing_embedder_degrades_hybrid_with_its_reason(talks, embedder):
    await talks.embed_all(embedder)
    embedder.failing = "the embedding worker died"
    response = await talks.find("kittens", embedder)
    assert response.hits[0].packet_id == "tp-1"
    assert "the embedding worker died" in response.degraded[0]
    with pytest.raises(Unavailable, match="the embedding worker died"):
        await talks.find("kittens", embedder, mode="dense")


async def test_an_embedder_of_another_space_is_never_compared(talks, embedder, other_embedder):
    await talks.embed_all(embedder)
    response = await talks.find("kittens", other_embedder)
    assert "words-2" in response.degraded[0]
    assert all("dense" not in hit.retrievers for hit in response.hits)
    assert other_embedder.texts == []


async def test_texts_are_compared_with_a_question_while_an_embedder_answers(embedder):
    asked, texts, call = "two kittens", ["two kittens sleep", "a transmission"], RequestContext()
    near, far = await similarity(embedder, asked, texts, call)
    assert near == pytest.approx(float(embedder.vector(asked) @ embedder.vector(texts[0])))
    assert far < near
    assert await similarity(None, asked, texts, call) == await similarity(embedder, asked, [], call) == []
    embedder.failing = "the embedding worker died"
    assert await similarity(embedder, asked, texts, call) == []


async def test_a_cancelled_call_ends(talks):
    call = RequestContext()
    call.cancel()
    with pytest.raises(Cancelled):
        await talks.searcher.search(SearchRequest(query="kittens"), call, None)


HOSTILE = [
    '"',
    '"unbalanced AND (',
    "kittens OR NOT NEAR(a b, 5) *",
    "text:kittens speaker:Ada",
    "{text} : kittens",
    "^kittens*",
    "kittens\0shelter",
    "-kittens +shelter",
    "'; DROP TABLE pages; --",
    "🐈 kittens 🐈‍⬛",
    "kittens " * 20_000,
    "k" * 1_000_000,
    " ".join(f"word{number}" for number in range(10_000)) + " kittens",
    "ﬃ ǅ İ ß kittens",
    "a\u0301\u0301\u0301 kittens",
]


@pytest.mark.parametrize("query", HOSTILE, ids=range(len(HOSTILE)))
@pytest.mark.parametrize("mode", ["bm25", "metadata", "hybrid"])
async def test_no_query_text_is_syntax(talks, mode, query):
    response = await talks.find(query, mode=mode)
    if "kittens" in query[:1000] and mode != "metadata":
        assert "tp-1" in [hit.packet_id for hit in response.hits]
    await talks.find("kittens", phrases=[query])


async def test_only_the_beginning_of_a_long_query_is_embedded(talks, embedder):
    await talks.embed_all(embedder)
    await talks.find("kittens " * 20_000, embedder)
    assert max(map(len, embedder.texts)) == 20_000


async def test_a_query_of_signs_alone_finds_nothing(talks):
    assert await talks.packets("!!! ??? 🐈", mode="hybrid") == []


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"limit": 0}, "limit = 0"),
        ({"limit": 1001}, "limit = 1001"),
        ({"adjacent": -1}, "adjacent = -1"),
        ({"filters": Filters(since="yesterday")}, "since = 'yesterday'"),
        ({"boosts": Filters(until="2025-13-01")}, "until = '2025-13-01'"),
        ({"filters": Filters(since="2025-02-01", until="2025-01-01")}, "exchange them"),
        ({"filters": Filters(metrics=[MetricRange(name="c", minimum=2, maximum=1)])}, "metric c: minimum 2"),
        ({"filters": Filters(metrics=[MetricRange(name=" ")])}, "name the metric"),
        ({"query": "  "}, "the query is empty"),
        ({"query": "", "mode": "dense", "filters": Filters(since="2025-01-01")}, "mode dense without a query"),
        ({"mode": "page_id"}, "mode page_id without page_ids"),
        ({"query": "\ud800 kittens"}, "send valid Unicode"),
        ({"query": "k" * 1_000_001}, "the query has 1000001 characters"),
        ({"phrases": ["kitten"] * 101}, "101 phrases"),
        ({"people": ["k" * 1_000_001]}, "1000001 characters of people"),
    ],
)
async def test_bad_input_names_value_and_remedy(talks, fields, message):
    with pytest.raises(BadInput) as caught:
        await talks.find(**{"query": "kittens", **fields})
    assert message in caught.value.message


async def test_document_frequency_counts_pages_by_stem(talks):
    found = await talks.searcher.document_frequency(["transmissions", "kitten", "unicorn", "???"], RequestContext())
    assert found == {"transmissions": 2, "kitten": 1, "unicorn": 0, "???": 0}


async def test_an_empty_archive_answers_nothing(shelf, embedder):
    await shelf.embed_all(embedder)
    for mode in ("bm25", "dense", "hybrid", "metadata"):
        assert await shelf.packets("anything", embedder, mode=mode) == []


@pytest.mark.parametrize("budget", [0, 25, 20_000])
async def test_terms_beyond_the_postings_budget_still_rescore(make_shelf, budget):
    shelf = make_shelf(postings_budget=budget)
    for number in range(30):
        shelf.packet(f"tp-{number:02}", [f"common words everywhere {'zebra' if number < 5 else ''}"])
    shelf.packet("tp-both", ["zebra common mark"])
    hits = (await shelf.find("zebra common mark", explain=True, limit=100)).hits
    assert hits[0].packet_id == "tp-both"
    assert hits[0].explanation.matched_terms == ["common", "mark", "zebra"]
    assert len(hits) == {0: 1, 25: 6, 20_000: 31}[budget]


async def test_pages_that_wait_for_a_vector_keep_their_place_by_words_and_the_share_is_said(shelf, embedder):
    shelf.packet("early", ["the phoenix is at the quay with the lantern", *(f"rain on day {day}" for day in range(7))])
    await shelf.embed_all(embedder)
    shelf.packet("late", ["phoenix quay"])
    found = await shelf.find("phoenix quay", embedder)
    assert found.hits[0].packet_id == "late"
    assert found.degraded == ["still indexing, 89% done: the other pages are found by words only"]
    await shelf.embed_all(embedder)
    found = await shelf.find("phoenix quay", embedder)
    assert (found.hits[0].packet_id, found.degraded) == ("late", [])
