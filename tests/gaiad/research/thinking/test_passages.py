"""What a model may cite: spans of pages, labelled through, and the pages that are shown to it."""

from typing import Any

import msgspec

from gaiad.research.evidence import Evidence
from gaiad.research.thinking.support import PER_PAGE, context_pages, passages_of, shown_with_labels


def evidence(page: Any, *neighbours: Any) -> Evidence:
    return Evidence(
        page=page,
        credits={},
        lexical=0.0,
        cosine=None,
        fused=0.0,
        relevance=0.0,
        standing=0.0,
        neighbours=tuple(neighbours),
    )


def test_every_passage_is_a_span_of_its_page_and_labels_count_through(page: Any) -> None:
    pages = [page("One wire. Two wires.", packet_id="tp-1"), page("Three wires.", packet_id="tp-2")]
    passages = passages_of(pages)
    assert [[one.label for one in of_page] for of_page in passages] == [["s1", "s2"], ["s3"]]
    assert [one.text for of_page in passages for one in of_page] == ["One wire.", "Two wires.", "Three wires."]


def test_a_short_turn_is_one_passage_without_its_speaker(page: Any) -> None:
    ((turn,),) = passages_of([page("Greta: I went there. It was cold.", speaker="Greta")])
    assert turn.text == "I went there. It was cold."
    shown = "".join(part.text for part in shown_with_labels([turn]))
    assert "Greta:\n(s1) I went there. It was cold." in shown


def test_a_page_of_very_many_sentences_gives_the_first_ones(page: Any) -> None:
    (passages,) = passages_of([page("A wire is here. " * 60)])
    assert len(passages) == PER_PAGE


def test_the_answer_to_a_turn_that_asks_is_shown_behind_it(page: Any) -> None:
    asked = page("Where is it?", packet_id="tp-1", sequence=4, speaker="Mara")
    answer = page("In Lisbon.", packet_id="tp-1", sequence=5, speaker="Greta")
    other = page("Earlier.", packet_id="tp-1", sequence=3, speaker="Greta")
    assert context_pages([evidence(asked, other, answer)], [], 8) == [asked, answer]
    stated = msgspec.structs.replace(asked, text="It is here.")
    assert context_pages([evidence(stated, other, answer)], [], 8) == [stated]


def test_what_was_searched_for_besides_has_a_third_of_the_places(page: Any) -> None:
    selected = [evidence(page("A.", packet_id=f"tp-{number}")) for number in range(8)]
    more = [evidence(page("B.", packet_id=f"more-{number}")) for number in range(8)]
    shown = [one.packet_id for one in context_pages(selected, more, 6)]
    assert shown == ["tp-0", "tp-1", "tp-2", "tp-3", "more-0", "more-1"]
    assert [one.packet_id for one in context_pages(selected[:1], more, 3)] == ["tp-0", "more-0", "more-1"]


def test_the_next_best_pages_take_the_places_that_are_left(page: Any) -> None:
    found = [evidence(page("A.", packet_id=f"tp-{number}")) for number in range(6)]
    more = [evidence(page("B.", packet_id="more"))]
    assert [one.packet_id for one in context_pages(found[:1], more, 4, found)] == ["tp-0", "more", "tp-1", "tp-2"]
