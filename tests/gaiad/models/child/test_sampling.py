"""The mask is compared with the form itself, token by token, and lets no control token through."""

import msgspec
import pytest

from gaiad.models.child.reply_form import form_grammar
from gaiad.wire.generation import Block, Contract
from tests.makers.in_child import in_child
from tests.makers.llama_files import TINY_LLAMA, write_tiny_llama
from tests.makers.poor_vocabulary import write_poor_llama

COMPARE = """
import random
import numpy as np
from gaiad.models.child.sampling import FormFault, TokenMask, form_tokens

tokens = form_tokens(vocabulary)
pieces = [vocabulary.piece(token) for token in range(vocabulary.size)]
attribute = library.llama_vocab_get_attr
control = {t for t in range(vocabulary.size) if attribute(vocabulary.handle, t) & library.LLAMA_TOKEN_ATTR_CONTROL}

result = []
for seed, grammar in enumerate(given):
    mask, chance, steps = TokenMask(tokens, grammar), random.Random(seed), 0
    while steps < 25 and not mask.complete:
        allowed = set(np.flatnonzero(mask.allowed()).tolist())
        ends = {token for token in allowed if vocabulary.ends(token)}
        if bad := allowed & control - ends:
            result.append([seed, "control", sorted(bad)])
        if ends and not mask._matcher.is_accepting():
            result.append([seed, "ends too early", steps])
        for token in chance.sample(range(vocabulary.size), min(150, vocabulary.size)):
            if token not in control and not vocabulary.ends(token) and pieces[token]:
                follows = bool(mask._matcher.validate_tokens([token]))
                certain = bool(mask._matcher.compute_ff_bytes())  # then only the usual token is looked at
                if follows != (token in allowed) and not certain:
                    result.append([seed, repr(pieces[token]), follows])
        options = sorted(allowed - ends)
        if not options or result:
            break
        certain = bool(mask._matcher.compute_ff_bytes())
        try:
            mask.accept(chance.choice(options))
        except FormFault as fault:
            if not certain:  # certain text that the vocabulary cannot write ends the reply
                result.append([seed, str(fault)])
            break
        steps += 1
"""
REGEXES = [
    "word1[0-9]{1,3} word22[0-9]*",
    r"( word[1-9][0-9]{0,2}){1,9}\.",
    "[^\"\\\\]{0,25}\"[a-zé日\U0001f600-\U0001f64f]+",
    "[\u0080-\U0010ffff]{1,30}",
    "(é|è|ê|日本|日月)+ ?",
    "<think>(?s:.)*</think>",
    "a?",
    "(?s:.)*",
]  # fmt: skip
CONTRACT = Contract(
    blocks=[Block(marker="PLAN", schema={"type": "object"}), Block(marker="RESPONSE"), Block(marker="VERIFY")]
)


@pytest.fixture(scope="module")
def wide_llama(tmp_path_factory):
    """Six thousand words with one beginning."""
    shape = msgspec.structs.replace(TINY_LLAMA, name="wide", filler=6_000)
    return write_tiny_llama(tmp_path_factory.mktemp("models") / "wide.gguf", shape)


def test_the_mask_allows_what_the_form_allows_and_never_a_control_token(wide_llama, tiny_llama, tmp_path):
    text = {"properties": {"text": {"type": "string", "maxLength": 40}, "id": {"enum": ["word12", "é"]}}}
    grammars = [form_grammar(regex, None, None) for regex in REGEXES]
    grammars += [form_grammar("", {**text, "required": ["id"]}, None), form_grammar("", None, CONTRACT)]
    poor = write_poor_llama(tmp_path / "poor.gguf", b"w\xe9 ", words=("éa", "wor", " and"))
    for model in (wide_llama, tiny_llama, poor):
        found = in_child(model, COMPARE, grammars)
        assert found == [], found


FAULTS = """
import numpy as np
from gaiad.models.child.sampling import FormFault, TokenMask, form_tokens
result = []
for grammar, text in given:
    try:
        mask = TokenMask(form_tokens(vocabulary), grammar)
        for byte in text.encode():
            logits = np.zeros(vocabulary.size, dtype=np.float32)
            mask.apply(logits)
            mask.accept(3 + byte)
        mask.apply(logits)
        result.append("")
    except FormFault as fault:
        result.append(str(fault))
"""


def test_a_grammar_that_cannot_be_read_or_a_token_it_does_not_allow_is_a_fault_and_no_crash(tiny_llama):
    given = [("start: other", ""), ("start: /(/", ""), (":::", ""), (form_grammar("ab", None, None), "ac")]
    found = in_child(tiny_llama, FAULTS, given)
    assert all("cannot follow the form of the reply" in fault for fault in found[:3]), found
    assert "no token of the model's vocabulary can follow" in found[3]


GO_ON = FAULTS.replace(
    "        mask.apply(logits)\n        result",
    "        mask.apply(logits := np.zeros(vocabulary.size, dtype=np.float32))\n"
    "        mask.accept(int(np.flatnonzero(np.isfinite(logits))[0]))\n        result",
)


def test_what_the_vocabulary_cannot_write_is_a_fault_where_it_is_due(tmp_path):
    poor = write_poor_llama(tmp_path / "poor.gguf", "éQz".encode(), words=("zebra",))
    grammars = [form_grammar(regex, None, None) for regex in ("café", "a zebra", "a zoo", "Q|R")]
    given = [(grammars[0], "caf"), (grammars[1], "a "), (grammars[2], "a "), (grammars[3], "")]
    accent, word, letters, choice = in_child(poor, GO_ON, given)
    assert "no token of the model's vocabulary can follow" in accent
    assert word == ""
    assert "no token of the model's vocabulary can follow" in letters
    assert choice == ""


HOSTILE = {
    "a schema that is only itself": {"$ref": "#"},
    "an endless object": {
        "$ref": "#/$defs/a",
        "$defs": {"a": {"type": "object", "properties": {"b": {"$ref": "#/$defs/a"}}, "required": ["b"]}},
    },
    "two to the sixty ways": {
        "$ref": "#/$defs/d0",
        "$defs": {
            **{f"d{at}": {"anyOf": [{"$ref": f"#/$defs/d{at + 1}"}] * 2} for at in range(60)},
            "d60": {"type": "null"},
        },
    },
    "a pattern that must remember": {"type": "string", "pattern": "^((a|b)*a(a|b){40})$"},
    "counting a million": {"type": "string", "pattern": "^((a|aa){1000}){1000}$"},
    "a billion characters": {"type": "string", "minLength": 10**9},
    "a billion items": {"type": "array", "minItems": 10**9, "items": {}},
    "lists of lists": {"type": "array", "maxItems": 10**6, "items": {"type": "array", "maxItems": 10**6}},
}
WALK = """
import random, time
import numpy as np
from gaiad.models.child.sampling import FormFault, TokenMask, form_tokens
tokens, result = form_tokens(vocabulary), []
for grammar in given:
    chance, longest, fault, steps = random.Random(1), 0.0, "", 0
    try:
        mask = TokenMask(tokens, grammar)
        while steps < 400 and not mask.complete:
            begun = time.process_time()
            allowed = np.flatnonzero(mask.allowed())
            if not len(allowed):
                fault = "nothing can follow"
                break
            mask.accept(int(chance.choice(allowed)))
            longest, steps = max(longest, time.process_time() - begun), steps + 1
    except FormFault as error:
        fault = str(error)
    result.append([longest, steps, fault])
"""


def test_hostile_schemas_end_in_a_fault_or_go_on_but_never_hold_up_the_worker(tiny_llama):
    grammars = [form_grammar("", schema, None) for schema in HOSTILE.values()]
    for name, (longest_s, steps, fault) in zip(HOSTILE, in_child(tiny_llama, WALK, grammars), strict=True):
        assert longest_s < 1.0, (name, longest_s)
        assert steps or fault, name
