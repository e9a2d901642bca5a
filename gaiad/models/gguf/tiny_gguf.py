"""Writes random llama-architecture GGUFs in Q8_0 with a byte-level vocabulary, 200 KB or as large as a real model.

The text they make is noise. What matters is that it takes the real path through tokeniser, Q8_0 matrix kernels and
sampling; the build proof, tests and measurements use them.
"""

from pathlib import Path

import msgspec

_SPACE = "\u2581".encode()  # how this kind of vocabulary writes a space


class LlamaShape(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes of a decoder; `embedding` and `feed_forward` are multiples of 32, the size of a Q8_0 block.

    `key_heads` 0 is as many as `heads`. `special` and `defined` are literals that become control and user-defined
    tokens; `words` are one token each, with the space before them; `filler` adds that many made-up ones. `loudness`
    scales the logits and `ending` those of control tokens, so that 0 gives a model that never ends by itself.
    """

    context: int = 512
    embedding: int = 256
    feed_forward: int = 512
    heads: int = 4
    layers: int = 2
    seed: int = 7
    name: str = "tiny-random"
    key_heads: int = 0
    special: tuple[str, ...] = ()
    defined: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    filler: int = 0
    template: str = ""
    loudness: float = 1.0
    ending: float = 1.0


def write_llama_gguf(path: Path, shape: LlamaShape | None = None) -> None:
    """Write the file; the same shape gives the same bytes."""
    import gguf  # heavy, and only this writer needs it

    shape = shape or LlamaShape()
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name(shape.name)
    writer.add_context_length(shape.context)
    writer.add_embedding_length(shape.embedding)
    writer.add_feed_forward_length(shape.feed_forward)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.key_heads or shape.heads)
    writer.add_block_count(shape.layers)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(shape.embedding // shape.heads)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0)
    _add_vocabulary(writer, shape)
    _add_tensors(writer, shape)
    try:
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
    finally:
        writer.close()


def vocabulary(shape: LlamaShape) -> tuple[list[bytes], list[float], list[int]]:
    """Texts, scores and types: three control tokens, one for every byte, the space, then the shape's own.

    Types: 1 normal, 2 unknown, 3 control, 4 user-defined, 6 byte.
    """
    words = [*_reachable(shape.words), *(_SPACE + f"word{number}".encode() for number in range(shape.filler))]
    literals = [text.encode() for text in (*shape.special, *shape.defined)]
    tokens = [
        b"<unk>",
        b"<s>",
        b"</s>",
        *(f"<0x{value:02X}>".encode() for value in range(256)),
        _SPACE,
        *literals,
        *words,
    ]
    types = [2, 3, 3, *([6] * 256), 1, *([3] * len(shape.special)), *([4] * len(shape.defined)), *([1] * len(words))]
    scores = [float(len(token)) if kind == 1 else 0.0 for token, kind in zip(tokens, types, strict=True)]
    return tokens, scores, types


def _reachable(words: tuple[str, ...]) -> list[bytes]:
    """The words with a space before them and all their beginnings: a tokeniser of this kind puts words together
    character by character, and only over tokens that it has.
    """
    beginnings = {f"\u2581{word[:length]}" for word in words for length in range(1, len(word) + 1)}
    return [text.encode() for text in sorted(beginnings)]


def _add_vocabulary(writer: object, shape: LlamaShape) -> None:
    import gguf

    assert isinstance(writer, gguf.GGUFWriter)
    tokens, scores, types = vocabulary(shape)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores(scores)
    writer.add_token_types(types)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_add_bos_token(True)
    writer.add_add_space_prefix(False)
    if shape.template:
        writer.add_chat_template(shape.template)


def _add_tensors(writer: object, shape: LlamaShape) -> None:
    import gguf
    import numpy as np

    assert isinstance(writer, gguf.GGUFWriter)
    random = np.random.default_rng(shape.seed)
    q8 = gguf.GGMLQuantizationType.Q8_0

    def matrix(name: str, rows: int, columns: int, scale: "float | np.ndarray" = 1.0) -> None:
        """Uniform Q8_0 blocks whose values have a variance of scale^2 / columns: as good as quantised noise."""
        blocks = np.empty((rows, columns // 32, 34), dtype=np.uint8)
        blocks[..., 2:] = random.integers(-127, 128, (rows, columns // 32, 32), dtype=np.int8).view(np.uint8)
        step = np.broadcast_to(scale, rows) * (np.sqrt(3.0 / columns) / 127.0)
        blocks[..., :2] = step.astype("<f2").view(np.uint8).reshape(rows, 1, 2)
        writer.add_tensor(name, blocks.reshape(rows, -1), raw_dtype=q8)

    types = np.array(vocabulary(shape)[2])
    width, wide, words = shape.embedding, shape.feed_forward, len(types)
    keys = width // shape.heads * (shape.key_heads or shape.heads)
    matrix("token_embd.weight", words, width)
    writer.add_tensor("output_norm.weight", np.ones(width, dtype=np.float32))
    matrix("output.weight", words, width, np.where((types == 2) | (types == 3), shape.ending, 1.0) * shape.loudness)
    for layer in range(shape.layers):
        for norm in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"blk.{layer}.{norm}.weight", np.ones(width, dtype=np.float32))
        for part, rows in (("attn_q", width), ("attn_k", keys), ("attn_v", keys), ("attn_output", width)):
            matrix(f"blk.{layer}.{part}.weight", rows, width)
        matrix(f"blk.{layer}.ffn_gate.weight", wide, width)
        matrix(f"blk.{layer}.ffn_up.weight", wide, width)
        matrix(f"blk.{layer}.ffn_down.weight", width, wide)
