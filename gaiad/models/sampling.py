"""Chooses one sequence's next token from the logits llama.cpp has for it. Child processes only."""

import math
from typing import Any

from gaiad.generation import Sampling
from gaiad.models.bindings import library
from gaiad.models.vocabulary import Vocabulary

_LONGEST_WINDOW = 4096


def sampling_problem(seed: int, sampling: Sampling) -> str:
    """What is wrong with the settings, in words that name value and remedy; "" when nothing is."""
    ranges = (
        ("seed", seed, 0, 2**32 - 1),
        ("temperature", sampling.temperature, 0.0, 10.0),
        ("top_k", sampling.top_k, 0, 2**31 - 1),
        ("top_p", sampling.top_p, 0.0, 1.0),
        ("min_p", sampling.min_p, 0.0, 1.0),
        ("repeat_penalty", sampling.repeat_penalty, 0.01, 10.0),
        ("frequency_penalty", sampling.frequency_penalty, -10.0, 10.0),
        ("presence_penalty", sampling.presence_penalty, -10.0, 10.0),
        ("repeat_window", sampling.repeat_window, 0, _LONGEST_WINDOW),
    )
    for name, value, low, high in ranges:
        if not math.isfinite(value) or not low <= value <= high:
            return f"{name} is {value:g}; give a number from {low:g} to {high:g}"
    return ""


class Sampler:
    """A chain of llama.cpp's samplers with its own random state. Call `close` when the sequence has ended."""

    def __init__(self, seed: int, sampling: Sampling, vocabulary: Vocabulary) -> None:
        self._chain = library.llama_sampler_chain_init(library.llama_sampler_chain_default_params())
        for part in _parts(seed, sampling, vocabulary.size):
            library.llama_sampler_chain_add(self._chain, part)

    def choose(self, context: Any, index: int) -> int:
        """The next token after position `index` of the last batch; the penalties remember it."""
        return int(library.llama_sampler_sample(self._chain, context, index))

    def close(self) -> None:
        """Free the chain; more than once does no harm."""
        if self._chain is not None:
            library.llama_sampler_free(self._chain)
            self._chain = None


def _parts(seed: int, sampling: Sampling, words: int) -> list[Any]:
    penalties = (sampling.repeat_penalty, sampling.frequency_penalty, sampling.presence_penalty)
    parts = []
    if sampling.repeat_window and penalties != (1.0, 0.0, 0.0):
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
