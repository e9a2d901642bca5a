"""`gaiad sessions`: conversations as they are remembered: list them, show the turns of one, or its pages and memos."""

from typing import TYPE_CHECKING

import click

from gaiad.base.channels import channel_table
from gaiad.base.ids import short
from gaiad.cli.command import Verb, VerbGroup, invocation, print_result, same_place, tenant_option
from gaiad.cli.output import (
    FAILED,
    bold,
    counted,
    cut_line,
    dim,
    end,
    milliseconds,
    plain,
    table,
    terminal_width,
    wrap,
    write_json,
)

if TYPE_CHECKING:
    from gaiad.wire.council import (
        BallotRecord,
        EscalationRecord,
        HistoryNote,
        Receipt,
        StageRecord,
        TurnRecord,
        VoteRecord,
    )
    from gaiad.wire.memory import MemoryPage, SessionTurn


_INDENT = "  "


@click.group(
    cls=VerbGroup,
    example="""
        gaiad sessions list
        gaiad sessions show garden
        gaiad sessions show garden --memos
        gaiad sessions rename garden "Where the roses went"
    """,
)
def sessions() -> None:
    """List, show and rename conversations as they are remembered."""


@sessions.command("list", cls=Verb, example="gaiad sessions list --json | jq '.sessions[0]'")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1, 1000), help="At most this many.")
@tenant_option
def list_sessions(limit: int, tenant: str) -> None:
    """List sessions, the one spoken in last first."""
    with invocation().client() as client:
        found = client.sessions(tenant, limit)
    rows = [
        (row.session_id, row.updated_at[:19], f"{row.turns:,}", f"{row.pages:,}", row.title or row.first_message)
        for row in found
    ]
    heads = ("session", "spoken in last", "turns", "pages", "title or first words")
    print_result({"sessions": found}, table(rows, heads) if rows else "no sessions yet")


@sessions.command("show", cls=Verb, example="gaiad sessions show garden --memos --json | jq '.pages[].header'")
@click.argument("session_id", metavar="ID")
@click.option("--memos", is_flag=True, help="Its pages instead: header and memo of each, and what it adds.")
@click.option("--after", default=-1, type=int, metavar="N", help="With --memos: only pages numbered above N.")
@click.option("--limit", default=200, show_default=True, type=click.IntRange(1, 1000), help="At most this many.")
@tenant_option
def show(session_id: str, memos: bool, after: int, limit: int, tenant: str) -> None:
    """Show the last turns of a session, or the memos of its pages.

    Memos come from the first page on, with the header of each. Exits 1 for an unknown session.
    """
    with invocation().client() as client:
        if memos:
            pages = client.session_pages(session_id, tenant, after, limit)
            answer, text = {"session_id": session_id, "pages": pages}, _pages_text(pages)
        else:
            turns = client.session_turns(session_id, tenant, limit)
            answer, text = {"session_id": session_id, "turns": turns}, turns_text(turns)
    if invocation().as_json:
        write_json(answer)
    elif text:
        click.echo(text)
    if not text and (not memos or after < 0):  # that no page is numbered above some number is not a failure
        click.echo(f"no session is called {plain(session_id)}; see gaiad sessions list", err=True)
        end(FAILED)


@sessions.command("rename", cls=Verb, example='gaiad sessions rename garden "Where the roses went"')
@click.argument("session_id", metavar="ID")
@click.argument("title")
@tenant_option
def rename(session_id: str, title: str, tenant: str) -> None:
    """Give a session a title of your own.

    With an empty TITLE it is shown by its first words again.
    """
    with invocation().client() as client:
        renamed = client.rename_session(session_id, title, tenant)
    print_result(renamed, f"{plain(session_id)}: {plain(renamed.title or renamed.first_message)}")


def turns_text(turns: "list[SessionTurn]") -> str:
    width = terminal_width()
    parts = []
    for turn in turns:
        head = f"{turn.sequence + 1}  {turn.started_at[:19]}  {turn.turn_id}  {turn.status}".rstrip()
        said = [f"{bold('you')}\n{wrap(turn.user, width, _INDENT)}"] if turn.user else []
        answered = (
            [f"{bold(plain(turn.model or 'answer'))}\n{wrap(turn.answer, width, _INDENT)}"] if turn.answer else []
        )
        parts.append("\n".join([dim(plain(head)), *said, *answered]))
    return "\n\n".join(parts)


def _pages_text(pages: "list[MemoryPage]") -> str:
    return "\n\n".join(_page_text(page) for page in pages)


def _page_text(page: "MemoryPage") -> str:
    """JIT's header as rows, then the memo."""
    header = page.header
    rows = [
        ("page", page.id),
        ("number", str(header.sequence)),
        ("written", header.created_at[:19]),
        ("agent", header.agent_id),
        ("tags", ", ".join(header.tags)),
        ("classification", ", ".join(header.classification)),
        ("policy", ", ".join(header.policy_tags)),
        ("from run", header.origin_run_id),
        ("asked for", header.request_intent),
    ]
    memo = wrap(page.memo or "nothing that was not known", terminal_width(), _INDENT)
    return f"{table([row for row in rows if row[1]])}\n{bold('memo')}\n{memo}"


_DID = {
    "plan": "planned",
    "refine": "refined the plan",
    "observe": "read along",
    "act": "acted",
    "verify": "verified",
}
_NAMES = {"prime": "Prime", "lite": "Lite", "codemind": "CodeMind", "person": "you", "gaiad": "gaiad"}
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
    went = "passed" if vote.passed else "continues without a majority" if vote.may_proceed else "refused"
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
        return "It is still being taken." if turn.status == "RUNNING" else f"Its status is {turn.status}."
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
    entry = channel_table().get(receipt.channel)
    where = entry.title if entry else receipt.channel
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


@click.group(
    cls=VerbGroup,
    example="""
        gaiad turns list --session garden
        gaiad turns show 1ab94c2f
    """,
)
def turns() -> None:
    """Look at how turns went, stage by stage."""


@turns.command("list", cls=Verb, example="gaiad turns list --json | jq '.turns[0].stages'")
@click.option("--session", "session_id", default="", metavar="S", help="Only of this session.")
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1, 1000), help="How many.")
@tenant_option
def list_turns(session_id: str, limit: int, tenant: str) -> None:
    """List turns, the newest first."""
    with invocation().client() as client:
        found = client.council.turns(tenant, limit, session_id)
    heads = ("turn", "began", "depth", "stages", "status", "session", "message")
    print_result({"turns": found}, table([turn_row(turn) for turn in found], heads) if found else "no turns yet")


@turns.command("show", cls=Verb, example="gaiad turns show 1ab94c2f --json | jq '.stages[] | {stage, role, ms}'")
@click.argument("turn", metavar="ID")
@tenant_option
def show_turn(turn: str, tenant: str) -> None:
    """Tell how a turn went: who did what, how it was voted, how it ended.

    ID is the turn's id or the eight digits shown; `gaiad cognition show` shows the packets named here.
    """
    with invocation().client() as client:
        found = client.council.turn(turn, tenant)
    print_result(found, turn_text(found, same_place()))
