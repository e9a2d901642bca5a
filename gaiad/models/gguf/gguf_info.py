"""What a GGUF says of itself, read from metadata and tensor list without loading the model: size, kind, how to sample.

Unlike the daemon's short look (gguf_header) it reads the whole head, and checks that the weights are all there.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from gaiad.base.errors import BadInput
from gaiad.models.gguf.gguf_header import (
    DamagedGguf,
    file_sha256,
    read_counts,
    read_header,
    read_metadata,
    read_number,
    read_text,
)
from gaiad.wire.generation import Sampling, out_of_range

SMALL_PARAMETERS = 2_000_000_000
DEFAULT_SAMPLING = Sampling(temperature=0.8, top_k=40, top_p=0.95, min_p=0.05)
SMALL_MODEL_SAMPLING = Sampling(temperature=0.3, top_k=40, top_p=0.95, min_p=0.05, repeat_penalty=1.1)
"""Below SMALL_PARAMETERS: at higher temperatures such a model leaves its subject, without a penalty it loops."""
_KEYS = {
    "temp": "temperature",
    "top_k": "top_k",
    "top_p": "top_p",
    "min_p": "min_p",
    "penalty_last_n": "repeat_window",
    "penalty_repeat": "repeat_penalty",
}


def recommended_sampling(metadata: Mapping[str, Any], parameters: int) -> Sampling:
    """From a GGUF's `general.sampling.*` and its number of weights; a value out of range is passed over."""
    base = SMALL_MODEL_SAMPLING if parameters < SMALL_PARAMETERS else DEFAULT_SAMPLING
    named = {name: metadata.get(f"general.sampling.{key}") for key, name in _KEYS.items()}
    fit = {
        name: value
        for name, value in named.items()
        if isinstance(value, int | float) and not isinstance(value, bool) and not out_of_range(name, value)
    }
    return msgspec.structs.replace(base, **fit)


MEMORY_CONTEXT_TOKENS = 8192
_MAX_DIMENSIONS = 4
_KEY_VALUE_BYTES = 2
_LOGIT_BYTES = 4
# fmt: off
FILE_TYPES = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 7: "Q8_0", 8: "Q5_0", 9: "Q5_1", 10: "Q2_K", 11: "Q3_K_S", 12: "Q3_K_M",
    13: "Q3_K_L", 14: "Q4_K_S", 15: "Q4_K_M", 16: "Q5_K_S", 17: "Q5_K_M", 18: "Q6_K", 19: "IQ2_XXS", 20: "IQ2_XS",
    21: "Q2_K_S", 22: "IQ3_XS", 23: "IQ3_XXS", 24: "IQ1_S", 25: "IQ4_NL", 26: "IQ3_S", 27: "IQ3_M", 28: "IQ2_S",
    29: "IQ2_M", 30: "IQ4_XS", 31: "IQ1_M", 32: "BF16",
}
# weights per block and bytes per block, by tensor type
BLOCKS = {
    0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 10: (256, 84),
    11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210), 30: (1, 2),
}
# fmt: on


class GgufInfo(msgspec.Struct, frozen=True, kw_only=True):
    """`memory_bytes` is an estimate: the weights and the cells of one context of at most 8,192 tokens."""

    path: str
    arch: str
    name: str
    parameters: int
    quantization: str
    context: int
    vocab: int
    chat_template: str | None
    memory_bytes: int
    fingerprint: str


class Footprint(msgspec.Struct, frozen=True, kw_only=True):
    """What a model takes in memory, in bytes: weights, each cell of its context, the logits of one token.

    `context` is the tokens it was trained for, `sampling` how it wants its tokens chosen.
    """

    weights: int
    per_cell: int
    per_output: int
    context: int
    sampling: Sampling


class _Tensors(msgspec.Struct, frozen=True, kw_only=True):
    parameters: int
    bytes: int


def read_info(path: Path) -> GgufInfo:
    """Everything the head says. Raises BadInput naming the file and what is wrong with it."""
    header = read_header(path)
    metadata, vocabulary, tensors = _open(path, header.bytes)
    template = metadata.get("tokenizer.chat_template")
    return GgufInfo(
        path=str(path),
        arch=header.architecture,
        name=header.name,
        parameters=tensors.parameters,
        quantization=FILE_TYPES.get(metadata.get("general.file_type", -1), "unknown"),
        context=header.context,
        vocab=vocabulary,
        chat_template=template if isinstance(template, str) else None,
        memory_bytes=tensors.bytes
        + min(header.context, MEMORY_CONTEXT_TOKENS) * _cell_bytes(metadata, header.architecture, header.embedding),
        fingerprint=file_sha256(path),
    )


def read_footprint(path: Path) -> Footprint:
    """What the model will take when it is loaded. Raises BadInput as `read_info`."""
    header = read_header(path)
    metadata, vocabulary, tensors = _open(path, header.bytes)
    return Footprint(
        weights=tensors.bytes,
        per_cell=_cell_bytes(metadata, header.architecture, header.embedding),
        per_output=vocabulary * _LOGIT_BYTES,
        context=header.context,
        sampling=recommended_sampling(metadata, tensors.parameters),
    )


def _open(path: Path, size: int) -> tuple[dict[str, Any], int, _Tensors]:
    """Metadata, tokens of the vocabulary, tensors. Raises BadInput naming the file."""
    try:
        with path.open("rb") as file:
            return _read(file, size)
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror}); check that it is a file you may read") from error
    except DamagedGguf as damage:
        raise BadInput(f"{path}: {damage}; replace it with a complete GGUF") from damage


def _read(file: BinaryIO, size: int) -> tuple[dict[str, Any], int, _Tensors]:
    """Metadata, tokens of the vocabulary, tensors. Raises DamagedGguf."""
    count, keys = read_counts(file, size)
    metadata = read_metadata(file, keys, size, before_vocabulary=False)
    vocabulary = int(metadata.get("tokenizer.ggml.tokens", 0))
    return metadata, vocabulary, _tensors(file, count, size, metadata.get("general.alignment", 32))


def _tensors(file: BinaryIO, count: int, size: int, alignment: Any) -> _Tensors:
    """The sums over the tensor list; every tensor of a known type must end inside the file."""
    if not isinstance(alignment, int) or alignment < 1:
        raise DamagedGguf(f"has an impossible alignment ({alignment})")
    parameters, end = 0, 0
    for _ in range(count):
        name, dimensions = read_text(file, size), read_number(file, "<I")
        if dimensions > _MAX_DIMENSIONS:
            raise DamagedGguf(f"has a tensor {name[:80]!r} of {dimensions} dimensions")
        weights = math.prod(read_number(file, "<Q") for _ in range(dimensions))
        kind, offset = read_number(file, "<I"), read_number(file, "<Q")
        per_block, block_bytes = BLOCKS.get(kind, (1, 0))
        parameters += weights
        end = max(end, offset + weights // per_block * block_bytes)
    start = -(-file.tell() // alignment) * alignment
    if start + end > size:
        raise DamagedGguf(f"ends before its weights do ({size} of {start + end} bytes; truncated)")
    return _Tensors(parameters=parameters, bytes=size - start)


def _cell_bytes(metadata: dict[str, Any], architecture: str, width: int) -> int:
    """Keys and values in 16 bits for one token; 0 when the file does not say how many layers and heads it has."""

    def number(key: str, otherwise: int) -> int:
        value = metadata.get(f"{architecture}.{key}", otherwise)
        return value if isinstance(value, int) and 0 <= value < 1 << 24 else otherwise

    heads = max(1, number("attention.head_count", 1))
    key_heads = number("attention.head_count_kv", heads)
    length = number("attention.key_length", width // heads) + number("attention.value_length", width // heads)
    return number("block_count", 0) * key_heads * length * _KEY_VALUE_BYTES
