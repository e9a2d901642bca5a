from hypothesis import given
from hypothesis import strategies as st

from gaiad.research.entities import TopicsByWord
from gaiad.research.words import content_words

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
