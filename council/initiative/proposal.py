"""What Prime makes of a thought: the form it writes in, and its reply read, also when no grammar held it. Pure."""

import re
from typing import Annotated

import msgspec

from council.marked_text import read_marked, without_fence
from council.observer_rules import ObserverRules, ObserverTable
from council.stages import Form, fitted_schema

PROPOSAL_CHARACTERS = 600
WHY_CHARACTERS = 300
_CUT_FIELD = r'"{name}"\s*:\s*"((?:[^"\\]|\\.)*)'


class SeedProposal(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A proposal in words and why it is worth it; the proposal comes first, should the reply be cut."""

    proposal: Annotated[str, msgspec.Meta(min_length=1, max_length=PROPOSAL_CHARACTERS)]
    why: Annotated[str, msgspec.Meta(max_length=WHY_CHARACTERS)]


def proposal_form(max_tokens: int) -> Form:
    """The form of a reply of at most `max_tokens`."""
    return Form(schema=fitted_schema(SeedProposal, max_tokens))


def read_proposal(text: str) -> SeedProposal | None:
    """The reply as a proposal: JSON, JSON that was cut, or plain text. None when there is nothing in it."""
    text = text.encode("utf-8", "replace").decode()
    marked = read_marked(text, "THOUGHT_SEED")
    bodies = marked.bodies("THOUGHT_SEED") or marked.bodies("")
    body = without_fence(bodies[0]) if bodies else ""
    found = _whole(body) or _cut(body)
    if found is None and body and not body.startswith("{"):
        found = SeedProposal(proposal=body[:PROPOSAL_CHARACTERS], why="")
    return found if found is not None and found.proposal.strip() else None


def proposal_text(found: SeedProposal) -> str:
    """The proposal as the council and the memory read it."""
    why = found.why.strip()
    return found.proposal.strip() + (f"\n\nWhy: {why}" if why else "")


def fault_of(text: str, protected: tuple[str, ...], table: ObserverTable) -> str:
    """Which of the observer's rules the text breaks, in words; "" for none. Commands and markers break one."""
    rules = ObserverRules(protected, (), table)
    rules.feed(text)
    rules.finish()
    return rules.violation.reason if rules.violation else ""


def _whole(body: str) -> SeedProposal | None:
    try:
        return msgspec.json.decode(body, type=SeedProposal)
    except msgspec.DecodeError:
        return None


def _cut(body: str) -> SeedProposal | None:
    proposal = _field(body, "proposal")
    return (
        SeedProposal(proposal=proposal[:PROPOSAL_CHARACTERS], why=_field(body, "why")[:WHY_CHARACTERS])
        if proposal
        else None
    )


def _field(body: str, name: str) -> str:
    """A text of JSON that may end inside it."""
    found = re.search(_CUT_FIELD.format(name=name), body) if body.startswith("{") else None
    if found is None:
        return ""
    try:
        return str(msgspec.json.decode(f'"{found[1]}"'))
    except msgspec.DecodeError:
        return ""
