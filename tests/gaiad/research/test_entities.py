import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaiad.research.entities import TopicsByWord, recognise
from gaiad.research.words import content_words
from gaiad.wire.schemas import Facets

_WORDS = ("harbour", "survey", "oak", "door", "the", "Oak", "garden", "plan")
_TOPICS = st.lists(st.lists(st.sampled_from(_WORDS), min_size=1, max_size=4).map(" ".join), max_size=12)


@given(st.lists(st.tuples(_TOPICS, st.sets(st.sampled_from(_WORDS), max_size=5)), min_size=1, max_size=5))
def test_a_question_names_the_topics_of_two_words_or_more_that_it_holds_whole(asked_of: list) -> None:
    index = TopicsByWord()
    for topics, said in asked_of:
        asked = set(content_words(" ".join(sorted(said))))
        expected = {
            topic for topic in topics if len(set(content_words(topic))) >= 2 and set(content_words(topic)) <= asked
        }
        assert index.named(asked, dict.fromkeys(topics, 1)) == expected


def test_topics_of_another_archive_are_not_told_of() -> None:
    index = TopicsByWord()
    asked = {"harbour", "survey", "oak", "door"}
    assert index.named(asked, {"Harbour survey": 3}) == {"Harbour survey"}
    assert index.named(asked, {"Oak door": 1}) == {"Oak door"}
    assert index.named(asked, {}) == set()


def test_what_is_known_of_archives_that_are_gone_is_forgotten(monkeypatch) -> None:
    monkeypatch.setattr("gaiad.research.entities._FORGOTTEN_AT", 2)
    index = TopicsByWord()
    for number in range(20):
        assert index.named({"harbour", f"n{number}"}, {f"Harbour n{number}": 1}) == {f"Harbour n{number}"}
    assert len(index._known) < 10


@pytest.mark.parametrize(
    ("question", "called"),
    [
        ("Which haiku is about snow?", ()),
        ("Show me all haiku conversations", ()),
        ("Please write a sonnet and name its opus number", ()),
        ("Who read the haiku 3 times?", ()),
        ("What did Opus 4.5 say of the bridge?", ("Claude 3 Opus",)),
        ("What did the 3.0 Opus say of the bridge?", ("Claude 3 Opus",)),
        ("What did Claude's Haiku say?", ("Claude 3 Opus",)),
        ("What did Claude say in the haiku?", ("Claude 3 Opus",)),
    ],
)
def test_a_poem_is_no_model_and_beside_its_family_or_a_version_it_is_one(question: str, called: tuple) -> None:
    facets = Facets(packets=2, pages=2, models={"Claude 3 Opus": 1, "Gemini 2.5 Pro": 1})
    found = recognise(question, facets, ())
    assert {name for names in found.models.values() for name in names} == set(called)
    assert found.unknown_models == ()
    assert recognise("What did Sonnet 3.5 say?", facets, ()).unknown_models == ("sonnet",)
