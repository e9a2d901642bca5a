"""Chooses one sequence's next token from the logits llama.cpp has for it. Child processes only.

Where the reply must have a form, llguidance keeps its state and tells which tokens may come next (decision 3). Control
tokens are never allowed, but for those that end a reply, where it may end.
"""

import ctypes
from functools import lru_cache
from typing import Any

import numpy as np
from llguidance import LLMatcher, LLTokenizer
from numpy.typing import NDArray

from gaiad.models.child.llama import library
from gaiad.models.child.reply_form import LIMITS
from gaiad.models.child.vocabulary import Vocabulary
from gaiad.wire.generation import SAMPLING_RANGES, Sampling, out_of_range

_HIGHEST_SEED = 2**32 - 1
_LONGEST_REASON = 300
_SPECIAL = b"\xff"  # how llguidance marks a token that is not text


class FormFault(Exception):
    """The reply cannot be continued in its form; the message says why."""


class FormTokens:
    """A vocabulary as llguidance needs it; `visible` is true for tokens that show text or end a reply."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        is_end, handle = library.llama_vocab_is_eog, vocabulary.handle
        self.ends = frozenset(token for token in range(vocabulary.size) if is_end(handle, token))
        pieces = [self._piece(token) for token in range(vocabulary.size)]
        self.visible: NDArray[np.bool_] = np.array([piece[:1] not in (b"", _SPECIAL) for piece in pieces])
        self.visible[list(self.ends)] = True
        tokenize = ctypes.cast(library._lib.llama_tokenize, ctypes.c_void_p).value
        self.tokenizer: LLTokenizer = LLTokenizer.from_llamacpp(  # type: ignore[attr-defined]
            tokens=pieces, vocab_ptr=handle, tokenize_fptr=tokenize, eos_token=sorted(self.ends), slices=None
        )

    def _piece(self, token: int) -> bytes:
        if token in self.ends or token in self.vocabulary.control:
            return _SPECIAL + str(token).encode()
        return self.vocabulary.piece(token)


class TokenMask:
    """A form in the middle of a reply. Raises FormFault when the grammar cannot be read."""

    def __init__(self, tokens: FormTokens, grammar: str) -> None:
        self._tokens = tokens
        self._matcher = LLMatcher(tokens.tokenizer, grammar, log_level=0, limits=LIMITS)
        self._bits = np.zeros(-(-tokens.vocabulary.size // 32), dtype=np.uint32)
        self._check()

    @property
    def complete(self) -> bool:
        """The form has come to its end and nothing can follow."""
        return self._matcher.is_stopped() and self._matcher.is_accepting()

    def apply(self, logits: NDArray[np.float32]) -> None:
        """Set what the form does not allow to minus infinity. Raises FormFault when nothing is left.

        Where only one text can follow, its usual tokens are what is left.
        """
        allowed = self.allowed()
        if not allowed.any():
            raise FormFault("no token of the model's vocabulary can follow")
        np.copyto(logits, -np.inf, where=~allowed)

    def allowed(self) -> NDArray[np.bool_]:
        """One flag for each token of the vocabulary. Raises FormFault when the form has become too complex."""
        self._matcher.unsafe_compute_mask_ptr(self._bits.ctypes.data, self._bits.nbytes)
        self._check()
        flags = np.unpackbits(self._bits.view(np.uint8), count=self._tokens.vocabulary.size, bitorder="little")
        return flags.view(np.bool_) & self._tokens.visible

    def accept(self, token: int) -> None:
        """Go on with an allowed token. Raises FormFault for any other."""
        if not self._matcher.consume_token(token):
            raise FormFault(f"no token of the model's vocabulary can follow ({self._reason()})")

    def _check(self) -> None:
        if self._matcher.is_error():
            raise FormFault(f"cannot follow the form of the reply: {self._reason()}")

    def _reason(self) -> str:
        return " ".join(self._matcher.get_error().split())[:_LONGEST_REASON]


@lru_cache(maxsize=4)
def form_tokens(vocabulary: Vocabulary) -> FormTokens:
    """The vocabulary's tokens, read once: about a second for 150,000."""
    return FormTokens(vocabulary)


def sampling_problem(seed: int, sampling: Sampling) -> str:
    """What is wrong with the settings, in words that name value and remedy; "" when nothing is."""
    if not 0 <= seed <= _HIGHEST_SEED:
        return f"seed is {seed}; give a number from 0 to {_HIGHEST_SEED}"
    for name in SAMPLING_RANGES:
        if problem := out_of_range(name, getattr(sampling, name)):
            return problem
    return ""


class Sampler:
    """A chain of llama.cpp's samplers with its own random state, and the mask of the reply's form if it has one.

    Raises FormFault when the form's grammar cannot be read. Call `close` when the sequence has ended.
    """

    def __init__(self, seed: int, sampling: Sampling, vocabulary: Vocabulary, grammar: str = "") -> None:
        self._chain: Any = None
        self._vocabulary = vocabulary
        self._mask = TokenMask(form_tokens(vocabulary), grammar) if grammar else None
        self._chain = library.llama_sampler_chain_init(library.llama_sampler_chain_default_params())
        for part in _parts(seed, sampling, vocabulary.size):
            library.llama_sampler_chain_add(self._chain, part)

    @property
    def complete(self) -> bool:
        """The form has come to its end and nothing can follow."""
        return self._mask is not None and self._mask.complete

    def choose(self, context: Any, index: int) -> int:
        """The next token after position `index` of the last batch; form and penalties remember it.

        Raises FormFault when the form allows no token of the vocabulary, or has become too complex.
        """
        if self._mask is not None:
            logits = library.llama_get_logits_ith(context, index)
            self._mask.apply(np.ctypeslib.as_array(logits, shape=(self._vocabulary.size,)))
        token = int(library.llama_sampler_sample(self._chain, context, index))
        if self._mask is not None and not self._vocabulary.ends(token):
            self._mask.accept(token)
        return token

    def close(self) -> None:
        """Free the chain; more than once does no harm."""
        if self._chain is not None:
            library.llama_sampler_free(self._chain)
            self._chain = None


def _penalties(sampling: Sampling) -> bool:
    penalties = (sampling.repeat_penalty, sampling.frequency_penalty, sampling.presence_penalty)
    return bool(sampling.repeat_window) and penalties != (1.0, 0.0, 0.0)


def _parts(seed: int, sampling: Sampling, words: int) -> list[Any]:
    penalties = (sampling.repeat_penalty, sampling.frequency_penalty, sampling.presence_penalty)
    parts = []
    if _penalties(sampling):
        parts.append(library.llama_sampler_init_penalties(words, sampling.repeat_window, *penalties))
    if sampling.temperature == 0.0:
        return [*parts, library.llama_sampler_init_greedy()]
    if sampling.top_k:
        parts.append(library.llama_sampler_init_top_k(sampling.top_k))
    if sampling.top_p < 1.0:
        parts.append(library.llama_sampler_init_top_p(sampling.top_p, 1))
    if sampling.min_p > 0.0:
        parts.append(library.llama_sampler_init_min_p(sampling.min_p, 1))
    parts.append(library.llama_sampler_init_temp(sampling.temperature))
    return [*parts, library.llama_sampler_init_dist(seed)]
