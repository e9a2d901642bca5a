"""The steps of the set-up: which of them have to run, in which order, and the small ones themselves."""

import os
import platform
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from gaiad.bootstrap.builds import NATIVE, climb_down, ladder
from gaiad.bootstrap.children import SetupFailed, alone, run, say, spent, step, watch
from gaiad.bootstrap.lock import lock_entries
from gaiad.bootstrap.machine import cpu_flags, cpu_identity, look_at_machine, remedy
from gaiad.bootstrap.memory import digest, read_state, remember
from gaiad.bootstrap.places import LOCK_FILE, PYTHON, ROOT, UV, VENV, WORK
from gaiad.bootstrap.registry import install_command, uv_environment

SETUP_VERSION = "1"


def set_up() -> None:
    """All steps whose key changed. Raises SetupFailed."""
    lock = LOCK_FILE.read_text(encoding="utf-8")
    cpu = cpu_identity()
    venv = digest(SETUP_VERSION, ROOT, sys.version_info[:3], lock_entries(lock)["uv"])
    keys = {"venv": venv, "packages": digest(venv, lock)}
    keys["project"] = digest(venv, (ROOT / "pyproject.toml").read_bytes())
    compilers = [os.environ.get("CC"), os.environ.get("CXX")]
    keys["native"] = digest(venv, cpu, *compilers, *(lock_entries(lock)[name] for name in NATIVE))
    keys["model"] = digest(venv, models_place())
    if is_current(read_state(), keys):
        return
    with alone():
        state = read_state()
        if not is_current(state, keys):
            run_steps(state, keys, lock_entries(lock), cpu)


def is_current(state: Mapping[str, Any], keys: Mapping[str, str]) -> bool:
    return (VENV / "bin" / "gaiad").exists() and all(state.get(name) == key for name, key in keys.items())


def run_steps(state: dict[str, Any], keys: Mapping[str, str], entries: dict[str, str], cpu: str) -> None:
    began = time.monotonic()
    native = [entries.pop(name) for name in NATIVE]
    say("setting up gaiad in .venv; it may be stopped at any time, `make` goes on where it was")

    def once(number: int, name: str, what: str, work: Callable[[], None]) -> None:
        if state.get(name) != keys[name]:
            with step(number, what):
                work()
            remember(state, **{name: keys[name]})

    with step(1, f"looking at the machine (Python {platform.python_version()}, {platform.machine()})"):
        builds = ladder(platform.machine(), cpu_flags(), look_at_machine())
    if not UV.exists() or not PYTHON.exists():
        remember(state, venv="")
    once(2, "venv", "making .venv", lambda: make_venv(entries["uv"]))
    if not (VENV / "bin" / "gaiad").exists():
        remember(state, packages="", project="", native="")
    once(3, "packages", f"installing {len(entries)} packages", lambda: install_packages(list(entries.values())))
    once(4, "project", "installing gaiad itself", install_project)
    native_key = keys["native"]
    once(5, "native", "building llama.cpp and hnswlib", lambda: climb_down(state, native_key, native, builds, cpu))
    try:
        once(6, "model", "making the embedding model", make_model)
    except SetupFailed as error:
        say(f"      going on without it, search is lexical until the next `make`: {error}")
    say(f"set-up finished in {spent(began)}")


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
