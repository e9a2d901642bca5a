"""`gaiad jobs`: what takes long in the daemon: list, show, follow, cancel."""

from typing import TYPE_CHECKING

import click

from gaiad.cli.command import Verb, VerbGroup, invocation, print_result
from gaiad.cli.output import FAILED, end, plain, table
from gaiad.cli.progress import follow_job

if TYPE_CHECKING:
    from gaiad.wire.status import Job


@click.group(
    cls=VerbGroup,
    invoke_without_command=True,
    example="""
        gaiad jobs
        gaiad jobs show --follow job_01JDXR5A4M3C2V7Y8Z9K6T1QWE
        gaiad jobs cancel job_01JDXR5A4M3C2V7Y8Z9K6T1QWE
    """,
)
@click.pass_context
def jobs(context: click.Context) -> None:
    """List, show and cancel long-running jobs.

    Without a further word: list.
    """
    if context.invoked_subcommand is None:
        context.invoke(list_jobs)


@jobs.command("list", cls=Verb, example="gaiad jobs list --json | jq '.jobs[0]'")
@click.option("--tenant", default="", metavar="NAME", help="Only jobs of this memory.")
def list_jobs(tenant: str = "") -> None:
    """List jobs, the newest first."""
    with invocation().client() as client:
        found = client.jobs(tenant)
    rows = [(job.job_id, job.kind, job.state, _progress(job), job.created_at, job.note) for job in found]
    print_result(
        {"jobs": found}, table(rows, ("job", "kind", "state", "done", "started", "note")) if rows else "no jobs"
    )


@jobs.command("show", cls=Verb, example="gaiad jobs show --follow job_01JDXR5A4M3C2V7Y8Z9K6T1QWE")
@click.argument("job_id", metavar="ID")
@click.option("--follow", is_flag=True, help="Wait until the job has ended; Ctrl-C cancels it. Exits 1 when it failed.")
def show(job_id: str, follow: bool) -> None:
    """Show a job; follow it to its end on request."""
    with invocation().client() as client:
        job = client.job(job_id)
        if follow:
            job = follow_job(client, job, job.kind).job
    print_result(job, job_text(job))
    if follow and job.state != "done":
        end(FAILED)


@jobs.command("cancel", cls=Verb, example="gaiad jobs cancel job_01JDXR5A4M3C2V7Y8Z9K6T1QWE")
@click.argument("job_id", metavar="ID")
def cancel(job_id: str) -> None:
    """Ask a job to stop at its next step; what it has done stays."""
    with invocation().client() as client:
        job = client.cancel_job(job_id)
    print_result(job, f"asked {job.job_id} to stop (it is {job.state})")


def job_text(job: "Job") -> str:
    """A job for people."""
    rows = [
        ("job", job.job_id),
        ("kind", job.kind),
        ("tenant", job.tenant),
        ("state", job.state),
        ("done", _progress(job)),
        ("started", job.created_at),
        ("changed", job.updated_at),
        *(("note", job.note) for _ in [0] if job.note),
        *((plain(str(name)), str(value)) for name, value in job.result.items()),
    ]
    return table(rows)


def _progress(job: "Job") -> str:
    return f"{job.done:,}/{job.total:,}" if job.total else f"{job.done:,}"
