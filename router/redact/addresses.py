"""Where a person or a machine is found: e-mail and IP addresses, home folders, and calls to everybody in a channel."""

import ipaddress
import re
from collections.abc import Collection

from router.redact.items import Finder, Item

_LOCAL = "A-Za-z0-9À-ɏ._%+'-"
_DOMAIN = re.compile(
    r"(?=[A-Za-z0-9À-ɏ])[A-Za-z0-9À-ɏ.-]{1,150}\.(?:[A-Za-z]{2,24}|xn--[A-Za-z0-9-]{2,30})(?![A-Za-z0-9À-ɏ_-])"
)
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


def find_email(no_mailboxes: Collection[str]) -> Finder:
    """E-mail addresses, also with accents and in punycode."""

    def find(text: str, place: int) -> Item | None:
        sign = text.find("@", place)
        while sign >= 0:
            domain = _DOMAIN.match(text, sign + 1)
            local = _LOCAL_BEFORE.search(text, max(place, sign - _LONGEST_LOCAL), sign) if domain else None
            start = sign - len(local[0].lstrip(".'-%+")) if local else sign
            mailbox = text[start:sign].lower()
            if domain and mailbox and mailbox not in no_mailboxes and not _IMAGE_OR_VERSION.match(domain[0]):
                return Item(start, domain.end(), "email")
            sign = text.find("@", sign + 1)
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
