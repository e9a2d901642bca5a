"""Vocabularies of real models, which lie in llama.cpp's sources; `make test` puts them into .setup/vocabularies."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gaiad.models.gguf.gguf_header import MAGIC, read_exactly, read_number, read_text, read_value, skip_array
from tests.makers.chat_templates import DEEPSEEK_R1, GEMMA, LLAMA31, PHI3, QWEN3
from tests.makers.provided_vocabularies import VOCABULARIES

FOLDER = Path(__file__).parent.parent.parent / ".setup" / "vocabularies"
TEMPLATES = {"qwen2": QWEN3, "llama-bpe": LLAMA31, "phi-3": PHI3, "gemma-4": GEMMA, "deepseek-llm": DEEPSEEK_R1}
ABSENT = "real vocabularies are not in .setup/vocabularies; `make test` puts them there"
assert set(TEMPLATES) == set(VOCABULARIES)
_ARRAY, _STRING, _INT32 = 9, 8, 5
_CONTROL, _USER_DEFINED = 3, 4


class Marked(NamedTuple):
    """Control and user-defined tokens with how they are spelt."""

    control: dict[int, str]
    user_defined: dict[int, str]


def vocabulary_path(name: str) -> Path:
    return FOLDER / f"{name}.gguf"


def marked_tokens(path: Path) -> Marked:
    """Read from the file itself, not from the code under test."""
    size = path.stat().st_size
    found: dict[str, Any] = {}
    with path.open("rb") as file:
        assert read_exactly(file, 4) == MAGIC
        read_number(file, "<I")
        read_number(file, "<Q")
        for _ in range(read_number(file, "<Q")):
            key, kind = read_text(file, size), read_number(file, "<I")
            if key == "tokenizer.ggml.tokens":
                assert read_number(file, "<I") == _STRING
                found[key] = [read_text(file, size) for _ in range(read_number(file, "<Q"))]
            elif key == "tokenizer.ggml.token_type":
                assert read_number(file, "<I") == _INT32
                found[key] = np.frombuffer(read_exactly(file, 4 * read_number(file, "<Q")), dtype="<i4")
            elif kind == _ARRAY:
                skip_array(file, size)
            else:
                read_value(file, kind, size)
    spelt, kinds = found["tokenizer.ggml.tokens"], found["tokenizer.ggml.token_type"]
    return Marked(*({int(i): spelt[i] for i in np.flatnonzero(kinds == kind)} for kind in (_CONTROL, _USER_DEFINED)))
