"""`gaiad models bench`: what a model reads and writes a second here, beside a bare llama.cpp loop; without a daemon."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from gaiad.cli.command import Verb, invocation
from gaiad.cli.output import plain, table, write_json
from gaiad.errors import BadInput, GaiadError, Unavailable

if TYPE_CHECKING:
    from gaiad.bench.model import ModelFigures


@click.command("bench", cls=Verb, example="gaiad models bench --json ~/models/qwen2.5-0.5b-q8_0.gguf")
@click.argument("path", type=click.Path(path_type=Path))
def bench(path: Path) -> None:
    """Measure how fast a GGUF reads and writes at 1, 2, 4 and 8 sequences.

    Through a worker as the daemon has it, and in turns with a bare llama.cpp loop of the same settings, in tokens a
    second. It takes about a minute; other work on the machine disturbs both, the ratios least.
    """
    from gaiad.bench.model import measure_model

    try:
        found = measure_model(path)
    except (BadInput, Unavailable) as error:
        raise GaiadError(error.message) from error
    if invocation().as_json:
        write_json(found)
    else:
        click.echo(plain(_text(found)))


def _text(found: "ModelFigures") -> str:
    heads = ("sequences", "prefill", "bare", "ratio", "decode", "bare", "ratio")
    rows = [
        (
            str(rates.sequences),
            *(f"{rates.prefill:.1f}", f"{rates.prefill_bare:.1f}", f"{rates.prefill_ratio:.2f}"),
            *(f"{rates.decode:.1f}", f"{rates.decode_bare:.1f}", f"{rates.decode_ratio:.2f}"),
        )
        for rates in found.rates
    ]
    flash = "on" if found.flash_attention else "off"
    return f"{found.path}\ntokens a second, {found.threads} threads, flash attention {flash}\n\n{table(rows, heads)}"
