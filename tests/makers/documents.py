"""README and docs: what in them is generated or run. `python -m tests.makers.documents` rewrites the generated parts.

A fenced block marked `console` is a session: its `$ ` lines are run in order against a daemon with the sample packets,
and what follows each is its output. The CLI reference is the program's own help.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import click

ROOT = Path(__file__).resolve().parents[2]
CLI_REFERENCE = ROOT / "docs" / "cli.md"
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
_SESSION = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SHELL = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_START_S, _COMMAND_S = 120.0, 120.0


class Step(NamedTuple):
    """One `$ ` line of a session and the output below it. The comment `# exit N` names a code other than 0."""

    command: str
    output: str

    @property
    def exit_code(self) -> int:
        found = re.search(r"# exit (\d+)$", self.command)
        return int(found[1]) if found else 0


def steps(session: str) -> list[Step]:
    """The steps of a console block."""
    found = re.split(r"^\$ ", session, flags=re.MULTILINE)[1:]
    return [Step(*(part.partition("\n")[::2])) for part in found]


def sessions(page: Path) -> list[str]:
    """The console blocks of a page."""
    return _SESSION.findall(page.read_text(encoding="utf-8"))


def gaiad_lines(page: Path) -> list[str]:
    """Every line of a shell block that starts with `gaiad`, without its comment."""
    blocks = "\n".join(_SHELL.findall(page.read_text(encoding="utf-8"))).replace("\\\n", " ")
    return [re.sub(r"\s+#.*$", "", line) for line in blocks.splitlines() if line.startswith("gaiad ")]


def commands(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command below `command` with its words, groups before their members."""
    if path:
        yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            if found := command.get_command(context, name):
                yield from commands(found, (*path, name))


def cli_reference() -> str:
    """The text of docs/cli.md."""
    from gaiad.cli.main import program
    from gaiad.cli.output import EXIT_CODES

    parts = [
        "# Command line\n\nGenerated from `--help` by `make docs`.\n\n## Exit codes\n\n| code | meaning |\n|---|---|\n"
    ]
    parts += [f"| {code} | {meaning} |\n" for code, meaning in EXIT_CODES.items()]
    for path, command in commands(program):
        name = " ".join(("gaiad", *path))
        names = ["-h", "--help"]  # as in the program: click keeps the option that it makes first
        context = click.Context(
            command, info_name=name, max_content_width=100, terminal_width=100, help_option_names=names
        )
        help_text = "\n".join(line.rstrip() for line in command.get_help(context).splitlines())
        parts.append(f"\n## {name}\n\n```text\n{help_text}\n```\n")
    return "".join(parts)


@contextmanager
def daemon_with_samples() -> Iterator[dict[str, str]]:
    """A daemon with the sample packets; the environment in which `gaiad` is its command line."""
    with tempfile.TemporaryDirectory(prefix="gaiad-docs-") as folder:
        home = Path(folder) / "home"
        programs = Path(sys.executable).parent
        environment = {**os.environ, "GAIAD_HOME": str(home), "XDG_CONFIG_HOME": str(Path(folder) / "config")}
        environment |= {"PATH": f"{programs}:{os.environ['PATH']}", "COLUMNS": "100", "NO_COLOR": "1"}
        command = [programs / "gaiad", "serve", "--samples", "--log-level", "error", "--set", "http.port=0"]
        with (Path(folder) / "daemon.log").open("wb") as log:
            process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        try:
            _wait_until_ready(process, environment, Path(folder) / "daemon.log")
            yield environment
        finally:
            process.terminate()
            process.wait(60)


def _wait_until_ready(process: subprocess.Popen[bytes], environment: dict[str, str], log: Path) -> None:
    deadline = time.monotonic() + _START_S
    while subprocess.run(["gaiad", "status"], env=environment, capture_output=True).returncode != 0:
        if process.poll() is not None or time.monotonic() > deadline:
            raise AssertionError(f"no daemon: {log.read_text()[-2000:]}")
        time.sleep(0.2)


def run_step(step: Step, environment: dict[str, str]) -> tuple[int, str]:
    """Exit code and output of a step, run in the root of the checkout."""
    done = subprocess.run(
        ["bash", "-c", step.command],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_COMMAND_S,
        check=False,
    )
    shown = done.stdout.replace(environment["GAIAD_HOME"], "~/.local/share/gaiad")
    return done.returncode, shown.replace(f"{ROOT}/", "").replace(str(Path.home()), "~")


def rewrite(page: Path) -> None:
    """Run the sessions of a page and put today's output below each command."""
    with daemon_with_samples() as environment:

        def session(found: re.Match[str]) -> str:
            lines = []
            for step in steps(found[1]):
                code, output = run_step(step, environment)
                if code != step.exit_code:
                    raise AssertionError(f"{page.name}: `{step.command}` ended with {code}: {output}")
                lines.append(f"$ {step.command}\n{output.rstrip()}\n")
            return f"```console\n{''.join(lines)}```"

        page.write_text(_SESSION.sub(session, page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    CLI_REFERENCE.write_text(cli_reference(), encoding="utf-8")
    for one in PAGES:
        if sessions(one):
            rewrite(one)
