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
_LIST_KEYS = frozenset(("conversations", "chats", "threads", "history"))
_LOOKED_AT = 20


def holds_conversations(root: Node) -> bool:
    """Whether a JSON document is a list of things that look like conversations, at the top or right below it."""
    if not root.children:
        return False
    if root.children[0].name != "item" and root.key not in _LIST_KEYS:
        listed = [child for child in root.children if child.key in _LIST_KEYS and child.children]
        return any(holds_conversations(child) for child in listed[:1])
    items = [child for child in root.children[:_LOOKED_AT] if child.name == "item" and child.children]
    return bool(items) and all(
        any(inner.key in _CONVERSATION_KEYS and inner.children for inner in item.children) for item in items
    )
