"""`gaiad ingest`: hand files and folders to the daemon, and say what became of each as it comes."""

import os
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gaiad.base.errors import BadInput, Cancelled, GaiadError
from gaiad.cli.command import Verb, invocation, print_result, tenant_option
from gaiad.cli.output import FAILED, INTERRUPTED, end, plain, warn, write_json
from gaiad.cli.progress import Followed, follow_job

if TYPE_CHECKING:
    from gaiad.client.client import Client
    from gaiad.wire.ingest import IngestOutcome, IngestRequest
    from gaiad.wire.status import Job

_NOT_KEPT = ("quarantined", "failed")


@click.command(
    cls=Verb,
    example="""
        gaiad ingest packet.xml ~/packets
        gaiad ingest --json ~/packets | jq -r 'select(.outcome == "quarantined") | .path + ": " + .reason'
        gaiad ingest --detach ~/packets && gaiad jobs
        generate-packet | gaiad ingest -
    """,
)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--detach", is_flag=True, help="Print the job's id and return; the daemon continues.")
@click.option("--key", default="", metavar="TEXT", help="Idempotency key: a key seen before answers with that job.")
@tenant_option
def ingest(paths: tuple[str, ...], detach: bool, key: str, tenant: str) -> None:
    """Read Transmission Packets from files and folders.

    XML and JSON; "-" reads one packet from standard input.

    Exits 0 when every file was accepted, known already or not a packet (ignored), and 1 when one was quarantined or
    failed. A missing path exits 2 before anything starts. With --json one object a file, a line each, as
    they come. Ctrl-C cancels what is left.
    """
    request = _request(paths, tenant, key)
    with invocation().client() as client:
        job = client.ingest(request).job
        if detach:
            _show_detached(job)
            return
        outcomes, followed = _follow(client, job)
    _finish(outcomes, followed)


def _request(paths: tuple[str, ...], tenant: str, key: str) -> "IngestRequest":
    from gaiad.wire.ingest import IngestDocument, IngestRequest

    files = [os.path.normpath(Path(path).absolute()) for path in paths if path != "-"]
    missing = [path for path in files if not os.path.lexists(path)]
    if missing:
        _report_missing(missing)
    if len(files) == len(paths):
        return IngestRequest(paths=files, tenant=tenant, idempotency_key=key, wait=False)
    if files:
        raise click.UsageError('"-" cannot be combined with files: ingest files and standard input separately')
    try:
        content = sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInput(f"standard input is not UTF-8 ({error}); save it as a file and ingest that") from error
    return IngestRequest(documents=[IngestDocument(name="stdin", content=content)], tenant=tenant, idempotency_key=key)


def _report_missing(missing: list[str]) -> None:
    from gaiad.wire.ingest import IngestOutcome

    if invocation().as_json:
        for path in missing:
            write_json(IngestOutcome(path=path, outcome="failed", reason="no such file or folder"))
    raise BadInput(f"no such file or folder: {', '.join(missing)}; nothing was ingested")


def _follow(client: "Client", job: "Job") -> tuple[list["IngestOutcome"], Followed]:
    outcomes: list[IngestOutcome] = []

    def read_fresh(_seen: "Job") -> None:
        while fresh := client.outcomes(job.job_id, len(outcomes), job.tenant):
            outcomes.extend(fresh)
            if invocation().as_json:
                for outcome in fresh:
                    write_json(outcome)

    return outcomes, follow_job(client, job, "ingest", read_fresh)


def _show_detached(job: "Job") -> None:
    print_result(job, job.job_id)


def _finish(outcomes: list["IngestOutcome"], followed: Followed) -> None:
    job = followed.job
    if not invocation().as_json:
        click.echo(outcomes_text(outcomes))
    if job.state == "cancelled":
        error = Cancelled(f"cancelled after {job.done:,} of {job.total:,} files; ingest them again to continue")
        if not followed.interrupted:
            raise error
        print(f"gaiad: {error.message}", file=sys.stderr)
        end(INTERRUPTED)
    if job.state == "failed":
        raise GaiadError(f"{job.job_id} failed: {job.note}")
    if any(outcome.outcome in _NOT_KEPT for outcome in outcomes):
        end(FAILED)


def outcomes_text(outcomes: list["IngestOutcome"]) -> str:
    """A line for each file when they are few, else for those with something to say; then the counts."""
    few = len(outcomes) <= 20
    told = [outcome for outcome in outcomes if few or outcome.outcome in _NOT_KEPT]
    counts = Counter(outcome.outcome for outcome in outcomes)
    total = ", ".join(f"{number:,} {kind}" for kind, number in counts.most_common()) or "no files found"
    return "\n".join([*(_outcome_line(outcome) for outcome in told), total])


def _outcome_line(outcome: "IngestOutcome") -> str:
    kind = outcome.outcome.ljust(len("quarantined"))
    parts = [outcome.packet_id, outcome.dialect, outcome.integrity, outcome.reason]
    about = "  ".join(plain(part) for part in parts if part)
    return f"{warn(kind) if outcome.outcome in _NOT_KEPT else kind}  {plain(outcome.path)}  {about}".rstrip()
