"""The set-up: it resumes after a kill, steps down from a build that dies, costs nothing twice, and says what to do."""

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from gaiad.bootstrap.builds import NATIVE, build_environment, build_settings, cpu_flags, cpu_identity, ladder
from gaiad.bootstrap.registry import index_settings, lock_entries
from gaiad.bootstrap.state import digest
from gaiad.bootstrap.steps import SETUP_VERSION

ROOT = Path(__file__).parent.parent

# Stands in for .venv/bin/python: proofs die of an illegal instruction until the build named in `survives` is there.
FAKE_PYTHON = """#!/bin/sh
echo "python $*" >> {calls}
case "$*" in
  *provision*--chat*) echo /models/smol.gguf ;;
  *gaiad.models.prove*) grep -q -e "$(cat {survives})" {root}/.setup/built || kill -ILL $$ ;;
esac
"""
# Serves until `stopped` is there.
FAKE_GAIAD = """#!/bin/sh
echo "gaiad $*" >> {calls}
while [ ! -f {stopped} ]; do sleep 0.05; done
"""
FAKE_UV = """#!/bin/sh
echo "uv $*" >> {calls}
case "$*" in *native.txt*)
  echo "$*" > {root}/.setup/built
  while [ -f {stuck} ]; do echo "[37/80] a file"; sleep 0.05; done ;;
esac
if [ -f {kill_at} ] && echo "$*" | grep -q -e "$(cat {kill_at})"; then rm {kill_at}; kill -9 $PPID; fi
if [ -f {fail_with} ]; then cat {fail_with}; exit 1; fi
"""


class Checkout:
    """A copy of what the set-up reads, with a .venv whose python and uv only write down how they were called."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.calls = root / "calls"
        self.survives = root / "survives"
        self.kill_at = root / "kill_at"
        self.fail_with = root / "fail_with"
        self.stopped = root / "stopped"
        self.stuck = root / "stuck"
        self.survives.write_text("GGML_NATIVE=ON")
        shutil.copytree(ROOT / "gaiad" / "bootstrap", root / "gaiad" / "bootstrap")
        shutil.copy(ROOT / "gaiad" / "__init__.py", root / "gaiad")
        for name in ("requirements.lock", "pyproject.toml", "Makefile"):
            shutil.copy(ROOT / name, root)
        for name, text in (("python", FAKE_PYTHON), ("uv", FAKE_UV), ("gaiad", FAKE_GAIAD)):
            script = root / ".venv" / "bin" / name
            script.parent.mkdir(parents=True, exist_ok=True)
            script.write_text(text.format(**{key: str(value) for key, value in vars(self).items()}))
            script.chmod(0o755)
        lock = (root / "requirements.lock").read_text()
        venv = digest(SETUP_VERSION, root, sys.version_info[:3], lock_entries(lock)["uv"])
        (root / ".setup").mkdir()
        self.state_file.write_text(json.dumps({"venv": venv}))

    @property
    def state_file(self) -> Path:
        return self.root / ".setup" / "state.json"

    @property
    def state(self) -> dict[str, object]:
        return json.loads(self.state_file.read_text())

    def set_up(self, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-I", "gaiad/bootstrap"],
            cwd=self.root,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def called(self) -> list[str]:
        lines = self.calls.read_text().splitlines() if self.calls.exists() else []
        self.calls.unlink(missing_ok=True)
        return [line for line in lines if "pip config" not in line]


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_all_steps_run_once_and_then_cost_nothing(checkout: Checkout) -> None:
    first = checkout.set_up()
    assert first.returncode == 0, first.stdout + first.stderr
    calls = " ; ".join(checkout.called())
    for part in ("packages.txt", "--editable", "native.txt", "-m gaiad.models.prove", "provision --chat"):
        assert calls.count(part) == 1, (part, calls)
    assert "[6/6]" in first.stdout
    began = time.monotonic()
    second = checkout.set_up()
    assert time.monotonic() - began < 30.0
    assert (second.returncode, second.stdout, checkout.called()) == (0, "", [])


@pytest.mark.parametrize("moment", ["packages.txt", "--editable", "native.txt"])
def test_a_killed_set_up_goes_on_where_it_was(checkout: Checkout, moment: str) -> None:
    checkout.kill_at.write_text(moment)
    assert checkout.set_up().returncode == -9
    before = checkout.called()
    assert moment in before[-1]
    assert checkout.set_up().returncode == 0
    after = " ; ".join(checkout.called())
    finished = [part for part in ("packages.txt", "--editable") if part != moment and part in " ".join(before)]
    assert moment in after
    assert not [part for part in finished if part in after]
    assert checkout.set_up().stdout == ""


def test_a_build_that_dies_of_an_illegal_instruction_is_followed_by_a_safer_one(checkout: Checkout) -> None:
    checkout.survives.write_text("GGML_AVX2=OFF")
    result = checkout.set_up()
    assert result.returncode == 0, result.stdout + result.stderr
    assert "this build does not run here (llama.cpp: SIGILL)" in result.stdout
    assert "llama-cpp-python:cmake.define.GGML_NATIVE=OFF" in (checkout.root / ".setup" / "built").read_text()
    rung = checkout.state["rung"]
    assert isinstance(rung, int)
    assert rung >= 1
    checkout.called()
    (checkout.root / ".venv" / "bin" / "gaiad").unlink()
    assert checkout.set_up().stdout.count("this build does not run here") == 0
    assert sum("native.txt" in call for call in checkout.called()) == 1


def test_when_no_build_runs_it_says_so(checkout: Checkout) -> None:
    checkout.survives.write_text("nothing helps")
    result = checkout.set_up()
    assert result.returncode == 1
    assert "no build of llama.cpp runs on this machine" in result.stderr


def test_a_second_set_up_waits_for_the_first(checkout: Checkout) -> None:
    with (checkout.root / ".setup" / "lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        command = [sys.executable, "-I", "gaiad/bootstrap"]
        with subprocess.Popen(command, cwd=checkout.root, stdout=subprocess.PIPE, text=True) as waiting:
            assert waiting.stdout is not None
            assert "another set-up of this checkout is still running" in waiting.stdout.readline()
            assert checkout.called() == []
            fcntl.flock(held, fcntl.LOCK_UN)
            assert "set-up finished" in waiting.stdout.read()
        assert waiting.returncode == 0


def test_a_failure_shows_the_end_of_its_log_and_the_remedy(checkout: Checkout) -> None:
    checkout.fail_with.write_text("DEBUG noise\nerror: failed to write: No space left on device (os error 28)\n")
    result = checkout.set_up()
    assert result.returncode == 1
    assert "| error: failed to write" in result.stdout
    assert "noise" not in result.stdout
    assert result.stderr.count("\n") == 1
    assert "the disk is full" in result.stderr


def test_a_missing_compiler_has_a_one_line_remedy(checkout: Checkout) -> None:
    result = checkout.set_up(CXX="no-such-compiler")
    assert result.returncode == 1
    assert re.search(r"no working c\+\+ compiler \(tried no-such-compiler\); (run|install)[^\n]*\n$", result.stderr)


def test_a_missing_python_has_a_one_line_remedy(checkout: Checkout) -> None:
    result = subprocess.run(["make", "PYTHON="], cwd=checkout.root, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert "no Python 3.11 or newer on the path; run: apt install python3" in result.stderr


def test_a_changed_lock_installs_again_and_another_data_directory_only_makes_the_model(checkout: Checkout) -> None:
    assert checkout.set_up().returncode == 0
    checkout.called()
    assert checkout.set_up(XDG_DATA_HOME=str(checkout.root / "elsewhere")).returncode == 0
    assert [call for call in checkout.called() if "python" in call.split()[0]] == [
        "python -m gaiad.models.provision",
        "python -m gaiad.models.provision --chat",
    ]
    with (checkout.root / "requirements.lock").open("a") as lock:
        lock.write("extra==1.0 \\\n    --hash=sha256:00\n")
    assert checkout.set_up().returncode == 0
    calls = " ; ".join(checkout.called())
    assert "packages.txt" in calls
    assert "native.txt" not in calls


def test_the_lock_is_complete_and_names_no_registry_and_no_path() -> None:
    text = (ROOT / "requirements.lock").read_text()
    entries = lock_entries(text)
    assert not re.search(r"https?:|file:|--index|--find-links| @ |/", text.replace("\\", ""))
    assert all("--hash=sha256:" in lines for lines in entries.values())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = [*project["project"]["dependencies"], *project["dependency-groups"]["dev"]]
    names = {re.split(r"[<>=~!\[; ]", item, maxsplit=1)[0].lower() for item in wanted}
    assert {re.sub(r"[-_.]+", "-", name) for name in names} <= entries.keys()  # as PEP 503 spells them
    assert set(NATIVE) <= entries.keys()


def cpuinfo(folder: Path, **changed: str) -> Path:
    values = {"processor": "0", "model name": "Some CPU", "cpu MHz": "2400", "flags": "fpu avx2 fma f16c"}
    path = folder / "cpuinfo"
    path.write_text(
        "".join(f"{key}\t: {value}\n" for key, value in {**values, **changed}.items()) + "\nprocessor\t: 1\n"
    )
    return path


def test_the_processors_identity_follows_its_features_and_not_its_clock(tmp_path: Path) -> None:
    same = cpu_identity(cpuinfo(tmp_path))
    assert cpu_identity(cpuinfo(tmp_path, **{"cpu MHz": "3100"})) == same
    assert cpu_identity(cpuinfo(tmp_path, flags="fpu avx2 fma f16c amx_int8")) != same
    assert cpu_flags(cpuinfo(tmp_path)) == {"fpu", "avx2", "fma", "f16c"}
    assert cpu_identity(tmp_path / "absent")


def test_builds_go_from_this_processor_down_to_any() -> None:
    amx = "-mno-amx-tile -mno-amx-int8 -mno-amx-bf16"
    native, avx2, least = ladder("x86_64", {"avx2", "fma", "f16c"}, amx)
    assert native.flags == amx
    assert "NATIVE=OFF" in avx2.options
    assert "AVX2=ON" in avx2.options
    assert "AVX=OFF" in least.options
    assert [build.name for build in ladder("x86_64", set(), "")] == [native.name, least.name]
    assert len(ladder("aarch64", set(), "")) == 2


def test_the_processor_and_the_options_are_settings_for_they_are_part_of_uvs_cache_key() -> None:
    native, least = ladder("x86_64", set(), "-mno-amx-tile")
    assert build_settings(native, "cpu1")[1::2] == [
        "llama-cpp-python:cmake.define.LLAVA_BUILD=OFF",
        "llama-cpp-python:cmake.define.GGML_NATIVE=ON",
        "llama-cpp-python:cmake.define.GAIAD_CPU=cpu1",
        "hnswlib:gaiad-cpu=cpu1",
    ]
    assert set(build_settings(native, "cpu1")[::2]) == {"--config-settings-package"}
    assert build_settings(least, "cpu1")[-1] == "hnswlib:gaiad-cpu=cpu1-any"


def test_a_build_sees_the_users_own_flags_beside_ours() -> None:
    native, least = ladder("x86_64", set(), "-mno-amx-tile")
    found = build_environment(native, {"CFLAGS": "-O2", "CMAKE_ARGS": "-DGGML_BLAS=ON"})
    assert (found["CFLAGS"], found["CXXFLAGS"]) == ("-O2 -mno-amx-tile", "-mno-amx-tile")
    assert found["CMAKE_ARGS"].startswith("-DGGML_BLAS=ON -DCMAKE_PROJECT_llama_cpp_INCLUDE=/")
    assert "HNSWLIB_NO_NATIVE" not in found
    assert build_environment(least, {})["HNSWLIB_NO_NATIVE"] == "1"


def until(true: Callable[[], object]) -> None:
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_daemon_serves_while_the_rest_is_built_beside_it(checkout: Checkout) -> None:
    progress = checkout.root / ".setup" / "progress.json"

    def shown() -> dict[str, object]:
        return json.loads(progress.read_text()) if progress.exists() else {}

    checkout.stuck.touch()
    command = [sys.executable, "-I", "gaiad/bootstrap", "run", "--home", "h"]
    with subprocess.Popen(command, cwd=checkout.root, stdout=subprocess.DEVNULL) as daemon:
        until(lambda: shown().get("percent") == 46)
        assert "gaiad serve --home h" in checkout.called()
        assert (shown()["doing"], shown()["finished"]) == ("building llama.cpp", False)
        checkout.stuck.unlink()
        until(lambda: shown()["finished"])
        assert daemon.poll() is None
        checkout.stopped.touch()
    assert checkout.set_up().stdout == ""


def test_a_build_ends_with_the_daemon_beside_which_it_runs(checkout: Checkout) -> None:
    checkout.stuck.touch()
    command = [sys.executable, "-I", "gaiad/bootstrap", "run"]
    with subprocess.Popen(command, cwd=checkout.root, stdout=subprocess.DEVNULL) as daemon:
        until(lambda: (checkout.root / ".setup" / "built").exists())
        daemon.kill()
    with (checkout.root / ".setup" / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # returns once the orphaned build has let go
    assert "native" not in checkout.state


def test_a_small_chat_model_is_there_unless_none_is_wanted(checkout: Checkout) -> None:
    settings = checkout.root / ".setup" / "config.toml"
    assert checkout.set_up(GAIAD_MODEL="none").returncode == 0
    assert not any("--chat" in call for call in checkout.called())
    assert not settings.exists()
    assert checkout.set_up().returncode == 0
    given = tomllib.loads(settings.read_text())
    assert given["models"]["known"]["SmolLM2-135M"] == {"kind": "gguf", "path": "/models/smol.gguf"}
    assert given["roles"] == dict.fromkeys(("prime", "lite", "codemind"), "SmolLM2-135M")


def test_what_failed_beside_a_daemon_is_left_for_its_status(checkout: Checkout) -> None:
    assert checkout.set_up(CXX="no-such-compiler").returncode == 1
    shown = json.loads((checkout.root / ".setup" / "progress.json").read_text())
    assert shown["finished"] is False
    assert "no working c++ compiler" in shown["trouble"]


PIP = """:env:.cert='/etc/own.pem'
global.extra-index-url='file:///opt/simple http://two.example/simple'
global.index-url='http://one.example/simple'
install.index-url='http://install.example/simple'
"""


def test_pips_index_settings_reach_uv(tmp_path: Path) -> None:
    settings = index_settings(PIP, {}, [])
    assert settings["UV_DEFAULT_INDEX"] == "http://install.example/simple"
    assert settings["UV_INDEX"] == "http://two.example/simple"
    assert settings["SSL_CERT_FILE"] == "/etc/own.pem"
    assert index_settings("", {}, []) == {}
    own = tmp_path / "uv.toml"
    own.write_text('[[index]]\nurl = "http://three.example/simple"\n')
    assert "UV_DEFAULT_INDEX" not in index_settings(PIP, {}, [own])
    assert "UV_INDEX" not in index_settings(PIP, {"UV_DEFAULT_INDEX": "http://four.example"}, [])
    assert "SSL_CERT_FILE" not in index_settings(PIP, {"SSL_CERT_FILE": "/mine.pem"}, [])
