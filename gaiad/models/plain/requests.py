"""What is wrong with a request on its face, for models that no worker checks it for: remote, extractive, scripted.

Pure. Beyond this a remote server has its own limits, and says so itself.
"""

import math

from gaiad.errors import BadInput
from gaiad.generation import GenerateRequest, Sampling, one_form

_HIGHEST_SEED = 2**32 - 1
_NUMBERS = ("temperature", "top_p", "min_p", "repeat_penalty", "frequency_penalty", "presence_penalty")


def check_request(request: GenerateRequest) -> None:
    """Raises BadInput that names the value and the remedy."""
    problem = one_form(request) or _limits(request) or _numbers(request.sampling)
    if problem:
        raise BadInput(problem)


def _limits(request: GenerateRequest) -> str:
    if request.max_tokens < 1:
        return f"max_tokens is {request.max_tokens}; ask for 1 or more"
    if request.seed is not None and not 0 <= request.seed <= _HIGHEST_SEED:
        return f"seed is {request.seed}; give a number from 0 to {_HIGHEST_SEED}"
    return ""


def _numbers(sampling: Sampling) -> str:
    for name in _NUMBERS:
        value = getattr(sampling, name)
        if not math.isfinite(value):
            return f"{name} is {value:g}; give a finite number"
    for name in ("temperature", "top_k", "repeat_window"):
        if getattr(sampling, name) < 0:
            return f"{name} is {getattr(sampling, name):g}; give 0 or more"
    return ""
