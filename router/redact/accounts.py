"""Numbers with a checksum: payment cards and IBANs. What fails its sum, its length or its issuer is another number."""

import re
from collections.abc import Mapping
from functools import cache

from router.redact.items import Finder, Item
from router.redact.settings import CardIssuer

_SPACE = "[ \u00a0\u202f-]"
_CARD_PLACE = re.compile(r"[0-9](?=[0-9]{3})(?<![0-9A-Za-z_+#$€£].)(?<![0-9A-Za-z][.-].)")  # a digit first: found fast
_DIGITS = re.compile(rf"[0-9]{{4,19}}(?:{_SPACE}[0-9]{{1,6}}(?![0-9])){{0,4}}")
_GROUP = re.compile("[0-9]+")
_GROUPINGS = frozenset(
    {(4, 4, 4, 4), (4, 6, 5), (4, 6, 4), (4, 4, 4, 4, 3), (4, 4, 4, 4, 2), (4, 4, 4, 4, 1), (4, 4, 4, 5)}
)
_GOES_ON = re.compile(r"[0-9A-Za-z_]|[.-][0-9A-Za-z]")
_IN_IBAN = re.compile("[0-9]{2}(?<=[A-Za-z]..)")
_IBAN_PLACE = re.compile(r"(?<![0-9A-Za-z_])(?:[A-Z]{2}|[a-z]{2})(?=[0-9]{2})")


def find_card(issuers: Mapping[str, CardIssuer]) -> Finder:
    """Card numbers (ISO 7812): an issuer's digits and length, written in one or in a card's groups, with Luhn's sum."""
    fewest = min(length for issuer in issuers.values() for length in issuer.lengths)

    def find(text: str, place: int) -> Item | None:
        for found in _CARD_PLACE.finditer(text, place):
            if end := _card_end(text, found.start(), issuers, fewest):
                return Item(found.start(), end, "card")
        return None

    return find


def _card_end(text: str, start: int, issuers: Mapping[str, CardIssuer], fewest: int) -> int:
    run = _DIGITS.match(text, start)
    if run is None or run.end() - start < fewest:
        return 0
    groups = [group.span() for group in _GROUP.finditer(text, start, run.end())]
    for count in range(len(groups), 0, -1):
        chosen = groups[:count]
        lengths = tuple(end - begin for begin, end in chosen)
        if count > 1 and (lengths not in _GROUPINGS or not _evenly(text, chosen)):
            continue
        end = chosen[-1][1]
        number = "".join(text[begin:stop] for begin, stop in chosen)
        if not _GOES_ON.match(text, end) and _issued(number, issuers) and luhn(number):
            return end
    return 0


def _evenly(text: str, groups: list[tuple[int, int]]) -> bool:
    """Whether the same sign stands between all groups."""
    return len({text[end] for _, end in groups[:-1]}) == 1


def _issued(number: str, issuers: Mapping[str, CardIssuer]) -> bool:
    return any(
        len(number) in issuer.lengths
        and any(low <= int(number[: len(str(low))]) <= high for low, high in issuer.ranges)
        for issuer in issuers.values()
    )


def luhn(number: str) -> bool:
    """Whether the digits have Luhn's sum."""
    total = 0
    for place, digit in enumerate(reversed(number)):
        value = int(digit) * (1 + place % 2)
        total += value - 9 if value > 9 else value
    return total % 10 == 0


def find_iban(lengths: Mapping[str, int]) -> Finder:
    """IBANs (ISO 13616): the country's length and the check digits; small letters only without spaces."""

    def find(text: str, place: int) -> Item | None:
        if not _IN_IBAN.search(text, place):
            return None
        for found in _IBAN_PLACE.finditer(text, place):
            length = lengths.get(found[0].upper(), 0)
            account = _account(length).match(text, found.start()) if length else None
            if account and iban_sum(account[0]):
                return Item(account.start(), account.end(), "iban")
        return None

    return find


@cache
def _account(length: int) -> re.Pattern[str]:
    rest = length - 4
    return re.compile(
        rf"(?:[A-Z]{{2}}[0-9]{{2}}(?:{_SPACE}?[A-Z0-9]){{{rest}}}|[a-z]{{2}}[0-9]{{2}}[a-z0-9]{{{rest}}})(?![0-9A-Za-z_])"
    )


def iban_sum(account: str) -> bool:
    """Whether the check digits are right, spaces not counted."""
    characters = [character for character in account if character.isalnum()]
    return int("".join(str(int(character, 36)) for character in characters[4:] + characters[:4])) % 97 == 1
