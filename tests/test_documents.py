"""README and docs hold: sessions run, commands parse, links resolve, the reference matches the help."""

import re
import shlex
from pathlib import Path

import click
import pytest

from gaiad.cli.main import program
from gaiad.intake.exchange import Route
from gaiad.intake.routes import table
from tests.makers.documents import (
    CLI_REFERENCE,
    PAGES,
    ROOT,
    cli_reference,
    daemon_with_samples,
    gaiad_lines,
    run_step,
    sessions,
    steps,
)

_ROW = re.compile(r"^\| (.+) \| (`(?:GET|POST) /.+) \|$", re.MULTILINE)
_ROUTE = re.compile(r"`((?:GET|POST) /[\w/]+)`")
_LINK = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")


def test_the_reference_is_the_programs_help() -> None:
    assert CLI_REFERENCE.read_text(encoding="utf-8") == cli_reference(), "run `make docs`"


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 200


@pytest.mark.parametrize("page", [page for page in PAGES if sessions(page)], ids=lambda page: page.name)
def test_every_session_runs(page: Path) -> None:
    with daemon_with_samples() as environment:
        for session in sessions(page):
            for step in steps(session):
                code, output = run_step(step, environment)
                assert code == step.exit_code, f"{step.command}: {output}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_parses(page: Path) -> None:
    for line in gaiad_lines(page):
        words = shlex.split(re.split(r"\s[|>&]", line)[0])[1:]
        command: click.Command = program
        context = click.Context(program, info_name="gaiad")
        while words and isinstance(command, click.Group) and (found := command.get_command(context, words[0])):
            command, context = found, click.Context(found, parent=context, info_name=words.pop(0))
        assert not isinstance(command, click.Group) or not words or words[0].startswith("-"), line
        options = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
        used = {word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)}
        assert used <= options | {"--help", "-h"}, f"{line}: no option {used - options}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    targets = [link for link in _LINK.findall(page.read_text(encoding="utf-8")) if not link.startswith("http")]
    assert [link for link in targets if not (page.parent / link).exists()] == []


def _documented() -> dict[str, list[str]]:
    text = (ROOT / "docs" / "http.md").read_text(encoding="utf-8")
    return {about: _ROUTE.findall(routes) for about, routes in _ROW.findall(text)}


def _name(route: Route) -> str:
    return f"{route.method} {re.sub(r'{[a-z_]+}', 'ID', route.path)}"


def test_every_route_is_documented_once() -> None:
    assert sorted(route for routes in _documented().values() for route in routes) == sorted(map(_name, table()))


def test_the_owners_routes_are_named_as_such() -> None:
    assert sorted(_documented()["the owner's"]) == sorted(_name(route) for route in table() if route.owner)
