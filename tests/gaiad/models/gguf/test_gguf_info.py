import random

import gguf
import pytest

from gaiad.base.errors import BadInput
from gaiad.models.gguf.gguf_info import (
    BLOCKS,
    DEFAULT_SAMPLING,
    FILE_TYPES,
    SMALL_MODEL_SAMPLING,
    read_info,
    recommended_sampling,
)
from tests.makers.gguf_files import truncated
from tests.makers.llama_files import CHAT_TEMPLATE, TINY_LLAMA


def test_the_head_tells_everything(tiny_llama):
    info = read_info(tiny_llama)
    reader = gguf.GGUFReader(tiny_llama)
    assert (info.arch, info.name, info.context, info.quantization) == ("llama", "tiny-llama", 2048, "Q8_0")
    assert info.parameters == sum(int(tensor.n_elements) for tensor in reader.tensors)
    assert info.vocab == 260 + len(TINY_LLAMA.special) + len(TINY_LLAMA.defined)
    assert info.chat_template == CHAT_TEMPLATE
    weights = sum(int(tensor.n_bytes) for tensor in reader.tensors)
    cells = 3 * 2 * (64 // 4) * 2 * 2 * 2048
    assert weights + cells <= info.memory_bytes < weights + cells + 4096


def test_the_tables_are_those_of_the_format():
    for number, name in FILE_TYPES.items():
        assert gguf.LlamaFileType(number).name in (name, f"MOSTLY_{name}", f"ALL_{name}")
    for number, sizes in BLOCKS.items():
        assert gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType(number)] == sizes


@pytest.mark.parametrize("keep", [0.0, 0.001, 0.02, 0.05, 0.5, 0.999])
def test_a_truncated_file_is_named(tiny_llama, tmp_path, keep):
    with pytest.raises(BadInput, match=r"cut\.gguf: .*; replace it"):
        read_info(truncated(tiny_llama, tmp_path / "cut.gguf", keep))


def test_damage_anywhere_in_the_head_is_a_refusal_or_another_value_and_never_a_crash(tiny_llama, tmp_path):
    dice, refused = random.Random(3), []
    whole = tiny_llama.read_bytes()
    path = tmp_path / "flipped.gguf"
    for _ in range(300):
        data = bytearray(whole)
        data[dice.randrange(12_000)] ^= 1 << dice.randrange(8)
        path.write_bytes(data)
        try:
            read_info(path)
        except BadInput as error:
            refused.append(str(error))
    assert len(refused) > 10
    assert all(str(path) in message for message in refused)


def test_what_the_file_says_counts() -> None:
    said = {"general.sampling.temp": 0.6, "general.sampling.top_k": 20, "general.sampling.penalty_repeat": 1.05}
    found = recommended_sampling(said, 7_000_000_000)
    assert (found.temperature, found.top_k, found.repeat_penalty) == (0.6, 20, 1.05)
    assert (found.top_p, found.min_p) == (DEFAULT_SAMPLING.top_p, DEFAULT_SAMPLING.min_p)


def test_a_small_model_is_cooler_and_does_not_repeat_itself() -> None:
    assert recommended_sampling({}, 135_000_000) == SMALL_MODEL_SAMPLING
    assert recommended_sampling({}, 8_000_000_000) == DEFAULT_SAMPLING
    assert SMALL_MODEL_SAMPLING.temperature < DEFAULT_SAMPLING.temperature
    assert SMALL_MODEL_SAMPLING.repeat_penalty > 1.0


def test_a_value_out_of_range_or_of_another_kind_is_passed_over() -> None:
    said = {"general.sampling.temp": -1.0, "general.sampling.top_p": "high", "general.sampling.min_p": True}
    assert recommended_sampling(said, 8_000_000_000) == DEFAULT_SAMPLING
