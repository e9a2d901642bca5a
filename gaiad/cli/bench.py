"""`gaiad bench`: measurements on this machine; they bring their own daemon."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import click

from gaiad.cli.command import Verb, invocation

_ALONE = {
    "answers": (),
    "conversation": ("--model", "--rounds", "--depth"),
}
"""The measures that run by themselves, with the options that each has."""


@click.command(
    cls=Verb,
    example="""
        gaiad bench                  everything, as a table
        gaiad bench search ingest    two of the measures
        gaiad bench answers locomo5.json questions.json:records/
        gaiad bench conversation prompts.toml --model ~/models/qwen.gguf
    """,
)
@click.argument("names", nargs=-1, metavar="[MEASURE]... | answers FILE_OR_DIR... | conversation FILE")
@click.option("--model", type=click.Path(path_type=Path), help="The GGUF for conversation; it has all three roles.")
@click.option(
    "--rounds", type=click.IntRange(1), help="How often conversation asks each prompt, each time with another seed."
)
@click.option("--depth", type=click.Choice(["auto", "fast", "full"]), help="Depth of the turns of conversation; fast.")
def bench(
    names: tuple[str, ...],
    model: Path | None,
    rounds: int | None,
    depth: Literal["auto", "fast", "full"] | None,
) -> None:
    """Measure speed and memory on this machine.

    The measures are embedding, ingest, start and search; the result is a table with the aims. `gaiad models bench`
    measures a model. A running daemon is left alone; --home has no effect here.

    `answers` asks the questions of LoCoMo files, or of folders with them, as `gaiad ask` does, and a hundred more that
    nothing answers. A file of {"q", "packet", "all", "any", "none"} entries is asked of the records in the folder after
    its colon: packets, or anything that `gaiad import` reads. Prints a table for each set: right answers
    and packets, unknown recognised, wrong though sure, ranks and calibration, with 95 % intervals.

    `conversation` asks the prompts of a file (see tests/data/conversation.toml) through gaiad and through the model's
    own chat template alone: right answers, leaked prompt text, loops and times beside each other.
    """
    measure = names[0] if names and names[0] in _ALONE else ""
    given = {"--model": model, "--rounds": rounds, "--depth": depth}
    _check_options(measure, [option for option, value in given.items() if value is not None])
    if measure == "answers":
        if len(names) == 1:
            raise click.UsageError("write it as: gaiad bench answers FILE_OR_DIR...")
        from gaiad.bench.answers import run_answers

        run_answers([Path(name) for name in names[1:]], as_json=invocation().as_json)
        return
    if measure == "conversation":
        if len(names) != 2 or model is None:
            raise click.UsageError("write it as: gaiad bench conversation FILE --model GGUF")
        from gaiad.bench.conversation import run_conversation

        run_conversation(Path(names[1]), model, rounds=rounds or 1, depth=depth or "fast", as_json=invocation().as_json)
        return
    from gaiad.bench.measures import MEASURES
    from gaiad.bench.rows import run

    run(names, MEASURES, as_json=invocation().as_json)


def _check_options(measure: str, given: Sequence[str]) -> None:
    """Raises UsageError for an option of another measure; "" stands for those that run together and have none."""
    for option in given:
        if option not in _ALONE.get(measure, ()):
            owner = next(name for name, options in _ALONE.items() if option in options)
            raise click.UsageError(f"{option} belongs to `gaiad bench {owner}`")
