"""A daemon that serves before llama.cpp is built: status shows the build, and what waited begins by itself."""

import asyncio
import json
import os
import subprocess
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gaiad.base.clock import SystemClock
from gaiad.base.config import ModelConfig, load_config
from gaiad.base.errors import Unavailable
from gaiad.base.ports import RequestContext
from gaiad.daemon.assemble import open_embedder
from gaiad.daemon.set_up import WAITING, SetUp, SetUpProgress, in_words, without_llama

GONE_PID = 2**22 + 1  # above the largest that Linux gives


class Notes(dict[str, str]):
    """What was noted last by topic; `changed` is set by every note."""

    def __init__(self) -> None:
        super().__init__()
        self.changed = asyncio.Event()

    def note(self, topic: str, text: str) -> None:
        self[topic] = text
        self.changed.set()


def write(path: Path, **values: Any) -> None:
    path.write_text(json.dumps({"pid": os.getpid(), **values}))


def test_without_a_set_up_beside_it_nothing_waits() -> None:
    assert SetUp({}).pending is False


async def test_the_build_is_shown_and_what_waited_begins_when_it_ends(tmp_path: Path) -> None:
    path, notes, begun = tmp_path / "progress.json", Notes(), asyncio.Event()
    write(path, doing="building llama.cpp", percent=43)
    set_up = SetUp({"GAIAD_SETUP": str(path)}, look_s=0.01)
    assert set_up.pending

    async def begin() -> None:
        begun.set()

    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        tasks.create_task(set_up.follow(notes.note, begin))
        await notes.changed.wait()
        assert notes["set-up"] == ("building llama.cpp, 43 %; search is by words and answers are quotes until then")
        assert not begun.is_set()
        write(path, finished=True, trouble="the embedding model is not there; run make again")
        await begun.wait()
    assert set_up.pending is False
    assert notes["set-up"] == "the embedding model is not there; run make again"


@pytest.mark.parametrize("trouble", ["", "no working c++ compiler; apt install g++, then run make again"])
def test_a_build_that_ended_unfinished_is_said_with_its_remedy(trouble: str) -> None:
    words = in_words(SetUpProgress(doing="building llama.cpp", percent=50, trouble=trouble, pid=GONE_PID))
    assert words == f"set-up failed: {trouble or 'it ended early; run `make` to continue'}"


async def test_an_embedder_whose_file_is_still_to_come_refuses_with_the_reason(tmp_path: Path) -> None:
    settings = msgspec.structs.replace(load_config(environment={}).embedder, kind="minilm")
    async with AsyncExitStack() as stack:
        clock, environment = SystemClock("UTC"), {"GAIAD_MODELS": str(tmp_path)}
        embedder, trouble = await open_embedder(stack, settings, clock, environment, WAITING)
        assert embedder is not None
        assert (trouble, embedder.dimension, embedder.status().state) == ("", 384, "inactive")
        with pytest.raises(Unavailable, match="which is being built"):
            await embedder.embed(["a"], RequestContext())


def test_a_daemon_starts_without_what_is_compiled() -> None:
    blocked = "import sys; sys.modules.update({'hnswlib': None, 'llama_cpp': None}); "
    code = blocked + "import gaiad.daemon.assemble, gaiad.models.embedder, gaiad.models.generator"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_roles_whose_models_need_llama_cpp_quote_until_it_is_there() -> None:
    config = load_config(environment={})
    known = {
        "file": ModelConfig(kind="gguf", path="/a.gguf"),
        "server": ModelConfig(kind="openai", base_url="http://127.0.0.1:1/v1", model="m"),
    }
    config = msgspec.structs.replace(
        config,
        models=msgspec.structs.replace(config.models, known=known),
        roles=msgspec.structs.replace(config.roles, prime="file", lite="server", codemind="/b.gguf"),
    )
    found = without_llama(config)
    assert msgspec.structs.asdict(found.roles) == {"prime": "extractive", "lite": "server", "codemind": "extractive"}
    assert set(found.models.known) == {"server"}


def test_models_need_not_wait_when_only_a_download_is_left(tmp_path: Path) -> None:
    path = tmp_path / "progress.json"
    write(path, doing="fetching SmolLM2-135M", built=True)
    set_up = SetUp({"GAIAD_SETUP": str(path)})
    assert (set_up.pending, set_up.waits) == (True, "")
    assert in_words(set_up._read()) == "fetching SmolLM2-135M"


BEFORE_LLAMA = """
import pkgutil, sys
from importlib import import_module
import gaiad
sys.modules["llama_cpp"] = None
CHILDREN = ("gaiad.bootstrap", "gaiad.__main__", "gaiad.models.child", "gaiad.models.tokens")
for module in pkgutil.walk_packages(gaiad.__path__, "gaiad."):
    if not module.name.startswith(CHILDREN):
        import_module(module.name)
"""


def test_nothing_but_the_workers_needs_llama_cpp_to_be_built() -> None:
    """The daemon serves while llama.cpp compiles."""
    done = subprocess.run([sys.executable, "-c", BEFORE_LLAMA], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
