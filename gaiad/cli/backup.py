"""`gaiad backup`, `gaiad restore`, `gaiad reindex`: copies of the memory, and what is derived from its originals."""

from pathlib import Path
from typing import Any

import click

from gaiad.base.errors import BadInput, Cancelled, GaiadError
from gaiad.cli.command import Verb, invocation, print_result, tenant_option
from gaiad.cli.jobs import job_text
from gaiad.cli.output import INTERRUPTED, end, plain, table
from gaiad.cli.progress import follow_job


@click.command(
    cls=Verb,
    example="""
        gaiad backup ~/backups/$(date +%F)
    """,
)
@click.argument("directory", metavar="DIR", type=click.Path(file_okay=False))
def backup(directory: str) -> None:
    """Copy all that gaiad keeps to DIR while the daemon works.

    Memory, jobs, turns and their packets, the council's log, RFCs, thoughts and the audit; not settings, identity and
    keys. The copy is consistent: it shows one moment of each memory.
    """
    target = Path(directory).expanduser().absolute()
    with invocation().client() as client:
        _show(client.backup(target), f"backed up to {target}")


@click.command(
    cls=Verb,
    example="""
        gaiad restore ~/backups/2025-11-30
    """,
)
@click.argument("directory", metavar="DIR", type=click.Path(file_okay=False))
def restore(directory: str) -> None:
    """Restore the backup in DIR.

    What is there now is moved aside within the home and never deleted. The audit is never shortened: where it
    continues the backup's it stays, and notes the restore. It is refused while a job or a turn runs.
    """
    source = Path(directory).expanduser().absolute()
    if not source.is_dir():
        raise BadInput(f"{source}: no such folder; give one that gaiad backup made")
    with invocation().client() as client:
        _show(client.restore(source), f"restored from {source}")


def _show(facts: dict[str, Any], headline: str) -> None:
    rows = [(name.replace("_", " "), _value_text(value)) for name, value in facts.items()]
    print_result(facts, "\n".join(part for part in (headline, table(rows)) if part))


def _value_text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(_value_text(item) for item in value)
    if isinstance(value, dict):
        return ", ".join(f"{name}: {_value_text(item)}" for name, item in value.items())
    return plain(f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value))


@click.command(
    cls=Verb,
    example="""
        gaiad reindex
        gaiad reindex --detach && gaiad jobs
    """,
)
@click.option("--detach", is_flag=True, help="Print the job's id and return; the daemon continues.")
@tenant_option
def reindex(detach: bool, tenant: str) -> None:
    """Rebuild all that is derived from the originals.

    That is fields, pages, text index and vectors. The archive stays searchable meanwhile; vectors follow from their
    queue. Ctrl-C cancels.
    """
    with invocation().client() as client:
        job, interrupted = client.reindex(tenant), False
        if not detach:
            job, interrupted = follow_job(client, job, "reindex")
    print_result(job, job.job_id if detach else job_text(job))
    if interrupted and job.state == "cancelled":
        end(INTERRUPTED)
    if job.state == "cancelled":
        raise Cancelled(f"{job.job_id} was cancelled; run gaiad reindex again")
    if job.state == "failed":
        raise GaiadError(f"{job.job_id} failed: {job.note}")
