import pytest

from gaiad.config import ModelConfig, load_config
from gaiad.errors import BadInput
from gaiad.models.pool.making import PROCESS_BYTES, memory_need, window_of

SETTINGS = load_config(environment={}).models


def gguf(path, **more):
    return ModelConfig(kind="gguf", path=str(path), **more)


def test_the_need_grows_with_the_context_and_holds_weights_and_process(tiny_llama):
    small, large = memory_need(gguf(tiny_llama, context=256), SETTINGS), memory_need(gguf(tiny_llama), SETTINGS)
    assert PROCESS_BYTES + tiny_llama.stat().st_size // 2 < small < large
    per_cell = 3 * 2 * 16 * 2 * 2  # layers, key heads, length of a key, keys and values, two bytes each
    assert large - small == (2048 - 256) * per_cell


def test_a_model_in_parts_needs_all_of_them(tiny_llama, tmp_path):
    first = tmp_path / "big-00001-of-00003.gguf"
    first.write_bytes(tiny_llama.read_bytes())
    alone = memory_need(gguf(first), SETTINGS)
    for number in (2, 3):
        (tmp_path / f"big-0000{number}-of-00003.gguf").write_bytes(b"x" * 1_000_000)
    assert memory_need(gguf(first), SETTINGS) == alone + 2_000_000


def test_models_without_weights_here_need_nothing():
    assert memory_need(ModelConfig(kind="extractive"), SETTINGS) == 0
    assert memory_need(ModelConfig(kind="openai", base_url="http://h/v1", model="m"), SETTINGS) == 0


def test_the_window_is_as_set_or_as_trained(tiny_llama):
    assert window_of(gguf(tiny_llama), SETTINGS) == 2048
    assert window_of(gguf(tiny_llama, context=512), SETTINGS) == 512
    assert window_of(ModelConfig(kind="openai", context=32768), SETTINGS) == 32768
    with pytest.raises(BadInput, match="nowhere"):
        window_of(gguf("/nowhere/x.gguf"), SETTINGS)
