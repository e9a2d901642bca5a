"""How a turn's time is shared among its stages, so that it ends within its deadline, also when a role is silent. Pure.

A stage may take its share of what is left, weighed against the stages still to come. A role that has not written a word
by a part of that share is given up, so that another can stand in for it; so is one that thinks for too long, while an
answer is written to the end.
"""

from collections.abc import Sequence

from council.roles import CouncilStage
from gaiad.turn.stage_call import Pace

_WEIGHTS: dict[CouncilStage, float] = {"plan": 1.0, "refine": 1.0, "observe": 0.5, "act": 3.0, "verify": 1.0}
_SILENT_SHARE = 0.6
_THINKING_SHARE = 0.8
_LAST_WORDS_S = 1.0  # kept for ending the turn in order


def pace_of(stage: CouncilStage, chain: Sequence[CouncilStage], now: float, deadline: float) -> Pace:
    """When the first word must be there, and when the stage ends. Times are monotonic seconds."""
    coming = chain[chain.index(stage) :] if stage in chain else (stage,)
    left = max(0.0, deadline - now - min(_LAST_WORDS_S, (deadline - now) / 10))
    share = left * _WEIGHTS[stage] / sum(_WEIGHTS[one] for one in coming)
    most = left if stage == "act" else left * _THINKING_SHARE
    longest = most if len(coming) == 1 else min(most, share * 1.5)
    return Pace(first_by=now + longest * _SILENT_SHARE, last_by=now + longest)
