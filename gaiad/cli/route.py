"""`gaiad route`: marked text through parser, matrix and redaction as a turn's goes; no model, no daemon (GCP 7)."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gaiad.cli.command import Verb, invocation
from gaiad.cli.output import bold, dim, plain, warn, write_json
from gaiad.errors import BadInput

if TYPE_CHECKING:
    from gaiad.routing import RoutedBlock, RoutedText

_CHANNELS = ("cli", "web", "discord", "council")


@click.command(
    cls=Verb,
    example="""
        gaiad route answer.txt
        gaiad route --channel discord answer.txt
        gaiad chat --json "who keeps the garden" | jq -r .answer | gaiad route --json --channel web -
    """,
)
@click.option(
    "--channel", type=click.Choice(_CHANNELS), help="Where the turn came from; default: all that is permitted."
)
@click.argument("file", metavar="FILE", type=click.Path(dir_okay=False, allow_dash=True))
def route(file: str, channel: str | None) -> None:
    """Show where marked text would go and what would be redacted.

    FILE holds text as a model writes it, with PLAN:, EXECUTE:, RESPONSE:, THOUGHT_SEED:, INTERRUPT: and VERIFY: at the
    beginning of lines; - is standard input. Your settings hold ([router], [redaction]). With --channel it is a turn
    from there: its blocks go to that channel, the council's log, the shell and the memory at most. A text is shown as
    those read it who get it scrubbed most. Nothing is sent and nothing is run.
    """
    from gaiad.config import load_config, user_files
    from gaiad.routing import route_once

    text = _read(file)
    found = route_once(text, load_config(user_files(invocation().find_home().root, os.environ)), channel or "")
    if invocation().as_json:
        write_json(found)
    else:
        click.echo(routed_text(found))


def _read(file: str) -> str:
    try:
        content = sys.stdin.buffer.read() if file == "-" else Path(file).expanduser().read_bytes()
    except OSError as error:
        raise BadInput(
            f"{file}: cannot be read ({error.strerror}); name a text file, or - for standard input"
        ) from error
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInput(f"{file}: is no UTF-8 text (byte {error.start}); convert it first") from error


def routed_text(found: "RoutedText") -> str:
    """Blocks in their order, with where they go and what was taken out, then what was tolerated; for people."""
    lines = [line for block in found.blocks for line in _block_lines(block)]
    notes = [f"{warn('note:')} {plain(note)}" for note in found.notes]
    return "\n".join([*(lines or ["nothing is in it"]), *notes])


def _block_lines(block: "RoutedBlock") -> list[str]:
    indent = "  " * block.depth
    where = ", ".join(f"{channel} ({manner})" for channel, manner in block.manners.items()) or "nowhere"
    lines = [f"{indent}{bold(block.marker or 'no marker')} to {where}"]
    lines += [f"{indent}  {line}".rstrip() for line in plain(block.text).splitlines()]
    if block.redactions:
        taken = ", ".join(f"{item.count} {item.kind}" for item in block.redactions)
        lines.append(dim(f"{indent}  taken out: {taken}"))
    return [*lines, ""]
