"""Times that packets give their names to: which words of a question are one, and what it bounds."""

from datetime import UTC, datetime
from typing import Any

import pytest

from gaiad.base.ports import RequestContext
from gaiad.research.landmarks import find_mentions, landmark_periods
from gaiad.research.query import process_query
from gaiad.wire.schemas import Facets

STUDY, LISBON = "tp-20251114-093000", "TP-SESSION-20251023-LISBON"
FACETS = Facets(
    topics={
        "Syntactic templates and the MIT study": 1,
        "Recursive Thought Committee: founding session": 1,
        "Transmission Packet schema v1.0": 1,
        "Transmission Packet schema v1.5": 1,
        "Transmission Packet schema v2.0": 1,
        "Transmission Packet schema v2.1": 1,
        "Conversation of Mara and Joseph": 9,
        "November planning": 1,
        "Lunch menus for the workshop": 1,
    },
    people={"Mara": 2, "Joseph": 3},
    models={"GPT-5": 1},
    packets=17,
)


def mentioned(question: str) -> list[tuple[str, str]]:
    return [(one.side, question[one.start : one.end]) for one in find_mentions(question, FACETS)]


@pytest.mark.parametrize(
    ("question", "side", "words"),
    [
        ("What did we say before the MIT study?", "before", "before the MIT study"),
        ("What did we say prior to the mit study, and why?", "before", "prior to the mit study"),
        (
            "List what came after the study of syntactic templates came out",
            "after",
            "after the study of syntactic templates",
        ),
        ("What happened since the founding of the RTC?", "since", "since the founding of the RTC"),
        ("What did we know until we discussed the MIT study?", "until", "until we discussed the MIT study"),
        ("What came after the session about the MIT study?", "after", "after the session about the MIT study"),
        ("What came after the workshop?", "after", "after the workshop"),
        ("What came after RTC founding?", "after", "after RTC founding"),
        ("What came after RTC?", "after", "after RTC"),
        ("What changed after schema v2.0?", "after", "after schema v2.0"),
        ("packets after tp-20251204-100000.", "after", "after tp-20251204-100000"),
        (
            "What was said between the RTC founding session and the MIT study?",
            "between",
            "between the RTC founding session and the MIT study",
        ),
    ],
)
def test_a_packet_named_after_a_word_of_time_sets_a_time(question: str, side: str, words: str) -> None:
    assert mentioned(question) == [(side, words)]


@pytest.mark.parametrize(
    "question",
    [
        "What did we say in the MIT study?",
        "What did we say before the Harvard study?",
        "What did Mara say after Joseph?",
        "What happened after the conversation with Mara?",
        "What is the difference between the MIT study and the RTC?",
        "What was said between the MIT study and dinner?",
        "What came before the schema?",
        "What did we eat after lunch?",
        "What did we say after that?",
        "before",
    ],
)
def test_other_words_set_none(question: str) -> None:
    assert mentioned(question) == []


@pytest.mark.parametrize(
    ("question", "since", "until", "packets"),
    [
        ("before the MIT study", "", "2025-11-14T09:30:00", [STUDY]),
        ("until the MIT study", "", "2025-11-14T09:30:01", [STUDY]),
        ("after the MIT study", "2025-11-14T09:30:01", "", [STUDY]),
        ("since the MIT study", "2025-11-14T09:30:00", "", [STUDY]),
        (
            "between the MIT study and the Lisbon workshop",
            "2025-10-23T12:00:00",
            "2025-11-14T09:30:01",
            [STUDY, LISBON],
        ),
        ("the week before the MIT study", "2025-11-07T09:30:00", "2025-11-14T09:30:00", [STUDY]),
        ("Two days after the MIT study", "2025-11-14T09:30:01", "2025-11-16T09:30:01", [STUDY]),
        (f"since {STUDY}", "2025-11-14T09:30:00", "", [STUDY]),
    ],
)
async def test_a_landmark_bounds_time_by_its_packets(
    samples: Any, question: str, since: str, until: str, packets: list[str]
) -> None:
    (period,) = await landmark_periods(samples, question, await samples.facets(RequestContext()), RequestContext())
    found = tuple(
        moment.isoformat().removesuffix("+00:00") if moment else "" for moment in (period.since, period.until)
    )
    assert found == (since, until)
    assert list(period.packet_ids) == packets
    assert question[period.start : period.end] == period.text == question


async def test_an_id_nobody_has_sets_no_time(samples: Any) -> None:
    facets = await samples.facets(RequestContext())
    assert await landmark_periods(samples, "List packets after tp-19990101-000000", facets, RequestContext()) == []


async def test_a_topic_of_several_packets_lasts_from_the_first_to_the_last(memory: Any, page: Any) -> None:
    pages = [
        page("one", f"tp-{day}", timestamp=f"2025-11-0{day}T08:00:00Z", topic="Harbour survey") for day in (3, 5, 4)
    ]
    archive = memory([*pages, page("two", "tp-9", timestamp="2025-11-01T08:00:00Z", topic="Harbour survey costs")])
    facets = Facets(topics={"Harbour survey": 3}, packets=4)
    (before,) = await landmark_periods(archive, "before the harbour survey", facets, RequestContext())
    (after,) = await landmark_periods(archive, "after the harbour survey", facets, RequestContext())
    assert before.until == datetime(2025, 11, 3, 8, tzinfo=UTC)
    assert after.since == datetime(2025, 11, 5, 8, 0, 1, tzinfo=UTC)


async def test_a_date_beside_a_landmark_bounds_the_same_span(samples: Any) -> None:
    question, facets = "List packets after October and before the MIT study", await samples.facets(RequestContext())
    landmarks = await landmark_periods(samples, question, facets, RequestContext())
    found = process_query(question, facets, datetime(2025, 12, 15, tzinfo=UTC), UTC, landmarks)
    assert (found.since, found.until) == (
        datetime(2025, 11, 1, tzinfo=UTC),
        datetime(2025, 11, 14, 9, 30, tzinfo=UTC),
    )
    assert (found.kind, found.keywords, found.landmarks) == ("listing", (), (STUDY,))


async def test_before_the_study_lists_what_is_older(ask: Any) -> None:
    result = await ask("What did we discuss before the MIT study?")
    assert result.kind == "listing"
    assert result.parameters["landmarks"] == [STUDY]
    assert len(result.source_packets) == 10
    assert all(source.timestamp < "2025-11-14T09:30:00Z" for source in result.sources)


async def test_a_topic_after_the_study_is_answered_from_after_it(ask: Any) -> None:
    result = await ask("What did Gemini say about templates after the MIT study?")
    assert result.source_packets == ["tp-20251119-190500"]
    assert result.parameters["date_text"] == "after the MIT study"
    assert result.parameters["keywords"] == ["gemini", "templates"]


async def test_words_that_name_the_study_otherwise_stay_what_is_looked_for(ask: Any) -> None:
    result = await ask("What did we say about templates in the MIT study?")
    assert STUDY in result.source_packets
    assert "since" not in result.parameters
    assert "study" in result.parameters["keywords"]
