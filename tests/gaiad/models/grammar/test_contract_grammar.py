import json
import re

import msgspec
import pytest

from gaiad.contracts import struct_schema
from gaiad.generation import Block, Contract
from gaiad.models.grammar.contract_grammar import MARKERS
from gaiad.models.grammar.gbnf_check import check_gbnf
from gaiad.models.grammar.gbnf_sentences import Sentences
from gaiad.models.grammar.grammar_source import BadGrammar, to_gbnf
from router.matrix import Marker
from tests.makers.in_child import in_child

BEGINNING = re.compile(f"^({'|'.join(MARKERS)}):", re.MULTILINE)
ACCEPTS = """
from gaiad.models.child.alphabet import alphabet_of
from gaiad.models.child.masking import Gate

def accepts(gbnf, text):
    gate = Gate(alphabet_of(vocabulary), gbnf)
    try:
        for byte in text.encode():
            token = 3 + byte
            if not gate.allows(token):
                return False
            gate.accept(token)
        return gate.may_end
    finally:
        gate.close()

result = [accepts(given[0], text) for text in given[1]]
"""


class Step(msgspec.Struct):
    action: str
    packet_id: str


class Plan(msgspec.Struct):
    steps: list[Step]


def draw(contract, count=80):
    sentences = Sentences(check_gbnf(to_gbnf("", None, contract)), lambda _: True)
    return [sentences.draw() for _ in range(count)]


def blocks(text):
    """As the router will read it: a marker at the beginning of a line begins a block."""
    starts = [found.start() for found in BEGINNING.finditer(text)]
    assert starts[0] == 0
    parts = [text[start:end] for start, end in zip(starts, [*starts[1:], len(text) + 1], strict=True)]
    return [
        (part.partition(":")[0], part.partition(": ")[2][:-1] if part.endswith("\n") else part.partition(": ")[2])
        for part in parts
    ]


def test_the_markers_are_the_routers():
    assert set(MARKERS) == set(Marker.__args__)


def test_blocks_come_in_order_and_each_reads_by_itself():
    schema = struct_schema(Plan, {"packet_id": ["p-1", "p-2"]})
    contract = Contract(
        blocks=[
            Block(marker="PLAN", schema=schema),
            Block(marker="RESPONSE", max_characters=300),
            Block(marker="THOUGHT_SEED", max_characters=1),
            Block(marker="VERIFY", max_characters=40),
        ]
    )
    for text in draw(contract):
        found = blocks(text)
        assert [marker for marker, _ in found] == ["PLAN", "RESPONSE", "THOUGHT_SEED", "VERIFY"]
        plan = msgspec.json.decode(found[0][1], type=Plan)
        assert {step.packet_id for step in plan.steps} <= {"p-1", "p-2"}
        assert 1 <= len(found[1][1]) <= 301
        assert len(found[2][1]) == 1
        assert len(found[3][1]) <= 40


def test_a_line_of_text_never_begins_with_a_marker_and_all_else_may_stand_there(tiny_llama):
    gbnf = to_gbnf("", None, Contract(blocks=[Block(marker="RESPONSE", max_characters=400)]))
    good = [
        "a", "Plan: do it", "one\ntwo", "x\nPLAN", "x\nPLAN B", "x\nPLANS: y", "x\n PLAN: y", "say PLAN: y",
        "x\n\n\ny\n", "é日\U0001f600\t\"quotes\" \\",
        "x\nEX\nEXECUTE\nV", "a: b\nVERIFY : c", "PLAN: in the first line, after the marker",
        "THOUGHT_SEED", "x\nTHOUGHT_SEEDS:", "w" * 400, "x\n" * 12,
    ]  # fmt: skip
    bad = ["", " x", "\nx", "w" * 401, "x\rPLAN", "x\u2028y", "x\x00", "x\x1b[0m"]
    bad += [f"x\n{marker}:" for marker in MARKERS] + [f"x\nPLA\n{marker}: y" for marker in MARKERS]
    texts = [f"RESPONSE: {text}" for text in [*good, *bad]]
    verdicts = in_child(tiny_llama, ACCEPTS, [gbnf, texts])
    assert [text for text, verdict in zip(texts, verdicts, strict=True) if verdict] == texts[: len(good)]


def test_llama_cpp_accepts_every_text_that_is_drawn(tiny_llama):
    schema = struct_schema(Plan, {"action": ['quote " and \\ and é', "b"]})
    contract = Contract(blocks=[Block(marker="PLAN", schema=schema), Block(marker="RESPONSE", max_characters=200)])
    texts = draw(contract, 40)
    assert all(in_child(tiny_llama, ACCEPTS, [to_gbnf("", None, contract), texts]))
    assert len({json.dumps(text) for text in texts}) > 20


@pytest.mark.parametrize(
    ("blocks_", "words"),
    [
        ([], "no blocks"),
        ([Block(marker="THOUGHT")], "'THOUGHT' is unknown; use one of PLAN, EXECUTE"),
        ([Block(marker="PLAN", max_characters=0)], "PLAN may have 0 characters; give a number from 1"),
        ([Block(marker="PLAN", max_characters=10**7)], "give a number from 1 to 100000"),
        ([Block(marker="PLAN", schema={"enum": []})], "plan: the enum has no value"),
    ],
)
def test_a_contract_that_cannot_be_held_is_refused_in_words(blocks_, words):
    with pytest.raises(BadGrammar, match=words):
        to_gbnf("", None, Contract(blocks=blocks_))


def test_the_longest_text_still_makes_a_small_grammar():
    source = to_gbnf("", None, Contract(blocks=[Block(marker="RESPONSE", max_characters=100_000)]))
    assert len(source) < 200_000
