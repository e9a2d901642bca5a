"""Questions to SearchParameters, Appendix A's among them."""

import unicodedata
from datetime import UTC, datetime

import pytest

from gaiad.base.clock import FrozenClock
from gaiad.research.query import SearchParameters, plain_question, process_query
from gaiad.wire.schemas import Facets, MetricRange

CLOCK = FrozenClock(datetime(2025, 12, 15, 12, tzinfo=UTC))
FACETS = Facets(
    models={"Gemini 2.5 Pro": 5, "Claude Sonnet 4.5": 6, "GPT-5": 3},
    topics={"Recursive Thought Committee: founding session": 1, "Greenhouse irrigation controller": 1},
    people={"Joseph": 9, "Mara Lind": 2},
    packets=18,
)


def read(text: str) -> SearchParameters:
    return process_query(text, FACETS, CLOCK.now(), CLOCK.zone)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("What is the Codex Law of Consent?", "factual"),
        ("How has the Transmission Packet schema evolved?", "evolution"),
        ("History of Transmission Packet schema", "evolution"),
        ("How did the schema change?", "evolution"),
        ("How did our view of RAG develop since October?", "evolution"),
        ("Trace the development of the Codex", "evolution"),
        ("What do RAG and GAM have in common?", "comparative"),
        ("What are the similarities between RAG and GAM?", "comparative"),
        ("All conversations with Claude", "listing"),
        ("Compare RAG vs GAM architecture", "comparative"),
        ("Difference between RAG and GAM", "comparative"),
        ("Compare how Gemini and Claude handled the RAG debate", "comparative"),
        ("What were the main criticisms of GAM architecture?", "conceptual"),
        ("What did we discuss about syntactic templates in November?", "conceptual"),
        ("Claude, what did we discuss about GAM architecture?", "conceptual"),
        ("Explain noun bias", "conceptual"),
        ("Show me all Gemini conversations from November", "listing"),
        ("Pull all conversations involving Gemini and the Recursive Thought Committee", "listing"),
        ("list packets from November 2025", "listing"),
        ("Which packets mention RTC?", "listing"),
        ("What happened in November?", "listing"),
        ('Which packet says "noun bias"?', "listing"),
        ("Find packets about enumeration protocol", "conceptual"),
        ("Find the packet where we analyzed GAM vs RAG architecture", "factual"),
        ("When did we first discuss the enumeration protocol?", "factual"),
        ("Where did Mara put the microphones?", "factual"),
    ],
)
def test_the_kind_of_answer_wanted(text: str, kind: str) -> None:
    assert read(text).kind == kind


def test_keywords_are_content_words_without_dates_and_asking() -> None:
    parameters = read("What did we discuss about syntactic templates in November?")
    assert parameters.keywords == ("syntactic", "templates")
    assert parameters.date_text == "in November"
    assert (parameters.since, parameters.until) == (
        datetime(2025, 11, 1, tzinfo=UTC),
        datetime(2025, 12, 1, tzinfo=UTC),
    )


@pytest.mark.parametrize(
    "text",
    ["Yesterday, what did we decide?", "Today: what did we decide?", "RTC: what is it?", "November: what happened?"],
)
def test_what_opens_a_question_is_no_addressee_unless_it_is_one(text: str) -> None:
    assert plain_question(text) == text
    assert read(text).dated or "rtc" in read(text).keywords


@pytest.mark.parametrize("name", ["Claude, ", "Hey Claude, ", "hi Ruth: ", "ok, ", "Okay gaia, ", "Hey "])
def test_whom_a_question_is_put_to_is_no_part_of_it(name: str) -> None:
    assert plain_question(f"{name}what did we decide?") == "what did we decide?"


def test_a_model_answers_to_its_family_name() -> None:
    parameters = read("Show me all gemini conversations from November")
    assert parameters.models == ("Gemini 2.5 Pro",)
    assert parameters.model_words == ("gemini",)


def test_a_model_nobody_recorded_is_noted() -> None:
    parameters = read("What did Mistral say?")
    assert parameters.models == ()
    assert parameters.model_words == ("mistral",)


def test_people_are_recognised_by_one_name() -> None:
    assert read("what did mara hear?").people == ("Mara Lind",)
    assert read("what did we hear?").people == ()


def test_quoted_phrases_are_kept_as_written() -> None:
    assert read('Where does "noun bias" come from?').phrases == ("noun bias",)


@pytest.mark.parametrize(
    ("text", "subjects"),
    [
        ("Compare RAG vs GAM architecture", ("RAG", "GAM")),
        ("Difference between RAG and GAM", ("RAG", "GAM")),
        ("Compare how Gemini and Claude handled the RAG debate", ("Gemini", "Claude")),
        ("How do Gemini and Claude differ on retrieval?", ("Gemini", "Claude")),
        ("Compare Gemini with Claude on latency", ("Gemini", "Claude")),
        ("What do RAG and GAM have in common?", ("RAG", "GAM")),
        ("Compare A and B for me please.", ("A", "B")),
        ("What is the difference between A and B?", ("A", "B")),
        ("Which did we prefer for the river, A vs B?", ("A", "B")),
        ("Compare plan A and plan B", ("plan A", "plan B")),
        ("Which is better, plan A vs plan B?", ("plan A", "plan B")),
        ("Compare A bridge and the Tunnel", ("bridge", "Tunnel")),
        ("Compare the and a", ()),
        ("Compare GAM and the GAM", ()),
    ],
)
def test_the_two_sides_of_a_comparison(text: str, subjects: tuple[str, str]) -> None:
    assert read(text).subjects == subjects


@pytest.mark.parametrize(
    ("text", "order"),
    [
        ("When did we first discuss the enumeration protocol?", "earliest"),
        ("What is the earliest packet about consent?", "earliest"),
        ("When was noun bias first mentioned?", "earliest"),
        ("When did we last talk about RAG?", "latest"),
        ("What is the latest version of the schema?", "latest"),
        ("What was the last packet about GAM?", "latest"),
        ("What was the first conversation about the schema?", "earliest"),
        ("What was her first job?", "relevance"),
        ("What happened last week?", "relevance"),
    ],
)
def test_first_and_last(text: str, order: str) -> None:
    assert read(text).order == order


def test_metric_ranges() -> None:
    assert read("Show me packets with critical thinking above 0.9").metrics == (
        MetricRange(name="critical_thinking", minimum=0.9),
    )
    assert read("list packets with sycophancy level below .3").metrics == (
        MetricRange(name="sycophancy_level", maximum=0.3),
    )


def test_a_listing_is_about_what_is_left_beside_its_metric_range() -> None:
    parameters = read("Which sessions about the schema have a critical thinking score of at least 90%?")
    assert parameters.keywords == ("schema",)
    assert parameters.metrics == (MetricRange(name="critical_thinking", minimum=0.9),)


@pytest.mark.parametrize(
    ("text", "kind", "keywords"),
    [
        ("What did we discuss with critical_thinking above 0.8?", "listing", ()),
        ("conversations with sycophancy below 0.3", "listing", ()),
        ("greenhouse packets with critical thinking over 0.8", "listing", ("greenhouse",)),
        ("What was said about the greenhouse with Critical Thinking over 0.8?", "conceptual", ("greenhouse",)),
        ("When was the kiln fired with critical thinking at least 0.8?", "factual", ("kiln", "fired")),
    ],
)
def test_a_metric_range_is_no_topic_of_any_question(text: str, kind: str, keywords: tuple[str, ...]) -> None:
    asked = read(text)
    assert (asked.kind, asked.keywords, len(asked.metrics), asked.names) == (kind, keywords, 1, ())


def test_words_that_ask_how_something_went_are_not_what_it_is_about() -> None:
    assert read("How did our view of RAG develop since October?").keywords == ("rag",)
    assert read("What was the last packet about GAM?").keywords == ("gam",)
    assert "develop" in read("Who will develop the film?").keywords


def test_behaviour_questions_look_at_the_behaviour_profile() -> None:
    assert read("What was the behavior profile in October?").focus == "behavioral_state"
    assert read("What was decided in October?").focus == "full_context"


@pytest.mark.parametrize("text", ["Tell me about that thing", "tell me more", "What did you say?", "Why?", "it"])
def test_a_question_that_names_nothing_is_ambiguous(text: str) -> None:
    assert read(text).ambiguous


@pytest.mark.parametrize(
    "text",
    ["RAG", "Quantum entanglement protocol", "What did Gemini say?", "What happened yesterday?", "Who is Marvin?"],
)
def test_a_question_that_names_something_is_not(text: str) -> None:
    assert not read(text).ambiguous


JUNE = Facets(people={"June": 4, "April Lind": 2}, packets=9)


@pytest.mark.parametrize(
    ("text", "people", "date_text"),
    [
        ("What did we plan for June's birthday?", ("June",), ""),
        ("Who sat in June's car?", ("June",), ""),
        ("What stood in the letter from April?", ("April Lind",), ""),
        ("What did we plan in June?", (), "in June"),
        ("What did June say in November?", ("June",), "in November"),
        ("What did we plan for June 2025?", (), "for June 2025"),
    ],
)
def test_a_month_that_is_somebodys_name_is_no_date(text: str, people: tuple[str, ...], date_text: str) -> None:
    found = process_query(text, JUNE, CLOCK.now(), CLOCK.zone)
    assert (found.people, found.date_text, found.dated) == (people, date_text, bool(date_text))


def test_where_nobody_is_called_so_it_is_a_month() -> None:
    assert read("What did we plan for June?").date_text == "for June"


def test_accents_as_characters_of_their_own_ask_the_same() -> None:
    question = "Claude, who ordered the Küvette for Müller's café in March?"
    assert read(unicodedata.normalize("NFD", question)) == read(question)
