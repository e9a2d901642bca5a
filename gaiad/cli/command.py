"""What all verbs share: --home, --json and --tenant after every verb and before it, and the way to the daemon.

A verb is a `Verb`, a family of verbs a `VerbGroup`; both take the common options by themselves. The options land in
one `Invocation`, the click context's object, so that their place makes no difference.
"""

import os
import shlex
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from gaiad.base.home import Home
    from gaiad.client.client import Client


LOCAL = "local"
"""The tenant of who names none."""


@dataclass
class Invocation:
    """The common options of one run. `home` is None when --home was not given."""

    home: str | None = None
    tenant: str = LOCAL
    as_json: bool = False

    def client(self) -> "Client":
        """A client for the daemon of this home; nothing is opened yet."""
        from gaiad.client.client import Client

        return Client(self.home)

    def find_home(self) -> "Home":
        """The home in force: --home, GAIAD_HOME, else the XDG data directory."""
        from gaiad.base.home import find_home

        return find_home(self.home, os.environ)


def invocation(context: click.Context | None = None) -> Invocation:
    """The common options in force."""
    return (context or click.get_current_context()).find_root().ensure_object(Invocation)


def print_result(value: Any, text: str) -> None:
    """The result of a verb on stdout: `value` as JSON under --json, else `text`."""
    from gaiad.cli.output import write_json

    if invocation().as_json:
        write_json(value)
    else:
        click.echo(text)


def same_place() -> str:
    """The options that a command named here needs to reach the same memory, " --tenant work"; "" for the defaults."""
    context = click.get_current_context(silent=True)
    if context is None:
        return ""
    given = invocation(context)
    tenant = f" --tenant {shlex.quote(given.tenant)}" if given.tenant != LOCAL else ""
    return f"{tenant} --home {shlex.quote(given.home)}" if given.home else tenant


def _set_home(context: click.Context, _parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        invocation(context).home = value


def _set_json(context: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value:
        invocation(context).as_json = True


def _common_options() -> list[click.Parameter]:
    return [
        click.Option(
            ["--home"],
            metavar="DIR",
            expose_value=False,
            callback=_set_home,
            type=click.Path(file_okay=False),
            help="The daemon's home. Default: $GAIAD_HOME, else the user's data directory.",
        ),
        click.Option(
            ["--json"],
            is_flag=True,
            expose_value=False,
            callback=_set_json,
            help="Print JSON for programs; errors become JSON on stderr.",
        ),
    ]


class _NarrowHelp(click.HelpFormatter):
    """Help that fits terminals below click's own least width."""

    def __init__(self, indent_increment: int = 2, width: int | None = None, max_width: int | None = None) -> None:
        columns = min(shutil.get_terminal_size().columns, max_width or 80)
        super().__init__(indent_increment, width or max(columns - 2, 30), max_width)

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        super().write_dl(rows, col_max if self.width >= 60 else self.width // 3, col_spacing)


class _Context(click.Context):
    formatter_class = _NarrowHelp


class _Common(click.Command):
    """The common options, and an example at the end of the help."""

    context_class = _Context

    def __init__(self, *arguments: Any, example: str = "", **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.example = example
        self.params.extend(_common_options())

    def format_epilog(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        if self.example:
            with formatter.section("Examples"):
                for line in self.example.strip().splitlines():
                    formatter.write(f"{'':>{formatter.current_indent}}{line.strip()}\n")
        super().format_epilog(context, formatter)


class Verb(_Common):
    """A command with the common options, and examples in its help."""


class VerbGroup(_Common, click.Group):
    """Verbs under one word, with the common options."""

    command_class = Verb


class LazyGroup(VerbGroup):
    """The top level: a verb's module is imported when the verb is used.

    `first` are the verbs that the help explains, verb -> module:name; `sections` the others by group.
    """

    def __init__(
        self,
        *arguments: Any,
        first: Mapping[str, str],
        sections: Mapping[str, Mapping[str, str]],
        **settings: Any,
    ) -> None:
        super().__init__(*arguments, **settings)
        self.sections = sections
        self._first = list(first)
        self._places = dict(first) | {verb: place for verbs in sections.values() for verb, place in verbs.items()}

    def list_commands(self, context: click.Context) -> list[str]:
        return list(self._places)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in self._places:
            return None
        module, _, attribute = self._places[name].partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def group_help(self, context: click.Context, groups: Sequence[str]) -> str:
        """The verbs of these groups with a line each."""
        formatter = context.make_formatter()
        for group in groups:
            with formatter.section(group.capitalize()):
                formatter.write_dl(self._explained(context, list(self.sections[group])))
        return formatter.getvalue().rstrip("\n")

    def resolve_command(
        self, context: click.Context, arguments: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does, and with the nearest verb named when there is none of that name."""
        name = arguments[0]
        if self.get_command(context, name) is None and not name.startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(name, self.list_commands(context), n=1)
            hint = f"did you mean {near[0]!r}?" if near else "gaiad help all lists the commands"
            raise click.UsageError(f"no command is called {name!r}; {hint}", context)
        return super().resolve_command(context, arguments)

    def format_options(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Commands before options: they are what a newcomer looks for."""
        self.format_commands(context, formatter)
        click.Command.format_options(self, context, formatter)

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Start here"):
            formatter.write_dl(self._explained(context, self._first))
        with formatter.section("More (gaiad help GROUP, gaiad help all)"):
            formatter.write_dl([(group, ", ".join(verbs)) for group, verbs in self.sections.items()])

    def _explained(self, context: click.Context, verbs: Sequence[str]) -> list[tuple[str, str]]:
        commands = [(verb, self.get_command(context, verb)) for verb in verbs]
        return [(verb, found.get_short_help_str(70)) for verb, found in commands if found]


def tenant_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds --tenant, passed as `tenant`."""
    return click.option(
        "--tenant",
        default=LOCAL,
        show_default=True,
        metavar="NAME",
        callback=_set_tenant,
        help="The memory to use; memories are kept apart.",
    )(function)


def _set_tenant(context: click.Context, _parameter: click.Parameter, value: str) -> str:
    invocation(context).tenant = value
    return value
