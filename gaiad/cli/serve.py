"""`gaiad serve`, `gaiad stop` and `gaiad web`: the daemon in this terminal, its end, and a browser's way in."""

import os
import sys
import time
from pathlib import Path

import click

from gaiad.base.errors import BadInput, DeadlineExceeded, Unavailable
from gaiad.cli.command import Verb, invocation, print_result
from gaiad.cli.output import counted, dim, end, write_json


@click.command(
    cls=Verb,
    example="""
        gaiad serve
        gaiad serve --home ./.gaiad --samples
        gaiad serve --set http.port=0 --set embedder.kind=none
    """,
)
@click.option("--samples", is_flag=True, help="On the first start put the project's sample packets into the inbox.")
@click.option(
    "--set", "assignments", multiple=True, metavar="SECTION.KEY=VALUE", help="Override a setting; may repeat."
)
@click.option("--no-http", is_flag=True, help="No TCP listener, the unix socket only.")
@click.option("--log-level", type=click.Choice(["debug", "info", "warning", "error"]), help="What to log, on stderr.")
@click.option(
    "--log-file",
    type=click.Path(path_type=Path),
    help="Log to this file instead of stderr; at 10 MiB a new one is begun, and four older ones are kept.",
)
def serve(
    samples: bool, assignments: tuple[str, ...], no_http: bool, log_level: str | None, log_file: Path | None
) -> None:
    """Run the daemon in the foreground.

    Until Ctrl-C or `gaiad stop`; a second Ctrl-C forces. Prints one ready line with socket, URL and packet count. A
    second daemon on the same home refuses to start.
    """
    from gaiad.base.logs import RotatingLog
    from gaiad.daemon.daemon import serve as run_daemon

    if log_file:
        try:
            sys.stderr = RotatingLog(log_file)
        except OSError as error:
            raise BadInput(f"--log-file {log_file}: {error.strerror}; name a file in a folder that exists") from error
    settings = list(assignments)
    if no_http:
        settings.append("http.enabled=false")
    if log_level:
        settings.append(f"daemon.log_level={log_level}")
    end(run_daemon(home=invocation().home, samples=samples, assignments=settings))


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

    Running work gets a few seconds; jobs continue at the next start. Exits 5 when no daemon answers.
    """
    with invocation().client() as client:
        pid = client.status().pid
        client.stop()
    if wait:
        _wait_for_end(pid, timeout_s)
    print_result({"pid": pid, "stopped": wait}, f"stopped (pid {pid})" if wait else f"stopping (pid {pid})")


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


@click.command(
    cls=Verb,
    example="""
        gaiad web                   open the page in a browser, where there is a display
        gaiad web --print           the link alone, for another browser or a pipe
        gaiad web --logout-all      log every browser out
    """,
)
@click.option("--print", "print_only", is_flag=True, help="Print the link without opening a browser.")
@click.option("--logout-all", is_flag=True, help="Log every browser out, and cancel unused links.")
def web(print_only: bool, logout_all: bool) -> None:
    """Open the page, by a one-time link.

    The link works once, within a few minutes; the browser stays logged in for 30 days. Whoever opens it is you, so give
    it to nobody. Exits 1 when the daemon serves no page (http.enabled = false).
    """
    if print_only and logout_all:
        raise click.UsageError("--print and --logout-all cannot be combined")
    if logout_all:
        _log_out()
        return
    opens = not print_only and _display()
    with invocation().client() as client:
        link = client.post("/web/link", {"for_this_user": opens})
    opened = opens and _open(link["url"])
    if invocation().as_json:
        write_json({**link, "opened": opened})
        return
    click.echo(link["url"])
    said = "opening it in your browser: it works" if opened else "open it in a browser on this machine: it works"
    click.echo(dim(f"{said} once, within {round(link['expires_in_s'] / 60)} minutes", sys.stderr), err=True)


def _log_out() -> None:
    with invocation().client() as client:
        ended = client.post("/web/logout-all", {})["ended"]
    print_result({"ended": ended}, f"logged out: {counted(ended, 'browser')}")


def _display() -> bool:
    """Whether a browser could show anything: a text browser would take over the terminal."""
    return sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _open(url: str) -> bool:
    import webbrowser

    return webbrowser.open(url)
