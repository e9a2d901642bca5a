"""A stage contract as GBNF: blocks in order, each `MARKER: ` and its body, each on a line of its own (GCP 6, 7.1).

No line of a plain text body can begin with a marker, else the router would read a block that nobody wrote. Pure.
"""

from collections.abc import Sequence

from gaiad.generation import Block, Contract
from gaiad.models.grammar.gbnf_writer import PRINTED, BadGrammar, Rules, characters, literal, normal, without
from gaiad.models.grammar.schema_grammar import SchemaGrammar

MARKERS = ("PLAN", "EXECUTE", "RESPONSE", "THOUGHT_SEED", "INTERRUPT", "VERIFY")
LONGEST_BODY = 100_000
_MOST_ROWS = 1000
_SHORTEST_ROW = max(map(len, MARKERS)) + 4  # a line's safe beginning, or a newline after one, must fit
_IN_LINE = normal([*PRINTED, (0x09, 0x09)])
_VISIBLE = without(PRINTED, " \u00a0\u3000")


def contract_grammar(contract: Contract) -> str:
    """Raises BadGrammar naming the block and what is wrong with it."""
    if not contract.blocks:
        raise BadGrammar("the contract has no blocks; name one marker at least")
    rules = Rules()
    blocks = [_block(block, rules) for block in contract.blocks]
    return rules.text(rules.add("contract", ' "\\n" '.join(blocks)))


def _block(block: Block, rules: Rules) -> str:
    if block.marker not in MARKERS:
        raise BadGrammar(f"the marker {block.marker!r} is unknown; use one of {', '.join(MARKERS)}")
    hint = block.marker.lower().replace("_", "-")
    body = _text(block, rules) if block.schema is None else SchemaGrammar(block.schema, rules).root(hint)
    return rules.add(f"{hint}-block", f"{literal(f'{block.marker}: ')} {body}")


def _text(block: Block, rules: Rules) -> str:
    """Plain text of 1 to `max_characters` characters that begins with a visible one.

    It is paid for in rows: a full one continues the line, a short one ends it or the text. Two rows, so at most one
    short one per line, are what a line costs beyond its characters.
    """
    most = block.max_characters
    if not 1 <= most <= LONGEST_BODY:
        raise BadGrammar(f"{block.marker} may have {most} characters; give a number from 1 to {LONGEST_BODY}")
    width = max(_SHORTEST_ROW, -(-most // _MOST_ROWS))
    count, left = divmod(most - 1, width)
    one = rules.add("in-line", characters(_IN_LINE))
    safe, marker = _line_start(rules)
    row, few = rules.add("full-row", f"{one}{{{width}}}"), rules.add("short-row", f"{one}{{0,{width - 1}}}")
    line = rules.add("text-0", f"{one}{{0,{left}}}" if left else '""')
    start = ""
    for number in range(1, count + 1):
        following = f'("\\n" {start})?' if start else '("\\n")?'
        start = rules.add(f"line-{number}", f"{safe} {line} | {marker} {following}")
        line = rules.add(f"text-{number}", f"{row} {line} | {few} {following}")
    return rules.add("text", f"{characters(_VISIBLE)} {line}")


def _line_start(rules: Rules) -> tuple[str, str]:
    """Rules for a beginning that no marker has, and for a marker's beginning where the line may end."""
    words = [f"{marker}:" for marker in MARKERS]
    return rules.add("safe", _departing(words)), rules.add("begun", _begun(MARKERS))


def _departing(words: Sequence[str]) -> str:
    firsts = sorted({word[0] for word in words})
    parts = [characters(without(_IN_LINE, firsts))]
    for first in firsts:
        rest = [word[1:] for word in words if word[0] == first and len(word) > 1]
        parts += [f"{literal(first)} ({_departing(rest)})"] if rest else []
    return " | ".join(parts)


def _begun(words: Sequence[str]) -> str:
    firsts = sorted({word[0] for word in words if word})
    return " | ".join(
        ['""', *(f"{literal(first)} ({_begun([word[1:] for word in words if word[:1] == first])})" for first in firsts)]
    )
