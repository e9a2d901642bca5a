"""Keys and tokens by their own form, private keys by their header, passwords by what stands before them."""

import re

from constants.secret_patterns import SecretPatterns
from router.redact.items import Finder, Item

_REST = re.compile(r"(?:[A-Za-z0-9_~+/=%-]|\.(?=[A-Za-z0-9_-]))*")
_REST_OF_VALUE = re.compile(r"(?:[A-Za-z0-9_~+/=%#*^-]|[.!?:@](?=[A-Za-z0-9_-])|&(?=[0-9]))*")
_KEY_LINES = re.compile(r"[A-Za-z0-9+/=\\\s]*")
_ENCRYPTED = r"Proc-Type: 4,ENCRYPTED\s{1,2}DEK-Info: [A-Z0-9-]{3,20},[A-F0-9]{8,64}\s{1,3}(?=[A-Z0-9])"
_BEGINS = r"(?:\s|\\[rn]){1,8}"
_END = re.compile(r"-----END(?: [A-Z0-9]{1,12}){0,3} PRIVATE KEY(?: BLOCK)?-----")
_LONGEST_BEFORE = 48
_SHORTEST = re.compile(r"\S{16}")


def find_secrets(patterns: SecretPatterns) -> list[Finder]:
    """Secrets as items, in the order in which they are looked for."""
    return [_find_token(patterns), _find_key(patterns), *map(_find_named, patterns.credentials.values())]


def _find_token(patterns: SecretPatterns) -> Finder:
    token = re.compile("|".join(patterns.secrets.values()))

    def find(text: str, place: int) -> Item | None:
        found = token.search(text, place) if _SHORTEST.search(text, place) else None
        return Item(found.start(), found.end(), "key", _REST) if found else None

    return find


def _find_key(patterns: SecretPatterns) -> Finder:
    """A private key of many lines, and its last line, which joins it."""
    header = "|".join(patterns.headers.values())
    key = re.compile(rf"(?:{header}){_BEGINS}(?:{_ENCRYPTED})?(?=[A-Za-z0-9+/=]{{16}})")

    def find(text: str, place: int) -> Item | None:
        if text.find("-----", place) < 0:
            return None
        begins, ends = key.search(text, place), _END.search(text, place)
        if ends and (begins is None or ends.start() < begins.start()):
            return Item(ends.start(), ends.end(), "key")
        return Item(begins.start(), begins.end(), "key", _KEY_LINES) if begins else None

    return find


def _find_named(pattern: str) -> Finder:
    """A value by the name before it. The name may stand before the place, so the search begins there.

    A pattern that says what follows the value finds all of it; else it goes on behind what the pattern finds.
    """
    named = re.compile(pattern)
    tail = None if pattern.endswith("(?=@)") else _REST_OF_VALUE

    def find(text: str, place: int) -> Item | None:
        found = named.search(text, max(0, place - _LONGEST_BEFORE))
        while found and found.start("value") < place:
            found = named.search(text, found.start() + 1)
        return Item(found.start("value"), found.end("value"), "key", tail) if found else None

    return find
