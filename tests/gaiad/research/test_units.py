"""What counts as one unit of an answer, and where it stands."""

from collections.abc import Sequence
from typing import Any

import pytest

from gaiad.base.clock import SystemClock
from gaiad.base.config import load_config
from gaiad.base.ports import RequestContext
from gaiad.base.text import words_of
from gaiad.research.loop import Researcher
from gaiad.research.scoring import counted_in, deed_of, read_question, wants_of
from gaiad.research.unit_index import PacketUnits, ranked
from gaiad.research.units import units_of
from gaiad.wire.schemas import ResearchRequest
from tests.gaiad.research.conftest import MemoryArchive, make_page


def kinds(page: Any, text: str, **more: Any) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for unit in units_of([page(text, **more)]):
        found.setdefault(unit.kind, []).append(unit.text)
    return found


def test_a_field_name_is_split_into_words() -> None:
    assert words_of("Routing/TimeToLive") == "routing time to live"
    assert words_of("verification_status") == "verification status"


def test_a_field_is_one_unit_under_its_path(page: Any) -> None:
    (unit, *_) = units_of([page("Routing/TimeToLive: 86400\nRouting/Route: a to b", path="Header")])
    assert (unit.kind, unit.path, unit.label) == ("field", "header routing", "time to live")
    assert unit.pieces[0].text == "Routing/TimeToLive: 86400"


def test_fields_of_one_name_are_a_list_with_its_size(page: Any) -> None:
    units = units_of([page("tools: saw\ntools: plane\ntools: file\nowner: Mara", path="shop")])
    (whole,) = [unit for unit in units if unit.kind == "list"]
    assert (whole.size, whole.text) == (3, "tools: saw tools: plane tools: file")


def test_repeated_records_are_told_apart_by_their_first_name(page: Any) -> None:
    text = "crew/name: Mara\ncrew/role: smith\ncrew/name: Joost\ncrew/role: miller"
    assert kinds(page, text, path="boat")["record"] == [
        "crew/name: Mara crew/role: smith",
        "crew/name: Joost crew/role: miller",
    ]


def test_a_list_is_whole_with_the_line_that_announces_it(page: Any) -> None:
    text = "The steps are:\n1. Cut the board\n2. Plane it\n\nThen rest."
    assert kinds(page, text, section="content")["list"] == ["The steps are: 1. Cut the board 2. Plane it"]


def test_a_table_row_has_its_header_in_its_path(page: Any) -> None:
    text = "| wood | price |\n|---|---|\n| oak | 12 |\n| ash | 9 |"
    rows = [unit for unit in units_of([page(text, section="content")]) if unit.kind == "row"]
    assert [row.text for row in rows] == ["| oak | 12 |", "| ash | 9 |"]
    assert all(row.path.endswith("wood price") for row in rows)


def test_a_line_without_a_letter_or_digit_is_no_unit(page: Any) -> None:
    text = "```\ntotal = 3\n```\n\n***\n\nThat is all."
    assert all(any(map(str.isalnum, unit)) for units in kinds(page, text, section="content").values() for unit in units)


def test_a_section_has_its_heading_and_ends_at_the_next(page: Any) -> None:
    text = "# Boat\n\n## Hull\nOak planks.\nTarred twice.\n\n## Mast\nSpruce."
    assert "## Hull Oak planks. Tarred twice." in kinds(page, text, section="content")["section"]


def test_a_list_over_two_pages_is_one_unit_with_a_piece_on_each(page: Any) -> None:
    pages = [
        page("Tools:\n- saw\n- plane", section="content", sequence=0, start=0, end=21),
        page("- plane\n- file", section="content", sequence=1, start=14, end=28),
    ]
    (whole,) = [unit for unit in units_of(pages) if unit.kind == "list"]
    assert whole.text == "Tools: - saw - plane - file"
    assert [piece.page.sequence for piece in whole.pieces] == [0, 1]
    assert all(piece.page.text[piece.start : piece.end] == piece.text for piece in whole.pieces)


def test_a_short_turn_is_one_unit_without_its_speaker(page: Any) -> None:
    units = units_of([page("Mara: We sail on Monday.", section="transcript", speaker="Mara")])
    assert [(unit.kind, unit.text) for unit in units] == [("turn", "We sail on Monday.")]


def test_code_belongs_to_the_step_and_to_the_line_that_announces_it(page: Any) -> None:
    text = "1. Build it:\n\n   ```sh\n   make hull\n   ```\n2. Launch\n\nAt night run this:\n\n```\ntar -x sail\n```"
    found = kinds(page, text, section="content")
    assert found["item"] == ["1. Build it: ```sh make hull ```", "2. Launch"]
    assert "At night run this: ``` tar -x sail ```" in found["section"]


def test_facts_filed_under_one_category_are_a_list_of_that_name(page: Any) -> None:
    text = "- [crew] Mara\n- [crew] Joost\n- [built] 1931\n- [x] Tarred twice\n- [hull](hull.md) of oak"
    units = units_of([page(text, section="content")])
    assert [unit.text for unit in units if unit.label == "crew" and unit.kind == "list"] == [
        "- [crew] Mara - [crew] Joost"
    ]
    assert {unit.label for unit in units if unit.kind == "field"} == {"crew", "built"}


def test_front_matter_is_fields_with_what_is_nested_below_them(page: Any) -> None:
    text = "title: Boat\nschema:\n  crew: string\n  built?: date\ntags:\n- oak\n- river"
    assert kinds(page, text, path="front matter") == {
        "field": ["title: Boat", "schema: crew: string built?: date", "tags: - oak - river"]
    }


@pytest.mark.parametrize(("asked", "front"), [("Which tags has the Rietvink?", True), ("What is the Rietvink?", False)])
def test_front_matter_comes_after_the_body_unless_its_field_is_named(page: Any, asked: str, front: bool) -> None:
    pages = [
        page("title: Rietvink\ntags: [Rietvink, barge]", path="front matter", section="content"),
        page("The Rietvink carried peat.", path="Rietvink", section="content", sequence=1, page_id="body"),
    ]
    question = read_question(asked, {}, {})
    best = ranked([PacketUnits(pages).hold(question, {}, 1.0)], 1)[0]
    assert (best.unit.page.path == "front matter") == front


def test_a_list_is_counted_where_it_is_named_for_what_is_asked(page: Any) -> None:
    text = "The risks are:\n1. Wind\n2. Rust\n3. Late steel"
    (whole,) = [unit for unit in units_of([page(text, section="content")]) if unit.kind == "list"]
    assert counted_in(read_question("How many risks has the crane?", {}, {}), whole) == 3
    assert counted_in(read_question("How many welders has the crane?", {}, {}), whole) == 0


@pytest.mark.parametrize(
    "asked", ["What is the phone number of Mara?", "What is her monthly salary?", "What does the crane cost?"]
)
def test_a_property_that_is_a_number_wants_one(asked: str) -> None:
    assert wants_of(asked) == "number"


@pytest.mark.parametrize("asked", ["What kind of bread did Mara share with the crew?", "What is her number one rule?"])
def test_to_share_something_is_not_to_ask_for_a_number(asked: str) -> None:
    assert wants_of(asked) != "number"


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("Who attended the launch?", "attendees: Mara, Otto"),
        ("Who laid the keel?", "Renato will lay the keel."),
    ],
)
def test_a_word_is_found_in_another_form(page: Any, asked: str, told: str) -> None:
    question = read_question(asked, {}, {})
    (best,) = ranked([PacketUnits([page(told)]).hold(question, {}, 1.0)], 1)
    assert best.credits[0] == 1.0


def test_a_field_of_another_name_with_the_same_beginning_is_not_named(page: Any) -> None:
    question = read_question("How was the port reached?", {}, {})
    (best,) = ranked([PacketUnits([page("portfolio: oak")]).hold(question, {}, 1.0)], 1)
    assert not any(best.credits)


@pytest.mark.parametrize(
    ("asked", "deed"), [("Who built the barge?", 0), ("Who is the skipper?", None), ("What did Otto build?", None)]
)
def test_a_question_for_who_did_it_hangs_on_the_deed(asked: str, deed: int | None) -> None:
    assert deed_of(read_question(asked, {}, {})) == deed


@pytest.mark.parametrize(
    ("text", "head"),
    [
        ("How many pine boards had a knot?", {"pine", "boards"}),
        ("How many boards are there?", {"boards"}),
        ("How many sheep has Ada?", {"sheep"}),
        ("Which saw cuts oak?", {"saw"}),
    ],
)
def test_what_is_counted_or_chosen_is_named_whole(text: str, head: set[str]) -> None:
    asked = read_question(text, {}, {})
    assert {asked.terms[at].word for at in asked.head} == head


class NearInMeaning(MemoryArchive):
    """Of the texts compared, those with `word` are near to any question, the others far."""

    word = ""

    async def similarity(self, query: str, texts: Sequence[str], call: RequestContext) -> list[float]:
        return [0.9 if self.word in text else 0.1 for text in texts]


@pytest.mark.parametrize("near", ["lamp", "step"])
async def test_of_units_with_the_same_words_the_one_near_in_meaning_leads(near: str) -> None:
    pages = [make_page(f"The porch has a brass {thing}.", f"tp-{thing}") for thing in ("lamp", "step")]
    archive = NearInMeaning(pages)
    archive.word = near
    researcher = Researcher(archive, SystemClock("UTC"), load_config((), {}).research)
    result = await researcher.research(ResearchRequest(query="What of the porch is brass?"), RequestContext())
    assert result.citations[0].quote == f"The porch has a brass {near}."
