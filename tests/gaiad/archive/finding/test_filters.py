"""Exact filters agree with a plain reading of their description, packet by packet."""

from datetime import datetime

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gaiad.archive.finding.filters import check_filters, phrase_pattern
from gaiad.base.errors import BadInput
from gaiad.wire.schemas import Filters, MetricRange

MODELS = ["Claude 3 Opus", "GPT-4o", "claude-2", "Ümlaut", ""]
TOPICS = ["Recursive Coherence", "recursion", "Straße", "other"]
TAGS = ["alpha", "Beta", "ÉTUDE"]
DAYS = [f"2025-0{month}-01T00:00:00+00:00" for month in range(1, 7)]
PACKETS = [
    {
        "packet_id": f"tp-{n}",
        "at": DAYS[n % 6],
        "session": f"s-{n % 4}",
        "topic": TOPICS[n % 4],
        "model": MODELS[n % 5],
        "current_model": MODELS[(n // 5) % 5],
        "tags": [tag for k, tag in enumerate(TAGS) if n >> k & 1],
        "metrics": {"Coherence": n / 10, **({"drift": -float(n)} if n % 2 else {})},
    }
    for n in range(20)
]


def some(values, most=2):
    return st.lists(st.sampled_from(values), max_size=most)


bounds = st.one_of(st.none(), st.sampled_from([-10.0, -3.0, 0.0, 0.5, 1.0, 1.5]))
ranges = st.builds(
    lambda name, low, high: MetricRange(name=name, minimum=low, maximum=high),
    st.sampled_from(["coherence", "Drift", "absent"]),
    bounds,
    bounds,
).filter(lambda r: r.minimum is None or r.maximum is None or r.minimum <= r.maximum)
day_or_open = st.sampled_from(["", *DAYS, "2025-03-15"])
filters = st.builds(
    Filters,
    since=day_or_open,
    until=day_or_open,
    models=some(["claude", "GPT", "opus", "üm", "nobody"]),
    topics=some(["recurs", "STRASSE", "COHERENCE", "x"]),
    tags=some(["ALPHA", "beta", "étude", "alph"]),
    metrics=st.lists(ranges, max_size=2),
    packet_ids=some([f"tp-{n}" for n in range(22)], 6),
    session_ids=some(["s-0", "s-1", "s-9"]),
).filter(lambda f: not (f.since and f.until) or moment(f.since) <= moment(f.until))


def moment(text):
    found = datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=datetime.fromisoformat(DAYS[0]).tzinfo)


def passes(packet, wanted):
    def part(parts, *texts):
        return not parts or any(p.casefold() in text.casefold() for p in parts for text in texts)

    metrics = {name.casefold(): value for name, value in packet["metrics"].items()}
    return (
        (not wanted.since or moment(packet["at"]) >= moment(wanted.since))
        and (not wanted.until or moment(packet["at"]) < moment(wanted.until))
        and part(wanted.models, packet["model"], packet["current_model"])
        and part(wanted.topics, packet["topic"])
        and (not wanted.tags or {t.casefold() for t in wanted.tags} & {t.casefold() for t in packet["tags"]})
        and all(
            m.name.casefold() in metrics
            and (m.minimum is None or metrics[m.name.casefold()] >= m.minimum)
            and (m.maximum is None or metrics[m.name.casefold()] <= m.maximum)
            for m in wanted.metrics
        )
        and (not wanted.packet_ids or packet["packet_id"] in wanted.packet_ids)
        and (not wanted.session_ids or packet["session"] in wanted.session_ids)
    )


@pytest.fixture
def filed(shelf):
    for packet in PACKETS:
        shelf.packet(texts=["the same words"], **packet)
    return shelf


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(wanted=filters, mode=st.sampled_from(["bm25", "hybrid", "metadata", "dense"]))
def test_filters_agree_with_brute_force(filed, embedder, wanted, mode):
    import asyncio

    async def search():
        if not filed.spaces.indexes():
            await filed.embed_all(embedder)
        query = "" if mode == "metadata" else "same words"
        if mode == "metadata" and wanted == Filters():
            return {packet["packet_id"] for packet in PACKETS}
        return set(await filed.packets(query, embedder, mode=mode, filters=wanted, limit=100))

    assert asyncio.run(search()) == {packet["packet_id"] for packet in PACKETS if passes(packet, wanted)}


@pytest.mark.parametrize(
    ("phrase", "text", "found"),
    [
        ("Deep  Thought", "the deep\nthought was", True),
        ("deep thought", "deep thoughts", False),
        ("deep thought", "skindeep thought", False),
        ("(deep)", "so (deep) it", True),
        ("STRASSE 5", "straße 5", True),
        ("'", "it's", True),
    ],
)
def test_a_phrase_is_whole_words_as_written(phrase, text, found):
    from gaiad.archive.finding.filters import one_line

    assert bool(phrase_pattern(phrase).search(one_line(text))) is found


def test_too_many_values_are_refused():
    with pytest.raises(BadInput, match="1001 packet_ids"):
        check_filters(Filters(packet_ids=["x"] * 1001))
