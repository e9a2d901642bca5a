"""A form of a reply to GBNF that a vocabulary can spell: what the tokenizer child runs in a throw-away process.

Schemas and grammars may nest without end, and a grammar that cannot be spelled kills the process that samples with it
(decision 3); so a death of this process is an answer, too.
"""

from typing import Any

import msgspec

from gaiad.generation import Contract
from gaiad.models.child.vocabulary import Vocabulary
from gaiad.models.grammar.grammar_source import BadGrammar, to_gbnf
from gaiad.models.grammar.grammar_walk import prepare as prepare
from gaiad.models.grammar.grammar_walk import problem


def compile_form(
    vocabulary: Vocabulary, grammar: str, schema: dict[str, Any] | None, contract: Contract | None
) -> bytes:
    """The GBNF and what is wrong with it, packed for `outcome`."""
    try:
        gbnf = to_gbnf(grammar, schema, contract)
        found = problem(vocabulary, gbnf)
    except BadGrammar as error:
        return msgspec.msgpack.encode(("", f"the grammar cannot be used: {error}"))
    except RecursionError:
        return msgspec.msgpack.encode(("", "the grammar is nested too deeply; make it flatter"))
    return msgspec.msgpack.encode((gbnf, f"the grammar cannot be used: {found}" if found else ""))


def outcome(data: bytes) -> tuple[str, str]:
    """The GBNF, and what is wrong with it in words or "" (then it can be used)."""
    return msgspec.msgpack.decode(data, type=tuple[str, str])
