"""What questions ask for and pages hold, by their words alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaiad.archive.finding.query_terms import QuestionFeatures, bare_words, held, wanted


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("When did Vera move?", QuestionFeatures(when=True, number=False, names=False)),
        ("  when was that", QuestionFeatures(when=True, number=False, names=False)),
        ("How long has she lived there?", QuestionFeatures(when=True, number=True, names=False)),
        ("How many boats does Otto own?", QuestionFeatures(when=False, number=True, names=False, several=True)),
        ("What has Otto built?", QuestionFeatures(when=False, number=False, names=False, several=True)),
        ("What did Otto build?", QuestionFeatures(when=False, number=False, names=False)),
        ("Who repaired the roof?", QuestionFeatures(when=False, number=False, names=True)),
        ("What books did he read?", QuestionFeatures(when=False, number=False, names=True)),
        ("What happened when it hailed?", QuestionFeatures(when=False, number=False, names=False)),
        ("boats", QuestionFeatures(when=False, number=False, names=False)),
    ],
)
def test_a_question_asks_for(question, expected):
    assert wanted(question) == expected


@pytest.mark.parametrize("query", ["oak door", "notes on the harbour", "Gemini in November", "", "héron"])
def test_a_query_of_bare_words_only_names_things(query):
    assert bare_words(query)


@pytest.mark.parametrize(
    "query", ["oak door?", "what oak door", "the door was of oak", "my oak door", "how oak doors swell"]
)
def test_questions_and_sentences_are_no_bare_words(query):
    assert not bare_words(query)


def test_a_page_holds_times_numbers_names_and_what_is_said_of_oneself():
    one = held("Vera: I moved to Lisbon last week, it took three days.")
    assert (one.when, one.number, one.own) == (1.0, 1.0, 1.0)
    assert one.names == {"Lisbon"}
    assert (one.named(()), one.named({"Lisbon"})) == (0.5, 0.0)
    other = held('Otto: Nice. She told him about "The Hive" yesterday.')
    assert (other.when, other.number, other.own) == (0.5, 0.0, 0.0)
    assert other.names == {'"The Hive"'}


@given(st.text())
def test_any_text_is_read(text):
    wanted(text)
    found = held(text)
    assert 0 <= found.when <= 1
    assert 0 <= found.named(()) <= 1
