"""`gaiad turns`: how turns went: every stage, vote and escalation, told as a person would tell it."""

import click

from gaiad.cli.command import Verb, VerbGroup, invocation, same_place, tenant_option
from gaiad.cli.output import table, write_json
from gaiad.cli.turn_story import turn_row, turn_text


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
    if invocation().as_json:
        write_json({"turns": found})
    else:
        heads = ("turn", "began", "depth", "stages", "status", "session", "message")
        click.echo(table([turn_row(turn) for turn in found], heads) if found else "no turns yet")


@turns.command("show", cls=Verb, example="gaiad turns show 1ab94c2f --json | jq '.stages[] | {stage, role, ms}'")
@click.argument("turn", metavar="ID")
@tenant_option
def show(turn: str, tenant: str) -> None:
    """Tell how a turn went: who did what, how it was voted, how it ended.

    ID is the turn's id or the eight digits shown; `gaiad cognition show` shows the packets named here.
    """
    with invocation().client() as client:
        found = client.council.turn(turn, tenant)
    if invocation().as_json:
        write_json(found)
    else:
        click.echo(turn_text(found, same_place()))
