"""`gaiad serve`: run the daemon in the foreground; the only verb that imports it."""

import click

from gaiad.cli.command import Verb, invocation
from gaiad.cli.errors import end


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
def serve(samples: bool, assignments: tuple[str, ...], no_http: bool, log_level: str | None) -> None:
    """Run the daemon in the foreground.

    Until Ctrl-C or `gaiad stop`; a second Ctrl-C forces. Prints one ready line with socket, URL and packet count. A
    second daemon on the same home refuses to start.
    """
    from gaiad.daemon import serve as run_daemon

    settings = list(assignments)
    if no_http:
        settings.append("http.enabled=false")
    if log_level:
        settings.append(f"daemon.log_level={log_level}")
    end(run_daemon(home=invocation().home, samples=samples, assignments=settings))
