"""Makes vocabularies for tests: a byte-level BPE as GGUF and in this process, the tiny decoder's with a space."""

import json
import time
from collections.abc import Sequence
from pathlib import Path

import gguf
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers, trainers

from gaiad.base.ports import RequestContext
from gaiad.models.child.vocabulary import Literals
from gaiad.models.tokens.chat_template import ChatTemplate
from gaiad.wire.generation import ChatMessage, Segment

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


class BytePairs:
    """The Tokenizer port on that vocabulary, with a chat template."""

    fingerprint = "byte-pairs"
    exact = True

    def __init__(self, template: str) -> None:
        self._library = trained_bpe()
        self._literals = Literals([*SPECIAL, *DEFINED])
        self._template = ChatTemplate(template, SPECIAL[0], SPECIAL[0], time.strftime)

    async def count(self, texts: Sequence[Sequence[Segment]], call: RequestContext) -> list[int]:
        return [len(await self.encode(segments, call)) for segments in texts]

    async def encode(self, segments: Sequence[Segment], call: RequestContext) -> list[int]:
        parts = [text for one in segments for text in ([one.text] if one.trusted else self._literals.cut(one.text))]
        return [number for text in parts for number in self._library.encode(text).ids]

    async def render(self, messages: Sequence[ChatMessage], call: RequestContext) -> list[Segment]:
        return self._template.render(messages)[0]


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
