"""Makes vocabularies for tests: a byte-level BPE as GGUF and as tokenizer.json, the tiny decoder's with a space."""

import json
from pathlib import Path

import gguf
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers, trainers

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
DEFINED = ("<think>", "</think>", "<tool_call>")
_TEXT = (
    "The council meets at noon and reads what was said before. Every packet carries a date, a speaker and a topic; "
    "what is quoted must stand in the original, byte for byte. "
    "Größe und Wärme, été à la plage, 日本語の文章, русский текст."
)


def trained_bpe() -> Tokenizer:
    """A small byte-level BPE with control tokens first and user-defined ones last."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    trainer = trainers.BpeTrainer(
        vocab_size=600,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=list(SPECIAL),
        show_progress=False,
    )
    tokenizer.train_from_iterator([_TEXT] * 20, trainer)
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in DEFINED])
    return tokenizer


def write_bpe_json(path: Path, **config: object) -> Path:
    """The tokenizer as tokenizer.json; `config` goes into tokenizer_config.json beside it."""
    trained_bpe().save(str(path))
    if config:
        path.with_name("tokenizer_config.json").write_text(json.dumps(config), "utf-8")
    return path


def write_bpe_gguf(path: Path, template: str = "") -> Path:
    """The same vocabulary as a GGUF without weights."""
    model = json.loads(trained_bpe().to_str())["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].__getitem__) + list(DEFINED)
    kinds = [3 if text in SPECIAL else 4 if text in DEFINED else 1 for text in tokens]
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(512)
    writer.add_embedding_length(32)
    writer.add_feed_forward_length(32)
    writer.add_head_count(1)
    writer.add_block_count(1)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges([merge if isinstance(merge, str) else " ".join(merge) for merge in model["merges"]])
    writer.add_eos_token_id(2)
    writer.add_bos_token_id(0)
    writer.add_add_bos_token(False)
    if template:
        writer.add_chat_template(template)
    try:
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
    finally:
        writer.close()
    return path


def with_space_before(source: Path, target: Path) -> Path:
    """A copy of a GGUF whose vocabulary writes a space before every text, as Llama 2's does."""
    key = b"tokenizer.ggml.add_space_prefix"
    data = bytearray(source.read_bytes())
    at = data.index(key) + len(key) + 4
    assert data[at] == 0
    data[at] = 1
    target.write_bytes(data)
    return target
