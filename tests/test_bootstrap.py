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
from pathlib import Path

import pytest

from gaiad.bootstrap.builds import NATIVE, ladder, uv_settings
from gaiad.bootstrap.lock import lock_entries
from gaiad.bootstrap.machine import cpu_flags, cpu_identity
from gaiad.bootstrap.memory import digest
from gaiad.bootstrap.registry import index_settings
from gaiad.bootstrap.steps import SETUP_VERSION

ROOT = Path(__file__).parent.parent

# Stands in for .venv/bin/python: proofs die of an illegal instruction until the build named in `survives` is there.
FAKE_PYTHON = """#!/bin/sh
echo "python $*" >> {calls}
case "$*" in
  *gaiad.models.prove*) grep -q -e "$(cat {survives})" {root}/.setup/uv.toml || kill -ILL $$ ;;
esac
"""
FAKE_UV = """#!/bin/sh
echo "uv $*" >> {calls}
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
        self.survives.write_text("GGML_NATIVE=ON")
        shutil.copytree(ROOT / "gaiad" / "bootstrap", root / "gaiad" / "bootstrap")
        shutil.copy(ROOT / "gaiad" / "__init__.py", root / "gaiad")
        for name in ("requirements.lock", "pyproject.toml", "Makefile"):
            shutil.copy(ROOT / name, root)
        for name, text in (("python", FAKE_PYTHON), ("uv", FAKE_UV), ("gaiad", "#!/bin/sh\n")):
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
    for part in ("packages.txt", "--editable", "native.txt", "-m gaiad.models.prove", "-m gaiad.models.provision"):
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
    assert "-DGGML_NATIVE=OFF" in (checkout.root / ".setup" / "uv.toml").read_text()
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
    assert [call for call in checkout.called() if "python" in call.split()[0]] == ["python -m gaiad.models.provision"]
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
    assert native.variables["CFLAGS"] == native.variables["CXXFLAGS"] == amx
    assert native.variables["CMAKE_ARGS"] == "-DLLAVA_BUILD=OFF -DGGML_NATIVE=ON"
    assert "-DGGML_NATIVE=OFF" in avx2.variables["CMAKE_ARGS"]
    assert "-DGGML_AVX2=ON" in avx2.variables["CMAKE_ARGS"]
    assert "-DGGML_AVX=OFF" in least.variables["CMAKE_ARGS"]
    assert least.variables["HNSWLIB_NO_NATIVE"] == "1"
    assert [build.name for build in ladder("x86_64", set(), "")] == [native.name, least.name]
    assert len(ladder("aarch64", set(), "")) == 2


def test_the_processor_is_part_of_what_uv_builds_with() -> None:
    build = ladder("x86_64", set(), "-mno-amx-tile")[0]
    variables = tomllib.loads(uv_settings(build, "cpu1"))["extra-build-variables"]
    assert set(variables) == set(NATIVE)
    assert variables["llama-cpp-python"] == {**build.variables, "GAIAD_CPU": "cpu1"}


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
