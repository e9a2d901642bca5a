"""The programs `gaiad` and `gam-research`: the tree of verbs, and the one place where a run ends.

Modules of verbs are imported when a verb is used, for `gaiad status` has to be instant.
"""

import os
import sys
from collections.abc import Callable, Sequence

import click

import gaiad
from gaiad.cli.command import LazyGroup
from gaiad.cli.errors import BROKEN_PIPE, INTERRUPTED, OK, exit_codes_text, report
from gaiad.errors import GaiadError

_SECTIONS = {
    "The daemon": {
        "serve": "gaiad.cli.serve:serve",
        "status": "gaiad.cli.status:status",
        "stop": "gaiad.cli.stop:stop",
        "doctor": "gaiad.cli.doctor:doctor",
        "config": "gaiad.cli.config:config",
    },
    "The council": {
        "chat": "gaiad.cli.chat:chat",
        "web": "gaiad.cli.web:web",
        "cognition": "gaiad.cli.cognition:cognition",
        "council": "gaiad.cli.council:council",
        "turns": "gaiad.cli.turns:turns",
        "route": "gaiad.cli.route:route",
        "approvals": "gaiad.cli.approvals:approvals",
        "approve": "gaiad.cli.approvals:approve",
        "deny": "gaiad.cli.approvals:deny",
        "identity": "gaiad.cli.identity:identity",
        "rfc": "gaiad.cli.rfc:rfc",
        "audit": "gaiad.cli.audit:audit",
    },
    "The memory": {
        "ingest": "gaiad.cli.ingest:ingest",
        "search": "gaiad.cli.search:search",
        "ask": "gaiad.cli.ask:ask",
        "research": "gaiad.cli.research:research",
        "packets": "gaiad.cli.packets:packets",
        "sessions": "gaiad.cli.sessions:sessions",
        "feedback": "gaiad.cli.feedback:feedback",
    },
    "Upkeep": {
        "jobs": "gaiad.cli.jobs:jobs",
        "reindex": "gaiad.cli.reindex:reindex",
        "backup": "gaiad.cli.backup:backup",
        "restore": "gaiad.cli.backup:restore",
        "models": "gaiad.cli.models:models",
        "bench": "gaiad.cli.bench:bench",
        "completion": "gaiad.cli.completion:completion",
    },
}


class _Program(LazyGroup):
    def format_epilog(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(context, formatter)
        formatter.write(f"\nExit codes:\n{exit_codes_text()}\n")


@click.group(
    name="gaiad",
    cls=_Program,
    sections=_SECTIONS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    example="""
        gaiad serve                          run the daemon in this terminal
        gaiad ingest ~/packets               read a folder of Transmission Packets
        gaiad ask "what did we decide?"      an answer with verified citations
        gaiad VERB --help                    what a verb takes, with examples
    """,
)
@click.version_option(gaiad.__version__, prog_name="gaiad", message="%(prog)s %(version)s")
def program() -> None:
    """A memory that does not forget and proves what it says.

    A daemon keeps your Transmission Packets; these verbs talk to it over a local socket.
    """


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
