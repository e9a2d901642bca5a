import pytest

from gaiad.generation import Block, Contract
from gaiad.models.grammar.grammar_source import to_gbnf
from tests.makers.in_child import in_child
from tests.makers.poor_vocabulary import write_poor_llama

PROBLEMS = """
import time
from gaiad.models.grammar.grammar_walk import prepare, problem
prepare(vocabulary)
begun = time.process_time()
result = [problem(vocabulary, gbnf) for gbnf in given]
result.append(time.process_time() - begun)
"""


@pytest.fixture(scope="module")
def poor_llama(tmp_path_factory):
    """It has no byte of é, none for Q, and 'zebra' as a word but no z."""
    missing = "éQz".encode()
    return write_poor_llama(tmp_path_factory.mktemp("models") / "poor.gguf", missing, words=("zebra",))


def problems(model, *sources):
    *found, seconds = in_child(model, PROBLEMS, sources)
    assert seconds < 5.0
    return found


def test_a_grammar_that_can_be_written_has_no_problem(tiny_llama):
    schema = {"properties": {"a": {"enum": ["é", "x"]}, "b": {"type": "array", "items": {"type": "number"}}}}
    contract = Contract(blocks=[Block(marker="PLAN"), Block(marker="RESPONSE", schema=schema)])
    recursive = 'root ::= item*\nitem ::= "(" item* ")" | [a-z]+ | "é"{2,4}'
    assert problems(tiny_llama, to_gbnf("", schema, None), to_gbnf("", None, contract), recursive) == ["", "", ""]


def test_a_literal_the_vocabulary_cannot_write_is_found_with_what_came_before(poor_llama):
    early, late, one_of_two = problems(
        poor_llama,
        'root ::= "café"',
        'root ::= [a-c]+ " and " ("then" | "qui" rest)\nrest ::= " Q"',
        'root ::= "Q" | "R"',
    )
    assert "cannot write the 'é' that must follow 'caf'" in early
    assert "'Q' that must follow" in late
    assert "and qui " in late
    assert one_of_two == "", "the other way is open at the same place"


def test_a_word_may_have_what_no_single_byte_has(poor_llama):
    whole, letters, choice = problems(
        poor_llama, 'root ::= "a zebra"', 'root ::= "a zoo"', 'root ::= "ze" ("bra" | "ro")'
    )
    assert whole == ""
    assert "'z' that must follow 'a '" in letters
    assert choice == ""


def test_a_vocabulary_that_cannot_end_a_reply_is_named(tmp_path):
    model = write_poor_llama(tmp_path / "endless.gguf", b"")
    script = PROBLEMS.replace(
        "prepare(vocabulary)", "library.llama_vocab_is_eog = lambda *_: False\nprepare(vocabulary)"
    )
    assert "no token that ends a reply" in in_child(model, script, ['root ::= "a"'])[0]


def test_what_the_parser_refuses_comes_in_its_own_words(tiny_llama):
    (found,) = problems(tiny_llama, 'root ::= ("a" "b"{0,100}){0,100}')
    assert found.startswith("llama.cpp does not parse the grammar: number of rules")


def test_bad_grammars_are_refused_here_too(tiny_llama):
    left, missing = problems(tiny_llama, 'root ::= root "a" | "b"', "root ::= a")
    assert "left recursion" in left
    assert "'a', which is missing" in missing


def test_a_grammar_with_ever_more_ways_at_once_is_refused(tiny_llama):
    doubling = 'root ::= s\ns ::= [ab] s "c" | [ab] s "d" | [ab]{30}'
    (found,) = problems(tiny_llama, doubling)
    assert "too many ways at once; make it less ambiguous" in found
