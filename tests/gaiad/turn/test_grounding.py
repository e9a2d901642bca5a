"""An answer is held against its pages sentence by sentence: who does what to whom, negations, numbers, names."""

from datetime import UTC

import pytest

from gaiad.research.familiar import names_asked_about
from gaiad.turn.grounding import Grounding, about_the_pages, misread, says_enough
from prompts.packet import CognitionPacket, ContextItem, HistoryEntry
from tests.makers.cognition import packet

PAGE = (
    "Sigrun sold the boat Nordlys to Matthis, not to the club. The engine was not part of the sale: it stays in the "
    "shed at Harle until autumn. Matthis paid 8,200 euros."
)
CITED = " [Packet: tp-1]"
ASKED = "What happened to the boat Nordlys that Sigrun sold?"


def asked(question: str, *pages: str) -> CognitionPacket:
    context = [
        ContextItem(packet_id=f"tp-{n}", page_id=f"p{n}", text=text, timestamp="2026-03-22T12:00:00Z")
        for n, text in enumerate(pages, 1)
    ]
    return packet(context=context, history=[], user_prompt=question)


def grounded(answer: str, question: str = ASKED, *, strict: bool = True) -> tuple[str, list[str]]:
    one = Grounding(asked(question, PAGE), UTC, strict=strict)
    shown = "".join(one.feed(answer[at : at + 7]) for at in range(0, len(answer), 7)) + one.finish()
    return shown, one.cut


@pytest.mark.parametrize(
    "sentence",
    [
        "Matthis.",
        "In the shed.",
        "Sigrun sold the boat to Matthis.",
        "The engine stays in the shed at Harle until autumn.",
        "The boat was sold to Matthis by Sigrun.",
        "Matthis paid 8,200 euros.",
    ],
)
def test_what_a_page_says_is_shown_with_its_citation(sentence: str) -> None:
    assert grounded(sentence) == (sentence + CITED, [])


@pytest.mark.parametrize(
    "sentence",
    [
        "Matthis sold the boat to Sigrun.",
        "The boat was sold by Matthis to Sigrun.",
        "Sigrun sold the boat Nordlys to the club.",
        "The engine was part of the sale.",
        "Matthis paid 9,000 euros.",
        "The boat Nordlys was built in 1987.",
        "Erik bought the Nordlys.",
    ],
)
def test_what_no_page_says_is_cut_and_named(sentence: str) -> None:
    assert grounded(sentence) == ("", [sentence])
    assert grounded(f"Matthis paid 8,200 euros. {sentence}")[0].strip() == f"Matthis paid 8,200 euros.{CITED}"


def test_a_citation_that_does_not_carry_its_sentence_is_cut_with_it_also_where_the_question_is_another() -> None:
    assert grounded("Erik bought the Nordlys [Packet: tp-1].", strict=False) == ("", ["Erik bought the Nordlys."])
    assert grounded("Ferries are ships.", strict=False) == ("Ferries are ships.", [])


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("What does the boat Nordlys weigh?", "The boat Nordlys weighs 8,200 euros."),
        ("In which year was the boat Nordlys built?", "In 2026."),
    ],
)
def test_an_answer_to_what_the_page_does_not_speak_of_is_cut(question: str, answer: str) -> None:
    assert grounded(answer, question) == ("", [answer])


def test_a_bare_answer_is_carried_by_a_page_that_speaks_of_what_was_asked() -> None:
    assert grounded("Matthis.", "To whom did Sigrun sell the boat Nordlys?")[1] == []
    assert grounded("At Harle.", "Where does the engine of the Nordlys stay until autumn?")[1] == []


def test_not_knowing_is_no_claim() -> None:
    assert grounded("The notes do not say that.") == ("The notes do not say that.", [])
    assert grounded("I do not know. It was built in 1987.")[0].strip() == "I do not know."


@pytest.mark.parametrize(
    ("sentence", "wrong"),
    [
        ("A bed costs $27.", True),
        ("It cost 27 euros.", True),
        ("27 percent of it is left.", True),
        ("The passphrase is Bremen.", True),
        ("The new glass cost €64.", False),
        ("Benno booked 27 beds.", False),
        ("The safe is in Bremen.", False),
        ("The disk is Quartz.", False),
    ],
)
def test_a_number_of_things_is_no_price_and_a_place_is_no_name(sentence: str, wrong: bool) -> None:
    text = "Benno booked 27 beds. The safe is in Bremen, the disk is called Quartz. The new glass cost 64 euros."
    assert misread(sentence, text) is wrong


def test_what_the_person_said_in_the_session_carries_a_sentence_without_a_citation() -> None:
    said = [HistoryEntry(turn_id="t1", role="user", text="My name is Oskar.")]
    one = Grounding(
        packet(context=asked("x", PAGE).context, history=said, user_prompt="What is my name?"), UTC, strict=True
    )
    assert one.feed("Your name is Oskar.") + one.finish() == "Your name is Oskar."
    assert (one.carried, one.from_history, one.cut) == (1, True, [])


def test_a_sentence_of_the_persons_own_words_is_shown_while_it_is_written() -> None:
    said = [HistoryEntry(turn_id="t1", role="user", text="My name is Oskar.")]
    one = Grounding(packet(context=[], history=said, user_prompt="What is my name?"), UTC, strict=True)
    assert [one.feed(piece) for piece in ("Your name", " is", " Oskar", ".")] == ["Your", " name", " is", ""]
    assert (one.finish(), one.text, one.dangling) == (" Oskar.", "Your name is Oskar.", False)


def test_a_beginning_that_was_shown_and_is_cut_leaves_what_may_be_shown() -> None:
    said = [HistoryEntry(turn_id="t1", role="user", text="My name is Oskar.")]
    one = Grounding(packet(context=[], history=said, user_prompt="What is my name?"), UTC, strict=True)
    assert one.feed("Your name is Ben") == "Your name is"
    one.feed("no. Your name is Oskar.")
    one.finish()
    assert (one.text.strip(), one.dangling, one.cut) == ("Your name is Oskar.", True, ["Your name is Benno."])


def test_without_pages_text_passes_as_it_comes() -> None:
    one = Grounding(asked("Hello"), UTC, strict=False)
    assert one.feed("Hel") + one.feed("lo") + one.finish() == "Hello"


def test_where_memory_is_asked_for_without_a_page_nothing_is_made_up() -> None:
    said = [HistoryEntry(turn_id="t1", role="user", text="The dentist sees me on Friday.")]
    one = Grounding(packet(context=[], history=said, user_prompt="When is my dentist appointment?"), UTC, strict=True)
    shown = one.feed("It is on Monday. The dentist sees you on Friday.") + one.finish()
    assert shown.strip() == "The dentist sees you on Friday."
    assert (one.cited, one.cut) == ([], ["It is on Monday."])


def test_a_page_that_only_came_near_has_to_name_what_is_asked() -> None:
    page = "We decided to use RAG for the archive."
    for found, shown in ((True, "We decided to use RAG. [Packet: tp-1]"), (False, "")):
        one = Grounding(asked("What did we decide about the dentist?", page), UTC, strict=True, found=found)
        assert one.feed("We decided to use RAG.") + one.finish() == shown


def test_a_question_is_about_the_pages_when_they_tell_it_or_it_names_what_they_name() -> None:
    assert about_the_pages(asked("When was the Nordlys built?", PAGE), told=False)
    assert about_the_pages(asked("What does Sigrun's boat weigh?", PAGE), told=False)
    assert about_the_pages(asked("what did we say?", PAGE), told=True)
    assert about_the_pages(asked("Who is the boat's owner?", PAGE), told=False)
    assert not about_the_pages(asked("What's the tallest of the animals?", PAGE), told=False)
    assert not about_the_pages(asked("What is the capital of Spain?", PAGE), told=False)
    assert not about_the_pages(asked("When was the Nordlys built?"), told=True)


def test_what_gaiad_wrote_in_a_chat_carries_a_sentence_and_is_never_cited() -> None:
    own = ContextItem(packet_id="turn_1", page_id="p1", text=PAGE, timestamp="2026-03-22T12:00:00Z", own=True)
    one = Grounding(packet(context=[own], history=[], user_prompt=ASKED), UTC, strict=True)
    assert (
        one.feed("Sigrun sold the boat to Matthis. Erik bought it.") + one.finish()
        == "Sigrun sold the boat to Matthis."
    )
    assert (one.cited, one.carried, one.cut) == ([], 1, ["Erik bought it."])


@pytest.mark.parametrize(
    ("message", "enough"),
    [
        ("tell me slowly", False),
        ("break off", False),
        ("What is kombucha?", True),
        ("Tell me who sold the boat", True),
        ("Who made you?", False),
        ("Can you cheer me up?", False),
        ("Can you tell me who sold it?", True),
        ("Do you know who sold the boat?", True),
    ],
)
def test_a_request_of_one_word_is_about_no_page(message: str, enough: bool) -> None:
    assert says_enough(message) is enough


@pytest.mark.parametrize(
    ("sentence", "cut"),
    [
        ("It was built in 1987.", True),
        ("Call the shed at 0471 2201.", True),
        ("It was built by Erik Holm.", True),
        ("1. Boats are built of wood.", False),
        ("He paid 8,200 euros for it.", False),
        ("Boats are built of wood.", False),
    ],
)
def test_a_model_that_is_not_proven_invents_no_number_and_no_name_where_pages_speak_of_it(sentence, cut) -> None:
    question = "Can you tell me of the boat?"
    one = Grounding(asked(question, PAGE), UTC, strict=False, unproven=True)
    assert bool(one.feed(sentence) + one.finish()) is not cut
    assert (one.invented, one.cut) == ((sentence, [sentence]) if cut else ("", []))
    proven = Grounding(asked(question, PAGE), UTC, strict=False)
    assert (proven.feed(sentence) + proven.finish()).startswith(sentence)


def test_beside_pages_that_only_name_what_is_asked_about_a_name_may_be_common_knowledge() -> None:
    pages = asked("x", PAGE).context
    for answer, shown in (("Matthis has the number 0471 2201.", ""), ("Harle lies in Friesland.",) * 2):
        one = Grounding(asked("Where is Harle?"), UTC, strict=False, unproven=True, by_name=pages)
        assert one.feed(answer) + one.finish() == shown


def test_of_a_thing_that_pages_name_no_name_from_nowhere_is_told() -> None:
    pages = asked("x", PAGE).context
    for answer, shown in (("The boat's captain is John Silver.", ""), ("The boat's captain is Sigrun.",) * 2):
        one = Grounding(asked("Who is the boat's captain?"), UTC, strict=False, unproven=True, by_name=pages)
        assert one.feed(answer) + one.finish() == shown


def test_the_names_of_a_question_that_gives_no_number_itself() -> None:
    assert names_asked_about("What is the telephone number of Matthis?") == {"matthi"}
    assert names_asked_about("Matthis has 3 boats and buys 4, how many does Matthis have?") == set()
    assert names_asked_about("Write a story about Matthis.") == set()
    assert names_asked_about("How old am I?") == set()
    assert names_asked_about("What is the name of the choir's conductor?") == {"choir"}
    assert names_asked_about("Who is the president of the rowing club?") == {"row", "club"}
    assert names_asked_about("What is the middle of the night?") == set()
