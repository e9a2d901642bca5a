"""`gaiad bench`: measurements on this machine; they bring their own daemon and, but for retrieval, their own data."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import click

from gaiad.cli.command import Verb, invocation

_ALONE = {"retrieval": ("--format", "--ablate", "--loop"), "answers": (), "scale": ("--pages", "--questions")}
"""The measures that run by themselves, with the options that each has."""


@click.command(
    cls=Verb,
    example="""
        gaiad bench                  everything, as a table
        gaiad bench search ingest    two of the measures
        gaiad bench vectors          the dense index beside chromadb and lancedb, where those are installed
        gaiad bench chat             what a turn costs before the model writes
        gaiad bench council          what the council costs besides its models
        gaiad bench router           what redaction costs a stream, and how much later it is seen
        gaiad bench streams          two hundred people at once: whether anybody has to wait
        gaiad bench scale --pages 1000,10000,100000
        gaiad bench retrieval --format locomo locomo5.json --json
        gaiad bench retrieval --format beir scifact --ablate
        gaiad bench answers locomo5.json
    """,
)
@click.argument("names", nargs=-1, metavar="[MEASURE]... | retrieval FILE_OR_DIR | answers FILE_OR_DIR...")
@click.option(
    "--format",
    "form",
    type=click.Choice(["locomo", "beir"]),
    help="Of the labelled data for retrieval: LoCoMo's JSON file, or a folder with corpus.jsonl, queries.jsonl, qrels.",
)
@click.option("--ablate", is_flag=True, help="Measure retrieval again without each ingredient of the ranking.")
@click.option("--loop", is_flag=True, help="Measure retrieval also with the researcher's loop (minutes; locomo).")
@click.option("--pages", metavar="N[,N]...", help="Sizes for scale; the archive grows from one to the next.")
@click.option("--questions", type=click.IntRange(3), help="Questions a mode for scale, a third of each band of words.")
def bench(
    names: tuple[str, ...],
    form: Literal["locomo", "beir"] | None,
    ablate: bool,
    loop: bool,
    pages: str | None,
    questions: int | None,
) -> None:
    """Measure speed and memory on this machine.

    Memory (embedding, ingest, start, search, vectors), models (generation, server, prefix, cancel, grammar, soak),
    conversations (chat, council) and the way of an answer to its readers (router, streams), as a table with the aims.
    A running daemon is left alone; --home has no effect here. All of them take 20 minutes; those of models make two
    GGUFs of 650 MB once, beside your models.

    `retrieval` needs data of yours, and none of the others runs with it: recall and hits with 95 % intervals, by
    category, and where missed evidence was lost. Nothing of the data is kept.

    `answers` asks the questions of LoCoMo files, or of folders with them, as `gaiad ask` does, and a hundred more that
    nothing answers: what is cited by citation_threshold, how often NOT_FOUND is said, whether confidence comes true.

    `scale` grows an archive of made-up words and vectors to each size and measures ingest, search by mode and by how
    common the words are, recall of the dense index, memory and disk: 1,000, 10,000 and 100,000 pages unless said.
    """
    measure = names[0] if names and names[0] in _ALONE else ""
    said = {"--format": form, "--ablate": ablate, "--loop": loop, "--pages": pages, "--questions": questions}
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
    if measure == "scale":
        if len(names) != 1:
            raise click.UsageError("write it as: gaiad bench scale [--pages N,...] [--questions N]")
        from gaiad.bench.scale import DEFAULT_QUESTIONS, DEFAULT_SIZES, run_scale

        sizes = _sizes(pages) if pages else DEFAULT_SIZES
        run_scale(sizes, questions=questions or DEFAULT_QUESTIONS, as_json=invocation().as_json)
        return
    from gaiad.bench.main import run

    run(names, as_json=invocation().as_json)


def _check_options(measure: str, said: Sequence[str]) -> None:
    """Raises UsageError for an option that the measure has not; "" is one that runs with others and has none."""
    for option in said:
        if option not in _ALONE.get(measure, ()):
            owner = next(name for name, options in _ALONE.items() if option in options)
            raise click.UsageError(f"{option} belongs to `gaiad bench {owner}`")


def _sizes(pages: str) -> list[int]:
    """The numbers of `--pages`. Raises UsageError."""
    try:
        return [int(number) for number in pages.split(",")]
    except ValueError as error:
        raise click.UsageError(f"--pages {pages}: write whole numbers with commas, such as 1000,10000") from error
