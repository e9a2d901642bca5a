"""Contradictions and refinements between sentences, held against labelled pairs; the rules one by one."""

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaiad.research.assertions import read_assertion
from gaiad.research.contradictions import Relation, compare

PAIRS = tomllib.loads((Path(__file__).parent / "disagreeing_pairs.toml").read_text())
FOUND = ("contradiction", "refinement")


def judged(first: str, second: str, said: str = "", also_said: str = "") -> Relation | None:
    return compare(read_assertion(first, said), read_assertion(second, also_said))


def outcome(row: list[str]) -> str:
    relation = judged(*row[2:])
    return relation.kind if relation and relation.kind in FOUND else "none"


def score(rows: list[list[str]], kind: str) -> tuple[float, float]:
    """Precision and recall of one kind."""
    said = [(row[0], outcome(row)) for row in rows]
    right = sum(label == found == kind for label, found in said)
    return right / max(1, sum(found == kind for _, found in said)), right / sum(label == kind for label, _ in said)


FLOOR = 0.9


@pytest.mark.parametrize("part", ["shaped", "held_out"])
@pytest.mark.parametrize("kind", FOUND)
def test_precision_and_recall_on_fifty_labelled_pairs(part: str, kind: str) -> None:
    rows = PAIRS[part]
    assert len(rows) == 50
    precision, recall = score(rows, kind)
    wrong = [
        (row[0], outcome(row), *row[2:]) for row in rows if kind in (row[0], outcome(row)) and outcome(row) != row[0]
    ]
    print(f"{part}: {kind} precision {precision:.2f} recall {recall:.2f}; wrong: {wrong}")
    assert precision >= FLOOR, wrong
    assert recall >= FLOOR, wrong


@pytest.mark.parametrize(("kind", "least"), [("contradiction", 0.8), ("refinement", 0.7)])
def test_in_other_words_they_are_found_less_often_and_no_less_surely(kind: str, least: float) -> None:
    precision, recall = score(PAIRS["paraphrased"], kind)
    print(f"paraphrased: {kind} precision {precision:.2f} recall {recall:.2f}")
    assert precision >= FLOOR
    assert recall >= least


@pytest.mark.parametrize("row", [row for row in PAIRS["shaped"] if row[0] in FOUND], ids=lambda row: row[2][:40])
def test_what_they_disagree_about_is_named(row: list[str]) -> None:
    relation = judged(*row[2:])
    assert relation is not None
    assert relation.matter == row[1]
    assert relation.first
    assert relation.second


def test_the_order_of_the_two_makes_no_difference() -> None:
    for row in (*PAIRS["shaped"], *PAIRS["held_out"]):
        there, back = judged(*row[2:]), judged(row[3], row[2], *row[:3:-1])
        assert (there and (there.kind, there.matter, there.severity)) == (
            back and (back.kind, back.matter, back.severity)
        )


def test_the_larger_difference_is_the_graver_one() -> None:
    near = judged("The tank holds 400 litres.", "The tank holds 420 litres.")
    far = judged("The tank holds 400 litres.", "The tank holds 800 litres.")
    assert near is not None
    assert far is not None
    assert (near.severity, far.severity) == ("minor", "major")


def test_the_same_said_again_agrees() -> None:
    relation = judged("The tank holds 400 litres.", "As measured, the tank holds 400 litres.")
    assert relation is not None
    assert (relation.kind, relation.matter) == ("agreement", "number")


def test_a_change_is_announced_by_the_later_packet_only() -> None:
    old, new = "The rent is 800 euros.", "The rent was raised to 950 euros."
    announced = judged(old, new, "2024-01-01T00:00:00Z", "2025-01-01T00:00:00Z")
    before = judged(old, new, "2025-01-01T00:00:00Z", "2024-01-01T00:00:00Z")
    assert announced is not None
    assert before is not None
    assert (announced.kind, before.kind) == ("refinement", "contradiction")


def test_another_day_and_another_number_are_two_events() -> None:
    assert judged("On 3 May 12 people came to the reading.", "On 9 May 18 people came to the reading.") is None


def test_who_says_i_is_part_of_what_is_said() -> None:
    sentences = "I was born in 1979 in Porto.", "I was born in 1981 in Porto."
    same = [read_assertion(text, speaker="Mara") for text in sentences]
    other = read_assertion(sentences[1], speaker="Jonas")
    relation = compare(*same)
    assert relation is not None
    assert relation.kind == "contradiction"
    assert compare(same[0], other) is None


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Here are my books. [a picture: two shelves]", "Here are my books. [a picture: three shelves]"),
        ("I won my first tournament on Friday.", "I won my fourth tournament on Sunday."),
        ("There is a desk with a shelf full of books.", "There is a desk with a shelf of books."),
        ("I won't quit - your words keep me going.", "Your words keep me going."),
        ("I met new people who weren't from my circle.", "It was so cool, plus I met some new people."),
        ("There are lots of things that can bring you joy without pets.", "Pets bring joy."),
        ("We got lost in a world of old stories.", "We live in a world of old stories."),
    ],
)
def test_small_talk_is_no_contradiction(first: str, second: str) -> None:
    relation = judged(first, second)
    assert relation is None or relation.kind == "agreement"


def test_a_greeting_agrees_with_nothing() -> None:
    assert judged("Hey Tim!", "Hey Tim, been a while!") is None
    assert judged("You should read it!", "I read it a while back and it changed my goals.") is None


PLANNED = (
    "The pilot of the Researcher starts on January 12, 2026 and runs for four weeks with fifty questions that neither "
    "model has seen."
)
MOVED = (
    "The pilot of the Researcher starts on January 19, 2026, because the questions will not be written before the "
    "middle of the month."
)


@pytest.mark.parametrize(
    ("first", "second", "matter"),
    [
        (PLANNED, MOVED, "date"),
        ("The workshop is on Friday, 5 December.", "The workshop is on Monday, 8 December.", "date"),
        ("The talk starts at 14:00.", "The talk starts at 16:30.", "time"),
        ("The office opens at 9 am.", "The office opens at 10:30 am.", "time"),
        ("Otto lives in Graz.", "Otto lives in Wien.", "value"),
        ("For the parser we chose Rust.", "For the parser we chose Go.", "value"),
        ("The van costs 900 euros, which is cheap.", "The van costs 1,400 euros and needs new tyres.", "number"),
        ("The court must be locked.", "The court must not be locked.", "negation"),
    ],
)
def test_a_clause_with_another_date_time_value_or_number_contradicts(first: str, second: str, matter: str) -> None:
    relation = judged(first, second, "2025-12-01T09:00:00Z", "2025-12-20T09:00:00Z")
    assert relation is not None
    assert (relation.kind, relation.matter) == ("contradiction", matter)


LAW = "The Codex Law of Consent: Confirm before changing intent."
FIVE_LAWS = (
    "The Codex was written down: five laws for people and models who work together, the Law of Consent first among "
    "them."
)
BREACH = (
    "This is what the Codex Law of Consent is for: the model changed the intent and did not confirm before changing it."
)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (LAW, BREACH),
        (FIVE_LAWS, BREACH),
        ("The window must be closed at night.", "The window is not closed at night."),
        ("The relay clicks.", "The relay did not click."),
        ("I ran 5 km on Monday.", "I ran 8 km on Thursday."),
        ("The meeting on March 3 was about the budget.", "The meeting on March 10 was about the budget."),
        ("If the valve is closed, the pump does not start.", "The pump starts when the valve is open."),
        ("The talk starts at 2:30 pm.", "The talk starts at 14:30."),
        ("We chose Rust for the parser.", "We chose Go for the server."),
        ("Otto lives in Graz, a small town.", "Ines lives in Wien."),
        ("For the greenhouse we chose tomatoes.", "For the greenhouse we chose figs."),
    ],
)
def test_rules_conditions_and_other_events_are_no_contradiction(first: str, second: str) -> None:
    relation = judged(first, second, "2025-12-01T09:00:00Z", "2025-12-20T09:00:00Z")
    assert relation is None or (relation.kind, relation.matter) == ("agreement", "time")


STOVE = "We decided on November 3 to heat the greenhouse with a wood stove."


@pytest.mark.parametrize(
    "later",
    [
        "We decided to heat the greenhouse with a heat pump instead of the wood stove.",
        "We changed our mind: a heat pump for the greenhouse.",
        "We gave up on the wood stove we decided to heat the greenhouse with.",
    ],
)
def test_what_gives_up_an_earlier_decision_takes_its_place_and_never_agrees(later: str) -> None:
    there = judged(STOVE, later, "2025-11-03T09:00:00Z", "2025-11-18T09:00:00Z")
    back = judged(later, STOVE, "2025-11-18T09:00:00Z", "2025-11-03T09:00:00Z")
    assert there is not None
    assert back is not None
    assert (there.kind, there.replaces, back.kind, back.replaces) == ("refinement", "second", "refinement", "first")


def test_what_was_given_up_and_is_said_again_later_contradicts() -> None:
    pump = "We decided to heat the greenhouse with a heat pump instead of the wood stove."
    relation = judged(pump, STOVE, "2025-11-18T09:00:00Z", "2025-12-01T09:00:00Z")
    assert relation is not None
    assert relation.kind == "contradiction"


def test_what_it_is_stays_open() -> None:
    assert judged("It opened in 2015.", "It opened in 2019.") is None


@given(st.text(max_size=200), st.text(max_size=200))
def test_any_text_can_be_read(first: str, second: str) -> None:
    relation = judged(first, second, "2025-01-01T00:00:00Z", "2025-02-01T00:00:00Z")
    assert relation is None or relation.kind in (*FOUND, "agreement")
    alone = judged(first, first)
    assert alone is None or alone.kind == "agreement"


PIECES = st.sampled_from(
    [
        *"0123456789",
        ".",
        ",",
        "%",
        "$",
        " ",
        " to ",
        "-",
        "about ",
        " and ",
        "between ",
        "million",
        "days",
        "May ",
        "2024",
        "not ",
        "#",
    ]
)


@given(st.lists(PIECES, max_size=30).map("".join))
def test_numbers_and_dates_in_any_order_can_be_read(text: str) -> None:
    read = read_assertion(text, "2025-01-01T00:00:00Z")
    assert all(one.low <= one.high for one in read.quantities)
    alone = compare(read, read)
    assert alone is None or alone.kind == "agreement"
