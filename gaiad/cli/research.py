"""`gaiad research`: runs that were kept: how each came to its answer, which to look at again, what sources say."""

import click

from gaiad.cli.command import Verb, VerbGroup, invocation, tenant_option
from gaiad.cli.output import plain, table, terminal_width, write_json
from gaiad.cli.research_story import run_row, run_text

_HEADS = ("run", "began (UTC)", "status", "confidence", "sources", "contradictions", "question")
_SOURCE_TEXT = "the packet was revised since the run; this is its text now"


@click.group(
    cls=VerbGroup,
    example="""
        gaiad research list
        gaiad research show res_01JD3Z9Q5M4X8V7Y2K6T1QWERT
        gaiad research review
    """,
)
def research() -> None:
    """Look at how answers came about: searches, sources, contradictions."""


@research.command("list", cls=Verb, example="gaiad research list --json | jq '.runs[] | {research_id, outcome}'")
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1, 1000), help="How many.")
@tenant_option
def list_runs(limit: int, tenant: str) -> None:
    """List research runs, the newest first."""
    _listed(limit, tenant, to_review=False, none="no research yet; ask something: gaiad ask QUESTION")


@research.command("review", cls=Verb, example="gaiad research review --limit 5")
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1, 1000), help="How many.")
@tenant_option
def review(limit: int, tenant: str) -> None:
    """List the runs to look at again: PARTIAL, or of low confidence.

    Low is below 0.5. What was not found at all (NOT_FOUND) has no answer to look at and is not listed.
    """
    _listed(limit, tenant, to_review=True, none="nothing to review: no run is PARTIAL or of low confidence")


@research.command("show", cls=Verb, example="gaiad research show RUN --payload | jq '.contradictions'")
@click.argument("run", metavar="ID")
@click.option("--payload", is_flag=True, help="Print the research payload: the whole trail, as JSON.")
@tenant_option
def show(run: str, payload: bool, tenant: str) -> None:
    """Tell how a run went: what was searched, found, compared and learned.

    ID is what `gaiad ask --json` gives as research_id.
    """
    with invocation().client() as client:
        found = client.research_run(run, tenant)
    if payload:
        write_json(found.payload)
    elif invocation().as_json:
        write_json(found)
    else:
        click.echo(run_text(found, terminal_width()))


@research.command("source", cls=Verb, example="gaiad research source RUN src_001 | less")
@click.argument("run", metavar="ID")
@click.argument("source", metavar="SOURCE")
@tenant_option
def show_source(run: str, source: str, tenant: str) -> None:
    """Print the whole text of a run's source.

    The payload holds the first 10,000 characters of it.
    """
    with invocation().client() as client:
        found = client.research_source(run, source, tenant)
    if invocation().as_json:
        write_json(found)
        return
    if found.changed:
        click.echo(f"{found.packet_id}: {_SOURCE_TEXT}", err=True)
    click.echo(plain(found.content))


def _listed(limit: int, tenant: str, *, to_review: bool, none: str) -> None:
    with invocation().client() as client:
        found = client.research_runs(tenant, limit, to_review=to_review)
    if invocation().as_json:
        write_json({"runs": found})
    else:
        click.echo(table([run_row(row) for row in found], _HEADS) if found else none)
