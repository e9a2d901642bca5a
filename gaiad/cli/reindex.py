"""`gaiad reindex`: rebuild everything derived from the stored originals."""

import click

from gaiad.cli.command import Verb, invocation, tenant_option
from gaiad.cli.errors import INTERRUPTED, end
from gaiad.cli.jobs import job_text
from gaiad.cli.output import write_json
from gaiad.cli.progress import follow_job
from gaiad.errors import Cancelled, GaiadError


@click.command(
    cls=Verb,
    example="""
        gaiad reindex
        gaiad reindex --detach && gaiad jobs
    """,
)
@click.option("--detach", is_flag=True, help="Print the job's id and leave it to the daemon.")
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
    if invocation().as_json:
        write_json(job)
    else:
        click.echo(job.job_id if detach else job_text(job))
    if interrupted and job.state == "cancelled":
        end(INTERRUPTED)
    if job.state == "cancelled":
        raise Cancelled(f"{job.job_id} was cancelled; run gaiad reindex again")
    if job.state == "failed":
        raise GaiadError(f"{job.job_id} failed: {job.note}")
