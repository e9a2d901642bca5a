import time

import pytest

from gaiad.models.grammar.gbnf_check import check_gbnf
from gaiad.models.grammar.gbnf_writer import BadGrammar

BAD = {
    "empty": ("  \n# nothing", "no rule 'root'"),
    "nothing": ("", "the grammar is empty"),
    "no root": ('start ::= "a"', "no rule 'root'"),
    "missing rule": ('root ::= "a" other\n', "rule 'root' uses the rule 'other', which is missing"),
    "left recursion": ('root ::= sum\nsum ::= sum "+" "1" | "1"', r"rule 'sum' can begin with itself \(sum -> sum\)"),
    "left recursion in a circle": ('root ::= a\na ::= b\nb ::= c "x" | "y"\nc ::= a', r"a -> b -> c -> a"),
    "left recursion behind an empty rule": ('root ::= b root "x" | "y"\nb ::= c\nc ::= "" | "z"', "'root' can begin"),
    "a repeated nothing": ('root ::= ("a"?)*', "repeats something that may be empty"),
    "nested 200,000 deep": ("root ::= " + "(" * 200_000 + '"a"' + ")" * 200_000, "nested deeper than 100"),
    "200,000 question marks": ('root ::= "a"' + "?" * 200_000, "repeats a repetition"),
    "explosion": ('root ::= "a"{1,1000000}', r"\{1,1000000\} repeats more than 2000 times"),
    "explosion by rules": ("root ::= a{900}\na ::= b{900}\nb ::= [x]", "shortest reply .* more than 100000 characters"),
    "exponential beginnings": (
        "root ::= r0\n" + "".join(f'r{n} ::= r{n + 1} | r{n + 1} "a"\n' for n in range(40)) + 'r40 ::= "x"',
        "more than 1000000 ways to begin",
    ),
    "never ends": ('root ::= "a" more\nmore ::= "b" more', "'more' never comes to an end"),
    "too large": ('root ::= "' + "a" * 1_100_000 + '"', "at most 1000000"),
    "quote not closed": ('root ::= "a\n', "line 1: .*no part of a grammar"),
    "wrong escape": ('root ::= "\\q"', "escape .* is unknown"),
    "parenthesis": ('root ::= ("a"', "not closed"),
    "too many parentheses": ('root ::= "a")', "never opened"),
    "control tokens": ("root ::= <think>", "angle brackets"),
    "defined twice": ('root ::= "a"\nroot ::= "b"', "line 2: rule 'root' is defined twice"),
    "a stray word": ('root ::= "a"\nrest "b"', "line 2: a rule is expected"),
    "backward bounds": ('root ::= "a"{3,2}', "no range"),
    "half a character": ('root ::= "\ud800"', "half a character"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_grammar_is_named_in_words_at_once(name):
    source, words = BAD[name]
    begun = time.process_time()
    with pytest.raises(BadGrammar, match=words):
        check_gbnf(source)
    assert time.process_time() - begun < 5.0


def test_what_llama_cpp_documents_is_read():
    grammar = check_gbnf(
        """
        # moves of chess
root ::= "1. " move " " move "\\n" ([1-9] [0-9]? ". " move " " move "\\n")+
move ::= (pawn | nonpawn |
          castle) [+#]?
nonpawn ::= [NBKQR] [a-h]? [1-8]? "x"? [a-h] [1-8]  # Qa1
pawn   ::= ([a-h] "x")? [a-h] [1-8] ("=" [NBKQR])?
castle ::= "O-O" "-O"? | . | [^\\n\\]\\x41-] | "\\u00e9\\U0001F600" | "a"{2} "b"{1,} "c"{0,3}
        """.replace("        #", "#")
    )
    assert list(grammar.rules) == ["root", "move", "nonpawn", "pawn", "castle"]
    assert grammar.cost["castle"] == 1.0


def test_a_long_chain_of_rules_is_no_trouble():
    chain = "root ::= r0\n" + "".join(f'r{n} ::= "a" r{n + 1} | ""\n' for n in range(5000)) + 'r5000 ::= "x"'
    assert check_gbnf(chain).cost["r0"] == 0.0
