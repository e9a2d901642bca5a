"""`gaiad quarantine`: what could not be read: list it, look at it, read it again, drop it."""

from typing import Any

import click

from gaiad.cli.command import Verb, VerbGroup, invocation, print_result, tenant_option
from gaiad.cli.output import FAILED, end, plain, table, write_json


@click.group(
    cls=VerbGroup,
    invoke_without_command=True,
    example="""
        gaiad quarantine
        gaiad quarantine retry 12
        gaiad quarantine drop 12
    """,
)
@click.pass_context
def quarantine(context: click.Context) -> None:
    """List, show, retry and drop what could not be read.

    Without a further word: list.
    """
    if context.invoked_subcommand is None:
        context.invoke(list_quarantined)


@quarantine.command("list", cls=Verb, example="gaiad quarantine list --json | jq -r '.quarantined[].reason'")
@tenant_option
def list_quarantined(tenant: str = "local") -> None:
    """List the files that could not be read, the newest first, with the reason."""
    with invocation().client() as client:
        found = client.quarantine(tenant)
    rows = [(str(row["id"]), row["at"][:10], plain(row["path"]), _reason(row)) for row in found]
    print_result(
        {"quarantined": found}, table(rows, ("number", "since", "file", "reason")) if rows else "quarantine is empty"
    )


@quarantine.command("show", cls=Verb, example="gaiad quarantine show 12")
@click.argument("number", type=int)
@tenant_option
def show(number: int, tenant: str) -> None:
    """Show one file in quarantine: its reason and the beginning of its text."""
    with invocation().client() as client:
        row = client.quarantined_file(number, tenant)
    if invocation().as_json:
        write_json(row)
        return
    facts = [
        ("file", plain(row["path"])),
        ("since", row["at"]),
        ("bytes", f"{row['size']:,}"),
        ("reason", _reason(row)),
    ]
    click.echo(table(facts))
    if row["text"]:
        click.echo(f"\n{plain(row['text'])}")


@quarantine.command("retry", cls=Verb, example="gaiad quarantine retry 12")
@click.argument("numbers", type=int, nargs=-1, required=True, metavar="NUMBER...")
@tenant_option
def retry(numbers: tuple[int, ...], tenant: str) -> None:
    """Read files again, from their place or else from the bytes that were kept.

    Exits 1 when one still cannot be read.
    """
    with invocation().client() as client:
        outcomes = [client.retry_quarantined(number, tenant) for number in numbers]
    for outcome in outcomes:
        print_result(outcome, f"{outcome.outcome}  {plain(outcome.path)}  {plain(outcome.reason)}".rstrip())
    if any(outcome.outcome in ("quarantined", "failed", "ignored") for outcome in outcomes):
        end(FAILED)


@quarantine.command("drop", cls=Verb, example="gaiad quarantine drop 12 13")
@click.argument("numbers", type=int, nargs=-1, required=True, metavar="NUMBER...")
@tenant_option
def drop(numbers: tuple[int, ...], tenant: str) -> None:
    """Forget files in quarantine; the files themselves stay in place."""
    with invocation().client() as client:
        for number in numbers:
            client.drop_quarantined(number, tenant)
    print_result({"dropped": list(numbers)}, f"dropped {', '.join(map(str, numbers))}")


def _reason(row: dict[str, Any]) -> str:
    return plain(f"line {row['line']}: {row['reason']}" if row["line"] else row["reason"])
