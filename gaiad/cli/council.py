"""`gaiad council`: who sits in the council now, what its roles say to each other, thoughts for later."""

import shlex
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from gaiad.base.errors import Unavailable
from gaiad.cli.command import Verb, VerbGroup, invocation, print_result, tenant_option
from gaiad.cli.output import bold, counted, cut_line, dim, plain, table, terminal_width, warn, write_json

if TYPE_CHECKING:
    from gaiad.wire.council import CouncilStatus, EscalationRecord, OpenProposal, RoleState, RunningTurn, SeedRecord


_STATES = ("open", "taken", "proposed", "passed", "failed", "dropped")
_NARROWEST = 24
_BESIDE = 48  # columns that state, time and turn take


@click.command("seeds", cls=Verb, example="gaiad council seeds --json | jq '.seeds[] | select(.state == \"passed\")'")
@click.option("--state", type=click.Choice(_STATES), default=None, help="Only those in this state.")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1, 1000), help="How many at most.")
@tenant_option
def seeds(state: str | None, limit: int, tenant: str) -> None:
    """List thoughts for later, newest first, and their outcome.

    When idle, the council takes up one open thought at a time: Prime develops it into a proposal, and the
    roles vote. Nothing is ever executed. Switch it off with initiative.enabled.
    """
    with invocation().client() as client:
        found = client.council.seeds(tenant, limit, state)
    print_result({"seeds": found}, seeds_text(found, terminal_width()))


def seeds_text(found: "list[SeedRecord]", width: int) -> str:
    """A row a thought, cut to `width` columns; `gaiad turns show` takes the turn's digits."""
    from gaiad.base.ids import short

    room = max(_NARROWEST, (width - _BESIDE) // 2)
    rows = [
        (
            seed.state,
            seed.changed_at[:16].replace("T", " "),
            short(seed.turn_id),
            cut_line(seed.text, room),
            cut_line(seed.reason, room),
        )
        for seed in found
    ]
    return table(rows, ("state", "since (UTC)", "turn", "thought", "why")) if rows else "no thoughts for later yet"


_FIRST_PAUSE_S = 0.2  # before the first try to reach a daemon that went away
_LONGEST_PAUSE_S = 2.0


@click.group(
    cls=VerbGroup,
    example="""
        gaiad council status
        gaiad council log --follow
        gaiad council log --json --after msg_01JDXR5A4M3C2V7Y8Z9K6T1QWE | jq .content
    """,
)
def council() -> None:
    """Look at the council: its roles, its votes, its words."""


council.add_command(seeds)


@council.command("status", cls=Verb, example="gaiad council status --json | jq .quorum")
@tenant_option
def status(tenant: str) -> None:
    """Show who is active, who can vote, and what is waiting.

    A role is ready, sleeping (its model was unloaded) or inactive (no heartbeat for 90 seconds).
    """
    with invocation().client() as client:
        found = client.council.status(tenant)
    print_result(found, status_text(found))


@council.command("log", cls=Verb, example="gaiad council log --json --follow | jq -r '.type + \" \" + .content'")
@click.option("--follow", is_flag=True, help="Follow new messages, also across restarts of the daemon.")
@click.option("--after", default="", metavar="ID", help="Only messages after this one, oldest first.")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1, 1000), help="How many at most.")
@click.option("--heartbeats/--no-heartbeats", default=None, help="With heartbeats or not. Default: with --json only.")
@tenant_option
def log(follow: bool, after: str, limit: int, heartbeats: bool | None, tenant: str) -> None:
    """Show what the roles said, the newest last.

    One message a line: time (UTC), id, role and duty, type, the start of the text. With --json each line
    is a message with the field names of GCP 8.1. ID is a message's full id, or the eight digits shown. With --follow
    and --after nothing is left out.
    """
    shown = invocation().as_json if heartbeats is None else heartbeats
    if follow:
        messages = _followed(tenant, after, limit, shown)
    else:
        with invocation().client() as client:
            messages = iter(client.council.log(tenant, after, limit, heartbeats=shown))
    if invocation().as_json:
        for message in messages:
            write_json(message)
        return
    width = terminal_width() if sys.stdout.isatty() else 0
    for message in messages:
        click.echo(message_line(message, width))


def _followed(tenant: str, after: str, limit: int, heartbeats: bool) -> Iterator[dict[str, Any]]:
    """Messages without end. A daemon that goes away is waited for; one that was never there raises."""
    met, pause_s = False, _FIRST_PAUSE_S
    while True:
        reason = "the daemon ended the stream"
        try:
            with invocation().client() as client:
                for event in client.council.follow(tenant, after, limit, heartbeats=heartbeats):
                    met, pause_s, after = True, _FIRST_PAUSE_S, event.id
                    if event.event == "message":
                        yield event.data
        except Unavailable as error:
            if not met:
                raise
            reason = error.message
        if pause_s == _FIRST_PAUSE_S:
            click.echo(f"gaiad: {plain(reason)}; continuing when it answers again", err=True)
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


def message_line(message: dict[str, Any], width: int = 0) -> str:
    """One message for people, cut to `width` columns unless that is 0."""
    at = _time(message["timestamp"])
    who = f"{message['sender']}/{message['role']}"
    head = f"{at}  {message['msg_id']}  {who:<18}  {message['type']:<10}"
    marks = [f"confidence {message['confidence']:g}"] if message["confidence"] is not None else []
    marks += [f"risk {message['risk_level']}"] if message["risk_level"] else []
    after = f" ({', '.join(marks)})" if marks else ""
    line = plain(f"{head}  {_first_line(message['content'])}{after}").replace("\t", " ").rstrip()
    return line if not width or len(line) <= width else f"{line[: width - 1]}…"


def _first_line(content: str) -> str:
    """The first line that says something, with the one after a bare `PLAN:`; of JSON its plain values by name."""
    import msgspec

    try:
        values = msgspec.json.decode(content)
    except msgspec.DecodeError:
        values = None
    if isinstance(values, dict):
        said = [words for name, value in values.items() if (words := _in_words(name, value))]
        content = ", ".join(said) or content
    lines = [line.strip() for line in content.splitlines() if line.strip()]
    return " ".join(lines[: 2 if lines and lines[0].endswith(":") else 1])


def _in_words(name: str, value: Any) -> str:
    """A plain value by its name; "" for what is none, is empty, or is not news to people."""
    if value is True:
        return name.replace("_", " ")
    plain_value = isinstance(value, str | int | float) and value is not False and value != ""
    return f"{name.replace('_', ' ')} {value}" if plain_value and name != "sha256" else ""


def status_text(status: "CouncilStatus") -> str:
    """The council for people: sentences, and a row a role."""
    rows = [_role_row(role) for role in status.roles]
    parts = [
        _quorum_text(status),
        table(rows, ("role", "model", "state", "last heartbeat", "votes", "stages", "why")),
        *(plain(line) for line in status.abilities),
        *(_turn_text(turn) for turn in status.turns),
        *(_proposal_text(proposal) for proposal in status.open_proposals),
        *(_escalation_text(escalation) for escalation in status.escalations),
        _initiative_text(status.initiative),
    ]
    return "\n".join(part for part in parts if part)


def _quorum_text(status: "CouncilStatus") -> str:
    able = [role.role for role in status.roles if role.can_vote]
    depth = f"depth {status.depth}"
    if status.quorum:
        return f"{bold('quorum')}: {_listed(able)} can vote; {depth}"
    who = f"only {able[0]} can vote" if able else "no role can vote"
    return (
        f"{warn('no quorum')}: {who}, and two are required; answers continue and say so, actions and governance wait; "
        f"{depth}"
    )


def _listed(names: list[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)


def _role_row(role: "RoleState") -> tuple[str, ...]:
    from gaiad.base.config import model_label

    beat = _time(role.last_heartbeat) or "never"
    name = model_label(role.model)
    model = f"{name} ({role.kind})" if role.kind and role.kind != role.model else name
    return role.role, model, role.state, beat, "yes" if role.can_vote else "no", " ".join(role.stages), role.reason


def _turn_text(turn: "RunningTurn") -> str:
    return plain(f"taken now: {turn.turn_id} in session {turn.session_id}, {turn.role} at {turn.stage} ({turn.depth})")


def _proposal_text(proposal: "OpenProposal") -> str:
    ballots = counted(proposal.ballots, "ballot")
    subject = " ".join(proposal.subject.split())[:200]
    return plain(
        f"voted on now: {proposal.proposer} proposes ({proposal.matter}): {subject}; {ballots}, "
        f"open until {_time(proposal.closes_at)} UTC"
    )


def _escalation_text(escalation: "EscalationRecord") -> str:
    turn = f"; see gaiad turns show {escalation.turn_id}" if escalation.turn_id else ""
    session = escalation.session_id
    answer = f"; what you say next in its session answers it: gaiad chat --session {shlex.quote(session)}"
    said = f"{escalation.raised_by} needs {_addressed(escalation.to)}: {escalation.why}{turn}"
    return f"{warn('escalation:')} {plain(said + answer if session else said)}"


def _addressed(to: str) -> str:
    return "your word" if to == "person" else f"{to}'s word"


def _initiative_text(values: dict[str, Any]) -> str:
    """What the initiative loop does; "" when the daemon says nothing of it."""
    if not values:
        return ""
    if not values["enabled"]:
        return dim("initiative: off (initiative.enabled)")
    spent = f"{values['tokens_today']:,} of {values['daily_tokens']:,} tokens today"
    last = f"last at {_time(values['last_run_at'])} UTC: {values['last_outcome']}" if values["last_run_at"] else ""
    failed = f"{counted(values['failures'], 'failure')} in 24 hours" if values["failures"] else ""
    waits = f"waits: {values['waits_for']}" if values.get("waits_for") else ""
    parts = [counted(values["open_seeds"], "open thought"), spent, last, failed, waits]
    return plain(f"initiative: {'; '.join(part for part in parts if part)}")


def _time(at: str) -> str:
    return at[:19].replace("T", " ")
