"""States, feedback, trends and lines as agents ask for them."""

import pytest

from gaiad.base.errors import BadInput, NotFound
from gaiad.base.ports import RequestContext
from gaiad.context import store as store_module
from gaiad.context.aggregates import direction, slope
from gaiad.context.hypotheses import named_in
from gaiad.context.store import ContextStore
from gaiad.store.home_databases import HomeDatabases
from gaiad.wire.context import StateQuery
from gaiad.wire.context_reviews import ReviewQuery, SimilarQuery, TrendQuery
from tests.gaiad.archive.conftest import WordEmbedder
from tests.makers.context import output, review, state, state_body


@pytest.fixture
async def filled(store: ContextStore, call: RequestContext) -> ContextStore:
    await store.add(state(), call)
    await store.add(output("g1", own={"step": 1}, primary={"hypotheses": [{"id": "h1", "text": "ice melts"}]}), call)
    await store.add(
        output("e1", "evolution", primary={"hypothesis": {"id": "h2", "parent_ids": ["h1"], "text": "it melts fast"}},
               metadata={"strategy": "combine"}, confidence=0.6),
        call,
    )  # fmt: skip
    await store.add(output("r1", "ranking", primary={"winner": {"hypothesis_id": "h2"}}), call)
    await store.add(review(1, advice={"generation": ["name it"], "ranking": {"why": "show scores"}}), call)
    await store.add(output("e2", "evolution", metadata={"strategy": "combine"}, confidence=0.8), call)
    await store.add(review(2, patterns=[{"name": "thin evidence", "frequency": 3}, "good dates"]), call)
    return store


async def test_a_full_state_has_every_section(filled: ContextStore, call: RequestContext) -> None:
    found = await filled.state(StateQuery(request_type="full"), call)
    assert found.complete
    assert found.timestamp_range == ("2025-12-01T10:00:00Z", "2025-12-01T11:00:00Z")
    assert found.content.system_state == state_body()
    assert found.content.agent_states == {"generation": {"step": 1}}
    by_id = {one["hypothesis_id"]: one for one in found.content.hypothesis_data}
    assert (by_id["h2"]["text"], by_id["h2"]["mentions"], by_id["h1"]["mentions"]) == ("it melts fast", 2, 2)
    newest = found.content.tournament_results["newest_output"]["primary_output"]
    assert newest == {"winner": {"hypothesis_id": "h2"}}
    assert [one["iteration_number"] for one in found.content.feedback_history] == [2, 1]


async def test_a_part_has_the_sections_asked_for(filled: ContextStore, call: RequestContext) -> None:
    query = StateQuery(request_type="partial", component="feedback_history,hypothesis_data", last_iteration=1)
    found = await filled.state(query, call)
    assert found.content.system_state == {}
    assert found.content.feedback_history[0]["critique"]["agent_feedback"]["ranking"] == {"why": "show scores"}
    only = await filled.state(
        StateQuery(request_type="partial", component="hypothesis_data", agent_type="ranking"), call
    )
    assert [one["hypothesis_id"] for one in only.content.hypothesis_data] == ["h2"]
    with pytest.raises(BadInput, match="sections are"):
        await filled.state(StateQuery(request_type="partial", component="passwords"), call)


async def test_a_summary_is_of_kept_sums(filled: ContextStore, call: RequestContext) -> None:
    content = (await filled.state(StateQuery(), call)).content
    assert content.agent_states["evolution"] == [{"strategy": "combine", "outputs": 2, "mean_confidence": 0.7}]
    assert content.tournament_results == {"tournament_progress": 0.25}
    assert content.feedback_history == [{"iteration_number": 2, "synthesis": "iteration 2 in short"}]
    assert "checkpoint_data" not in content.system_state


async def test_what_time_does_not_allow_is_named_as_missing(
    filled: ContextStore, call: RequestContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "READ_S", -1.0)
    found = await filled.state(StateQuery(request_type="full"), call)
    assert not found.complete
    assert sorted(found.missing) == sorted(
        ["system_state", "agent_states", "hypothesis_data", "tournament_results", "feedback_history"]
    )


async def test_nothing_stored_is_an_empty_state(store: ContextStore, call: RequestContext) -> None:
    found = await store.state(StateQuery(request_type="full"), call)
    assert (found.complete, found.content.system_state, found.timestamp_range) == (True, {}, ("", ""))
    assert (await store.feedback(ReviewQuery(), call)).iteration == 0
    with pytest.raises(NotFound):
        await store.lineage("h1", call)


async def test_feedback_of_an_iteration_and_of_the_latest(filled: ContextStore, call: RequestContext) -> None:
    latest = await filled.feedback(ReviewQuery(), call)
    assert (latest.iteration_requested, latest.iteration, latest.revision) == ("latest", 2, 1)
    assert latest.feedback_content.success_patterns == [{"name": "thin evidence", "frequency": 3}, "good dates"]
    first = await filled.feedback(ReviewQuery(iteration=1, agent_type="ranking"), call)
    assert first.feedback_content.agent_specific == {"ranking": ["show scores"]}
    assert first.feedback_content.general_recommendations == ["be brief"]
    assert first.feedback_content.priority_improvements == ["date the cores"]
    await filled.add(review(1, "2025-12-02T11:00:00Z", advice={"ranking": "rank all"}), call)
    second = await filled.feedback(ReviewQuery(iteration=1), call)
    assert (second.revision, second.feedback_content.agent_specific) == (2, {"ranking": ["rank all"]})
    with pytest.raises(NotFound):
        await filled.feedback(ReviewQuery(iteration=7), call)


async def test_trends_follow_patterns_and_strategies(filled: ContextStore, call: RequestContext) -> None:
    found = await filled.trends(TrendQuery(), call)
    assert [(one.iteration, one.states, one.outputs, one.reviews) for one in found.iterations] == [
        (1, 1, 3, 1),
        (2, 0, 1, 1),
    ]
    assert {one.pattern: (one.counts, one.direction) for one in found.patterns} == {
        "thin evidence": ({"1": 1, "2": 3}, "rising"),
        "good dates": ({"2": 1}, "new"),
    }
    best = found.effectiveness[0]
    assert (best.agent_type, best.strategy, best.confidence_by_iteration, best.improvement) == (
        "evolution",
        "combine",
        {"1": 0.6, "2": 0.8},
        0.2,
    )
    only = await filled.trends(TrendQuery(iterations=1, agent_type="ranking"), call)
    assert ([one.iteration for one in only.iterations], only.effectiveness) == ([2], [])


async def test_a_revised_review_replaces_its_patterns(filled: ContextStore, call: RequestContext) -> None:
    await filled.add(review(2, "2025-12-02T12:00:00Z", patterns=["calm"]), call)
    found = await filled.trends(TrendQuery(), call)
    assert {one.pattern: one.direction for one in found.patterns} == {"calm": "new", "thin evidence": "gone"}


async def test_the_line_of_a_hypothesis(filled: ContextStore, call: RequestContext) -> None:
    await filled.add(output("e3", "evolution", primary={"hypothesis": {"id": "h3", "parent_id": "h2"}}), call)
    found = await filled.lineage("h2", call)
    assert [(one.hypothesis_id, one.generation, one.parents) for one in found.line] == [
        ("h1", -1, []),
        ("h2", 0, ["h1"]),
        ("h3", 1, ["h2"]),
    ]
    assert found.complete


async def test_a_circle_of_parents_ends(store: ContextStore, call: RequestContext) -> None:
    circle = [{"id": "a", "parent_id": "b"}, {"id": "b", "parent_id": "a"}]
    await store.add(output(primary={"hypotheses": circle}), call)
    assert {one.hypothesis_id for one in (await store.lineage("a", call)).line} == {"a", "b"}


async def test_similar_states_by_their_summaries(
    databases: HomeDatabases, store: ContextStore, call: RequestContext
) -> None:
    with pytest.raises(BadInput, match="embedder"):
        await store.similar(SimilarQuery(text="ice"), call)
    store = ContextStore(databases, store._clock, WordEmbedder())  # type: ignore[arg-type]
    first = await store.add(state("2025-12-01T10:00:00Z", "melting ice in the north"), call)
    await store.add(state("2025-12-01T11:00:00Z", "sand in the desert"), call)
    by_words = await store.similar(SimilarQuery(text="melting ice north", limit=1), call)
    assert [one.row.id for one in by_words] == [first.id]
    last = await store.add(state("2025-12-01T12:00:00Z", "melting ice in the south"), call)
    assert [one.row.id for one in await store.similar(SimilarQuery(limit=1), call)] == [first.id]
    assert [one.row.id for one in await store.similar(SimilarQuery(state=first.id, limit=1), call)] == [last.id]
    with pytest.raises(NotFound):
        await store.similar(SimilarQuery(state="sta_none"), call)


def test_deep_and_wide_json_is_walked_without_recursion() -> None:
    deep: object = {"hypothesis_id": "bottom"}
    for _ in range(5000):
        deep = [deep]
    assert named_in(deep).mentioned == {"bottom"}
    assert len(named_in([{"hypothesis_id": f"h{n}"} for n in range(5000)]).mentioned) == 1000
    assert named_in({"hypothesis": {"id": "h", "parent_ids": "p"}, "hypothesis_id": 7}).parents == {("h", "p")}


def test_directions_and_slopes() -> None:
    counts = ({3: 1}, {1: 2}, {1: 2, 3: 4}, {1: 4, 3: 1}, {1: 1, 2: 1, 3: 1})
    assert [direction(one, 3) for one in counts] == ["new", "gone", "rising", "falling", "steady"]
    assert (slope({1: 0.5}), slope({1: 0.0, 2: 2.0})) == (0.0, 2.0)
