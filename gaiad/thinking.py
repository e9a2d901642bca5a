"""Gives the researcher the model it thinks with: that of the role which `research.model` names, if any."""

from collections.abc import Callable

from gaiad.clock import Clock
from gaiad.config import ResearchConfig
from gaiad.models.pool.pool import ModelPool
from gaiad.research.thinking.asking import Limits
from gaiad.research.thinking.thinker import Thinker

ThinkerOf = Callable[[ResearchConfig], Thinker | None]


def by_rules(_config: ResearchConfig) -> Thinker | None:
    """No model whatever the settings say."""
    return None


def thinking_with(pool: ModelPool, clock: Clock) -> ThinkerOf:
    """Who makes the thinker of a run from the settings of that moment; None for the rules alone."""

    def thinker_of(config: ResearchConfig) -> Thinker | None:
        if not config.model:
            return None
        model = pool.model(pool.name_of(role=config.model))
        limits = Limits(calls=config.model_calls, tokens=config.model_tokens, seconds=config.model_s)
        return Thinker(model, limits, clock, config.max_pages)

    return thinker_of
