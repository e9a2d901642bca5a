"""`gaiad council seeds`: thoughts for later, and what the council made of them."""

from typing import TYPE_CHECKING

import click

from gaiad.cli.command import Verb, invocation, tenant_option
from gaiad.cli.output import cut_line, table, terminal_width, write_json

if TYPE_CHECKING:
    from gaiad.council_schemas import SeedRecord

_STATES = ("open", "taken", "proposed", "passed", "failed", "dropped")
_NARROWEST = 24
_BESIDE = 48  # columns that state, time and turn take


@click.command("seeds", cls=Verb, example="gaiad council seeds --json | jq '.seeds[] | select(.state == \"passed\")'")
@click.option("--state", type=click.Choice(_STATES), default=None, help="Only those in this state.")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1, 1000), help="How many at most.")
@tenant_option
def seeds(state: str | None, limit: int, tenant: str) -> None:
    """List thoughts for later, the newest first, and what became of them.

    While nobody waits, the council takes up one open thought at a time: Prime develops it into a proposal, and the
    roles vote. Nothing is ever executed. Switch it off with initiative.enabled.
    """
    with invocation().client() as client:
        found = client.council.seeds(tenant, limit, state)
    if invocation().as_json:
        write_json({"seeds": found})
    else:
        click.echo(seeds_text(found, terminal_width()))


def seeds_text(found: "list[SeedRecord]", width: int) -> str:
    """A row a thought, cut to `width` columns; `gaiad turns show` takes the turn's digits."""
    from gaiad.ids import short

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
