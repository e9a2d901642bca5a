"""What keys and tokens look like, for all who keep them out of sight: one table, two readers."""

import msgspec

from constants.load import load


class SecretPatterns(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """constants/secrets.toml: patterns by what they find, in words.

    `secrets` are in one run of characters without a space, `headers` begin a key of many lines, `credentials` are
    secrets by what is before them, in the group `value`.
    """

    secrets: dict[str, str]
    headers: dict[str, str]
    credentials: dict[str, str]


def secret_patterns() -> SecretPatterns:
    """The shipped table."""
    return load("secrets.toml", SecretPatterns)
