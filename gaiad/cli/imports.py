"""`gaiad import`: hand exports, sessions and notes to the daemon, and say what was found in them."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gaiad.base.errors import BadInput, Cancelled, GaiadError
from gaiad.cli.command import Verb, invocation, tenant_option
from gaiad.cli.output import FAILED, INTERRUPTED, end, plain, warn, write_json
from gaiad.cli.progress import Followed, follow_job

if TYPE_CHECKING:
    from gaiad.client.client import Client
    from gaiad.wire.ingest import ImportOutcome, ImportSummary
    from gaiad.wire.status import Job

_NOT_KEPT = ("refused", "failed")
_SHOWN_CONVERSATIONS = 12
_SHOWN_LINES = 5


@click.command(
    "import",
    cls=Verb,
    example="""
        gaiad import ~/Downloads/chatgpt-export.zip
        gaiad import ~/.claude/projects ~/.codex/sessions ~/notes
        gaiad import --dry-run --json export.zip | jq -r '.first_message + " " + .title'
        gaiad import --as document report.xml
    """,
)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--dry-run", is_flag=True, help="Show what would be imported without storing anything.")
@click.option(
    "--as",
    "form",
    type=click.Choice(["document"]),
    help="Take well-formed XML and JSON of no known kind as one packet.",
)
@click.option("--again", is_flag=True, help="Also take conversations that you deleted one by one.")
@click.option("--detach", is_flag=True, help="Print the job's id and return; the daemon continues.")
@click.option("--key", default="", metavar="TEXT", help="Idempotency key: a key seen before answers with that job.")
@tenant_option
def import_(
    paths: tuple[str, ...], dry_run: bool, form: str | None, again: bool, detach: bool, key: str, tenant: str
) -> None:
    """Bring in your own history: chat exports, agent sessions, notes.

    ChatGPT and Claude.ai exports, Claude Code, Codex and Gemini CLI sessions, Google Takeout, Open WebUI, LibreChat,
    Grok, AI Studio, `llm` logs, Obsidian and Markdown folders, transcripts, Transmission Packets; as files, folders or
    zip archives, recognised by their content.

    One conversation becomes one packet. Import the same export again to add only what is new or changed. Exits 1
    when something was refused or could not be read. With --json one object a conversation, a line each, as they come.
    """
    from gaiad.wire.ingest import ImportRequest

    files = [os.path.normpath(Path(path).absolute()) for path in paths]
    missing = [path for path in files if not os.path.lexists(path)]
    if missing:
        raise BadInput(f"no such file or folder: {', '.join(missing)}; nothing was imported")
    request = ImportRequest(
        paths=files,
        tenant=tenant,
        as_document=form == "document",
        dry_run=dry_run,
        again=again,
        idempotency_key=key,
    )
    with invocation().client() as client:
        job = client.import_paths(request)
        if detach:
            write_json(job) if invocation().as_json else click.echo(job.job_id)
            return
        outcomes, followed = _follow(client, job)
    _finish(outcomes, followed, dry_run=dry_run)


def _follow(client: "Client", job: "Job") -> tuple[list["ImportOutcome"], Followed]:
    """What is worth a line at the end; with --json each conversation is printed as it comes."""
    told: list[ImportOutcome] = []
    seen = lines = 0

    def read_fresh(_job: "Job") -> None:
        nonlocal seen, lines
        while fresh := client.imported(job.job_id, seen, job.tenant):
            seen += len(fresh)
            for outcome in fresh:
                if invocation().as_json and (outcome.conversation_id or outcome.outcome in _NOT_KEPT):
                    write_json(outcome)
                lines += outcome.line > 0
                first = lines <= _SHOWN_LINES if outcome.line else len(told) < _SHOWN_CONVERSATIONS * 2
                if outcome.outcome in _NOT_KEPT or first:
                    told.append(outcome)

    return told, follow_job(client, job, "import", read_fresh)


def _finish(outcomes: list["ImportOutcome"], followed: Followed, *, dry_run: bool) -> None:
    import msgspec

    from gaiad.wire.ingest import ImportSummary

    job = followed.job
    if job.state == "failed":
        raise GaiadError(f"{job.job_id} failed: {job.note}")
    if job.state == "cancelled":
        error = Cancelled("cancelled; what was read so far is kept, run the same import again to continue")
        if followed.interrupted:
            click.echo(f"gaiad: {error.message}", err=True)
            end(INTERRUPTED)
        raise error
    summary = msgspec.convert(job.result, ImportSummary)
    if not invocation().as_json:
        click.echo(outcomes_text(outcomes, summary))
    if any(summary.outcomes.get(kind) for kind in _NOT_KEPT) or not _total(summary):
        end(FAILED)


def outcomes_text(outcomes: list["ImportOutcome"], summary: "ImportSummary") -> str:
    """A line for each conversation when they are few, one for all that was refused and for the first broken lines of
    files, and the closing sentence.
    """
    few = sum(summary.outcomes.values()) <= _SHOWN_CONVERSATIONS
    told = [each for each in outcomes if each.outcome in _NOT_KEPT or (few and not each.line)]
    told += [each for each in outcomes if each.line][:_SHOWN_LINES]
    lines = [*(_outcome_line(each) for each in told), _sentence(summary)]
    left = [f"{reason} ({number:,})" for reason, number in summary.left_out.items()]
    if left:
        lines.append(f"Left out: {plain('; '.join(left))}.")
    if summary.questions and not summary.dry_run:
        lines += ["Try:", *(f"  gaiad ask {_quoted(question)}" for question in summary.questions)]
    return "\n".join(lines)


def _outcome_line(outcome: "ImportOutcome") -> str:
    kind = outcome.outcome.ljust(len("duplicate"))
    if not outcome.conversation_id:
        about = f"{plain(outcome.path)}: {plain(outcome.reason)}"
    else:
        parts = [outcome.first_message[:10], plain(outcome.title) or "untitled", _said(outcome), plain(outcome.reason)]
        about = "  ".join(part for part in parts if part)
    return f"{warn(kind) if outcome.outcome in _NOT_KEPT else kind}  {about}"


def _said(outcome: "ImportOutcome") -> str:
    if outcome.user_messages + outcome.assistant_messages:
        return f"{outcome.user_messages} + {outcome.assistant_messages} messages"
    return "packet" if outcome.kind == "packet" else "" if outcome.outcome == "ignored" else "note"


def _total(summary: "ImportSummary") -> int:
    return summary.conversations + summary.notes + summary.packets


def _sentence(summary: "ImportSummary") -> str:
    counts = [
        f"{number:,} {name}{'' if number == 1 else 's'}"
        for number, name in (
            (summary.conversations, "conversation"),
            (summary.notes, "note"),
            (summary.packets, "packet"),
        )
        if number
    ]
    if not counts:
        return "Nothing was imported."
    span = f" from {summary.first[:10]} to {summary.last[:10]}" if summary.first else ""
    named = {"accepted": "new", "revised": "changed", "duplicate": "known already"}
    what = ", ".join(f"{summary.outcomes[kind]:,} {word}" for kind, word in named.items() if summary.outcomes.get(kind))
    return f"{'Would import' if summary.dry_run else 'Imported'} {', '.join(counts)}{span}: {what}."


def _quoted(question: str) -> str:
    return "'" + plain(question).replace("'", "'\\''") + "'"
