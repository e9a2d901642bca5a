"""What a finder finds, and what every finder keeps to, so that a stream gives the same items however it is split.

Whether an item begins at a place depends on the text alone: on at most `context_characters` before that place and
`window_characters` behind it, never on where the search began. No item crosses a break (router.redact.breaks).
"""

import re
from collections.abc import Callable
from typing import NamedTuple


class Item(NamedTuple):
    """text[start:end] is of this kind; what matches `tail` right behind it belongs to it too, however long.

    A tail looks at most one character ahead, and that only behind one of `.!?:@&`.
    """

    start: int
    end: int
    kind: str
    tail: re.Pattern[str] | None = None


Finder = Callable[[str, int], Item | None]
"""The first item of a text that begins at or behind a place."""
