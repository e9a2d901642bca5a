"""`gaiad bench`: measurements on this machine; they bring their own daemon and their own data."""

import click

from gaiad.cli.command import Verb, invocation


@click.command(
    cls=Verb,
    example="""
        gaiad bench                  everything, as a table
        gaiad bench search ingest    two of the measures
        gaiad bench chat             what a turn costs before the model writes
    """,
)
@click.argument("names", nargs=-1, metavar="[MEASURE]...")
def bench(names: tuple[str, ...]) -> None:
    """Measure speed and memory on this machine.

    Memory (embedding, ingest, start, search), models (generation, server, prefix, cancel, grammar, soak) and
    conversations (chat), as a table with the aims. A running daemon is left alone; --home has no effect here. All
    of them take a quarter of an hour; those of models make a GGUF of 650 MB once, beside your models.
    """
    from gaiad.bench.main import run

    run(names, as_json=invocation().as_json)
