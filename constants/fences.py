"""Whether a line of a stream stands in a code fence, where nothing is a marker (GCP 7.1, 7.4).

Fences as models write them: also behind a bullet, a quote sign or deep in a list, and one within another ("```markdown"
around "```bash"), which Markdown itself would end too early and so turn all that follows inside out. Pure.
"""

import re

_BULLET = r"(?:[-*+•]|\d{1,2}[.)])"
_FENCE = re.compile(rf"[ \t>]{{0,12}}(?P<bullet>{_BULLET}[ \t]{{1,3}})?(?P<run>`{{3,}}|~{{3,}})")
MAY_BE_FENCE = r"[ \t>]{0,12}(?:[-*+•]?|\d{1,2}[.)]?)[ \t]{0,3}(?:`*|~*)\Z"
"""Pattern of a line's beginning from which a fence may still come."""


class Fences:
    """Told of every line in three parts: `begin` with its head, `rest` with what follows, `end_line`.

    `level` is the number of fences that are open around the next line.
    """

    def __init__(self) -> None:
        self.level = 0
        self._opened = ""
        self._run = ""
        self._seen = False
        self._named = False
        self._ticks = False

    def begin(self, head: str) -> int:
        """How many characters of the line's head are its fence; 0 when it is none."""
        found = _FENCE.match(head)
        if not found or (self.level and (found["bullet"] or not found["run"].startswith(self._opened))):
            return 0
        self._run = found["run"]
        self._seen = self._named = self._ticks = False
        return found.end()

    def rest(self, text: str) -> None:
        """More of the line behind the fence."""
        if not self._run:
            return
        if not self._seen and (visible := text.strip()):
            self._seen, self._named = True, visible[0].isalnum()
        self._ticks = self._ticks or (self._run[0] == "`" and "`" in text)

    def end_line(self) -> None:
        """The line is over: a fence in it counts from here on."""
        if self._run and not self._ticks:
            if not self.level:
                self.level, self._opened = 1, self._run
            elif not self._seen:
                self.level -= 1
            elif self._named:
                self.level += 1
        self._run = ""
