"""The chat model that a checkout starts with: it talks, shows nothing of ours, is measured and is changed live.

Skipped where it was not fetched (`make setup` does); with GAIAD_CI that is a failure.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from council.roles import role_table
from gaiad.base.clock import SystemClock
from gaiad.base.config import ModelConfig, load_config
from gaiad.base.errors import BadInput
from gaiad.base.ports import RequestContext
from gaiad.bench.daemon_process import BenchDaemon, running_daemon
from gaiad.models.pool.making import ModelDependencies
from gaiad.models.pool.pool import ModelPool
from gaiad.models.pool.pooled import Pooled
from gaiad.models.probe import SKILLS, probe_tasks
from gaiad.models.provision import SMOLLM2, is_provisioned, models_folder
from gaiad.models.tokens.token_worker import TokenWorker
from gaiad.service.probes import Probes
from gaiad.wire.chat import ChatRequest
from prompts.registry import RegistryWatch

OURS = ("RESPONSE", "PLAN:", "VERIFY", "<<", ">>", "<|im", "[Packet", "directive", "the next message", "codemind")


@pytest.fixture(scope="module")
def smol() -> Path:
    path = models_folder(os.environ) / SMOLLM2.file
    if not is_provisioned(path, SMOLLM2):
        message = "SmolLM2-135M was not fetched; run `make setup`"
        pytest.fail(message) if os.environ.get("GAIAD_CI") else pytest.skip(message)
    return path


@pytest.fixture(scope="module")
def daemon(smol: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BenchDaemon]:
    home = tmp_path_factory.mktemp("small") / "home"
    home.mkdir()
    known = f'[models.known."SmolLM2-135M"]\nkind = "gguf"\npath = "{smol}"\n'
    roles = "".join(f'{role} = "SmolLM2-135M"\n' for role in ("prime", "lite", "codemind"))
    (home / "config.toml").write_text(f"{known}\n[roles]\n{roles}")
    with running_daemon("embedder.kind=none", home=home) as running:
        yield running


def said(daemon: BenchDaemon, message: str) -> dict[str, Any]:
    request = ChatRequest(message=message, depth="fast", seed=1, max_tokens=48)
    *_, last = daemon.client.chat_events(request)
    assert last.event == "done"
    return dict(last.data)


def test_it_says_hello_and_shows_nothing_of_ours(daemon: BenchDaemon) -> None:
    answer = said(daemon, "Hello! Who are you?")
    assert answer["answer"].strip()
    assert [word for word in OURS if word in answer["answer"]] == []
    assert answer["engine"] == "SmolLM2-135M, a very small model; `gaiad models use` for a better one"


def test_another_model_is_used_at_once_and_written_down(daemon: BenchDaemon, smol: Path) -> None:
    assert daemon.client.use_model("extractive", "prime").roles == ["prime"]
    assert said(daemon, "Hello again!")["engine"] == "extractive"
    found = daemon.client.use_model(str(smol), "prime")
    assert found.answer
    assert said(daemon, "Hello once more!")["engine"].startswith(found.name)
    assert f'prime = "{found.name}"' in Path(found.settings).read_text()
    assert "SmolLM2-135M" in Path(found.settings).read_text()


def test_what_cannot_be_used_changes_nothing(daemon: BenchDaemon, tmp_path: Path) -> None:
    settings = (Path(daemon.home) / "config.toml").read_text()
    (tmp_path / "broken.gguf").write_bytes(b"GGUF" + bytes(64))
    with pytest.raises(BadInput, match=r"broken\.gguf"):
        daemon.client.use_model(str(tmp_path / "broken.gguf"), "")
    assert (Path(daemon.home) / "config.toml").read_text() == settings
    assert said(daemon, "Still there?")["answer"].strip()


async def test_it_is_measured_by_the_councils_own_prompts(smol: Path, tmp_path: Path) -> None:
    clock, config, registry = SystemClock("UTC"), load_config(environment={}), RegistryWatch(tmp_path)
    needs = ModelDependencies(
        settings=config.models, clock=clock, tokenizer_process=TokenWorker(clock), environment=os.environ
    )
    roles = dict.fromkeys(("prime", "lite", "codemind"), "smol")
    pool = ModelPool(roles, [Pooled("smol", ModelConfig(kind="gguf", path=str(smol)))], needs, 4 * 2**30)
    await pool.start()
    tasks = probe_tasks()
    kept = {"follow": 1, "cite": 1, "verify": 1}
    few = msgspec.structs.replace(tasks, **{skill: getattr(tasks, skill)[: kept.get(skill, 0)] for skill in SKILLS})
    try:
        probes = Probes(pool, lambda: registry.registry, role_table(), clock, tmp_path, enabled=True, tasks=few)
        report = await probes.probe("smol", RequestContext())
    finally:
        await pool.close()
    of = {skill: score.of for skill, score in report.scores.items() if score.of}
    assert of == {"follow": 1, "cite": 1, "verify": 2}
    assert report.duties == []
