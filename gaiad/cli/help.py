"""`gaiad help` and `gaiad completion`: what the program can do, for people and for shells."""

import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
from click.shell_completion import get_completion_class

from gaiad.base.errors import BadInput, NotFound, Unavailable
from gaiad.cli.command import LazyGroup, Verb, invocation, print_result, tenant_option

_SHELLS = ["bash", "zsh", "fish"]
_ALL = "all"


@click.command(
    "help",
    cls=Verb,
    example="""
        gaiad help
        gaiad help council
        gaiad help packets export
    """,
)
@click.argument("words", nargs=-1, metavar="[GROUP | COMMAND]")
@click.pass_context
def help_(context: click.Context, words: tuple[str, ...]) -> None:
    """Show the first commands, a group of others, or how a command is used."""
    root = context.find_root()
    program = root.command
    assert isinstance(program, LazyGroup)
    if not words:
        text = program.get_help(root)
    elif len(words) == 1 and (words[0] == _ALL or words[0] in program.sections):
        text = program.group_help(root, list(program.sections) if words[0] == _ALL else [words[0]])
    else:
        text = _command_help(root, program, words)
    print_result({"help": text}, text)


def _command_help(context: click.Context, command: click.Command, words: tuple[str, ...]) -> str:
    for word in words:
        found = command.get_command(context, word) if isinstance(command, click.Group) else None
        if found is None:
            raise BadInput(f"no command is called {' '.join(words)!r}; gaiad help all lists them")
        context, command = found.context_class(found, parent=context, info_name=word), found
    return command.get_help(context)


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
    print_result({"shell": shell, "script": script}, script)


_LINES = 50


@click.command(
    cls=Verb,
    example="""
        gaiad show tp-20251130-154500
        gaiad show turn_01JDXR5A4M3C2V7Y8Z9K6T1QWE
        gaiad show garden
    """,
)
@click.argument("name", metavar="ID")
@tenant_option
@click.pass_context
def show(context: click.Context, name: str, tenant: str) -> None:
    """Show what an id names: a packet, session, turn, run or job."""
    from gaiad.cli import cognition, jobs, packets, research, rfc, sessions

    of_prefix: dict[str, tuple[click.Command, dict[str, Any]]] = {
        "job": (jobs.show, {"job_id": name}),
        "turn": (sessions.show_turn, {"turn": name, "tenant": tenant}),
        "cog": (cognition.show, {"packet": name, "tenant": tenant}),
        "run": (research.show, {"run": name, "tenant": tenant}),
        "rfc": (rfc.show, {"name": name}),
    }
    prefix, underscore, _ = name.partition("_")
    if underscore and prefix in of_prefix:
        tries = [of_prefix[prefix]]
    elif _is_session(name, tenant):
        tries = [(sessions.show, {"session_id": name, "tenant": tenant})]
    else:
        tries = [(packets.show, {"packet_id": name, "pages": True, "tenant": tenant}), of_prefix["turn"]]
    for command, values in tries:
        with suppress(NotFound):
            context.invoke(command, **values)
            return
    raise NotFound(f"there is nothing called {name!r}; gaiad list and gaiad sessions list show what there is")


def _is_session(name: str, tenant: str) -> bool:
    try:
        with invocation().client() as client:
            return bool(client.session_turns(name, tenant, 1))
    except NotFound:
        return False


@click.command(
    cls=Verb,
    example="""
        gaiad logs
        gaiad logs --follow
        gaiad logs --lines 500 | grep warning
    """,
)
@click.option("--lines", default=_LINES, show_default=True, type=click.IntRange(1), help="Show the last N lines.")
@click.option("--follow", is_flag=True, help="Follow until Ctrl-C.")
def logs(lines: int, follow: bool) -> None:
    """Show the daemon's log: the journal, or the file its output goes to."""
    with invocation().client() as client:
        pid = client.status().pid
    command = log_command(pid, lines, follow=follow)
    os.execvp(command[0], command)


def log_command(pid: int, lines: int, *, follow: bool) -> list[str]:
    """The program that shows where a process's standard error goes. Raises Unavailable when nothing keeps that."""
    try:
        place = Path(f"/proc/{pid}/fd/2").readlink()
    except OSError as error:
        raise Unavailable(f"the log of process {pid} cannot be found ({error.strerror})", 0.0) from error
    if place.is_file():
        return ["tail", f"--lines={lines}", *(["--follow"] if follow else []), str(place)]
    if str(place).startswith("socket:") and shutil.which("journalctl"):
        return ["journalctl", f"_PID={pid}", f"--lines={lines}", *(["--follow"] if follow else ["--no-pager"])]
    raise Unavailable(
        f"the daemon (pid {pid}) writes its log to {place} and nothing keeps it; "
        "start it as a service, or as: gaiad serve 2>>gaiad.log",
        0.0,
    )
