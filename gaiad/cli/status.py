"""`gaiad status`: the daemon at a glance, what is degraded first."""

from typing import TYPE_CHECKING

import click

from gaiad.cli.command import Verb, invocation, print_result
from gaiad.cli.output import bold, counted, duration, plain, size, table, warn

if TYPE_CHECKING:
    from gaiad.wire.status import ModelStatus, Status


@click.command(
    cls=Verb,
    example="""
        gaiad status
        gaiad status --json | jq .queue
        until [ "$(gaiad status --json | jq .queue)" = 0 ]; do sleep 1; done
    """,
)
@click.option("--tenant", default="", metavar="NAME", help="Count this tenant's packets only.")
def status(tenant: str) -> None:
    """Show what the daemon holds and what is degraded.

    Exits 5 when no daemon answers. "degraded" lists what does not work as it should; the daemon still answers.
    """
    with invocation().client() as client:
        found = client.status(tenant)
    print_result(found, status_text(found))


def status_text(status: "Status") -> str:
    """The table for people."""
    rows = [
        ("home", status.home),
        ("socket", status.socket),
        ("url", status.url or "no TCP listener"),
        ("memory", size(status.memory_bytes)),
        (
            "packets",
            f"{status.packets:,}" + (f", and {status.quarantined:,} in quarantine" if status.quarantined else ""),
        ),
        ("pages", f"{status.pages:,}"),
        ("vectors", f"{status.vectors:,}" + (f" ({counted(status.queue, 'page')} waiting)" if status.queue else "")),
        *(("tenants", ", ".join(status.tenants)) for _ in status.tenants[:1]),
        *(("watching" if not number else "", folder) for number, folder in enumerate(status.folders)),
        *((f"model {model.role}", _model(model)) for model in status.models),
        *(("jobs", _jobs(status.jobs)) for _ in list(status.jobs)[:1]),
        *(("research", _research(status.research)) for _ in status.research[:1]),
    ]
    head = f"{bold('gaiad')} {status.version} runs as pid {status.pid} for {duration(status.uptime_s)}"
    reasons = [f"{warn('degraded:')} {plain(reason)}" for reason in status.degraded]
    return "\n".join([head, *reasons, table(rows)])


def _model(model: "ModelStatus") -> str:
    parts = [
        model.state,
        model.kind,
        model.path_or_url,
        model.reason,
        size(model.memory_bytes) if model.memory_bytes else "",
    ]
    return ", ".join(part for part in parts if part)


def _jobs(jobs: dict[str, int]) -> str:
    return ", ".join(f"{number:,} {state}" for state, number in jobs.items() if number) or "none"


def _research(under_way: list[str]) -> str:
    return f"{counted(len(under_way), 'run')} under way: {', '.join(under_way)}"
