"""`gaiad bench`: measurements on this machine; they bring their own daemon and, but for retrieval, their own data."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import click

from gaiad.cli.command import Verb, invocation

_ALONE = {
    "retrieval": ("--format", "--ablate", "--loop"),
    "answers": (),
    "conversation": ("--model", "--rounds", "--depth"),
}
"""The measures that run by themselves, with the options that each has."""


@click.command(
    cls=Verb,
    example="""
        gaiad bench                  everything, as a table
        gaiad bench search ingest    two of the measures
        gaiad bench retrieval --format locomo locomo5.json --json
        gaiad bench retrieval --format beir scifact --ablate
        gaiad bench answers locomo5.json questions.json:records/
        gaiad bench conversation prompts.toml --model ~/models/qwen.gguf
    """,
)
@click.argument(
    "names", nargs=-1, metavar="[MEASURE]... | retrieval FILE_OR_DIR | answers FILE_OR_DIR... | conversation FILE"
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["locomo", "beir"]),
    help="Of the labelled data for retrieval: LoCoMo's JSON file, or a folder with corpus.jsonl, queries.jsonl, qrels.",
)
@click.option("--ablate", is_flag=True, help="Measure retrieval again without each ingredient of the ranking.")
@click.option("--loop", is_flag=True, help="Measure retrieval also with the researcher's loop (minutes; locomo).")
@click.option("--model", type=click.Path(path_type=Path), help="The GGUF for conversation; it has all three roles.")
@click.option(
    "--rounds", type=click.IntRange(1), help="How often conversation asks each prompt, each time with another seed."
)
@click.option("--depth", type=click.Choice(["auto", "fast", "full"]), help="Depth of the turns of conversation; fast.")
def bench(
    names: tuple[str, ...],
    form: Literal["locomo", "beir"] | None,
    ablate: bool,
    loop: bool,
    model: Path | None,
    rounds: int | None,
    depth: Literal["auto", "fast", "full"] | None,
) -> None:
    """Measure speed and memory on this machine.

    The measures are embedding, ingest, start and search; the result is a table with the aims. `gaiad models bench`
    measures a model. A running daemon is not touched; --home has no effect here.

    `retrieval` needs data of yours, and none of the others runs with it: recall and hits with 95 % intervals, by
    category, and where missed evidence was lost. Nothing of the data is kept.

    `answers` asks the questions of LoCoMo files, or of folders with them, as `gaiad ask` does, and a hundred more that
    nothing answers. A file of {"q", "packet", "all", "any", "none"} entries is asked of the records in the folder after
    its colon: packets, or anything that `gaiad import` reads. Prints a table for each set: right answers
    and packets, unknown recognised, wrong though sure, ranks and calibration, with 95 % intervals.

    `conversation` asks the prompts of a file (see tests/data/conversation.toml) through gaiad and through the model's
    own chat template alone: right answers, leaked prompt text, loops and times beside each other.
    """
    measure = names[0] if names and names[0] in _ALONE else ""
    said: dict[str, object] = {"--format": form, "--ablate": ablate, "--loop": loop}
    said |= {"--model": model, "--rounds": rounds, "--depth": depth}
    _check_options(measure, [option for option, value in said.items() if value not in (None, False)])
    if measure == "retrieval":
        if len(names) != 2 or form is None:
            raise click.UsageError("write it as: gaiad bench retrieval --format locomo|beir FILE_OR_DIR")
        from gaiad.bench.retrieval import run_retrieval

        run_retrieval(Path(names[1]), form, ablate=ablate, loop=loop, as_json=invocation().as_json)
        return
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


def _check_options(measure: str, said: Sequence[str]) -> None:
    """Raises UsageError for an option of another measure; "" means those that run together and have none."""
    for option in said:
        if option not in _ALONE.get(measure, ()):
            owner = next(name for name, options in _ALONE.items() if option in options)
            raise click.UsageError(f"{option} belongs to `gaiad bench {owner}`")
