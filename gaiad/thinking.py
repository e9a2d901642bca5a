"""Gives the researcher the model it thinks with: that of the role which `research.model` names, if any."""

from collections.abc import Callable

from gaiad.clock import Clock
from gaiad.config import ResearchConfig
from gaiad.models.pool.pool import ModelPool
from gaiad.research.thinking.asking import Limits
from gaiad.research.thinking.thinker import Thinker

ThinkerOf = Callable[[ResearchConfig], Thinker | None]
"""By the settings of the moment the thinker of a run, None for the rules alone."""


def thinking_with(pool: ModelPool, clock: Clock) -> ThinkerOf:
    """One that thinks with the pool's models."""

    def thinker_of(config: ResearchConfig) -> Thinker | None:
        if not config.model:
            return None
        model = pool.model(pool.name_of(role=config.model))
        limits = Limits(calls=config.model_calls, tokens=config.model_tokens, seconds=config.model_s)
        return Thinker(model, limits, clock, config.max_pages)

    return thinker_of
