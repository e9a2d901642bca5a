"""Makes decoder GGUFs: a 200 KB byte-level one for ordinary tests, and the 0.5 B-shaped one of the benches."""

from pathlib import Path

from gaiad.models.tiny_gguf import LlamaShape, write_llama_gguf

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
    """A decoder of random weights that never ends by itself; about 200 KB."""
    write_llama_gguf(path, shape)
    return path


def bench_llama(data: Path) -> Path:
    """The 0.5 B-shaped model under `data`/models, about 650 MB with a vocabulary of 151,936; made once."""
    path = data / "models" / "bench-0.5b-q8_0.gguf"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        write_llama_gguf(partial, HALF_BILLION)
        partial.replace(path)
    return path
