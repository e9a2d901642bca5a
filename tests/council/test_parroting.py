"""A reply made of the prompt's own words is told from one that says something."""

from council.reply_rules import RepetitionLimits, before_loop, parrots, without_own_sentences

OWN = ("Answer the user now: reply to the next message directly, in plain text.", "You answer the user yourself.")
LIMITS = RepetitionLimits(longest_period=128, least_words=36, least_repeats=3)


def test_a_reply_of_the_directive_parrots() -> None:
    assert parrots("Sure. Answer the user now: reply to the next message directly, in plain text.", OWN, "Hello")
    assert parrots("You answer the user yourself.", OWN, "Hello")


def test_an_answer_with_a_few_common_words_does_not() -> None:
    said = "The ferry leaves at nine, and the next message from the harbour comes at noon with the new times for May."
    assert not parrots(said, OWN, "When does the ferry leave?")
    assert not parrots("Paris.", OWN, "What is the capital of France?")


def test_a_sentence_of_the_instructions_is_cut_out_of_an_answer() -> None:
    said = "You answer the user yourself. A week has seven days.\nIt begins on Monday, e.g. here."
    assert without_own_sentences(said, OWN, "Hello") == "A week has seven days.\nIt begins on Monday, e.g. here."
    assert without_own_sentences(said, OWN, OWN[1]) == said
    assert without_own_sentences("Sure: 1.5 l.\n\n- one\n- two", OWN, "Hello") == "Sure: 1.5 l.\n\n- one\n- two"


def test_what_the_person_said_may_be_said_again() -> None:
    assert not parrots("Reply to the next message directly, in plain text.", OWN, OWN[0])


def test_a_loop_is_cut_behind_its_first_round() -> None:
    start, round_ = "It begins well.", " one two three four five six seven eight nine ten eleven twelve"
    assert before_loop(start + round_ * 4, LIMITS) == start + round_
    assert before_loop(start + round_, LIMITS) == start + round_
    assert before_loop("No " * 40, LIMITS) == "No"
