"""JIT's memory API on a real archive: what a session becomes, what a briefing stands on, its budgets and its gate."""

from typing import Any

import msgspec
import pytest

from gaiad.archive.archive import LocalArchive
from gaiad.archive.storing.handed_over import session_turns
from gaiad.base.clock import FrozenClock
from gaiad.base.config import Config, load_config
from gaiad.base.errors import BadInput, ConfigError, Conflict, Unavailable
from gaiad.base.metrics import Metrics
from gaiad.base.ports import RequestContext
from gaiad.cli.config import setting_sources
from gaiad.models.tokens.word_tokenizer import WordTokenizer
from gaiad.research.thinking.by_model import Thinker
from gaiad.research.trail import Trail
from gaiad.service.memory import MemoryApi
from gaiad.wire.memory import BriefingContext, BuildContext, IngestedSession, IngestSession
from gaiad.wire.schemas import SearchRequest
from tests.gaiad.research.thinking.conftest import CLOCK, LIMITS, WRITE, Mind, no_plan, reply, sentences, sufficient

TALK = [
    {"role": "user", "content": "When does the lantern at sea get its new lens?", "timestamp": "2025-11-27T09:30"},
    {"role": "assistant", "content": "The lantern gets its new lens on 12 December. Maria Olsen brings it by boat."},
    {"role": "user", "content": "We decided to paint the tower red.", "timestamp": "2025-11-28T09:31Z"},
]  # fmt: skip
QUESTION = "When does the lantern get its new lens?"


class Runs:
    """The researcher's part: a thinker for a role, and runs that are kept."""

    def __init__(self) -> None:
        self.thinkers: dict[str, Thinker] = {}
        self.kept: list[Trail] = []

    def thinker(self, role: str) -> Thinker | None:
        return self.thinkers[role]

    def new_id(self) -> str:
        return f"res_{len(self.kept) + 1}"

    def keep_later(self, trail: Trail, call: RequestContext) -> None:
        self.kept.append(trail)


class Memory:
    """The API as a caller of one tenant after another has it."""

    def __init__(self, archive: LocalArchive, clock: FrozenClock, config: Config) -> None:
        self.archive = archive
        self.metrics = Metrics()
        self.runs = Runs()
        self._api = MemoryApi(
            archive, clock, self.metrics, lambda: config, lambda: WordTokenizer(clock), lambda: self.runs
        )

    async def ingest(self, tenant: str = "work", **fields: Any) -> IngestedSession:
        body = msgspec.convert({"tenantId": tenant, "turns": TALK, **fields}, IngestSession)
        return await self._api.ingest_session(body, RequestContext(tenant))

    async def build(self, request: str, tenant: str = "work", **fields: Any) -> BriefingContext:
        body = msgspec.convert({"tenantId": tenant, "request": request, **fields}, BuildContext)
        return await self._api.build_context(body, RequestContext(tenant))


@pytest.fixture
def enabled() -> Config:
    return load_config(environment={"MEMORY_GAM_ENABLED": "on"})


@pytest.fixture
def memory(archive: LocalArchive, clock: FrozenClock, enabled: Config) -> Memory:
    return Memory(archive, clock, enabled)


async def test_a_session_becomes_pages_with_headers_and_a_memo(memory: Memory) -> None:
    labels = {"classification": ["secret"], "policyTags": ["no-export"]}
    made = await memory.ingest(sessionId="s", agentId="bot", title="Harbour", metadata={"a": 1}, **labels)
    assert made.session_id == "s"
    assert "Maria Olsen" in made.memo
    assert "We decided to paint the tower red." in made.memo
    assert [page.sequence for page in made.pages] == [0, 1, 2]
    header = msgspec.to_builtins(made.pages[1])["header"]
    assert header.pop("memoSnapshot").startswith("Names: Maria Olsen")
    assert header == {
        "sessionId": "s",
        "tenantId": "work",
        "agentId": "bot",
        "sequence": 1,
        "createdAt": "2025-11-27T09:30:00Z",
        **labels,
    }
    assert made.pages[2].header.created_at == "2025-11-28T09:31:00Z"
    summary = await memory.archive.session("s", RequestContext("work"))
    assert (summary.title, summary.agent_id, summary.metadata) == ("Harbour", "bot", {"a": 1})


async def test_the_page_header_has_tags_run_intent_and_its_own_time(memory: Memory) -> None:
    given = {"tags": ["harbour", "paint"], "originRunId": "run-7", "requestIntent": "plan the work"}
    turns = [
        {"role": "user", "content": "Paint it red.", "timestamp": "2025-11-27T09:30:00Z"},
        {"role": "assistant", "content": "It is red.", "timestamp": "2025-11-27T10:45:00+01:00"},
    ]
    made = await memory.ingest(sessionId="s", turns=turns, metadata={**given, "a": 1})
    headers = [msgspec.to_builtins(page.header) for page in made.pages]
    assert [{name: header[name] for name in given} for header in headers] == [given, given]
    assert [header["createdAt"] for header in headers] == ["2025-11-27T09:30:00Z", "2025-11-27T09:45:00Z"]
    with pytest.raises(BadInput, match=r"\$\.tags"):
        await memory.ingest(sessionId="t", metadata={"tags": "harbour"})


async def test_the_same_session_again_is_known_and_more_of_it_goes_on(memory: Memory) -> None:
    first = await memory.ingest()
    assert await memory.ingest() == first
    more = await memory.ingest(sessionId=first.session_id, turns=[{"role": "user", "content": "It is windy."}])
    assert [page.sequence for page in more.pages] == [3]
    assert (await memory.archive.counts())["pages"] == 4
    assert (await memory.ingest(title="Another")).session_id != first.session_id


@pytest.mark.parametrize("count", [1, 2])
async def test_a_session_that_grows_is_kept_once(memory: Memory, count: int) -> None:
    first = await memory.ingest(sessionId="s", turns=TALK[:count])
    grown = await memory.ingest(sessionId="s")
    assert grown.pages[:count] == first.pages
    assert [page.sequence for page in grown.pages] == [0, 1, 2]
    assert [page.header.created_at[:16] for page in grown.pages] == [
        "2025-11-27T09:30",
        "2025-11-27T09:30",
        "2025-11-28T09:31",
    ]
    other_times = [{**turn, "timestamp": "2025-12-01T10:00Z", "metadata": {"try": 2}} for turn in TALK]
    assert await memory.ingest(sessionId="s", turns=other_times) == grown
    assert (await memory.archive.counts())["pages"] == 3


A, B, C, D = (
    {"role": role, "content": content}
    for role, content in (
        ("user", "Where is the lantern kept at night?"),
        ("assistant", "In the shed beside the harbour."),
        ("user", "Then let us move it to the mill."),
        ("assistant", "It stands in the mill from today on."),
    )
)
DAYS = [{"role": "system", "content": f"You are a keeper. Today is November {day}."} for day in (20, 21)]
YES = {"role": "user", "content": "Yes."}


@pytest.mark.parametrize(
    ("first", "then", "kept"),
    [
        ([A, B, C], [B, C, D], [A, B, C, D]),
        ([A, B], [B, C], [A, B, C]),
        ([A, B], [A], [A, B]),
        ([A, B, C, D], [B, C], [A, B, C, D]),
        ([DAYS[0], A, B], [DAYS[1], A, B, C], [DAYS[0], A, B, C]),
        ([DAYS[0], A, B, C], [DAYS[1], B, C, D], [DAYS[0], A, B, C, D]),
        ([DAYS[0]], [DAYS[0], A], [DAYS[0], A]),
        ([A, B], [DAYS[0], A, B, C], [A, B, DAYS[0], C]),
        ([A, YES], [YES, D], [A, YES, YES, D]),
        ([{**A, "timestamp": "2025-11-27"}, B], [{**A, "timestamp": "2025-11-28"}, D], [A, B, A, D]),
        ([A, B, A], [A, B, C], [A, B, A, B, C]),
    ],
)
async def test_of_the_last_turns_handed_over_again_only_what_is_new_is_kept(
    memory: Memory, first: list[Any], then: list[Any], kept: list[Any]
) -> None:
    await memory.ingest(sessionId="s", turns=first)
    made = await memory.ingest(sessionId="s", turns=then)
    assert made.pages
    turns = await memory.archive.session_turns("s", RequestContext("work"))
    said = [message.content for turn in turns for message in turn.messages]
    assert said == [one["content"] for one in kept]


@pytest.mark.parametrize("labels", [{"policyTags": ["secret"]}, {"classification": ["secret"]}])
async def test_a_label_that_comes_too_late_is_refused_and_not_dropped(memory: Memory, labels: dict[str, Any]) -> None:
    await memory.ingest(sessionId="s", policyTags=["no-export"])
    more = [{"role": "user", "content": "It is windy."}]
    for turns in (TALK, [*TALK, *more]):
        with pytest.raises(Conflict, match="stored without the label 'secret'"):
            await memory.ingest(sessionId="s", turns=turns, **labels)
    assert (await memory.archive.counts())["pages"] == 3
    alone = await memory.ingest(sessionId="s", turns=more, **labels)
    assert [page.sequence for page in alone.pages] == [3]
    with pytest.raises(Conflict, match="without the label 'later'"):
        await memory.ingest(sessionId="s", turns=more, policyTags=["later"])
    assert (await memory.ingest(sessionId="s", turns=TALK, policyTags=["no-export"])).pages[0].sequence == 0


def test_turns_of_a_day_stay_together() -> None:
    many = [{"role": "user", "content": str(n), "timestamp": f"2025-11-2{n // 250}T09:00:00+01:00"} for n in range(500)]
    turns = session_turns(msgspec.convert({"tenantId": "work", "turns": many}, IngestSession))
    assert [len(turn.messages) for turn in turns] == [200, 50, 200, 50]
    assert [turn.started_at[:13] for turn in turns] == [
        "2025-11-20T08",
        "2025-11-20T08",
        "2025-11-21T08",
        "2025-11-21T08",
    ]
    assert len({turn.turn_id for turn in turns}) == 4


async def test_a_session_that_cannot_be_kept_is_not_kept_in_part(memory: Memory) -> None:
    with pytest.raises(BadInput, match=r"turns\[1\]\.timestamp = 'yesterday'"):
        await memory.ingest(turns=[TALK[0], {"role": "user", "content": "x", "timestamp": "yesterday"}])
    with pytest.raises(BadInput, match="session_id = ' s'"):
        await memory.ingest(sessionId=" s")
    with pytest.raises(BadInput, match=r"turns\[3\]\.content is empty"):
        await memory.ingest(turns=[*TALK, {"role": "user", "content": " ", "timestamp": "2025-11-30"}])
    assert (await memory.archive.counts())["packets"] == 0


async def test_a_briefing_names_the_page_its_retriever_and_its_labels(memory: Memory) -> None:
    made = await memory.ingest(classification=["secret"], policyTags=["no-export", "eu"])
    built = await memory.build(QUESTION)
    wire = msgspec.to_builtins(built)
    assert list(wire) == [
        "executiveSummary", "keyFacts", "openQuestions", "evidence", "tokensUsed", "reflectionSteps", "pagesUsed",
    ]  # fmt: skip
    assert wire["evidence"][0] == {
        "pageId": made.pages[1].id,
        "excerpt": TALK[1]["content"],
        "relevanceScore": built.evidence[0].relevance_score,
        "retrieverType": "bm25",
        "classification": ["secret"],
        "policyTags": ["no-export", "eu"],
    }
    assert 0 < built.evidence[0].relevance_score <= 1
    assert built.key_facts[0].startswith("The lantern gets its new lens on 12 December.")
    assert "12 December" in built.executive_summary
    assert built.reflection_steps == 1


async def test_what_the_memory_does_not_hold_stays_an_open_question(memory: Memory) -> None:
    empty = await memory.build(QUESTION)
    assert (empty.open_questions, empty.evidence, empty.pages_used) == ([QUESTION], [], 0)
    await memory.ingest()
    built = await memory.build("Who is Gustav Mahler?")
    assert built.evidence == []
    assert built.open_questions[0] == "Who is Gustav Mahler?"
    assert "Nothing was found on: mahler" in built.open_questions


async def test_what_nothing_answers_comes_with_the_pages_that_bear_on_it(memory: Memory) -> None:
    made = await memory.ingest()
    built = await memory.build("Write a farewell speech, warm but short, for Maria Olsen")
    assert [(one.page_id, one.relevance_score < 0.6) for one in built.evidence] == [(made.pages[1].id, True)]
    assert "Nothing was found on: farewell" in built.open_questions
    assert built.key_facts == []
    assert (await memory.build("Write a farewell speech, warm but short")).evidence == []


async def test_budgets_bound_pages_reflections_and_tokens(memory: Memory) -> None:
    for n in range(40):
        said = f"Note {n}: the lantern of house {n} has a lens of glass number {n}."
        await memory.ingest(turns=[{"role": "user", "content": said, "timestamp": f"2025-10-{n % 28 + 1:02}"}])
    assert (await memory.build("List every packet about lantern lens")).pages_used == 8
    listed = await memory.build("List every packet about lantern lens", budgets={"maxPages": 1000})
    assert listed.pages_used == 32
    assert "raise maxPages = 32" in listed.open_questions[-1]
    assert (await memory.build("List every packet about lantern lens", budgets={"maxPages": 3})).pages_used == 3
    for depth, steps in ((1, 1), (99, 5)):
        built = await memory.build("What about purple submarines?", budgets={"maxReflectionDepth": depth})
        assert built.reflection_steps <= steps
    cut = await memory.build("List every packet about lantern lens", budgets={"maxOutputTokens": 100})
    assert cut.tokens_used <= 100
    assert cut == await memory.build("List every packet about lantern lens", budgets={"maxOutputTokens": 100})
    for name in ("maxPages", "maxReflectionDepth", "maxOutputTokens"):
        with pytest.raises(msgspec.ValidationError, match=name):
            await memory.build(QUESTION, budgets={name: 0})


async def test_a_spent_depth_gives_what_was_found_and_says_what_is_open(memory: Memory) -> None:
    await memory.ingest()
    built = await memory.build("How did the lens of the lantern evolve?", budgets={"maxReflectionDepth": 1})
    assert built.reflection_steps == 1
    assert "PARTIAL status" not in built.executive_summary
    assert "12 December" in built.executive_summary
    assert built.evidence
    assert "Stopped at maxReflectionDepth = 1." in built.open_questions
    whole = await memory.build(QUESTION, budgets={"maxReflectionDepth": 1})
    assert whole.open_questions == [], "enough in the last round that was allowed"
    vain = await memory.build("Who is Gustav Mahler?")
    assert vain.reflection_steps <= 2, "JIT's default"
    assert ("Stopped at maxReflectionDepth = 2." in vain.open_questions) == (vain.reflection_steps == 2)


async def test_all_budgets_spent_at_once_still_give_a_briefing(memory: Memory) -> None:
    for n in range(12):
        said = f"Note {n}: the lantern of house {n} has a lens of glass number {n}, and nobody knows who paid."
        await memory.ingest(turns=[{"role": "user", "content": said, "timestamp": f"2025-10-{n + 1:02}"}])
    budgets = {"maxPages": 1, "maxReflectionDepth": 1, "maxOutputTokens": 60}
    built = await memory.build("How did the lantern lens evolve, and what of purple submarines?", budgets=budgets)
    assert built.pages_used <= 1
    assert built.reflection_steps <= 1
    assert built.tokens_used <= 60
    assert built.open_questions[0] == "Cut at maxOutputTokens = 60."
    assert built == await memory.build(
        "How did the lantern lens evolve, and what of purple submarines?", budgets=budgets
    )


async def test_a_page_named_by_its_id_is_looked_up_in_its_own_tenant_only(memory: Memory) -> None:
    page = (await memory.ingest()).pages[1].id
    alone = await memory.build(page)
    assert [(one.page_id, one.retriever_type) for one in alone.evidence] == [(page, "page_id")]
    both = await memory.build(f"{QUESTION} See {page}.")
    assert [(one.page_id, one.retriever_type) for one in both.evidence] == [(page, "page_id")]
    assert both.key_facts
    foreign = await memory.build(page, tenant="home")
    assert (foreign.evidence, foreign.open_questions) == ([], [f"No page {page} in tenant home."])


async def test_what_was_said_to_the_agent_and_in_the_session_is_preferred(memory: Memory) -> None:
    said = [{"role": "user", "content": "The lens of the lantern is made of glass.", "timestamp": "2025-11-27"}]
    made = {name: await memory.ingest(sessionId=name, agentId=f"{name}-bot", turns=said) for name in ("a", "b", "c")}
    for name, session in made.items():
        for preference in ({"sessionId": name}, {"agentId": f"{name}-bot"}):
            built = await memory.build("What is the lens of the lantern made of?", **preference)
            assert built.evidence[0].page_id == session.pages[0].id


async def test_the_names_of_the_sessions_latest_memo_are_searched_for_too(memory: Memory) -> None:
    await memory.ingest(sessionId="s")
    hits = 'gam_retrieval_hits_total{tool="bm25"}'
    await memory.ingest(sessionId="t", turns=[{"role": "user", "content": "Maria was born in Bergen."}])
    await memory.build("Is the tower tall?")
    alone = memory.metrics.counters()[hits]
    await memory.build("Is the tower tall?", sessionId="s")
    assert memory.metrics.counters()[hits] - alone > alone


async def test_mode_dense_without_vectors_says_what_to_do(memory: Memory) -> None:
    await memory.ingest()
    assert (await memory.build(QUESTION, mode="bm25")).pages_used
    with pytest.raises(Unavailable, match="mode dense cannot answer"):
        await memory.build(QUESTION, mode="dense")


async def test_runs_are_counted_under_the_seeds_names(memory: Memory) -> None:
    await memory.ingest()
    built = await memory.build(QUESTION)
    counters, latencies = memory.metrics.counters(), memory.metrics.latencies()
    assert counters["gam_pages_used"] == built.pages_used
    assert counters["gam_reflection_steps"] == built.reflection_steps
    assert counters["gam_context_tokens_out"] == built.tokens_used
    assert counters['gam_retrieval_hits_total{tool="bm25"}'] >= 1
    assert (latencies["gam_ingest_latency_ms"].count, latencies["gam_build_context_latency_ms"].count) == (1, 1)


async def test_a_briefing_is_thought_by_the_model_that_the_setting_names(
    archive: LocalArchive, clock: FrozenClock
) -> None:
    config = load_config(environment={"MEMORY_GAM_ENABLED": "1", "GAIAD_MEMORY__MODEL": "lite"})
    memory = Memory(archive, clock, config)
    written = ("The new lens comes on 12 December.", ["s1"])
    mind = Mind([no_plan(), sufficient(), reply(WRITE, sentences(written))])
    memory.runs.thinkers["lite"] = Thinker(mind, LIMITS, CLOCK, 8, lambda _: None)
    await memory.ingest()
    built = await memory.build(QUESTION)
    assert mind.asked == ["plan", "reflect", "write"]
    assert built.executive_summary.startswith("The new lens comes on 12 December. [Packet: ")
    assert built.evidence
    assert memory.runs.kept == []


async def test_a_briefing_s_run_is_kept_where_the_setting_says_so(archive: LocalArchive, clock: FrozenClock) -> None:
    config = load_config(environment={"MEMORY_GAM_ENABLED": "1", "GAIAD_MEMORY__KEEP_RUNS": "true"})
    memory = Memory(archive, clock, config)
    await memory.ingest()
    page = (await memory.ingest()).pages[1].id
    await memory.build(QUESTION)
    await memory.build(page)  # an id is no research
    (trail,) = memory.runs.kept
    assert (trail.research_id, trail.status, trail.tenant) == ("res_1", "complete", "work")
    assert trail.result is not None
    assert trail.result.citations


@pytest.mark.parametrize(
    ("value", "enabled"), [("1", True), ("on", True), ("True", True), ("0", False), ("off", False), ("", False)]
)
def test_the_seeds_variable_sets_the_setting(value: str, enabled: bool) -> None:
    assert load_config(environment={"MEMORY_GAM_ENABLED": value}).memory.gam_enabled is enabled
    sources = setting_sources([], {"MEMORY_GAM_ENABLED": value})
    assert sources == ({"memory.gam_enabled": "$MEMORY_GAM_ENABLED"} if value else {})


def test_the_api_is_off_unless_somebody_turns_it_on_and_a_wrong_value_is_named() -> None:
    assert not load_config(environment={}).memory.gam_enabled
    with pytest.raises(ConfigError, match=r"MEMORY_GAM_ENABLED.*'maybe'"):
        load_config(environment={"MEMORY_GAM_ENABLED": "maybe"})
    both = {"MEMORY_GAM_ENABLED": "1", "GAIAD_MEMORY__GAM_ENABLED": "false"}
    assert not load_config(environment=both).memory.gam_enabled


async def test_while_it_is_off_both_refuse_and_nothing_else_does(
    archive: LocalArchive, clock: FrozenClock, config: Config, enabled: Config
) -> None:
    await Memory(archive, clock, enabled).ingest(tenant="local")
    off = Memory(archive, clock, config)
    for work in (off.ingest(), off.build(QUESTION)):
        with pytest.raises(Unavailable, match="MEMORY_GAM_ENABLED=true") as refused:
            await work
        assert refused.value.http_status == 503
    assert (await archive.search(SearchRequest(query="lantern"), RequestContext())).hits
