"""What a run had to do without, as it is told: the same reason once, with the steps it befell and how often. Pure."""

import re
from collections import Counter
from collections.abc import Sequence

FORM_MISSED = "did not keep to the form"
_STEP = re.compile(r"(?P<step>\w+) by rules: (?P<why>.*)", re.DOTALL)


def by_rules(step: str, why: str) -> str:
    """The sentence for a step that a model did not take; `step` is one word, such as "reflection"."""
    return f"{step} by rules: {why}"


def told_once(reasons: Sequence[str]) -> tuple[str, ...]:
    """Each reason once, in the order of its first time; steps with the same one stand together.

    Of replies that missed their form in several ways the first is told.
    """
    steps: dict[str, Counter[str]] = {}
    told: dict[str, str] = {}
    for reason in reasons:
        match = _STEP.fullmatch(reason)
        why = match["why"] if match else reason
        before, missed, _ = why.partition(FORM_MISSED)
        kind = (before + missed if missed else why) if match else reason
        told.setdefault(kind, why)
        steps.setdefault(kind, Counter()).update([match["step"]] if match else [])
    return tuple(by_rules(_listed(steps[kind]), why) if steps[kind] else why for kind, why in told.items())


def _listed(steps: Counter[str]) -> str:
    named = [step if times == 1 else f"{step} ({times} times)" for step, times in steps.items()]
    return " and ".join([", ".join(named[:-1]), named[-1]] if len(named) > 1 else named)
