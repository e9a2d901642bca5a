"""The steps of the set-up: which of them have to run, in which order, and the small ones themselves.

The first four take seconds and are all that a daemon needs to start: it then serves pages, search by words and quotes.
Models and llama.cpp follow, beside it under `make run`, before anything else under the other targets.
"""

import json
import os
import platform
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from gaiad.bootstrap.builds import NATIVE, climb_down, cpu_flags, cpu_identity, ladder, look_at_machine, remedy
from gaiad.bootstrap.children import SetupFailed, alone, run, say, spent, step, watch
from gaiad.bootstrap.registry import install_command, lock_entries, uv_environment
from gaiad.bootstrap.state import (
    DEFAULTS,
    LOCK_FILE,
    PYTHON,
    ROOT,
    UV,
    VENV,
    WORK,
    begin_progress,
    digest,
    finish_progress,
    note_trouble,
    read_state,
    remember,
    show_progress,
)

SETUP_VERSION = "1"
BUILD_VERSION = "2"  # how llama.cpp and hnswlib are compiled
SERVING = ("venv", "packages", "project")
"""The steps that a daemon cannot start without."""


def set_up() -> None:
    """All steps whose key changed. Raises SetupFailed."""
    install()
    finish()


def install() -> None:
    """The steps that a daemon cannot start without. Raises SetupFailed."""
    keys = wanted_keys()
    if not is_current(read_state(), keys, SERVING):
        with alone():
            state = read_state()
            if not is_current(state, keys, SERVING):
                run_installs(state, keys)


def is_finished() -> bool:
    """Whether nothing is left to do."""
    keys = wanted_keys()
    return is_current(read_state(), keys, tuple(keys))


def is_built() -> bool:
    """Whether llama.cpp and hnswlib are there."""
    return is_current(read_state(), wanted_keys(), ("native",))


def finish() -> None:
    """The embedding model, then llama.cpp and hnswlib. Raises SetupFailed."""
    if is_finished():
        return
    with alone():
        keys, state = wanted_keys(), read_state()
        begin_progress(built=is_built())
        if not is_current(state, keys, tuple(keys)):
            run_builds(state, keys)
    finish_progress()


def wanted_keys() -> dict[str, str]:
    """Step -> a hash of all it depends on."""
    lock = LOCK_FILE.read_text(encoding="utf-8")
    entries = lock_entries(lock)
    venv = digest(SETUP_VERSION, ROOT, sys.version_info[:3], entries["uv"])
    keys = {"venv": venv, "packages": digest(venv, lock)}
    keys["project"] = digest(venv, (ROOT / "pyproject.toml").read_bytes())
    keys["model"] = digest(venv, models_place())
    if wants_smollm2():
        keys["chat"] = keys["model"]
    compilers = [os.environ.get("CC"), os.environ.get("CXX")]
    keys["native"] = digest(venv, cpu_identity(), BUILD_VERSION, *compilers, *(entries[name] for name in NATIVE))
    return keys


def is_current(state: Mapping[str, Any], keys: Mapping[str, str], names: tuple[str, ...]) -> bool:
    return (VENV / "bin" / "gaiad").exists() and all(state.get(name) == keys[name] for name in names)


def run_installs(state: dict[str, Any], keys: Mapping[str, str]) -> None:
    say("setting up gaiad in .venv; you can stop it at any time, and `make` continues where it stopped")
    entries = lock_entries(LOCK_FILE.read_text(encoding="utf-8"))
    packages = [lines for name, lines in entries.items() if name not in NATIVE]
    if not UV.exists() or not PYTHON.exists():
        remember(state, venv="")
    once(state, keys, 1, "venv", "making .venv", lambda: make_venv(entries["uv"]))
    if not (VENV / "bin" / "gaiad").exists():
        remember(state, packages="", project="", native="")
    once(state, keys, 2, "packages", f"installing {len(packages)} packages", lambda: install_packages(packages))
    once(state, keys, 3, "project", "installing gaiad itself", install_project)


def run_builds(state: dict[str, Any], keys: Mapping[str, str]) -> None:
    began = time.monotonic()
    entries = lock_entries(LOCK_FILE.read_text(encoding="utf-8"))
    native = [entries[name] for name in NATIVE]
    for name, what in {"model": "the embedding model", "chat": "SmolLM2-135M, a very small chat model"}.items():
        if name in keys:
            show_progress(f"fetching {what}")
            try:
                once(state, keys, 4, name, f"fetching {what}", PROVIDE[name])
            except SetupFailed as error:
                note_trouble(f"{error}; {WITHOUT[name]} until the next `make`")
                say(f"      continuing without it, {WITHOUT[name]} until the next `make`: {error}")
    if state.get("native") != keys["native"]:
        show_progress("building llama.cpp")
        with step(5, f"looking at the machine (Python {platform.python_version()}, {platform.machine()})"):
            builds = ladder(platform.machine(), cpu_flags(), look_at_machine())
    work = lambda: climb_down(state, keys["native"], native, builds, cpu_identity())  # noqa: E731
    once(state, keys, 6, "native", "building llama.cpp and hnswlib", work)
    say(f"set-up finished in {spent(began)}")


def once(
    state: dict[str, Any], keys: Mapping[str, str], number: int, name: str, what: str, work: Callable[[], None]
) -> None:
    """Do a step whose key is not the one remembered."""
    if state.get(name) != keys[name]:
        with step(number, what):
            work()
        remember(state, **{name: keys[name]})


def models_place(environment: Mapping[str, str] = os.environ) -> str:
    """What decides where the embedding model lies (gaiad.models.provision knows the rest); made once for each place."""
    names = ("GAIAD_MODELS", "XDG_DATA_HOME", "HOME")
    return next((f"{name}={environment[name]}" for name in names if environment.get(name)), "")


def make_venv(uv_lines: str) -> None:
    """A fresh .venv with the pinned uv in it, checked by its hash."""
    base = getattr(sys, "_base_executable", None) or sys.executable
    shutil.rmtree(VENV, ignore_errors=True)
    code, output = watch("making .venv", [base, "-m", "venv", str(VENV)], "venv.log")
    if code:
        raise SetupFailed(
            f"python -m venv failed ({output.strip().splitlines()[-1:]}); {remedy('venv')}, then run make again"
        )
    (WORK / "uv.txt").write_text(uv_lines, encoding="utf-8")
    pip = [str(PYTHON), "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
    run("fetching uv", [*pip, "--no-deps", "--require-hashes", "-r", str(WORK / "uv.txt")], "uv.log")


def install_packages(entries: list[str]) -> None:
    requirements = WORK / "packages.txt"
    requirements.write_text("".join(entries), encoding="utf-8")
    command = install_command("--require-hashes", "-r", str(requirements))
    run("installing packages", command, "packages.log", uv_environment())


def install_project() -> None:
    command = install_command("--no-build-isolation", "--editable", str(ROOT))
    run("installing gaiad", command, "project.log", uv_environment())


def make_model() -> None:
    run("making the embedding model", [str(PYTHON), "-m", "gaiad.models.provision"], "model.log")


def fetch_smollm2() -> None:
    """The file, and settings that give it the three roles, weaker than any that a person writes."""
    output = run("fetching SmolLM2-135M", [str(PYTHON), "-m", "gaiad.models.provision", "--chat"], "chat.log")
    path = json.dumps(output.strip().splitlines()[-1] if output.strip() else "")
    roles = "".join(f'{role} = "SmolLM2-135M"\n' for role in ("prime", "lite", "codemind"))
    text = f'[models.known."SmolLM2-135M"]\nkind = "gguf"\npath = {path}\n\n[roles]\n{roles}'
    DEFAULTS.write_text(text, encoding="utf-8")


def wants_smollm2(environment: Mapping[str, str] = os.environ) -> bool:
    """`GAIAD_MODEL=none make run` goes without a chat model."""
    return environment.get("GAIAD_MODEL") != "none"


PROVIDE = {"model": make_model, "chat": fetch_smollm2}
WITHOUT = {"model": "search is by words", "chat": "answers are quotes"}
