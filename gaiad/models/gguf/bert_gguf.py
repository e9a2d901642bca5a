"""Writes a `bert` GGUF from NumPy tensors: what the provisioner makes of MiniLM and the tests make of random weights.

It knows llama.cpp's names for a BERT encoder and how a WordPiece vocabulary is spelled there. Where the tensors come
from is left to the caller.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Tensor = NDArray[np.float32]

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_WORD_START = "▁"
_TOKEN_NORMAL, _TOKEN_UNKNOWN, _TOKEN_CONTROL = 1, 2, 3
_POOLING_MEAN = 1
_FILE_ALL_F32 = 0


class BertShape(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes of an encoder: positions, width, feed-forward width, heads, layers, layer-norm epsilon."""

    name: str
    context: int
    embedding: int
    feed_forward: int
    heads: int
    layers: int
    epsilon: float = 1e-12


def spell_token(piece: str) -> str:
    """A WordPiece as llama.cpp stores it: words get U+2581, `##` pieces lose theirs, bracketed ones stay."""
    if piece.startswith("[") and piece.endswith("]"):
        return piece
    return piece[2:] if piece.startswith("##") else _WORD_START + piece


def tensor_names(layers: int) -> dict[str, str]:
    """llama.cpp's tensor names and the names the original checkpoint has for them, in the order they are written."""
    names = {
        "token_embd.weight": "embeddings.word_embeddings.weight",
        "position_embd.weight": "embeddings.position_embeddings.weight",
        "token_types.weight": "embeddings.token_type_embeddings.weight",
        "token_embd_norm.weight": "embeddings.LayerNorm.weight",
        "token_embd_norm.bias": "embeddings.LayerNorm.bias",
    }
    parts = {
        "attn_q": "attention.self.query",
        "attn_k": "attention.self.key",
        "attn_v": "attention.self.value",
        "attn_output": "attention.output.dense",
        "attn_output_norm": "attention.output.LayerNorm",
        "ffn_up": "intermediate.dense",
        "ffn_down": "output.dense",
        "layer_output_norm": "output.LayerNorm",
    }
    for layer in range(layers):
        for ours, theirs in parts.items():
            for kind in ("weight", "bias"):
                names[f"blk.{layer}.{ours}.{kind}"] = f"encoder.layer.{layer}.{theirs}.{kind}"
    return names


def tensor_shapes(shape: BertShape, vocabulary: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Every tensor's name and NumPy shape for an encoder of this shape."""
    width, wide = shape.embedding, shape.feed_forward
    yield "token_embd.weight", (vocabulary, width)
    yield "position_embd.weight", (shape.context, width)
    yield "token_types.weight", (2, width)
    yield "token_embd_norm.weight", (width,)
    yield "token_embd_norm.bias", (width,)
    for layer in range(shape.layers):
        for part in ("attn_q", "attn_k", "attn_v", "attn_output"):
            yield f"blk.{layer}.{part}.weight", (width, width)
            yield f"blk.{layer}.{part}.bias", (width,)
        yield f"blk.{layer}.ffn_up.weight", (wide, width)
        yield f"blk.{layer}.ffn_up.bias", (wide,)
        yield f"blk.{layer}.ffn_down.weight", (width, wide)
        yield f"blk.{layer}.ffn_down.bias", (width,)
        for part in ("attn_output_norm", "layer_output_norm"):
            yield f"blk.{layer}.{part}.weight", (width,)
            yield f"blk.{layer}.{part}.bias", (width,)


def write_bert_gguf(
    path: Path, shape: BertShape, pieces: Sequence[str], tensor: "Callable[[str, tuple[int, ...]], Tensor]"
) -> None:
    """Write the file. `tensor(name, shape)` gives each float32 tensor by its llama.cpp name, asked in file order.

    The bytes depend on the arguments alone. Raises ValueError when a tensor has another shape than the encoder needs.
    """
    import gguf  # heavy, and only this writer needs it

    writer = gguf.GGUFWriter(path, "bert")
    _add_metadata(writer, shape, pieces)
    for name, expected in tensor_shapes(shape, len(pieces)):
        values = tensor(name, expected)
        if values.shape != expected:
            raise ValueError(f"tensor {name} has shape {values.shape}, a {shape.name} encoder needs {expected}")
        writer.add_tensor(name, values)
    try:
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
    finally:
        writer.close()


def _add_metadata(writer: Any, shape: BertShape, pieces: Sequence[str]) -> None:
    writer.add_name(shape.name)
    writer.add_context_length(shape.context)
    writer.add_embedding_length(shape.embedding)
    writer.add_feed_forward_length(shape.feed_forward)
    writer.add_head_count(shape.heads)
    writer.add_block_count(shape.layers)
    writer.add_layer_norm_eps(shape.epsilon)
    writer.add_causal_attention(False)
    writer.add_pooling_type(_pooling_mean())
    writer.add_file_type(_FILE_ALL_F32)
    writer.add_tokenizer_model("bert")
    writer.add_token_type_count(2)
    ids = {piece: index for index, piece in enumerate(pieces)}
    writer.add_pad_token_id(ids["[PAD]"])
    writer.add_unk_token_id(ids["[UNK]"])
    writer.add_bos_token_id(ids["[CLS]"])
    writer.add_sep_token_id(ids["[SEP]"])
    writer.add_mask_token_id(ids["[MASK]"])
    writer.add_token_list([spell_token(piece) for piece in pieces])
    writer.add_token_types([_token_type(piece) for piece in pieces])


def _pooling_mean() -> Any:
    from gguf import PoolingType

    return PoolingType(_POOLING_MEAN)


def _token_type(piece: str) -> int:
    if piece == "[UNK]":
        return _TOKEN_UNKNOWN
    return _TOKEN_CONTROL if piece in SPECIAL_TOKENS else _TOKEN_NORMAL
