"""The mask is compared with the whole vocabulary put to llama.cpp, on a vocabulary where every shortcut is taken."""

import msgspec
import pytest

from gaiad.models.grammar.grammar_source import to_gbnf
from tests.makers.in_child import in_child
from tests.makers.llama_files import TINY_LLAMA, write_tiny_llama
from tests.makers.poor_vocabulary import write_poor_llama

COMPARE = """
import random
import numpy as np
from gaiad.models.child.alphabet import alphabet_of
from gaiad.models.child.masking import Gate, apply, candidates

alphabet = alphabet_of(vocabulary)
everything = np.arange(vocabulary.size, dtype=np.int32)
shown = np.array([bool(vocabulary.piece(token)) for token in everything])
byte_tokens = [token for token in everything.tolist() if len(vocabulary.piece(token)) == 1 and shown[token]]

def by_llama(gate):
    asked = candidates(everything)
    apply(gate._grammar, asked)
    yes = asked["logit"] == 0.0
    return {token for token in everything[yes].tolist() if shown[token] or vocabulary.ends(token)}

def follows(pending, token):
    try:
        (pending + vocabulary.piece(token)).decode()
    except UnicodeDecodeError as error:
        return error.reason == "unexpected end of data"
    return True

result = []
for seed, gbnf in enumerate(given):
    gate, chance, text, steps = Gate(alphabet, gbnf), random.Random(seed), b"", 0
    while steps < 30 and not gate.complete:
        mine = set(gate.allowed(gate.possible()).tolist()) | (set(alphabet.ends.tolist()) if gate.may_end else set())
        theirs = {token for token in by_llama(gate) if vocabulary.ends(token) or follows(gate._pending, token)}
        logits = np.array([chance.random() for _ in everything], dtype=np.float32)
        likely = set(gate.shortlist(logits, False, everything[:0])["id"].tolist())
        some = chance.sample(range(vocabulary.size), 200)
        wrong = {
            "allowed": mine ^ theirs,
            "likely": likely - theirs,
            "checked": {token for token in some if gate.allows(token) != (token in theirs)},
            "nothing": set() if likely or not theirs else {-1},
        }
        if any(wrong.values()):
            shown_wrong = {name: sorted(tokens)[:9] for name, tokens in wrong.items()}
            result.append([seed, text.decode("utf-8", "replace"), shown_wrong])
            break
        options = sorted(theirs - set(alphabet.ends.tolist()))
        if not options:
            break
        shortest = [token for token in options if token in byte_tokens] or options
        token = chance.choice(options if chance.random() < 0.5 else shortest)
        gate.accept(token)
        text += vocabulary.piece(token)
        steps += 1
    gate.close()
"""
GRAMMARS = [
    'root ::= "word1" [0-9]{1,3} " word22" [0-9]*',
    'root ::= (" word" [1-9] [0-9]{0,2}){1,9} "."',
    'root ::= [^"\\\\]{0,25} "\\"" [a-zé日\\U0001F600-\\U0001F64F]+',
    'root ::= [\\u0080-\\U0010FFFF]{1,30}',
    'root ::= ("é" | "è" | "ê" | "日本" | "日月")+ " "?',
    'root ::= "<think>" .* "</think>"',
    'root ::= "" | "a"',
]  # fmt: skip


@pytest.fixture(scope="module")
def wide_llama(tmp_path_factory):
    """Six thousand words with one beginning: more than are ever asked about one by one."""
    shape = msgspec.structs.replace(TINY_LLAMA, name="wide", filler=6_000)
    return write_tiny_llama(tmp_path_factory.mktemp("models") / "wide.gguf", shape)


def test_the_mask_allows_what_llama_cpp_allows_and_nothing_else(wide_llama, tiny_llama, tmp_path):
    schema = {
        "properties": {"text": {"type": "string", "maxLength": 40}, "id": {"enum": ["word12", "é"]}},
        "required": ["id"],
    }
    grammars = [*GRAMMARS, to_gbnf("", schema, None)]
    poor = write_poor_llama(tmp_path / "poor.gguf", b"w\xe9 ", words=("éa", "wor", " and"))
    for model in (wide_llama, tiny_llama, poor):
        found = in_child(model, COMPARE, grammars)
        assert found == [], found


def test_a_grammar_llama_cpp_cannot_parse_is_a_fault_and_no_crash(tiny_llama):
    script = """
from gaiad.models.child.alphabet import alphabet_of
from gaiad.models.child.masking import Gate, GrammarFault
result = []
for gbnf in given:
    try:
        Gate(alphabet_of(vocabulary), gbnf)
    except GrammarFault as fault:
        result.append(str(fault))
"""
    given = ["", "root ::= a", 'root ::= "', 'other ::= "a"', 'root ::= root "a" | "b"']
    assert in_child(tiny_llama, script, given) == ["llama.cpp cannot parse the grammar"] * len(given)
