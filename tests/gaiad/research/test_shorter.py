"""What does not fit into a briefing is left out in whole sentences, each with its citation."""

from gaiad.research.briefing import answers, excerpts


def test_an_answer_ends_behind_a_citation() -> None:
    first = 'Vera: "The pilot is planned for April 2, 2027." [Packet: tp-1]'
    second = "It has four weeks. [Packet: tp-2] [Packet: tp-3]"
    assert answers(f"{first}\n{second} Nobody paid.") == [first, f"{first}\n{second}"]
    assert answers("It is St. Mary's. Nobody paid.") == ["It is St. Mary's.", "It is St. Mary's. Nobody paid."]
    assert answers("") == []


def test_an_excerpt_ends_behind_a_sentence_or_shows_that_it_goes_on() -> None:
    assert excerpts("It starts on April 2, 2027. All come.") == [
        "It …",
        "It starts …",
        "It starts on …",
        "It starts on April …",
        "It starts on April 2, …",
        "It starts on April 2, 2027.",
        "It starts on April 2, 2027. All come.",
    ]
    assert excerpts("") == []
