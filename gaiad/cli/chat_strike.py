"""Strikes out what stands on a terminal already: the same characters written once more over themselves. Pure.

Only where it is certain which rows they take: not when the window changed, not when they have scrolled away, and not
for characters whose width terminals disagree on. A line under them says in any case that they are void.
"""

import unicodedata

import click

_WIDE = ("W", "F")
_DRAWN = ("L", "N", "P", "S", "Zs")  # how categories begin whose characters take a place of their own


def cells(text: str) -> int:
    """Columns that `text` takes at most, when all of it is on one row."""
    return sum(2 if unicodedata.east_asian_width(character) in _WIDE else 1 for character in text)


def rows_of(text: str, width: int) -> int | None:
    """How many rows `text` takes in a window of `width` columns, from the first one; None when that is not certain."""
    rows, column = 1, 0
    for character in text:
        if character == "\n":
            rows, column = rows + 1, 0
            continue
        wide = cells(character)
        if not unicodedata.category(character).startswith(_DRAWN) or character > "\uffff":
            return None
        if column + wide > width:
            rows, column = rows + 1, 0
        column += wide
    return rows


def striking(text: str, width: int, height: int, below: int) -> str:
    """What to write to strike `text`, which ends in a line break; `below` rows stand under it, the cursor under those.

    "" when it cannot be done in a window of `width` columns and `height` rows.
    """
    rows = rows_of(text.removesuffix("\n"), width)
    if rows is None or rows + below >= height:
        return ""
    struck = "\n".join(click.style(line, strikethrough=True, dim=True) for line in text.split("\n")[:-1])
    down = f"\x1b[{below}B" if below else ""
    return f"\x1b[{rows + below}A\r{struck}\n{down}"
