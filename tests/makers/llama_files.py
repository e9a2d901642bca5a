"""Random decoder GGUFs for tests and measurements; large ones are made on demand and kept where other models lie."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from gaiad.models.gguf.tiny_gguf import LlamaShape, write_llama_gguf
from gaiad.models.provision import models_folder

CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SPECIAL = ("<|im_start|>", "<|im_end|>", "<|endoftext|>")
DEFINED = ("<think>", "</think>", "<tool_call>")
TINY_LLAMA = LlamaShape(
    name="tiny-llama",
    context=2048,
    embedding=64,
    feed_forward=128,
    heads=4,
    key_heads=2,
    layers=3,
    special=SPECIAL,
    defined=DEFINED,
    template=CHAT_TEMPLATE,
    loudness=3.0,
    ending=0.0,
)
HALF_BILLION = LlamaShape(
    name="bench-0.5b",
    context=32768,
    embedding=896,
    feed_forward=4864,
    heads=14,
    key_heads=2,
    layers=24,
    special=SPECIAL,
    defined=DEFINED,
    filler=151_936 - 260 - len(SPECIAL) - len(DEFINED),
    template=CHAT_TEMPLATE,
    loudness=3.0,
    ending=0.0,
)


def write_tiny_llama(path: Path, shape: LlamaShape = TINY_LLAMA) -> Path:
    """A decoder of random weights that never ends by itself; about 164 KB."""
    write_llama_gguf(path, shape)
    return path


def half_billion(environment: Mapping[str, str]) -> Path:
    """The 0.5 B-shaped model, about 650 MB; written on the first call, which takes a while and says so on stderr."""
    return made_once(environment, HALF_BILLION)


def made_once(environment: Mapping[str, str], shape: LlamaShape) -> Path:
    """The model of that shape where other models lie, under the shape's name; written on the first call, with a word
    of it on stderr.
    """
    path = models_folder(environment) / f"{shape.name}-q8_0.gguf"
    if not path.exists():
        sys.stderr.write(f"making {path} once, for measurements (650 MB of noise); delete it whenever you like\n")
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
        try:
            write_llama_gguf(partial, shape)
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
    return path
