"""What is found by its form: accounts, cards and numbers of documents, addresses, secrets."""

import ipaddress
import re
from collections.abc import Collection, Mapping
from functools import cache
from itertools import pairwise

from constants.load import SecretPatterns
from router.redact.settings import CardIssuer
from router.redact.words import SPELLED_DOT, Finder, Item

_SPACE = "[ \u00a0\u202f-]"
_CARD_PLACE = re.compile(
    r"[0-9](?=[0-9]{3}|(?:[ -][0-9]){11})(?<![0-9A-Za-z_+#$€£].)(?<![0-9A-Za-z][.-].)"
)  # a digit first: found fast
_DIGITS = re.compile(
    r"[0-9]{4,19}(?:[\s.,/|_*`·•‧⋅∙–—-]{1,5}[0-9]{1,6}(?![0-9])){0,4}|[0-9](?:[ -][0-9](?![0-9])){11,18}"
)
_GROUP = re.compile("[0-9]+")
_GROUPINGS = frozenset(
    {(4, 4, 4, 4), (4, 6, 5), (4, 6, 4), (4, 4, 4, 4, 3), (4, 4, 4, 4, 2), (4, 4, 4, 4, 1), (4, 4, 4, 5)}
)
_GOES_ON = re.compile(r"[0-9A-Za-z_]|[.-][0-9A-Za-z]")
_IN_IBAN = re.compile("[0-9]{2}(?<=[A-Za-z]..)")
_IBAN_PLACE = re.compile(r"(?<![0-9A-Za-z_])(?:[A-Z]{2}|[a-z]{2})(?=[0-9]{2})")


def find_card(issuers: Mapping[str, CardIssuer]) -> Finder:
    """Card numbers (ISO 7812): an issuer's digits, length and Luhn's sum; written in one, in groups or singly."""
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
        grouped = lengths in _GROUPINGS or set(lengths) == {1}
        if count > 1 and not (grouped and _evenly(text, chosen)):
            continue
        end = chosen[-1][1]
        number = "".join(text[begin:stop] for begin, stop in chosen)
        if not _GOES_ON.match(text, end) and _issued(number, issuers) and luhn(number):
            return end
    return 0


def _evenly(text: str, groups: list[tuple[int, int]]) -> bool:
    """Whether the same is between all groups."""
    return len({text[end:begin] for (_, end), (begin, _) in pairwise(groups)}) == 1


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


_LOCAL = "A-Za-z0-9À-ɏ._%+'-"
_DOMAIN = re.compile(
    r"(?=[A-Za-z0-9À-ɏ])[A-Za-z0-9À-ɏ.-]{1,150}\.(?:[A-Za-z]{2,24}|xn--[A-Za-z0-9-]{2,30})(?![A-Za-z0-9À-ɏ_-])"
)
_DOT = rf"(?:\s{{0,2}}[\[({{]\s?(?i:dot|\.)\s?[\])}}]\s{{0,2}}|{SPELLED_DOT})"
_LABEL = "[A-Za-z0-9À-ɏ.-]{1,39}"
_SPELLED_DOMAIN = re.compile(rf"{_LABEL}(?:{_DOT}{_LABEL}){{1,3}}(?![A-Za-z0-9À-ɏ_-])")
_AT = re.compile(r"@|\s{0,2}[\[({]\s?(?i:at|@)\s?[\])}]\s{0,2}|\s{1,2}(?P<word>(?i:at))\s{1,2}")
_LOCAL_BEFORE = re.compile(rf"[{_LOCAL}]{{1,64}}\Z")
_LONGEST_LOCAL = 64
_IMAGE_OR_VERSION = re.compile(r"[0-9]+x\.|[0-9]+\.[0-9]")
_MENTION = re.compile(r"(?<![\w.@/])@(?:everyone|here)(?![\w.@-])")
_IP4 = re.compile(r"(?<![\w.])(?<![0-9A-Za-z]-)(?:[0-9]{1,3}\.){3}[0-9]{1,3}(?!\w|\.[0-9]|-[A-Za-z0-9])")
_IN_ADDRESS = re.compile("[0-9][.][0-9]|[0-9A-Fa-f]:[0-9A-Fa-f:]")
_IP6 = re.compile(
    r"(?<![\w.:])(?:[23][0-9A-Fa-f]{3}|[fF][eE]80|[fF][cCdD][0-9A-Fa-f]{2})"
    r":[0-9A-Fa-f:]{2,36}(?:\.[0-9.]{3,12})?(?![\w:])"
)
_NAME = "A-Za-z0-9À-ɏ_"
_HOMES = re.compile("/home/|Users")
_HOME = re.compile(
    r"(?<![\w.])(?:/home/|/Users/|[A-Za-z]:[\\/]{1,2}Users[\\/]{1,2})"
    rf"(?P<who>[{_NAME}][{_NAME}-]{{0,31}}(?:\.(?=[{_NAME}-]{{2}})[{_NAME}-]{{1,31}})?"
    rf"(?:(?: [{_NAME}.-]{{1,32}}){{1,2}}(?=\\))?)"
    r"(?![A-Za-z0-9À-ɏ_@$-])"
)
_WORD_BEFORE = 24


def find_email(no_mailboxes: Collection[str], spelled_ends: Collection[str], plain_words: Collection[str]) -> Finder:
    """E-mail addresses, also with accents, in punycode, and with (at) and [dot] for their signs.

    "At" as a plain word counts only before a domain that is spelled out too and ends in one of `spelled_ends`, and
    between no `plain_words`.
    """

    def domain_end(text: str, at: re.Match[str]) -> int:
        spelled = _SPELLED_DOMAIN.match(text, at.end())
        if at["word"] is None:
            domain = spelled or _DOMAIN.match(text, at.end())
            return domain.end() if domain and not _IMAGE_OR_VERSION.match(domain[0]) else 0
        labels = re.split(_DOT, spelled[0].lower().rstrip(".")) if spelled else [""]
        named = labels[-1].rpartition(".")[2] in spelled_ends and labels[0] not in plain_words
        return spelled.end() if spelled and named else 0

    def find(text: str, place: int) -> Item | None:
        for at in _AT.finditer(text, place):
            sign = at.start()
            end = domain_end(text, at)
            local = _LOCAL_BEFORE.search(text, max(place, sign - _LONGEST_LOCAL), sign) if end else None
            start = sign - len(local[0].lstrip(".'-%+")) if local else sign
            mailbox = text[start:sign].lower()
            if mailbox and mailbox not in no_mailboxes and not (at["word"] and mailbox in plain_words):
                return Item(start, end, "email")
        return None

    return find


def find_mention(text: str, place: int) -> Item | None:
    """What calls everybody in a channel."""
    found = _MENTION.search(text, place) if text.find("@", place) >= 0 else None
    return Item(found.start(), found.end(), "mention") if found else None


def find_ip(version_words: Collection[str]) -> Finder:
    """IP addresses of both kinds that lead to one machine: no loopback, no mask, no number of a version."""
    version = re.compile(rf"(?:(?<!\w)(?i:{'|'.join(map(re.escape, version_words))})|§)[^\w\n]{{0,3}}\Z")

    def find4(text: str, place: int) -> Item | None:
        for found in _IP4.finditer(text, place):
            start = found.start()
            if _personal(found[0]) and not version.search(text[max(0, start - _WORD_BEFORE) : start]):
                return Item(start, found.end(), "ip")
        return None

    def find(text: str, place: int) -> Item | None:
        if not _IN_ADDRESS.search(text, place):
            return None
        four = find4(text, place)
        for found in _IP6.finditer(text, place):
            if four and four.start < found.start():
                return four
            if _personal(found[0]):
                return Item(found.start(), found.end(), "ip")
        return four

    return find


def _personal(written: str) -> bool:
    try:
        address = ipaddress.ip_address(written)
    except ValueError:  # its way to say that it is none
        return False
    if address.is_loopback or address.is_unspecified or address.is_multicast:
        return False
    return not (address.version == 4 and (written.startswith(("255.", "0.")) or written.endswith((".0", ".0.0"))))


def find_home(nobodies: Collection[str]) -> Finder:
    """Home folders on Linux, macOS and Windows, with the name that tells whose."""

    def find(text: str, place: int) -> Item | None:
        if not _HOMES.search(text, place):
            return None
        for found in _HOME.finditer(text, place):
            if found["who"].lower() not in nobodies:
                return Item(found.start(), found.end(), "home_path")
        return None

    return find


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
