"""`gaiad approvals`, `approve`, `deny`: commands that the council agreed to and that wait for you (decision 13)."""

from typing import TYPE_CHECKING, Any

import click

from gaiad.base.errors import BadInput, Conflict, NotFound
from gaiad.base.text import marked
from gaiad.cli.command import Verb, invocation, print_result, tenant_option
from gaiad.cli.output import FAILED, bold, dim, end, plain, terminal_width, warn, wrap, write_json

if TYPE_CHECKING:
    from gaiad.wire.governance import Approval

_MOST = 1000
_BAD = ("failed", "reverted", "interrupted")


@click.command(
    cls=Verb,
    example="""
        gaiad approvals
        gaiad approvals --json | jq -r '.[] | .id + " " + .sha256'
    """,
)
@click.option("--all", "every", is_flag=True, help="Also those that were decided, the newest first.")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1, _MOST), help="How many at most.")
@tenant_option
def approvals(every: bool, limit: int, tenant: str) -> None:
    """List the commands that wait for your approval.

    The council proposes a command, reviews it and votes on it; nothing is run before you approve exactly these
    arguments. Their SHA-256 is what this gives: printf '%s\\0' ARGUMENTS | sha256sum.
    """
    answer = _ask("/approvals/list", {"all": every, "limit": limit, "tenant": tenant})
    if invocation().as_json:
        write_json(answer["approvals"])
        return
    found = [_read(one) for one in answer["approvals"]]
    click.echo("\n\n".join(approval_text(one) for one in found) if found else "no command is waiting for your approval")
    if answer["refusal"]:
        click.echo(warn(plain(f"no command can be run here: {answer['refusal']}")), err=True)


@click.command(cls=Verb, example="gaiad approve 3fa41c22")
@click.argument("name", metavar="ID")
@click.option("--sha256", default="", metavar="H", help="Only if this is the SHA-256 of its arguments.")
@click.option("--wait/--no-wait", default=True, help="Wait until the council has verified what it did. Default: wait.")
@tenant_option
def approve(name: str, sha256: str, wait: bool, tenant: str) -> None:
    """Approve a command: it runs in a sandbox, and the council verifies it.

    ID is the approval's id or the eight digits shown. The sandbox has no network and a read-only system; one work
    directory a session can be written to, and it is put back when the verification fails.
    """
    shown = None if sha256 else _waiting(name, tenant)
    if shown is not None and not invocation().as_json:
        click.echo(approval_text(shown), err=True)
    digest = sha256.lower() or (shown.sha256 if shown else "")
    made = _read(_ask("/approvals/approve", {"id": name, "sha256": digest, "wait": wait, "tenant": tenant}))
    print_result(made, outcome_text(made))
    if made.state in _BAD:
        end(FAILED)


@click.command(cls=Verb, example="gaiad deny 3fa41c22")
@click.argument("name", metavar="ID")
@tenant_option
def deny(name: str, tenant: str) -> None:
    """Reject a command: it is never run.

    ID is the approval's id or the eight digits shown.
    """
    made = _read(_ask("/approvals/deny", {"id": name, "tenant": tenant}))
    print_result(made, f"denied {_digits(made)}; it is not run")


def approval_text(found: "Approval") -> str:
    """An approval for people: what would be run, who wants it and why, and how to decide."""
    import msgspec

    width = terminal_width()
    ballots = ", ".join(f"{ballot.role} {ballot.vote}" for ballot in found.votes if not ballot.uncounted)
    expires = found.expires_at[:19].replace("T", " ")
    lines = [
        bold(f"{_digits(found)}  {command_line(found)}"),
        wrap(marked(f"arguments {msgspec.json.encode(found.command).decode()}"), width - 2, "  "),
        f"  sha256 {found.sha256}",
        wrap(marked(f"{found.proposed_by} proposed it: {found.why or 'no reason was given'}"), width - 2, "  "),
        f"  votes: {marked(ballots) or 'none'}; risk {marked(found.risk_level)}; turn {_turn(found.turn_id)}",
    ]
    if found.state == "waiting":
        lines.append(dim(f"  until {expires} UTC: gaiad approve {_digits(found)}, or gaiad deny {_digits(found)}"))
    else:
        lines.append(wrap(marked(f"{found.state}{f': {found.note}' if found.note else ''}"), width - 2, "  "))
    return "\n".join(lines)


def outcome_text(made: "Approval") -> str:
    """What came of it: how the command ended, what it wrote, what the council says."""
    parts = [f"{command_line(made)} is approved; it is {made.state}"]
    if made.execution is not None:
        ended = made.execution.stopped or f"exit status {made.execution.exit_status}"
        parts = [f"{command_line(made)}: {marked(ended)}, {made.execution.took_ms / 1000:.1f} s, in {plain(made.work)}"]
        parts += [marked(made.execution.output.rstrip())] if made.execution.output.strip() else []
    if made.note:
        parts.append(wrap(marked(f"{made.state}: {made.note}"), terminal_width()))
    if made.continuation:
        parts.append(dim(f"gaiad turns show {_turn(made.continuation)}"))
    return "\n".join(parts)


def _waiting(name: str, tenant: str) -> "Approval | None":
    """The one called so, as the person is shown it; None when none waits: the daemon then says why."""
    answer = _ask("/approvals/list", {"limit": _MOST, "tenant": tenant})
    return next((one for one in map(_read, answer["approvals"]) if name in (one.id, _digits(one))), None)


def _ask(path: str, body: dict[str, Any]) -> Any:
    """Whatever speaks against it is exit code 1 with the reason."""
    try:
        with invocation().client() as client:
            return client.post(path, body)
    except (NotFound, BadInput) as error:
        raise Conflict(error.message) from error


def _read(value: Any) -> "Approval":
    from msgspec import convert

    from gaiad.wire.governance import Approval

    return convert(value, Approval)


def command_line(found: "Approval") -> str:
    """As a shell would take it; characters that hide or move text are spelled out."""
    import shlex

    line = shlex.join(found.command)
    return line if line.isprintable() and marked(line) == line else " ".join(map(ascii, found.command))


def _digits(found: "Approval") -> str:
    from gaiad.base.ids import short

    return short(found.id)


def _turn(turn_id: str) -> str:
    from gaiad.base.ids import short

    return short(turn_id)
