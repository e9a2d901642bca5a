"""`gaiad models`: which models there are, in the daemon and as files."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from gaiad.cli.command import Verb, VerbGroup, invocation
from gaiad.cli.models_bench import bench
from gaiad.cli.models_loaded import load, ls, pin, unload
from gaiad.cli.models_pull import pull
from gaiad.cli.output import plain, write_json
from gaiad.errors import BadInput, GaiadError

if TYPE_CHECKING:
    from gaiad.models.gguf.gguf_info import GgufInfo


@click.group(
    cls=VerbGroup,
    example="""
        gaiad models ls
        gaiad models info ~/models/qwen2.5-0.5b-q8_0.gguf
    """,
)
def models() -> None:
    """Look at models, load and unload them."""


for _verb in (ls, load, unload, pin, pull, bench):
    models.add_command(_verb)


@models.command("info", cls=Verb, example="gaiad models info --json model.gguf | jq .chat_template")
@click.argument("path", type=click.Path(path_type=Path))
def info(path: Path) -> None:
    """Show what a GGUF says of itself, without loading it. A damaged file exits 1."""
    from gaiad.models.gguf.gguf_info import read_info

    try:
        found = read_info(path)
    except BadInput as error:
        raise GaiadError(error.message) from error
    if invocation().as_json:
        write_json(found)
    else:
        click.echo(plain(_info_text(found)))


def _info_text(found: "GgufInfo") -> str:
    rows = (
        ("file", found.path),
        ("architecture", found.arch),
        ("name", found.name),
        ("parameters", f"{found.parameters:,}"),
        ("quantisation", found.quantization),
        ("context", f"{found.context:,} tokens"),
        ("vocabulary", f"{found.vocab:,} tokens"),
        ("chat template", "yes" if found.chat_template else "none"),
        ("memory", f"about {found.memory_bytes / 2**20:,.0f} MiB"),
        ("sha-256", found.fingerprint),
    )
    return "\n".join(f"{name:<14} {value}" for name, value in rows)
