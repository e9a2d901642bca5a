"""What a terminal shows of what is written to it: enough of one to tell what a person sees, without a height.

Rows that scrolled out are kept. A window that changes its width leaves what was written as it is.
"""

import re

_PIECE = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|\x1b\][^\x07]*\x07|\x1b[=>()][0AB]?|.", re.DOTALL)


class ShownScreen:
    """`text` is all rows, those that were only wrapped put together again."""

    def __init__(self, columns):
        self.columns = columns
        self._rows = [[]]
        self._goes_on = set()  # rows whose line goes on in the next
        self._row = self._column = 0
        self._wraps = True

    @property
    def text(self):
        return "".join(
            "".join(row) + ("" if number in self._goes_on else "\n") for number, row in enumerate(self._rows)
        )[:-1]

    def write(self, text):
        for piece in _PIECE.finditer(text):
            if piece[2]:
                self._control(piece[2], piece[1])
            elif not piece[0].startswith("\x1b"):
                self._character(piece[0])

    def _character(self, character):
        if character == "\r":
            self._column = 0
        elif character == "\n":
            self._to(self._row + 1, self._column)
        elif character == "\b":
            self._column = max(0, self._column - 1)
        elif character >= " ":
            self._put(character)

    def _put(self, character):
        if self._column >= self.columns:
            if self._wraps:
                self._goes_on.add(self._row)
                self._to(self._row + 1, 0)
            else:
                self._column = self.columns - 1
        row = self._rows[self._row]
        row.extend(" " * (self._column + 1 - len(row)))
        row[self._column] = character
        self._column += 1

    def _to(self, row, column):
        self._row, self._column = max(0, row), max(0, column)
        while len(self._rows) <= self._row:
            self._rows.append([])

    def _control(self, kind, given):
        if given == "?7" and kind in "hl":
            self._wraps = kind == "h"
        if "?" in given:
            return
        count = int(given.partition(";")[0] or 0)
        moves = {"A": (-1, 0), "B": (1, 0), "C": (0, 1), "D": (0, -1)}
        if kind in moves:
            down, right = moves[kind]
            row = self._rows[self._row]
            self._to(self._row + down * max(1, count), self._column + right * max(1, count))
            if kind == "C":
                row.extend(" " * (self._column - len(row)))
        elif kind == "K":
            del self._rows[self._row][0 if count == 2 else self._column :]
            self._goes_on.discard(self._row)
        elif kind == "J":
            del self._rows[self._row][self._column :], self._rows[self._row + 1 :]
            self._goes_on = {row for row in self._goes_on if row < self._row}
