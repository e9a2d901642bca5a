from gaiad.models.gguf.gguf_header import read_header
from gaiad.models.gguf.tiny_gguf import vocabulary
from tests.makers.llama_files import HALF_BILLION, TINY_LLAMA, write_tiny_llama


def test_the_tiny_decoder_is_small_and_the_same_every_time(tmp_path):
    one, other = (write_tiny_llama(tmp_path / name) for name in ("a.gguf", "b.gguf"))
    assert 100_000 < one.stat().st_size < 250_000
    assert one.read_bytes() == other.read_bytes()
    header = read_header(one)
    assert (header.architecture, header.context, header.embedding) == ("llama", TINY_LLAMA.context, 64)
    assert b"<|im_start|>" in one.read_bytes()


def test_the_bench_decoder_has_the_vocabulary_of_a_real_one():
    tokens, scores, types = vocabulary(HALF_BILLION)
    assert len(tokens) == len(scores) == len(types) == len(set(tokens)) == 151_936
