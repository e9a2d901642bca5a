"""The initiative loop's numbers as one checked struct."""

from typing import Annotated

import msgspec

from constants.load import load

Positive = Annotated[int, msgspec.Meta(ge=1)]


class InitiativeNumbers(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """constants/initiative.toml. Tokens of one proposal, seconds of one run, counts of thoughts, characters of one."""

    develop_tokens: Annotated[int, msgspec.Meta(ge=64)]
    deadline_s: Annotated[float, msgspec.Meta(gt=0)]
    most_failures: Positive
    most_open: Positive
    thought_characters: Positive


def initiative_numbers() -> InitiativeNumbers:
    """The shipped numbers."""
    return load("initiative.toml", InitiativeNumbers)
