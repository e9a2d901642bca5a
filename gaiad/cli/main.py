"""The programs `gaiad` and `gam-research`: the tree of verbs, and the one place where a run ends.

Modules of verbs are imported when a verb is used, for `gaiad status` has to be instant.
"""

import os
import sys
from collections.abc import Callable, Sequence

import click

import gaiad
from gaiad.base.errors import GaiadError
from gaiad.cli.command import LazyGroup
from gaiad.cli.output import BROKEN_PIPE, INTERRUPTED, OK, report

_FIRST = {
    "import": "gaiad.cli.imports:import_",
    "ask": "gaiad.cli.ask:ask",
    "chat": "gaiad.cli.chat_loop:chat",
    "search": "gaiad.cli.search:search",
    "web": "gaiad.cli.serve:web",
    "status": "gaiad.cli.status:status",
    "models": "gaiad.cli.models:models",
    "serve": "gaiad.cli.serve:serve",
}
_SECTIONS = {
    "daemon": {
        "stop": "gaiad.cli.serve:stop",
        "service": "gaiad.cli.service:service",
        "logs": "gaiad.cli.help:logs",
        "doctor": "gaiad.cli.doctor:doctor",
        "config": "gaiad.cli.config:config",
    },
    "archive": {
        "list": "gaiad.cli.packets:list_packets",
        "show": "gaiad.cli.help:show",
        "packets": "gaiad.cli.packets:packets",
        "sessions": "gaiad.cli.sessions:sessions",
        "forget": "gaiad.cli.forget:forget",
        "ingest": "gaiad.cli.ingest:ingest",
        "research": "gaiad.cli.research:research",
        "feedback": "gaiad.cli.feedback:feedback",
        "context": "gaiad.cli.context:context",
        "quarantine": "gaiad.cli.quarantine:quarantine",
    },
    "clients": {
        "mcp": "gaiad.cli.mcp:mcp",
        "capture": "gaiad.cli.capture:capture",
    },
    "council": {
        "council": "gaiad.cli.council:council",
        "turns": "gaiad.cli.sessions:turns",
        "cognition": "gaiad.cli.cognition:cognition",
        "route": "gaiad.cli.config:route",
        "approvals": "gaiad.cli.approvals:approvals",
        "approve": "gaiad.cli.approvals:approve",
        "deny": "gaiad.cli.approvals:deny",
        "identity": "gaiad.cli.identity:identity",
        "rfc": "gaiad.cli.rfc:rfc",
        "audit": "gaiad.cli.audit:audit",
    },
    "upkeep": {
        "jobs": "gaiad.cli.jobs:jobs",
        "reindex": "gaiad.cli.backup:reindex",
        "backup": "gaiad.cli.backup:backup",
        "restore": "gaiad.cli.backup:restore",
        "bench": "gaiad.cli.bench:bench",
        "help": "gaiad.cli.help:help_",
        "completion": "gaiad.cli.help:completion",
    },
}


@click.group(
    name="gaiad",
    cls=LazyGroup,
    first=_FIRST,
    sections=_SECTIONS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    example="""
        gaiad import ~/Downloads/export.zip   bring in your conversations
        gaiad ask "what did we decide?"       an answer with verified citations
    """,
)
@click.version_option(gaiad.__version__, prog_name="gaiad", message="%(prog)s %(version)s")
def program() -> None:
    """A private memory and council of models that proves what it says."""


def main() -> None:
    """The entry point `gaiad`."""
    sys.exit(run(program, "gaiad", sys.argv[1:]))


def gam_research() -> None:
    """The entry point `gam-research` (GAM, Integration Point 1)."""
    from gaiad.cli.ask import gam_research as command

    sys.exit(run(command, "gam-research", sys.argv[1:]))


def run(command: click.Command, name: str, arguments: Sequence[str]) -> int:
    """Run `command` and return its exit code; errors have been said on stderr by then, and never as a traceback.

    An error that is not a GaiadError is a defect and is shown whole.
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    as_json = "--json" in arguments
    try:
        return _closing_output(lambda: _invoke(command, name, list(arguments)))
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return error.exit_code
    except (GaiadError, click.ClickException) as error:
        return report(error, as_json)
    except KeyboardInterrupt:
        print(file=sys.stderr)
        return INTERRUPTED
    except click.Abort:
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE


def _invoke(command: click.Command, name: str, arguments: list[str]) -> int:
    complete_variable = f"_{name.replace('-', '_').upper()}_COMPLETE"
    if instruction := os.environ.get(complete_variable):
        from click.shell_completion import shell_complete

        return shell_complete(command, {}, name, complete_variable, instruction)
    try:
        with command.make_context(name, arguments) as context:
            command.invoke(context)
    except click.exceptions.Exit as ended:
        return ended.exit_code
    return OK


def _closing_output(work: Callable[[], int]) -> int:
    code = work()
    sys.stdout.flush()
    return code


if __name__ == "__main__":
    main()
