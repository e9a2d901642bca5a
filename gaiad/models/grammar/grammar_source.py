"""The form that a reply must have, as GBNF: a grammar as given, a JSON Schema or a stage contract (decision 3).

Pure, but for hostile input best done in a throw-away process: it may take long. The result has passed the check that
keeps llama.cpp's own parser from crashing; whether a vocabulary can write it, `grammar_walk` says.
"""

from typing import Any

from gaiad.generation import Contract
from gaiad.models.grammar.contract_grammar import contract_grammar
from gaiad.models.grammar.gbnf_check import check_gbnf
from gaiad.models.grammar.gbnf_writer import BadGrammar as BadGrammar
from gaiad.models.grammar.gbnf_writer import Rules
from gaiad.models.grammar.schema_grammar import SchemaGrammar


def to_gbnf(grammar: str, schema: dict[str, Any] | None, contract: Contract | None) -> str:
    """GBNF with a rule `root` for the one form that is given. Raises BadGrammar(reason), and nothing else."""
    try:
        source = _source(grammar, schema, contract)
        check_gbnf(source)
    except RecursionError as error:
        raise BadGrammar("the form is nested too deep; make it flatter") from error
    return source


def _source(grammar: str, schema: dict[str, Any] | None, contract: Contract | None) -> str:
    if schema is not None:
        rules = Rules()
        return rules.text(SchemaGrammar(schema, rules).root("reply"))
    if contract is not None:
        return contract_grammar(contract)
    return grammar
