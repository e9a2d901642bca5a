"""Tokenizers as models have them: a GGUF's own, MiniLM's WordPiece, a byte-level BPE out of a tokenizer.json."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gaiad.base.clock import SystemClock
from gaiad.base.ports import Tokenizer
from gaiad.models.provision import default_model_path, is_provisioned
from gaiad.models.tokens.json_tokenizer import JsonTokenizer
from gaiad.models.tokens.token_worker import TokenWorker
from tests.makers.llama_files import CHAT_TEMPLATE, write_tiny_llama
from tests.makers.word_files import write_bpe_json


@pytest.fixture(scope="session")
def tokenizer_files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("tokenizers")
    config = {"chat_template": CHAT_TEMPLATE, "bos_token": "<|endoftext|>"}
    return {
        "gguf": write_tiny_llama(folder / "tiny.gguf"),
        "minilm": default_model_path(os.environ),
        "bpe": write_bpe_json(folder / "tokenizer.json", **config),
    }


@pytest.fixture(params=["gguf", "minilm", "bpe"])
async def tokenizer(request: pytest.FixtureRequest, tokenizer_files: dict[str, Path]) -> AsyncIterator[Tokenizer]:
    path = tokenizer_files[request.param]
    if request.param == "bpe":
        yield JsonTokenizer(path)
        return
    if request.param == "minilm" and not is_provisioned(path):
        pytest.skip("all-MiniLM-L6-v2 is not provisioned; run `python -m gaiad.models.provision`")
    worker = TokenWorker(SystemClock("UTC"))
    await worker.start()
    yield worker.tokenizer(path)
    await worker.close()
