"""Chooses one sequence's next token from the logits llama.cpp has for it. Child processes only."""

from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np

from gaiad.generation import SAMPLING_RANGES, Sampling, out_of_range
from gaiad.models.child.alphabet import alphabet_of
from gaiad.models.child.bindings import library
from gaiad.models.child.masking import Gate, GrammarFault, apply
from gaiad.models.child.vocabulary import Vocabulary

if TYPE_CHECKING:
    from numpy.typing import NDArray

_HIGHEST_SEED = 2**32 - 1


def sampling_problem(seed: int, sampling: Sampling) -> str:
    """What is wrong with the settings, in words that name value and remedy; "" when nothing is."""
    if not 0 <= seed <= _HIGHEST_SEED:
        return f"seed is {seed}; give a number from 0 to {_HIGHEST_SEED}"
    for name in SAMPLING_RANGES:
        if problem := out_of_range(name, getattr(sampling, name)):
            return problem
    return ""


class Sampler:
    """A chain of llama.cpp's samplers with its own random state, and the reply's grammar if it has one.

    With a grammar a token is drawn as without, and only that one is checked; when it fails, or when few can follow at
    all, the chain chooses among those that the grammar allows. Raises GrammarFault when the grammar cannot be parsed.
    Call `close` when the sequence has ended.
    """

    def __init__(self, seed: int, sampling: Sampling, vocabulary: Vocabulary, grammar: str = "") -> None:
        self._chain: Any = None
        self._gate = Gate(alphabet_of(vocabulary), grammar) if grammar else None
        self._words = vocabulary.size
        self._ends = alphabet_of(vocabulary).ends if grammar else None
        self._penalties = _penalties(sampling)
        self._exact = not _keeps_the_likeliest(sampling)
        self._recent: deque[int] = deque(maxlen=sampling.repeat_window if self._penalties else 0)
        self._chain = library.llama_sampler_chain_init(library.llama_sampler_chain_default_params())
        for part in _parts(seed, sampling, vocabulary.size):
            library.llama_sampler_chain_add(self._chain, part)

    @property
    def complete(self) -> bool:
        """The grammar has come to its end and nothing can follow."""
        return self._gate is not None and self._gate.complete

    def choose(self, context: Any, index: int) -> int:
        """The next token after position `index` of the last batch; grammar and penalties remember it.

        Raises GrammarFault when the grammar allows no token of the vocabulary, or has become too ambiguous.
        """
        if self._gate is None:
            return int(library.llama_sampler_sample(self._chain, context, index))
        token = self._within(self._gate, context, index)
        if not self._ends_with(token):
            self._gate.accept(token)
        return token

    def close(self) -> None:
        """Free chain and grammar; more than once does no harm."""
        if self._chain is not None:
            library.llama_sampler_free(self._chain)
            self._chain = None
        if self._gate is not None:
            self._gate.close()

    def _ends_with(self, token: int) -> bool:
        return self._ends is not None and token in self._ends

    def _within(self, gate: Gate, context: Any, index: int) -> int:
        """A token that the grammar allows, by the chain's own measure; the penalties have seen it."""
        many = gate.many
        if many and not self._penalties:
            token = int(library.llama_sampler_sample(self._chain, context, index))
            if gate.allows(token):
                return token
        logits = np.ctypeslib.as_array(library.llama_get_logits_ith(context, index), shape=(self._words,))
        token = self._drawn(gate.shortlist(logits, self._exact, np.array(self._recent, dtype=np.int32)))
        library.llama_sampler_accept(self._chain, token)
        self._recent.append(token)
        return token

    def _drawn(self, allowed: "NDArray[Any]") -> int:
        if not len(allowed):
            raise GrammarFault("no token of the model's vocabulary can follow")
        holder = apply(self._chain, allowed)
        return int(holder.data[holder.selected].id)


def _penalties(sampling: Sampling) -> bool:
    penalties = (sampling.repeat_penalty, sampling.frequency_penalty, sampling.presence_penalty)
    return bool(sampling.repeat_window) and penalties != (1.0, 0.0, 0.0)


def _keeps_the_likeliest(sampling: Sampling) -> bool:
    """Whether the chain looks at no more than some of the likeliest tokens, and lifts none from behind."""
    lifts = sampling.repeat_penalty < 1.0 or sampling.frequency_penalty < 0.0 or sampling.presence_penalty < 0.0
    return not (_penalties(sampling) and lifts) and (sampling.temperature == 0.0 or sampling.top_k > 0)


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
