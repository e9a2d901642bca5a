"""`gaiad web`: let a browser in, by a link that works once; and log all browsers out."""

import os
import sys

import click

from gaiad.cli.command import Verb, invocation, print_result
from gaiad.cli.output import counted, dim, write_json


@click.command(
    cls=Verb,
    example="""
        gaiad web                   open the page in a browser, where there is a display
        gaiad web --print           the link alone, for another browser or a pipe
        gaiad web --logout-all      every browser needs a new link
    """,
)
@click.option("--print", "print_only", is_flag=True, help="Print the link without opening a browser.")
@click.option("--logout-all", is_flag=True, help="End every browser's login, and the links that wait.")
def web(print_only: bool, logout_all: bool) -> None:
    """Open the page, by a one-time link.

    The link works once, within a few minutes; the browser stays logged in for 30 days. Whoever opens it is you, so give
    it to nobody. Exits 1 when the daemon serves no page (http.enabled = false).
    """
    if print_only and logout_all:
        raise click.UsageError("--print and --logout-all exclude each other")
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
