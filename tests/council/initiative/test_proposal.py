"""Prime's proposal is read from whatever it writes, and what the observer's rules stop is told of."""

import pytest

from council.initiative.run import SeedProposal, fault_of, proposal_form, proposal_text, read_proposal
from council.observer_rules import observer_table
from tests.makers.form_texts import form_texts

WHOLE = '{"proposal": "Ask which tram was meant.", "why": "Two are named."}'


@pytest.mark.parametrize(
    ("text", "proposal", "why"),
    [
        (WHOLE, "Ask which tram was meant.", "Two are named."),
        (f"THOUGHT_SEED: {WHOLE}", "Ask which tram was meant.", "Two are named."),
        (f"```json\n{WHOLE}\n```", "Ask which tram was meant.", "Two are named."),
        ('{"proposal": "Ask which tram was meant.", "why": "Two a', "Ask which tram was meant.", "Two a"),
        ('{"proposal": "Ask which \\"tram\\" wa', 'Ask which "tram" wa', ""),
        ("<think>hm</think>Ask which tram was meant.", "Ask which tram was meant.", ""),
    ],
)
def test_a_proposal_is_read(text: str, proposal: str, why: str) -> None:
    assert read_proposal(text) == SeedProposal(proposal=proposal, why=why)


@pytest.mark.parametrize("text", ["", "  \n", '{"proposal": "', '{"proposal": "   ", "why": "x"}', "{}", '{"a": 1}'])
def test_nothing_is_nothing(text: str) -> None:
    assert read_proposal(text) is None


def test_it_is_told_with_its_reason() -> None:
    assert proposal_text(SeedProposal(proposal=" Ask. ", why=" Two. ")) == "Ask.\n\nWhy: Two."
    assert proposal_text(SeedProposal(proposal="Ask.", why=" ")) == "Ask."


def test_whatever_the_form_allows_is_read() -> None:
    form = proposal_form(320)
    assert form.schema is not None
    assert form.contract is None
    assert all(read_proposal(text) for text in form_texts(10, schema=form.schema))


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("Ask which tram was meant.", ""),
        ("Remember that the key is AKIAIOSFODNN7EXAMPLE for now.", "it shows"),
        ("$ sudo rm -rf /var/lib/thing", "command"),
        ("EXECUTE: rm -rf /", "command"),
    ],
)
def test_secrets_and_commands_are_withheld(text: str, fault: str) -> None:
    found = fault_of(text, (), observer_table())
    assert fault in found
    assert bool(found) == bool(fault)


def test_texts_of_the_prompt_are_withheld() -> None:
    identity = " ".join(f"word{number} of the identity stands here" for number in range(20))
    assert fault_of(f"Remember: {identity}", (identity,), observer_table())
