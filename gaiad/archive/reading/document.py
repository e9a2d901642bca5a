"""One tree for XML and JSON, with the byte offset of every piece of text: a citation can point into the original.

The two readers (`read_xml.py`, `read_json.py`) build it; dialects and sections only look at it. A JSON member is a
node named by its key, an element of an array a node named `item`. Text beside child elements becomes child nodes named
`#text`.
"""

from collections.abc import Iterator
from typing import Literal

import msgspec

from gaiad.archive.reading.packet import Text

NO_TEXT = Text("", (), (), ())
TEXT_RUN = "#text"
MediaType = Literal["application/xml", "application/json"]


class Node(msgspec.Struct):
    """An element, attribute-bearing or not, or a JSON value. `key` is `name` as dialect tables compare it.

    `start` and `end` are its byte span in the original, tags and key included. Only a leaf has `text`.
    """

    name: str
    key: str
    start: int
    end: int
    attributes: dict[str, str]
    children: list["Node"]
    text: Text

    def attribute(self, key: str) -> str:
        """The attribute whose name compares equal to `key`; "" when absent."""
        for name, value in self.attributes.items():
            if plain(name) == key:
                return value
        return ""


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed packet file. `encoding` is a Python codec that writes no byte order mark."""

    root: Node
    data: bytes
    media_type: MediaType
    encoding: str
    namespace: str = ""


def plain(name: str) -> str:
    """How names are compared: `behaviorProfile`, `behavior_profile` and `Behavior-Profile` are one."""
    return name.replace("_", "").replace("-", "").lower()


def walk(node: Node) -> Iterator[Node]:
    """`node` and everything below it in document order, without recursion."""
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        if current.children:
            stack.extend(reversed(current.children))


def leaves(node: Node) -> Iterator[Node]:
    """The nodes at or below `node` that carry text, in document order."""
    return (each for each in walk(node) if each.text.value)


def text_of(node: Node) -> str:
    """All text at or below `node`, its pieces trimmed and joined by single spaces."""
    if not node.children:
        return node.text.value.strip()
    return " ".join(leaf.text.value.strip() for leaf in leaves(node))


def line_of(data: bytes, offset: int) -> int:
    """The 1-based line of a byte offset."""
    return data.count(b"\n", 0, offset) + 1


def over_limit(what: str, setting: str, limit: int) -> str:
    """The reason for refusing a packet with more `what` than a setting of [packets] allows."""
    return f"has more {what} than packets.{setting} = {limit} allows; split the packet or raise the setting"


_CONVERSATION_KEYS = frozenset(
    (
        "messages",
        "chatmessages",
        "mapping",
        "turns",
        "conversation",
        "conversations",
        "dialogue",
        "history",
        "responses",
    )
)
_SPEAKER_KEYS = frozenset(("role", "speaker", "sender", "author", "from"))
_LOOKED_AT = 20
_LEVELS = 4


def holds_conversations(root: Node) -> bool:
    """Whether a document lists things that look like conversations, at the top or some levels below it."""
    level = [root]
    for _ in range(_LEVELS):
        if any(_lists_conversations(node) for node in level):
            return True
        level = [child for node in level for child in node.children[:_LOOKED_AT] if child.children]
    return False


def _lists_conversations(node: Node) -> bool:
    members = [child for child in node.children[:_LOOKED_AT] if child.children]
    found = sum(_is_conversation(member) for member in members)
    return found > len(members) / 2 and (found > 1 or members[0].name == "item")


def _is_conversation(node: Node) -> bool:
    """An object with messages, or a bare list of them."""
    if any(child.key in _CONVERSATION_KEYS and not child.text.value for child in node.children):
        return True
    items = node.children[:_LOOKED_AT]
    return all(item.name == "item" and any(each.key in _SPEAKER_KEYS for each in item.children) for item in items)
