"""Which shipped prompt texts a packet was made with, so that a replay after an upgrade can name those that changed.

A packet keeps its own words (decision 9); the texts that its words were made from belong to the installation. Of each,
version and digest are recorded in the manifest. Words of the user's own registry files are not shipped and not here.
"""

import hashlib
from collections.abc import Iterable, Mapping
from functools import cache

from prompts.load import load_prompt, prompt_names
from prompts.packet import CognitionPacket, Method

_DIGITS = 16
_WRITTEN_BY_MODELS: frozenset[Method] = frozenset({"lite", "prime"})


def prompts_in(packet: CognitionPacket, methods: Iterable[Method]) -> dict[str, str]:
    """Name -> version and digest of every prompt file behind the packet; `methods` are those of its fields."""
    names = ["identity", "quoted_memory"]
    names += ["persona"] if packet.persona else []
    names += ["compressor"] if _WRITTEN_BY_MODELS & set(methods) else []
    key = packet.task_instruction_key
    said = {f"role_{packet.role}": packet.role_text}
    said |= {f"{kind}_{key}": packet.task_instruction for kind in ("stage", "judge")}
    names += [name for name, text in said.items() if name in _shipped() and _body(name) == text]
    return {name: prompt_mark(name) for name in sorted(names)}


def changed_prompts(recorded: Mapping[str, str]) -> list[str]:
    """The names of `recorded` whose text is another now or gone, sorted."""
    return sorted(name for name, mark in recorded.items() if name not in _shipped() or prompt_mark(name) != mark)


@cache
def prompt_mark(name: str) -> str:
    """The prompt's version and the beginning of its text's SHA-256: `3-0f1e...`. Raises GaiadError for no such file."""
    prompt = load_prompt(name)
    return f"{prompt.version}-{hashlib.sha256(prompt.body.encode()).hexdigest()[:_DIGITS]}"


def _body(name: str) -> str:
    return load_prompt(name).body.rstrip("\n")


@cache
def _shipped() -> frozenset[str]:
    return frozenset(prompt_names())
