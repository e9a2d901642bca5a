"""What the stages of a turn have written so far, as work for those to come."""

from collections.abc import Sequence

from prompts.packet import WorkItem

_LAST_COUNTS = ("PLAN", "RESPONSE", "INTERRUPT")  # of each, only the last one written is work for the next stage


class Written:
    """`items` in the order they were written."""

    def __init__(self, items: Sequence[WorkItem]) -> None:
        self.items = [*items]

    def add(self, marker: str, text: str, role: str) -> None:
        """Nothing is added where nothing was written, though it may put an end to what was written before."""
        if marker in _LAST_COUNTS:
            self.items = [item for item in self.items if item.marker != marker]
        if text.strip():
            self.items.append(WorkItem(marker=marker, text=text, role=role))
