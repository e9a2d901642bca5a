"""`gaiad forget`: delete packets, conversations, an import or everything, and undo it within a day."""

from typing import Any

import click

from gaiad.cli.command import Verb, VerbGroup, invocation, print_result, same_place, tenant_option
from gaiad.cli.output import counted, plain, table, write_json


@click.group(
    cls=VerbGroup,
    example="""
        gaiad forget packet tp-20250928-134500
        gaiad forget conversation garden --now
        gaiad forget import job_01K...
        gaiad forget undo fgt_01K...
    """,
)
def forget() -> None:
    """Delete packets, conversations or imports; can be undone for 24 hours."""


def _deleting(function: Any) -> Any:
    """The options of every kind of deletion."""
    now = click.option("--now", is_flag=True, help="Wipe it at once; this cannot be undone.")
    yes = click.option("--yes", is_flag=True, help="Do not ask.")
    return now(yes(tenant_option(function)))


@forget.command("packet", cls=Verb, example="gaiad forget packet tp-20250928-134500")
@click.argument("packet_ids", metavar="ID...", nargs=-1, required=True)
@_deleting
def forget_packet(packet_ids: tuple[str, ...], now: bool, yes: bool, tenant: str) -> None:
    """Delete packets, every revision."""
    _forget({"packet_ids": list(packet_ids)}, now, yes, tenant)


@forget.command("conversation", cls=Verb, example="gaiad forget conversation garden")
@click.argument("session_ids", metavar="SESSION...", nargs=-1, required=True)
@_deleting
def forget_conversation(session_ids: tuple[str, ...], now: bool, yes: bool, tenant: str) -> None:
    """Delete conversations held here."""
    _forget({"session_ids": list(session_ids)}, now, yes, tenant)


@forget.command("import", cls=Verb, example="gaiad forget import job_01K...")
@click.argument("job_id", metavar="JOB")
@_deleting
def forget_import(job_id: str, now: bool, yes: bool, tenant: str) -> None:
    """Delete what an import brought; `gaiad jobs list` names imports."""
    _forget({"import_id": job_id}, now, yes, tenant)


@forget.command("everything", cls=Verb, example="gaiad forget everything --tenant work")
@_deleting
def forget_everything(now: bool, yes: bool, tenant: str) -> None:
    """Delete all packets and conversations of a tenant."""
    _forget({"everything": True}, now, yes, tenant)


@forget.command("undo", cls=Verb, example="gaiad forget undo fgt_01K...")
@click.argument("forget_id", metavar="ID")
@tenant_option
def undo(forget_id: str, tenant: str) -> None:
    """Put deleted packets back. Log entries that quoted them do not come back."""
    with invocation().client() as client:
        answer = client.post("/forget/undo", {"forget_id": forget_id, "tenant": tenant})
    print_result(answer, f"{counted(answer['packets'], 'packet')} restored")


@forget.command("list", cls=Verb, example="gaiad forget list")
@tenant_option
def list_forgotten(tenant: str) -> None:
    """List deletions that can be undone."""
    with invocation().client() as client:
        rows = client.get(f"/forget?tenant={tenant}")["forgotten"]
    shown = [
        (row["forget_id"], f"{row['packets']:,}", row["forgotten_at"][:19], row["undo_until"][:19]) for row in rows
    ]
    print_result(
        {"forgotten": rows}, table(shown, ("id", "packets", "deleted", "undo until")) if rows else "nothing to undo"
    )


def _forget(what: dict[str, Any], now: bool, yes: bool, tenant: str) -> None:
    request = {**what, "now": now, "tenant": tenant}
    with invocation().client() as client:
        if not yes:
            report = client.post("/forget", {**request, "dry_run": True})
            click.echo(_summary(report), err=True)
            click.confirm("Delete this?" if not now else "Delete this for good?", abort=True, err=True)
        report = client.post("/forget", request)
    if invocation().as_json:
        write_json(report)
        return
    if yes:
        click.echo(_summary(report))
    for source in report["sources"]:
        kept = (
            "deleted" if source in report["removed_files"] else "left in place; delete it yourself if you want it gone"
        )
        click.echo(f"source file {plain(source)}: {kept}")
    if report["forget_id"]:
        until = report["undo_until"][:16].replace("T", " ")
        click.echo(f"deleted; undo until {until} UTC: gaiad forget undo {report['forget_id']}{same_place()}")
    else:
        click.echo("deleted for good; earlier backups still have it")


def _summary(report: dict[str, Any]) -> str:
    lines = [f"{counted(report['packets'], 'packet')}, {counted(report['pages'], 'page')}"]
    lines += [f"  {plain(title)}" for title in report["titles"]]
    if report["quoting_turns"]:
        lines.append(f"and {counted(report['quoting_turns'], 'chat turn')} quoting them")
    if report["log_entries"]:
        lines.append(f"and {report['log_entries']:,} log entries that name them")
    return "\n".join(lines)
