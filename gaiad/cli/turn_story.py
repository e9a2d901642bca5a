"""A turn in sentences: what was asked, how deep it went and why, who did what, how it was voted, how it ended. Pure."""

from typing import TYPE_CHECKING

from gaiad.cli.output import bold, counted, cut_line, dim, milliseconds, plain, table
from gaiad.ids import short

if TYPE_CHECKING:
    from gaiad.council_schemas import BallotRecord, EscalationRecord, HistoryNote, StageRecord, TurnRecord, VoteRecord
    from gaiad.delivery_schemas import Receipt

_DID = {
    "plan": "planned",
    "refine": "refined the plan",
    "observe": "read along",
    "act": "acted",
    "verify": "verified",
}
_NAMES = {"prime": "Prime", "lite": "Lite", "codemind": "CodeMind", "person": "you", "gaiad": "gaiad"}
_CHANNELS = {"discord_chat": "Discord"}
_LONGEST = 60
_OF_RESEARCH = ("PARTIAL", "NOT_FOUND", "CLARIFY")  # what the archive said; the turn itself went well


def turn_row(turn: "TurnRecord") -> tuple[str, ...]:
    """One line of the list of turns."""
    stages = " ".join(stage.stage for stage in turn.stages)
    message = cut_line(turn.message, _LONGEST)
    return short(turn.turn_id), _time(turn.started_at), turn.depth, stages, turn.status, turn.session_id, message


def turn_text(turn: "TurnRecord", options: str = "") -> str:
    """The whole story, text of models and people made harmless for a terminal; `options` reach its memory."""
    parts = [
        _head(turn),
        _asked(turn),
        _depth(turn),
        looked_back_line(turn.history, options) if turn.history else "",
        *(_stage(stage) for stage in turn.stages),
        *(_vote(vote) for vote in turn.votes),
        *(_escalation(escalation) for escalation in turn.escalations),
        *(f"Note: {note}" for note in turn.notes),
        _end(turn),
        *(_delivery(receipt) for receipt in turn.deliveries),
    ]
    said = [
        f"{dim('--- ' + block.get('marker', '') + ' ---')}\n{plain(str(block.get('text', '')))}"
        for block in turn.blocks
    ]
    return "\n".join([parts[0], *(plain(part) for part in parts[1:] if part), *said])


def _head(turn: "TurnRecord") -> str:
    period = " to ".join(_time(at) for at in (turn.started_at, turn.ended_at) if at)
    where = f" in session {plain(turn.session_id)}" if turn.session_id else ""
    return f"{bold('turn ' + short(turn.turn_id))} ({plain(turn.turn_id)}){where}{f', {period} UTC' if period else ''}"


def _asked(turn: "TurnRecord") -> str:
    persona = f" (persona {turn.persona})" if turn.persona else ""
    return f'You said{persona}: "{turn.message.strip()}"' if turn.message else ""


def _depth(turn: "TurnRecord") -> str:
    why = f" ({turn.depth_why})" if turn.depth_why else ""
    words = f"It was taken at {turn.depth} depth{why}."
    if turn.risk_level != "low":
        words += f" Its risk was {turn.risk_level}."
    return words + (" There was no quorum." if turn.reduced_quorum else "")


def _stage(stage: "StageRecord") -> str:
    instead = f" for {role_name(stage.stands_in_for)}" if stage.stands_in_for else ""
    did = _DID.get(stage.stage, f"did the stage {stage.stage}")
    sure = f", confidence {stage.confidence:g}" if stage.confidence is not None else ""
    why = f" ({stage.why})" if stage.why else ""
    line = (
        f"{role_name(stage.role)}{instead} {did}{why}: {stage.verdict}{sure}, {milliseconds(stage.ms)}{_tokens(stage)}"
    )
    packet = f"; packet {short(stage.packet_id)}" if stage.packet_id else ""
    return "\n".join([f"{line}{packet}", *(f"    {note}" for note in stage.notes)])


def _tokens(stage: "StageRecord") -> str:
    if not stage.prompt_tokens and not stage.tokens:
        return ""
    known = f" ({stage.cached_tokens:,} of them from the cache)" if stage.cached_tokens else ""
    return f", {stage.prompt_tokens:,} tokens read{known}, {stage.tokens:,} written"


def _vote(vote: "VoteRecord") -> str:
    first, *more = vote.subject.strip().splitlines() or [""]
    subject = [f"Voted on ({vote.matter}): {first}", *(f"    {line}" for line in more)]
    went = "passed" if vote.passed else "goes on without a majority" if vote.may_proceed else "refused"
    rows = [_ballot(ballot) for ballot in vote.ballots]
    said = [f"    {line}" for line in table(rows).splitlines()]
    end = vote.reason if vote.reason.startswith(went) else f"{went}: {vote.reason}"
    return "\n".join([*subject, *said, f"    {end}"])


def _ballot(ballot: "BallotRecord") -> tuple[str, ...]:
    counted = f" (not counted: {ballot.uncounted})" if ballot.uncounted else ""
    return role_name(ballot.role), ballot.vote, f"{ballot.confidence:.2f}", f"{ballot.reason}{counted}"


def _escalation(escalation: "EscalationRecord") -> str:
    return f"{role_name(escalation.raised_by)} turned to {role_name(escalation.to)}: {escalation.why}"


def _end(turn: "TurnRecord") -> str:
    if not turn.ended_at:
        return "It is still being taken." if turn.status == "RUNNING" else f"It stands at {turn.status}."
    why = "" if turn.status in _OF_RESEARCH else turn.end_why
    return f"It ended as {turn.status}{f': {why}' if why else ''}."


def looked_back_line(history: "HistoryNote", options: str = "") -> str:
    """Why the archive was asked, what came of it, and where the run is shown; "" when it was not asked."""
    if not history.sought:
        return ""
    trail = f"; gaiad research show {history.research_id}{options}" if history.research_id else ""
    return f"Looked back ({history.why}): {history.status or 'nothing of use'}{trail}"


def _delivery(receipt: "Receipt") -> str:
    """What became of a block in a channel outside."""
    what = receipt.marker if receipt.pieces == 1 else f"{receipt.marker} in {receipt.pieces} messages"
    where = _CHANNELS.get(receipt.channel, receipt.channel)
    if receipt.state == "delivered":
        return f"{what} was delivered to {where} at {_time(receipt.at)} (message {', '.join(receipt.outside_ids)})."
    why = f": {receipt.reason}" if receipt.reason else ""
    if receipt.state == "refused":
        return f"{what} was not taken by {where}{why}."
    tried = f", tried {counted(receipt.attempts, 'time')}" if receipt.attempts else ""
    return f"{what} waits for {where}{tried}{why}."


def role_name(role: str) -> str:
    """A role, or whoever else takes part, as people write it."""
    return _NAMES.get(role, role)


def _time(at: str) -> str:
    return at[:19].replace("T", " ")
