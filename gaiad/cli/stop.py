"""`gaiad stop`: ask the daemon to stop, and wait until it has."""

import time
from pathlib import Path

import click

from gaiad.cli.command import Verb, invocation
from gaiad.cli.output import write_json
from gaiad.errors import DeadlineExceeded, Unavailable

_POLL_S = 0.05


@click.command(
    cls=Verb,
    example="""
        gaiad stop
        gaiad stop --home ./.gaiad --no-wait
    """,
)
@click.option("--wait/--no-wait", default=True, show_default=True, help="Wait until the process has ended.")
@click.option("--timeout", "timeout_s", default=60.0, show_default=True, help="Seconds to wait; then exit 6.")
def stop(wait: bool, timeout_s: float) -> None:
    """Stop the daemon.

    Running work gets a few seconds; jobs go on at the next start. Exits 5 when no daemon answers.
    """
    with invocation().client() as client:
        pid = client.status().pid
        client.stop()
    if wait:
        _wait_for_end(pid, timeout_s)
    if invocation().as_json:
        write_json({"pid": pid, "stopped": wait})
    else:
        click.echo(f"stopped (pid {pid})" if wait else f"stopping (pid {pid})")


def _wait_for_end(pid: int, timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while _runs(pid):
        if time.monotonic() > deadline:
            raise DeadlineExceeded(
                f"pid {pid} still runs after {timeout_s:g} s; look at its log, or end it with kill {pid}"
            )
        time.sleep(_POLL_S)


def _runs(pid: int) -> bool:
    """Whether the process is there and not merely unreaped; by its answer where there is no /proc."""
    stat = Path("/proc") / str(pid) / "stat"
    if Path("/proc/self/stat").exists():
        try:
            return stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[0] != "Z"
        except (FileNotFoundError, ProcessLookupError):
            return False
    try:
        with invocation().client() as client:
            client.health()
    except Unavailable:
        return False
    return True
