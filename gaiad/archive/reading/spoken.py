"""A document that is a list of things said, as sections: one for each, its words alone, spoken by who said them.

Role, time and whatever else stands beside the words belong in the page's header, not in its text (JIT): so the page is
exactly what was said, and its byte span is that of the words.
"""

from collections.abc import Sequence

from gaiad.archive.reading.dialects.table import Said
from gaiad.archive.reading.document import Document, Node, plain
from gaiad.archive.reading.packet import Section

_SPEAKER_MAX_CHARS = 80


def spoken_sections(document: Document, said: Sequence[Said]) -> tuple[Section, ...]:
    """The words of every item at the paths of `said`, path by path and in document order within one."""
    sections: list[Section] = []
    for rule in said:
        for node in _at(document.root, rule.path):
            children = {child.key: child for child in node.children}
            marker = children.get("marker")
            if rule.markers and (marker is None or marker.text.value not in rule.markers):
                continue
            if marker is not None and marker.text.value in rule.without:
                continue
            words, speaker = children.get(plain(rule.text)), children.get(plain(rule.speaker))
            if words is None or not words.text.value:
                continue
            name = " ".join(speaker.text.value.split())[:_SPEAKER_MAX_CHARS] if speaker else ""
            path = f"{rule.path}/{marker.text.value}" if rule.markers and marker else rule.path
            sections.append(Section(kind=rule.kind, path=path, text=words.text, speaker=name))
    return tuple(sections)


def _at(root: Node, path: str) -> list[Node]:
    nodes = [root]
    for step in path.split("/"):
        nodes = [child for node in nodes for child in node.children if child.key == plain(step)]
    return nodes
