"""llama.cpp and hnswlib, compiled for this processor, proved in a child, and built more carefully if they die."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gaiad.bootstrap.children import SetupFailed, ended, run, say, succeed, watch
from gaiad.bootstrap.machine import X86
from gaiad.bootstrap.memory import remember
from gaiad.bootstrap.places import PYTHON, UV, WORK
from gaiad.bootstrap.registry import install_command, uv_environment

NATIVE = ("hnswlib", "llama-cpp-python")
DIED_OF_CODE = re.compile(
    r"SIG(ILL|SEGV|BUS|ABRT|FPE|TRAP)|illegal instruction|(signal |exit code -)(4|5|6|7|8|11)\b", re.IGNORECASE
)
NOT_CACHED = re.compile(r"network (connectivity )?(is|was) disabled|not found in the cache", re.IGNORECASE)
PROVE_HNSWLIB = (
    "import numpy, hnswlib; i = hnswlib.Index(space='ip', dim=384); i.init_index(max_elements=64);"
    "v = numpy.random.default_rng(0).random((64, 384), dtype=numpy.float32); i.add_items(v);"
    "assert i.knn_query(v[:1], k=5)[0].shape == (1, 5)"
)


@dataclass(frozen=True)
class Build:
    """One way to compile the native packages: a name for the screen and the variables the build sees."""

    name: str
    variables: Mapping[str, str]


def ladder(machine: str, advertised: set[str], no_amx: str) -> list[Build]:
    """The builds to try, fastest first: for this processor without AMX, for any with AVX2, for any."""
    flags = {"CFLAGS": no_amx, "CXXFLAGS": no_amx} if no_amx else {}
    native = Build("for this processor", {**flags, "CMAKE_ARGS": cmake("NATIVE=ON")})
    plain = {"HNSWLIB_NO_NATIVE": "1"}
    if machine not in X86:
        return [native, Build("for any such processor", {**plain, "CMAKE_ARGS": cmake("NATIVE=OFF")})]
    avx2 = cmake("NATIVE=OFF", "SSE42=ON", "AVX=ON", "AVX2=ON", "FMA=ON", "F16C=ON", "BMI2=OFF")
    least = cmake("NATIVE=OFF", "SSE42=OFF", "AVX=OFF", "AVX2=OFF", "FMA=OFF", "F16C=OFF", "BMI2=OFF")
    builds = [native]
    if {"avx2", "fma", "f16c"} <= advertised:
        builds.append(Build("with AVX2 and no more", {**plain, "CMAKE_ARGS": avx2}))
    return [*builds, Build("for any x86-64 processor", {**plain, "CMAKE_ARGS": least})]


def cmake(*options: str) -> str:
    return " ".join(["-DLLAVA_BUILD=OFF", *(f"-DGGML_{option}" for option in options)])


def uv_settings(build: Build, cpu: str) -> str:
    """A uv.toml with the build's variables. They are part of uv's cache key, plain environment variables are not."""
    variables = {**build.variables, "GAIAD_CPU": cpu}
    inside = ", ".join(f"{name} = {json.dumps(value)}" for name, value in variables.items())
    return "[extra-build-variables]\n" + "".join(f"{package} = {{ {inside} }}\n" for package in NATIVE)


def build_native(entries: list[str], build: Build, cpu: str) -> None:
    """Compile, or take from uv's cache what was compiled for this processor in this way.

    The cache is asked first without the network: a registry that cannot confirm that an archive is unchanged makes uv
    compile it again.
    """
    (WORK / "uv.toml").write_text(uv_settings(build, cpu), encoding="utf-8")
    (WORK / "native.txt").write_text("".join(entries), encoding="utf-8")
    run("removing the old build", [str(UV), "pip", "uninstall", "--python", str(PYTHON), *NATIVE], "uninstall.log")
    command = install_command("--verbose", "--require-hashes", "-r", str(WORK / "native.txt"))
    code, output = watch("compiling", [*command, "--offline"], "native.log", uv_environment())
    if code and NOT_CACHED.search(output):
        code, output = watch("compiling", command, "native.log", uv_environment())
    succeed("compiling", code, output, "native.log")


def proof() -> str:
    """Run the compiled code in children; "" when it works, else why it died. Raises SetupFailed on other failures."""
    for what, command in {
        "hnswlib": [str(PYTHON), "-c", PROVE_HNSWLIB],
        "llama.cpp": [str(PYTHON), "-m", "gaiad.models.prove"],
    }.items():
        code, output = watch(f"proving {what}", command, f"prove-{what}.log")
        said = " ".join(output.split()[-40:])
        if code < 0 or (code and DIED_OF_CODE.search(output)):
            return f"{what}: {said or ended(code)}"
        if code:
            raise SetupFailed(f"{what} was built but does not work: {said}; see {WORK.name}/prove-{what}.log")
    return ""


def climb_down(state: dict[str, Any], key: str, entries: list[str], builds: list[Build], cpu: str) -> None:
    """Build and prove, going on to the next build when this one dies; which one it was is remembered."""
    rung = state.get("rung", 0) if state.get("rung_key") == key else 0
    for number in range(rung, len(builds)):
        say(f"      build {builds[number].name}; the first time this takes several minutes")
        build_native(entries, builds[number], cpu)
        died = proof()
        if not died:
            say(f"      proved: built {builds[number].name}")
            return
        say(f"      this build does not run here ({died})")
        remember(state, rung=number + 1, rung_key=key)
    raise SetupFailed(
        f"no build of llama.cpp runs on this machine; see {WORK.name}/native.log; `make clean` to try them all again"
    )
