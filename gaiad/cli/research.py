"""`gaiad research`: runs under way and kept: begin one, follow it, see how it came to its answer, forget it."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from gaiad.cli.ask import question_options, request_from
from gaiad.cli.command import Verb, VerbGroup, invocation, print_result, same_place, tenant_option
from gaiad.cli.flags import user_zone
from gaiad.cli.output import dim, plain, table, terminal_width, write_json
from gaiad.cli.research_text import run_row, run_text

if TYPE_CHECKING:
    from gaiad.client.connection import ServerEvent

_HEADS = ("run", "began (UTC)", "status", "confidence", "sources", "contradictions", "question")
_SOURCE_TEXT = "the packet was revised since the run; this is its text now"


@click.group(
    cls=VerbGroup,
    example="""
        gaiad research list
        gaiad research show res_01JD3Z9Q5M4X8V7Y2K6T1QWERT
        gaiad research review
        gaiad research follow $(gaiad research start what changed since the MIT study)
    """,
)
def research() -> None:
    """Inspect how answers came about: searches, sources, contradictions.

    Runs can also continue in the background, across restarts of the daemon.
    """


@research.command("start", cls=Verb, example="gaiad research start --since 2025-11-01 who proposed the law of consent")
@click.argument("question", nargs=-1)
@question_options
def start(question: tuple[str, ...], **given: Any) -> None:
    """Start a run in the background and print its ID.

    It survives a stop or crash of the daemon: an interrupted run goes on where it was at the next start.
    """
    with invocation().client() as client:
        research_id = client.runs.start(request_from(question, given))
    if invocation().as_json:
        write_json({"research_id": research_id})
        return
    click.echo(research_id)
    follow_it = f"gaiad research follow {research_id}{same_place()}"
    click.echo(f"{follow_it} shows its progress, gaiad research cancel ends it", err=True)


@research.command("follow", cls=Verb, example="gaiad research follow RUN --json | jq -c '.event'")
@click.argument("run", metavar="ID")
@tenant_option
def follow(run: str, tenant: str) -> None:
    """Follow a run, and print its answer at the end.

    Of an old run only the answer is left. Ctrl-C leaves the run going. With --json each event is a line of its own,
    the last one `result`.
    """
    from gaiad.cli.research_text import engine_line, result_of, result_text, told

    stopped = f"the daemon stopped; the run continues at its next start: gaiad research follow {run}{same_place()}"
    with invocation().client() as client:
        events = client.runs.follow(run, tenant)
        if invocation().as_json:
            result_of(_written(events), stopped)
            return
        result = result_of(told(events), stopped)
    options = same_place()
    click.echo(result_text(result, "", terminal_width(), confidence=True, zone=user_zone(), options=options))
    click.echo(dim(engine_line(result, options)))


def _written(events: "Iterable[ServerEvent]") -> "Iterator[ServerEvent]":
    for event in events:
        write_json({"event": event.event, "data": event.data})
        yield event


@research.command("cancel", cls=Verb, example="gaiad research cancel RUN")
@click.argument("run", metavar="ID")
@tenant_option
def cancel(run: str, tenant: str) -> None:
    """Cancel a running run, also for other callers.

    It stays on the list as cancelled, with what it found until then.
    """
    from gaiad.base.errors import Conflict

    with invocation().client() as client:
        cancelled = client.runs.cancel(run, tenant)
    if not cancelled:
        raise Conflict(f"run {run} has already ended; see `gaiad research show {run}{same_place()}`")
    print_result({"research_id": run, "cancelled": True}, f"cancelled {run}")


@research.command("forget", cls=Verb, example="gaiad research forget RUN")
@click.argument("run", metavar="ID")
@tenant_option
def forget(run: str, tenant: str) -> None:
    """Delete a stored run with its question, answer and payload.

    Packets stay. Old runs are deleted automatically: research.keep_runs_days, research.keep_runs_max.
    """
    with invocation().client() as client:
        client.runs.forget(run, tenant)
    print_result({"research_id": run, "forgotten": True}, f"forgot {run}")


@research.command("list", cls=Verb, example="gaiad research list --json | jq '.runs[] | {research_id, outcome}'")
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1, 1000), help="How many.")
@tenant_option
def list_runs(limit: int, tenant: str) -> None:
    """List research runs, the newest first."""
    _listed(limit, tenant, to_review=False, none="no research yet; ask something: gaiad ask QUESTION")


@research.command("review", cls=Verb, example="gaiad research review --done RUN")
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1, 1000), help="How many.")
@click.option("--done", multiple=True, metavar="ID", help="Mark a run as reviewed. Can be repeated.")
@click.option("--again", multiple=True, metavar="ID", help="Put a reviewed run back on the list.")
@tenant_option
def review(limit: int, done: tuple[str, ...], again: tuple[str, ...], tenant: str) -> None:
    """List the runs to look at again: PARTIAL, or of low confidence.

    Low is below 0.5. Runs without an answer (NOT_FOUND) are not listed.
    """
    if not done and not again:
        _listed(limit, tenant, to_review=True, none="nothing to review: no run is PARTIAL or of low confidence")
        return
    with invocation().client() as client:
        for run in done:
            client.runs.review(run, tenant)
        for run in again:
            client.runs.review(run, tenant, done=False)
    print_result(
        {"done": done, "again": again},
        "\n".join([*(f"reviewed {run}" for run in done), *(f"put back {run}" for run in again)]),
    )


@research.command("settle", cls=Verb, example="gaiad research settle RUN contra_001 resolved 'The second is newer.'")
@click.argument("run", metavar="ID")
@click.argument("contradiction", metavar="CONTRADICTION")
@click.argument("status", type=click.Choice(["resolved", "acknowledged", "open"]))
@click.argument("words", nargs=-1, metavar="[HOW]...")
@tenant_option
def settle(run: str, contradiction: str, status: str, words: tuple[str, ...], tenant: str) -> None:
    """Mark a contradiction of a run as resolved or acknowledged.

    HOW says how it was resolved, or why it stays. `gaiad research show` lists contradictions.
    """
    from urllib.parse import quote

    body = {"contradiction_id": contradiction, "status": status, "resolution": " ".join(words), "tenant": tenant}
    with invocation().client() as client:
        found = client.post(f"/research/{quote(run, safe='')}/contradictions", body)
    (record,) = [one for one in found["payload"]["contradictions"] if one["contradictionID"] == contradiction]
    print_result(record, f"{contradiction}: {record['status']}")


@research.command("import", cls=Verb, example="gaiad research import payload.json")
@click.argument("file", type=click.File("rb"))
@tenant_option
def import_run(file: BinaryIO, tenant: str) -> None:
    """Store a run that another researcher made, from its payload.

    The payload is what `gaiad research show --payload` prints. The same payload again is the same run.
    """
    import json

    from gaiad.base.errors import BadInput

    try:
        payload = json.loads(file.read())
    except ValueError as error:
        raise BadInput(f"{file.name}: not JSON ({error})") from error
    with invocation().client() as client:
        found = client.post("/research/import", {"payload": payload, "tenant": tenant})
    print_result(found, found["research_id"])


@research.command("show", cls=Verb, example="gaiad research show RUN --payload | jq '.contradictions'")
@click.argument("run", metavar="ID")
@click.option("--payload", is_flag=True, help="Print the research payload (the full audit trail) as JSON.")
@tenant_option
def show(run: str, payload: bool, tenant: str) -> None:
    """Show how a run went: what was searched, found, compared and learned.

    ID is what `gaiad ask --json` gives as research_id.
    """
    with invocation().client() as client:
        found = client.runs.show(run, tenant)
    if payload:
        write_json(found.payload)
    else:
        print_result(found, run_text(found, terminal_width()))


@research.command("source", cls=Verb, example="gaiad research source RUN src_001 | less")
@click.argument("run", metavar="ID")
@click.argument("source", metavar="SOURCE")
@tenant_option
def show_source(run: str, source: str, tenant: str) -> None:
    """Print the full text of a run's source.

    The payload holds the first 10,000 characters of it.
    """
    with invocation().client() as client:
        found = client.runs.source(run, source, tenant)
    if invocation().as_json:
        write_json(found)
        return
    if found.changed:
        click.echo(f"{found.packet_id}: {_SOURCE_TEXT}", err=True)
    click.echo(plain(found.content))


def _listed(limit: int, tenant: str, *, to_review: bool, none: str) -> None:
    with invocation().client() as client:
        found = client.runs.newest(tenant, limit, to_review=to_review)
    print_result({"runs": found}, table([run_row(row) for row in found], _HEADS) if found else none)
