"""The tree of verbs and how a run ends: exit codes, errors on stderr, pipes, Ctrl-C, completion."""

import json
import os
import re
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from gaiad.base.errors import GaiadError
from gaiad.cli.ask import gam_research
from gaiad.cli.main import program, run
from gaiad.cli.output import EXIT_CODES

VERBS = [
    "serve",
    "status",
    "stop",
    "import",
    "ingest",
    "quarantine",
    "search",
    "ask",
    "packets",
    "sessions",
    "jobs",
    "reindex",
    "backup",
    "restore",
]
VERBS += ["doctor", "config", "completion", "models", "bench", "chat", "cognition", "audit", "identity", "rfc"]
VERBS += ["list", "show", "logs", "help", "context", "mcp", "capture", "service"]
VERBS += ["council", "turns", "approvals", "approve", "deny", "web", "route", "research", "feedback", "forget"]


def commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield (*path, name), command
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))


def gaiad(*arguments: str) -> int:
    return run(program, "gaiad", arguments)


def test_every_verb_is_there() -> None:
    found = list(commands(program))
    assert {path[0] for path, _ in found} == set(VERBS)
    assert {path[1] for path, _ in found if path[0] == "packets" and path[1:]} == {"list", "show", "verify", "export"}
    assert {path[1] for path, _ in found if path[0] == "jobs" and path[1:]} == {"list", "show", "cancel"}
    assert {path[1] for path, _ in found if path[0] == "config" and path[1:]} == {"show", "path", "check", "reload"}


@pytest.mark.parametrize(("path", "command"), [*commands(program), (("gam-research",), gam_research)])
def test_every_verb_takes_home_and_json_and_shows_an_example(
    path: tuple[str, ...], command: click.Command, capsys: pytest.CaptureFixture[str]
) -> None:
    options = {name for parameter in command.params for name in parameter.opts}
    assert {"--home", "--json"} <= options
    name = " ".join(path) if path == ("gam-research",) else f"gaiad {' '.join(path)}"
    assert (
        run(*((command, path[0], ["--help"]) if path[0] == "gam-research" else (program, "gaiad", [*path, "--help"])))
        == 0
    )
    text = capsys.readouterr().out
    assert text.startswith(f"Usage: {name} ")
    assert "Examples:" in text
    short = command.get_short_help_str(200)
    assert len(short) < 76, short
    assert short.endswith(".")


def test_help_explains_eight_commands_and_names_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    assert gaiad("--help") == 0
    text = capsys.readouterr().out
    explained = re.findall(r"^  (\w+) +[A-Z].*\.$", text.partition("More")[0], re.MULTILINE)
    assert explained == ["import", "ask", "chat", "search", "web", "status", "models", "serve"]
    assert "Exit codes" not in text
    for verb in VERBS:
        assert re.search(rf"\b{verb}\b", text), verb
    assert gaiad("help") == 0
    assert capsys.readouterr().out == text


def test_help_of_groups_and_of_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert gaiad("help", "all") == 0
    text = capsys.readouterr().out
    for verb in set(VERBS) - {"import", "ask", "chat", "search", "web", "status", "models", "serve"}:
        assert re.search(rf"^  {verb} +[A-Z]", text, re.MULTILINE), verb
    assert gaiad("help", "upkeep") == 0
    assert capsys.readouterr().out.startswith("Upkeep:\n  jobs ")
    assert gaiad("help", "packets", "export") == 0
    assert capsys.readouterr().out.startswith("Usage: gaiad packets export ")
    assert gaiad("help", "packets", "nothing") == 2
    assert "gaiad help all" in capsys.readouterr().err


def test_every_error_class_has_a_documented_exit_code() -> None:
    def classes(base: type[GaiadError]) -> Iterator[type[GaiadError]]:
        yield base
        for kind in base.__subclasses__():
            yield from classes(kind)

    assert {kind.exit_code for kind in classes(GaiadError)} <= set(EXIT_CODES)


def test_a_mistyped_verb_is_named_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert gaiad("serach", "x") == 2
    assert (
        capsys.readouterr().err == "gaiad: no command is called 'serach'; did you mean 'search'? (see gaiad --help)\n"
    )


def test_usage_errors_are_one_line_on_stderr_and_json_when_asked(capsys: pytest.CaptureFixture[str]) -> None:
    assert gaiad("search", "--limit", "0", "x") == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("gaiad: Invalid value for '--limit'")
    assert captured.err.count("\n") == 1
    assert gaiad("search", "--json", "--limit", "0", "x") == 2
    assert json.loads(capsys.readouterr().err)["error"]["exit_code"] == 2


def test_no_daemon_is_exit_5_with_the_command_that_starts_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments in (["status"], ["search", "x"], ["ask", "x"], ["stop"], ["jobs"], ["packets", "list"], ["reindex"]):
        assert gaiad(*arguments, "--home", str(tmp_path)) == 5
        assert f"start one with: gaiad serve --home {tmp_path}" in capsys.readouterr().err
    assert gaiad("status", "--home", str(tmp_path), "--json") == 5
    assert json.loads(capsys.readouterr().err)["error"]["code"] == "daemon_unreachable"


@pytest.mark.parametrize("place", ["before", "middle", "after"])
def test_home_and_json_may_stand_anywhere(place: str, api: Any, capsys: pytest.CaptureFixture[str]) -> None:
    api.routes["GET /jobs"] = {"jobs": []}
    common = ["--home", str(api.home), "--json"]
    order = {
        "before": [*common, "jobs", "list"],
        "middle": ["jobs", *common, "list"],
        "after": ["jobs", "list", *common],
    }
    assert gaiad(*order[place]) == 0
    assert json.loads(capsys.readouterr().out) == {"jobs": []}


def test_the_last_home_wins(api: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    api.routes["GET /jobs"] = {"jobs": []}
    assert gaiad("--home", str(tmp_path / "other"), "jobs", "list", "--home", str(api.home)) == 0
    assert capsys.readouterr().out == "no jobs\n"


def test_errors_of_the_daemon_keep_their_exit_code(api: Any, capsys: pytest.CaptureFixture[str]) -> None:
    api.routes["POST /packets/show"] = (404, {"code": "not_found", "message": "no packet is called\n'x'"})
    assert gaiad("packets", "show", "x", "--home", str(api.home)) == 3
    assert capsys.readouterr().err == "gaiad: no packet is called 'x'\n"
    api.routes["POST /packets/show"] = (403, {"code": "forbidden", "message": "no"})
    assert gaiad("packets", "show", "x", "--home", str(api.home)) == 4


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_are_printed(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert gaiad("completion", shell) == 0
    assert "_GAIAD_COMPLETE" in capsys.readouterr().out


def test_a_shell_gets_verbs_and_options_completed() -> None:
    for words, expected in (("gaiad se", {"serve", "search", "sessions", "service"}), ("gaiad packets e", {"export"})):
        environment = {**os.environ, "_GAIAD_COMPLETE": "bash_complete", "COMP_WORDS": words}
        environment["COMP_CWORD"] = str(len(words.split()) - 1)
        found = child([], environment)
        assert {line.partition(",")[2] for line in found.stdout.split()} == expected


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert gaiad("--version") == 0
    assert re.fullmatch(r"gaiad \d+\.\d+\.\d+\n", capsys.readouterr().out)


def child(arguments: list[str], environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gaiad.cli.main", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=False)


def test_a_reader_that_leaves_early_is_no_error(api: Any) -> None:
    gone = threading.Event()

    def answer_later(_body: Any) -> Any:
        gone.wait(10)
        return {"jobs": []}

    api.routes["GET /jobs"] = answer_later
    command = [sys.executable, "-m", "gaiad.cli.main", "jobs", "--home", str(api.home)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        gone.set()
        assert process.stderr.read() == b""
    assert process.returncode == 141


def test_ctrl_c_ends_quietly_with_130(api: Any) -> None:
    waiting = []

    def slow(_body: Any) -> Any:
        waiting.append(1)
        time.sleep(5)
        return {}

    api.routes["GET /status"] = slow
    command = [sys.executable, "-m", "gaiad.cli.main", "status", "--home", str(api.home)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        while not waiting:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
    assert (process.returncode, output, errors.strip()) == (130, b"", b"")


def test_status_imports_nothing_heavy(api: Any) -> None:
    code = (
        "import sys; from gaiad.cli.main import program, run\n"
        f"run(program, 'gaiad', ['status', '--home', {str(api.home)!r}])\n"
        "print([m for m in ('aiohttp', 'numpy', 'asyncio', 'structlog', 'gaiad.base.config') if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_ctrl_c_during_ingest_cancels_the_job_and_ends_with_130(api: Any, tmp_path: Path) -> None:
    job = {"job_id": "job_1", "kind": "ingest", "tenant": "local", "note": "", "created_at": "", "updated_at": ""}
    job |= {"state": "running", "done": 1, "total": 9}
    looked, cancelled = threading.Event(), threading.Event()

    def look(_body: Any) -> Any:
        looked.set()
        return job | {"state": "cancelled" if cancelled.is_set() else "running"}

    def cancel(_body: Any) -> Any:
        cancelled.set()
        return job

    api.routes["POST /ingest"] = (202, {"job": job, "outcomes": []})
    api.routes["GET /jobs/job_1?tenant=local"] = look
    api.routes["GET /jobs/job_1/outcomes?after=0&tenant=local"] = {"outcomes": []}
    api.routes["POST /jobs/job_1/cancel?tenant=local"] = cancel
    command = [sys.executable, "-m", "gaiad.cli.main", "ingest", str(tmp_path), "--home", str(api.home)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert looked.wait(20)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert cancelled.is_set()
    assert process.returncode == 130
    assert "cancelled after 1 of 9 files" in errors
    assert "Traceback" not in errors


def test_a_defect_is_shown_whole_and_not_swallowed() -> None:
    @click.command()
    def broken() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(broken, "broken", [])


LIBRARIES = "import http.client, click, msgspec.inspect, msgspec.json"


def processor_s(command: list[str], exit_code: int) -> float:
    """Seconds of processor time of a child."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert subprocess.run(command, capture_output=True, timeout=60).returncode == exit_code
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def test_status_costs_little_more_than_loading_its_libraries(api: Any) -> None:
    """0.13 s on an idle machine, 0.25 s on a slow one, and 1.25 times the libraries on both: numpy would be seen."""
    api.routes["GET /status"] = (503, {"code": "unavailable", "message": "starting"})
    status = [sys.executable, "-m", "gaiad.cli.main", "status", "--home", str(api.home)]
    bare, spent = [], []
    for _ in range(8):
        bare.append(processor_s([sys.executable, "-c", LIBRARIES], 0))
        spent.append(processor_s(status, 5))
        if min(spent) < 1.6 * min(bare):
            return
    pytest.fail(f"seconds of processor time: {spent}, of the libraries alone: {bare}")
