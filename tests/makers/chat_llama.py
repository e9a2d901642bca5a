"""A decoder for conversations in tests: small, and with a vocabulary in which our own prompts are short."""

import re
from pathlib import Path

import msgspec

from gaiad.models.tiny_gguf import write_llama_gguf
from prompts.load import load_prompt, prompt_names
from prompts.registry import Registry
from tests.makers.llama_files import TINY_LLAMA


def write_chat_llama(path: Path, context: int = 8192) -> Path:
    """About 600 KB. What it writes is noise in good form."""
    registry = Registry.load(path.parent)
    texts = [load_prompt(name).body for name in prompt_names()]
    texts += [registry.identity_text(), *map(registry.persona_text, registry.personas)]
    texts += [one.text for one in registry.task_instructions.values()]
    words = sorted({word for text in texts for word in re.findall(r"[A-Za-z]+", text)})
    shape = msgspec.structs.replace(TINY_LLAMA, name="chat-llama", context=context, words=tuple(words))
    write_llama_gguf(path, shape)
    return path
