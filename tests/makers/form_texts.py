"""Texts that a form of a reply allows, drawn at random byte by byte: what a model without sense would write."""

import random
from typing import Any

import numpy as np
from llguidance import LLMatcher, LLTokenizer

from gaiad.models.child.reply_form import LIMITS, form_grammar
from gaiad.wire.generation import Contract

_END = 256
_ENOUGH = 20_000


class _Bytes:
    """One token for every byte, and one that ends."""

    is_tokenizer_wrapper = True
    eos_token_id = _END
    bos_token_id = None
    tokens = (*(bytes([byte]) for byte in range(256)), b"\xff<end>")
    special_token_ids = (_END,)

    def __call__(self, text: bytes | str) -> list[int]:
        return list(text if isinstance(text, bytes) else text.encode())


def form_texts(
    count: int,
    *,
    regex: str = "",
    schema: dict[str, Any] | None = None,
    contract: Contract | None = None,
    phrases: tuple[str, ...] = (),
    seed: int = 0,
) -> list[str]:
    """Whole texts, each from its beginning to an end that the form allows; `phrases` are tried now and then."""
    grammar, chance = form_grammar(regex, schema, contract), random.Random(seed)
    tokenizer = LLTokenizer(_Bytes())
    return [_text(LLMatcher(tokenizer, grammar, log_level=0, limits=LIMITS), phrases, chance) for _ in range(count)]


def form_allows(text: str, **form: Any) -> bool:
    """Whether the whole text is one that the form allows."""
    grammar = form_grammar(form.get("regex", ""), form.get("schema"), form.get("contract"))
    matcher = LLMatcher(LLTokenizer(_Bytes()), grammar, log_level=0, limits=LIMITS)
    return all(matcher.try_consume_tokens([byte]) for byte in text.encode()) and bool(matcher.is_accepting())


def _text(matcher: LLMatcher, phrases: tuple[str, ...], chance: random.Random) -> str:
    written = bytearray()
    for _ in range(_ENOUGH):
        if phrases and chance.random() < 0.05:
            phrase = chance.choice(phrases).encode()
            written += phrase[: matcher.try_consume_tokens(list(phrase))]
        mask = np.frombuffer(matcher.compute_bitmask(), dtype=np.uint8)
        assert not matcher.is_error(), (matcher.get_error(), bytes(written))
        allowed = np.flatnonzero(np.unpackbits(mask, count=_END + 1, bitorder="little")).tolist()
        token = _chosen(allowed, chance)
        if token == _END:
            return written.decode()
        written.append(token)
        assert matcher.consume_token(token), (matcher.get_error(), bytes(written))
        if matcher.is_stopped():
            return written.decode()
    raise AssertionError(f"no end after {_ENOUGH} bytes: {bytes(written[:200])!r}")


def _chosen(allowed: list[int], chance: random.Random) -> int:
    """Ends and closing marks more often than their share, or objects of objects would never end."""
    closing = [token for token in allowed if token == _END or token in b'"]}']
    return chance.choice(closing if closing and chance.random() < 0.2 else allowed)
