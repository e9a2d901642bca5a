"""A made-up conversation for measurements, and a small decoder in whose vocabulary it and our own prompts are short.

With a vocabulary of letters every prompt would be five times as long as a real model reads it, and shares and times of
prompts would say nothing.
"""

import itertools
import random
import re
import string
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from gaiad.base.errors import BadInput
from gaiad.models.gguf.tiny_gguf import LlamaShape, write_llama_gguf
from gaiad.models.provision import models_folder
from gaiad.wire.memory import SessionTurn, TurnMessage
from prompts.load import load_prompt, prompt_names
from prompts.registry import Registry
from tests.makers.llama_files import HALF_BILLION, TINY_LLAMA, made_once

SESSION = "long"
_COMMON = """
the of and to in is that it for on are with as this have from one had word but not what all can said there use an
each which their if do will up other about out many then them these so some her would make like him into time has
look two more write go see number no way could people my than first water been call who oil its now find long down
day get come made may part over new sound take only little work know place year live back give most very after thing
our just name good sentence man think great where help through much before line right too mean old any same tell boy
follow want show also around form three small set put end does another well large must big even such because turn
here why ask men read need land different home us move try kind hand picture change off play spell air away animal
house point page letter mother answer found study still learn should world harbour river garden copper window bridge
kitchen engine silver market lantern winter valley orchard piano basket
"""
_QUESTION_WORDS, _SENTENCE_WORDS = (6, 20), (8, 14)


def made_turns(count: int, seed: int = 5) -> list[SessionTurn]:
    """`count` turns of 22 to 76 words, numbered, in one session."""
    source = random.Random(seed)
    return [
        SessionTurn(
            session_id=SESSION,
            turn_id=f"turn_{number:026}",
            sequence=number,
            started_at=f"2026-01-{1 + number // 60 % 28:02}T10:{number % 60:02}:00Z",
            messages=[
                TurnMessage(role="user", content=f"{_sentence(source, _QUESTION_WORDS)}?"),
                TurnMessage(role="assistant", content=_answer(source)),
            ],
        )
        for number in range(count)
    ]


def made_questions(count: int, words: int = 12) -> list[str]:
    """Questions that need nothing said before."""
    source = random.Random(17)
    return [f"{_sentence(source, (words, words))}?" for _ in range(count)]


def write_chat_llama(path: Path, context: int = 8192) -> Path:
    """Less than a megabyte. What it writes is noise in good form."""
    words = tuple(sorted(_known_words(path.parent)))
    write_llama_gguf(path, msgspec.structs.replace(TINY_LLAMA, name="chat-llama", context=context, words=words))
    return path


def half_billion_of_words(environment: Mapping[str, str]) -> Path:
    """The 0.5 B-shaped model with as large a vocabulary, every token of which is read again as the one token it was
    written as; what it says is as short for the next reader as with a real model. About 650 MB, made once.
    """
    return made_once(environment, spelling_shape(HALF_BILLION, _known_words(models_folder(environment))))


def spelling_shape(shape: LlamaShape, known: Iterable[str]) -> LlamaShape:
    """`shape` with words for its filler: those known with all their beginnings, then every spelling, short ones first.

    Raises BadInput when the filler has no room for them.
    """
    words = {word[:length] for word in known for length in range(1, len(word) + 1)}
    if len(words) > shape.filler:
        raise BadInput(f"{len(words)} words and their beginnings do not fit in {shape.filler}; give a larger filler")
    for length in itertools.count(1):
        for letters in itertools.product(string.ascii_lowercase, repeat=length):
            if len(words) == shape.filler:
                return msgspec.structs.replace(shape, name=f"{shape.name}-words", words=tuple(sorted(words)), filler=0)
            words.add("".join(letters))
    raise AssertionError("spellings do not end")


def _known_words(home: Path) -> set[str]:
    """Of our own prompts and of the made-up conversation."""
    registry = Registry.load(home)
    texts = [load_prompt(name).body for name in prompt_names()]
    texts += [registry.identity_text(), *map(registry.persona_text, registry.personas)]
    texts += [one.text for one in registry.task_instructions.values()]
    return {*(word for text in texts for word in re.findall(r"[A-Za-z]+", text)), *_COMMON.split()}


def _answer(source: random.Random) -> str:
    return " ".join(f"{_sentence(source, _SENTENCE_WORDS)}." for _ in range(source.randint(2, 4)))


def _sentence(source: random.Random, length: tuple[int, int]) -> str:
    return " ".join(source.choices(_COMMON.split(), k=source.randint(*length))).capitalize()
