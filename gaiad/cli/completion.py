"""`gaiad completion`: the script that makes a shell complete verbs and options."""

import click
from click.shell_completion import get_completion_class

from gaiad.cli.command import Verb, invocation
from gaiad.cli.output import write_json

_SHELLS = ["bash", "zsh", "fish"]


@click.command(
    cls=Verb,
    example="""
        eval "$(gaiad completion bash)"                           for this shell; put it in ~/.bashrc to keep it
        gaiad completion zsh > "${fpath[1]}/_gaiad"
        gaiad completion fish > ~/.config/fish/completions/gaiad.fish
    """,
)
@click.argument("shell", type=click.Choice(_SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a shell's completion script."""
    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"this click has no completion for {shell}; use one of {', '.join(_SHELLS)}")
    settings = kind(context.find_root().command, {}, "gaiad", "_GAIAD_COMPLETE")
    script = settings.source_template % settings.source_vars()
    if invocation().as_json:
        write_json({"shell": shell, "script": script})
    else:
        click.echo(script)
