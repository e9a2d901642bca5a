import hashlib

import pytest

from gaiad.base.clock import SystemClock
from gaiad.base.config import ModelConfig, load_config
from gaiad.base.errors import BadInput
from gaiad.models.pool import making
from gaiad.models.pool.making import PROCESS_BYTES, ModelDependencies, size_of
from gaiad.models.pool.pooled import Pooled
from gaiad.models.tokens.token_worker import TokenWorker

SETTINGS = load_config(environment={}).models


def gguf(path, **more):
    return ModelConfig(kind="gguf", path=str(path), **more)


def test_the_need_grows_with_the_context_and_holds_weights_and_process(tiny_llama):
    small, large = size_of(gguf(tiny_llama, context=256), SETTINGS).bytes, size_of(gguf(tiny_llama), SETTINGS).bytes
    assert PROCESS_BYTES + tiny_llama.stat().st_size // 2 < small < large
    per_cell = 3 * 2 * 16 * 2 * 2  # layers, key heads, length of a key, keys and values, two bytes each
    assert large - small == (2048 - 256) * per_cell


def test_a_model_in_parts_needs_all_of_them(tiny_llama, tmp_path):
    first = tmp_path / "big-00001-of-00003.gguf"
    first.write_bytes(tiny_llama.read_bytes())
    alone = size_of(gguf(first), SETTINGS).bytes
    for number in (2, 3):
        (tmp_path / f"big-0000{number}-of-00003.gguf").write_bytes(b"x" * 1_000_000)
    assert size_of(gguf(first), SETTINGS).bytes == alone + 2_000_000


def test_models_without_weights_here_need_nothing():
    assert size_of(ModelConfig(kind="extractive"), SETTINGS).bytes == 0
    assert size_of(ModelConfig(kind="openai", base_url="http://h/v1", model="m"), SETTINGS).bytes == 0


def test_the_window_is_as_set_or_as_trained(tiny_llama):
    assert size_of(gguf(tiny_llama), SETTINGS).window == 2048
    assert size_of(gguf(tiny_llama, context=512), SETTINGS).window == 512
    assert size_of(ModelConfig(kind="openai", context=32768), SETTINGS).window == 32768
    with pytest.raises(BadInput, match="nowhere"):
        size_of(gguf("/nowhere/x.gguf"), SETTINGS)


def test_a_file_is_read_and_hashed_once_even_where_no_note_can_be_left(tiny_llama, tmp_path, monkeypatch):
    path = tmp_path / "a.gguf"
    path.write_bytes(tiny_llama.read_bytes())
    (tmp_path / "a.gguf.stamp.json").mkdir()
    hashed, read, digest, head = [], [], hashlib.file_digest, making.read_footprint
    monkeypatch.setattr(hashlib, "file_digest", lambda *given: hashed.append(given) or digest(*given))
    monkeypatch.setattr(making, "read_footprint", lambda given: read.append(given) or head(given))
    clock = SystemClock("UTC")
    pooled = Pooled("a", gguf(path))
    pooled.make(ModelDependencies(settings=SETTINGS, clock=clock, tokenizer_process=TokenWorker(clock), environment={}))
    assert pooled.fit
    assert (len(hashed), len(read)) == (1, 1)
