"""Writes a small random llama-architecture GGUF in Q8_0 with a byte-level vocabulary: enough to prove a build.

The text it makes is noise. What matters is that it takes the real path through tokeniser, Q8_0 matrix kernels and
sampling; tests and the build proof use it.
"""

from pathlib import Path

import msgspec


class LlamaShape(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes of a decoder; `embedding` and `feed_forward` are multiples of 32, the size of a Q8_0 block."""

    context: int = 512
    embedding: int = 256
    feed_forward: int = 512
    heads: int = 4
    layers: int = 2
    seed: int = 7


def write_llama_gguf(path: Path, shape: LlamaShape | None = None) -> None:
    """Write the file; the same shape gives the same bytes."""
    import gguf  # heavy, and only this writer needs it

    shape = shape or LlamaShape()
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("tiny-random")
    writer.add_context_length(shape.context)
    writer.add_embedding_length(shape.embedding)
    writer.add_feed_forward_length(shape.feed_forward)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.heads)
    writer.add_block_count(shape.layers)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(shape.embedding // shape.heads)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0)
    _add_vocabulary(writer)
    _add_tensors(writer, shape)
    try:
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
    finally:
        writer.close()


def _vocabulary() -> tuple[list[bytes], list[float], list[int]]:
    """Three control tokens, then one token for every byte; types 2 unknown, 3 control, 6 byte."""
    tokens = [b"<unk>", b"<s>", b"</s>", *(f"<0x{value:02X}>".encode() for value in range(256))]
    return tokens, [0.0] * len(tokens), [2, 3, 3, *([6] * 256)]


def _add_vocabulary(writer: object) -> None:
    import gguf

    assert isinstance(writer, gguf.GGUFWriter)
    tokens, scores, types = _vocabulary()
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores(scores)
    writer.add_token_types(types)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_add_bos_token(True)
    writer.add_add_space_prefix(False)


def _add_tensors(writer: object, shape: LlamaShape) -> None:
    import gguf
    import numpy as np

    assert isinstance(writer, gguf.GGUFWriter)
    random = np.random.default_rng(shape.seed)
    q8 = gguf.GGMLQuantizationType.Q8_0

    def matrix(name: str, rows: int, columns: int) -> None:
        values = (random.standard_normal((rows, columns)) / np.sqrt(columns)).astype(np.float32)
        writer.add_tensor(name, gguf.quantize(values, q8), raw_dtype=q8)

    width, wide, words = shape.embedding, shape.feed_forward, len(_vocabulary()[0])
    matrix("token_embd.weight", words, width)
    writer.add_tensor("output_norm.weight", np.ones(width, dtype=np.float32))
    matrix("output.weight", words, width)
    for layer in range(shape.layers):
        for norm in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"blk.{layer}.{norm}.weight", np.ones(width, dtype=np.float32))
        for part in ("attn_q", "attn_k", "attn_v", "attn_output"):
            matrix(f"blk.{layer}.{part}.weight", width, width)
        matrix(f"blk.{layer}.ffn_gate.weight", wide, width)
        matrix(f"blk.{layer}.ffn_up.weight", wide, width)
        matrix(f"blk.{layer}.ffn_down.weight", width, wide)
