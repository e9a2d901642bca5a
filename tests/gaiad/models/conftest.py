"""Embedders over real child processes, closed after each test."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import msgspec
import pytest

from gaiad.base.clock import SystemClock
from gaiad.base.config import load_config
from gaiad.models.embedder import WorkerEmbedder
from gaiad.models.generator import GeneratorSettings, WorkerGenerator
from gaiad.models.provision import default_model_path, is_provisioned
from gaiad.models.supervision.process import RestartPolicy
from gaiad.models.tokens.token_worker import TokenWorker
from tests.makers.gguf_files import TINY_BERT, write_tiny_bert
from tests.makers.llama_files import TINY_LLAMA, write_tiny_llama

OpenEmbedder = Callable[..., Awaitable[WorkerEmbedder]]
OpenGenerator = Callable[..., Awaitable[WorkerGenerator]]
QUICK = RestartPolicy(start_s=30.0, cancel_grace_s=10.0, first_backoff_s=0.02, failures=3)


@pytest.fixture(scope="session")
def tiny_bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_bert(tmp_path_factory.mktemp("models") / "tiny-bert.gguf")


@pytest.fixture(scope="session")
def slow_bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Wide enough that a long text takes a second or more, so that a test can act in the middle."""
    shape = msgspec.structs.replace(TINY_BERT, name="slow", context=512, embedding=512, feed_forward=2048, layers=4)
    return write_tiny_bert(tmp_path_factory.mktemp("models") / "slow-bert.gguf", shape)


@pytest.fixture(scope="session")
def minilm() -> Path:
    path = default_model_path(os.environ)
    if not is_provisioned(path):
        pytest.skip("all-MiniLM-L6-v2 is not provisioned; run `python -m gaiad.models.provision`")
    return path


@pytest.fixture
async def open_embedder() -> AsyncIterator[OpenEmbedder]:
    opened: list[WorkerEmbedder] = []

    async def open_one(
        path: Path, *, wait: bool = True, restart_policy: RestartPolicy = QUICK, **settings: object
    ) -> WorkerEmbedder:
        settings = {"batch_tokens": 128, "threads": 1, **settings}  # what a loaded machine still does quickly
        config = msgspec.structs.replace(load_config(environment={}).embedder, **settings)
        embedder = WorkerEmbedder(path, config, SystemClock("UTC"), restart_policy=restart_policy)
        opened.append(embedder)
        await embedder.start()
        if wait:
            await embedder.wait_ready(30.0)
        return embedder

    yield open_one
    for embedder in opened:
        await embedder.close()


@pytest.fixture(scope="session")
def tiny_llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_llama(tmp_path_factory.mktemp("models") / "tiny-llama.gguf")


@pytest.fixture(scope="session")
def slow_llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A token takes about a millisecond and a long prompt a second, so that a test can act in the middle."""
    shape = msgspec.structs.replace(
        TINY_LLAMA, name="slow", context=4096, embedding=256, feed_forward=1024, layers=4, heads=4, key_heads=2
    )
    return write_tiny_llama(tmp_path_factory.mktemp("models") / "slow-llama.gguf", shape)


@pytest.fixture
async def tokens() -> AsyncIterator[TokenWorker]:
    """A started tokenizer child."""
    worker = TokenWorker(SystemClock("UTC"), QUICK)
    await worker.start()
    yield worker
    await worker.close()


@pytest.fixture
async def open_generator() -> AsyncIterator[OpenGenerator]:
    opened: list[WorkerGenerator] = []

    async def open_one(
        path: Path,
        *,
        wait: bool = True,
        restart_policy: RestartPolicy = QUICK,
        tokens: TokenWorker | None = None,
        template: str = "",
        **settings: object,
    ) -> WorkerGenerator:
        """Messages and grammars need `tokens`, a started TokenWorker; plain prompts do not."""
        clock = SystemClock("UTC")
        chosen = GeneratorSettings(**{"threads": 1, "flash": "off", **settings})
        tokenizer = (tokens or TokenWorker(clock)).tokenizer(path, template)
        generator = WorkerGenerator(
            path, chosen, clock, role="writer", tokenizer=tokenizer, restart_policy=restart_policy
        )
        opened.append(generator)
        await generator.start()
        if wait:
            await generator.wait_ready(30.0)
        return generator

    yield open_one
    for generator in opened:
        await generator.close()
