"""One run of the initiative: the form Prime writes in and its reply read, how the run ended, and
what the council, the audit and the memory record of it. Pure."""

import re
from typing import Annotated, Any, Literal

import msgspec

from council.initiative.seed_store import Seed, SeedRun, SeedState
from council.observer_rules import ObserverRules, ObserverTable
from council.stage_output import read_marked, without_fence
from council.stages import Form, fitted_schema
from gaiad.base.errors import GaiadError, Unavailable, WorkerDied
from gaiad.wire.council import VoteRecord
from gaiad.wire.memory import SessionTurn, TurnBlock, TurnMessage

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


Outcome = Literal["passed", "failed", "dropped", "no_quorum", "yielded", "error"]
SESSION = "initiative"
"""The session that outcomes are remembered in."""


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """`state` is what becomes of the thought; `failed` is 1 when the fault may lie in it."""

    outcome: Outcome
    state: SeedState
    why: str
    proposal: str = ""
    vote: VoteRecord | None = None
    failed: int = 0

    @property
    def final(self) -> bool:
        """Whether the thought is done with, by a vote or because nothing can be made of it."""
        return self.outcome in ("passed", "failed", "dropped")

    @property
    def decided(self) -> bool:
        """Whether the council has voted on it."""
        return self.outcome in ("passed", "failed")


def voted(proposal: str, vote: VoteRecord) -> Ending:
    """The round is over. Without a quorum nothing is decided, and the thought waits for one."""
    if vote.reduced_quorum:
        return Ending(outcome="no_quorum", state="open", why=vote.reason, proposal=proposal, vote=vote)
    outcome: Literal["passed", "failed"] = "passed" if vote.passed else "failed"
    return Ending(outcome=outcome, state=outcome, why=vote.reason, proposal=proposal, vote=vote)


def gave_way(why: str) -> Ending:
    """The run was left; the thought is open again."""
    return Ending(outcome="yielded", state="open", why=why)


def dropped(why: str) -> Ending:
    """Nothing can be made of the thought."""
    return Ending(outcome="dropped", state="dropped", why=why)


def failed(error: Exception, seed: Seed, most_failures: int) -> Ending:
    """A fault. A thought whose runs failed too often is dropped; a missing model does not count as one."""
    away = isinstance(error, Unavailable) and not isinstance(error, WorkerDied)
    why = error.message if isinstance(error, GaiadError) else f"a fault in gaiad: {error!r}"
    last = not away and seed.failures + 1 >= most_failures
    if last:
        why = f"its runs failed {most_failures} times, the last time so: {why}"
    return Ending(outcome="error", state="dropped" if last else "open", why=why, failed=0 if away else 1)


def told(seed: Seed, ending: Ending) -> str:
    """One message to the council."""
    opening = {
        "passed": "A thought for later was proposed and passed",
        "failed": "A thought for later was proposed and did not pass",
        "dropped": "A thought for later was dropped",
        "no_quorum": "A thought for later waits, for the council has no quorum",
        "yielded": "A thought for later was put back",
        "error": "A thought for later could not be developed",
    }[ending.outcome]
    return f"{opening}: {ending.why}\n\n{seed.text}"


def audited(seed: Seed, run: SeedRun, ending: Ending, tokens: int) -> dict[str, Any]:
    """The row's body."""
    return {
        "seed_id": seed.seed_id,
        "run_id": run.run_id,
        "turn_id": seed.turn_id,
        "outcome": ending.outcome,
        "why": ending.why,
        "proposal_id": ending.vote.proposal_id if ending.vote else "",
        "tokens": tokens,
    }


def remembered(seed: Seed, run: SeedRun, ending: Ending, ended_at: str) -> SessionTurn:
    """What the memory keeps of a vote: the outcome, and the thought with its proposal as a THOUGHT_SEED block."""
    verdict = "passed" if ending.outcome == "passed" else "did not pass"
    said = f"The council voted on a thought for later, and it {verdict}: {ending.why}"
    block = f"{seed.text}\n\nProposal: {ending.proposal}\n\nOutcome: {verdict}; {ending.why}"
    return SessionTurn(
        session_id=SESSION,
        turn_id=run.run_id,
        messages=[TurnMessage(role="council", content=said)],
        started_at=run.started_at,
        ended_at=ended_at,
        title="Thoughts for later",
        status=ending.outcome,
        blocks=[TurnBlock(marker="THOUGHT_SEED", text=block, role="prime")],
        origin_run_id=seed.turn_id,
        request_intent="initiative",
        metadata={"seed_id": seed.seed_id, "proposal_id": ending.vote.proposal_id if ending.vote else ""},
    )
