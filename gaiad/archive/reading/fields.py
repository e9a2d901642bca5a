"""Canonical fields out of a document by its dialect's paths (GAM 1, Implementation Guide, Appendix B)."""

import re
from collections.abc import Iterator, Sequence

from gaiad.archive.reading.dialect import Dialect, compared
from gaiad.archive.reading.document import TEXT_RUN, Document, Node, leaves, plain, text_of, walk
from gaiad.archive.reading.packet import Artifact, SectionKind

INDEX_DEPTH = 5
NEAR_DEPTH = 4
SHORT_MAX_CHARS = 300
LONG_MAX_CHARS = 4000
NUMBER_MAX_CHARS = 60
NEAR_MAX_PATHS = 1000
_NUMBER = re.compile(r"\s*[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?\s*$", re.ASCII)
_ORDINALS = frozenset(("id", "index", "step", "version", "order", "vectorstep", "unit", "min", "max"))
_SEPARATORS = re.compile(r"[,|;\n]")
_PHRASE_SEPARATORS = re.compile(r"[|;\n]")


class Index:
    """The upper levels of a document by compared path, so that a field is one look-up and not a walk."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.paths: dict[str, list[Node]] = {}
        self.by_last: dict[str, list[str]] = {}
        stack: list[tuple[Node, str, int]] = [(document.root, "", 0)]
        while stack:
            node, path, depth = stack.pop()
            for child in node.children:
                if child.name != TEXT_RUN:
                    self._add(child, f"{path}/{child.key}" if path else child.key, depth + 1)
            if depth + 1 < INDEX_DEPTH:
                stack.extend(
                    (child, f"{path}/{child.key}" if path else child.key, depth + 1)
                    for child in reversed(node.children)
                    if child.children
                )

    def _add(self, node: Node, path: str, depth: int) -> None:
        found = self.paths.get(path)
        if found is not None:
            found.append(node)
            return
        self.paths[path] = [node]
        near = self.by_last.setdefault(node.key, [])
        if depth <= NEAR_DEPTH and len(near) < NEAR_MAX_PATHS:
            near.append(path)

    def nodes(self, path: str) -> list[Node]:
        """The nodes at a table path, without its attribute step; `**/` finds the nearest to the root."""
        path = compared(path)
        if not path.startswith("**/"):
            return self.paths.get(path, []) if path else [self.document.root]
        wanted = path[3:]
        ending = f"/{wanted}"
        near = [
            each for each in self.by_last.get(wanted.rpartition("/")[2], []) if each == wanted or each.endswith(ending)
        ]
        return [node for each in sorted(near, key=lambda each: each.count("/")) for node in self.paths[each]]

    def texts(self, paths: Sequence[str]) -> Iterator[str]:
        """Every non-empty text at the paths, in the order the table tries them."""
        for path in paths:
            steps, at, attribute = path.rpartition("@")
            for node in self.nodes(steps.strip("/") if at else path):
                value = node.attribute(plain(attribute)) if at else _name_or_text(node)
                if value.strip():
                    yield value

    def first(self, paths: Sequence[str], limit: int = SHORT_MAX_CHARS) -> str:
        """The first text at the paths on one line, at most `limit` characters; "" when there is none."""
        return next((clean(value, limit) for value in self.texts(paths)), "")

    def first_nodes(self, paths: Sequence[str]) -> list[Node]:
        """The nodes of the first path that has any."""
        return next((nodes for path in paths if (nodes := self.nodes(path))), [])


def _name_or_text(node: Node) -> str:
    """A leaf's text; for a structured model or person its name."""
    if node.children:
        for child in node.children:
            if child.key in ("name", "modelname", "id", "identity") and child.text.value:
                return child.text.value
    return text_of(node)


def clean(text: str, limit: int) -> str:
    """On one line, without control characters, cut at `limit` characters."""
    text = " ".join(text[: limit * 4].split())
    if text.isprintable():
        return text[:limit]
    return "".join(each for each in text if each.isprintable())[:limit]


def phrases(index: Index, paths: Sequence[str]) -> tuple[str, ...]:
    """Items of a list of phrases; a phrase may contain commas, so text is split at lines, bars and semicolons."""
    return _items(index, paths, _PHRASE_SEPARATORS)


def tags(index: Index, paths: Sequence[str]) -> tuple[str, ...]:
    """Tags, as elements or separated by commas."""
    return _items(index, paths, _SEPARATORS)


def labels(index: Index, dialect: Dialect) -> dict[str, tuple[str, ...]]:
    """What the dialect hands on into the index metadata, by key; keys without a value are left out."""
    return {key: found for key, paths in dialect.labels.items() if (found := _listed(index, paths))}


def _listed(index: Index, paths: Sequence[str]) -> tuple[str, ...]:
    """Each leaf is one value, whole: a classification may hold a comma."""
    nodes = (leaf for node in index.first_nodes(paths) for leaf in leaves(node))
    return tuple(dict.fromkeys(filter(None, (clean(leaf.text.value, SHORT_MAX_CHARS) for leaf in nodes))))


def _items(index: Index, paths: Sequence[str], separators: re.Pattern[str]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for node in index.first_nodes(paths):
        for leaf in leaves(node):
            parts = [leaf.text.value] if node.children else separators.split(leaf.text.value)
            found.update(dict.fromkeys(filter(None, (clean(part, SHORT_MAX_CHARS) for part in parts))))
    return tuple(found)


def metrics(index: Index, dialect: Dialect) -> dict[str, float]:
    """Every number under the dialect's metric paths, by name. A second of the same name is `parent.name`."""
    found: dict[str, float] = {}
    seen: set[int] = set()
    for path in dialect.metrics:
        for root in index.nodes(path):
            if id(root) not in seen:
                seen.update(id(node) for node in walk(root))
                for parent, name, value in _numbers(root):
                    _keep(found, parent, clean(name, 100), value)
    return found


def _keep(found: dict[str, float], parent: str, name: str, value: str) -> None:
    if name and len(value) <= NUMBER_MAX_CHARS and _NUMBER.match(value):
        number = float(value)
        if abs(number) != float("inf"):
            found.setdefault(name if name not in found else f"{clean(parent, 100)}.{name}", number)


def _numbers(root: Node) -> Iterator[tuple[str, str, str]]:
    """(parent, name, text) of everything below `root` that may be a metric."""
    stack = [(root, root.name)]
    while stack:
        node, parent = stack.pop()
        children = {child.key: child for child in node.children}
        if "name" in children and "value" in children:
            yield parent, children["name"].text.value, children["value"].text.value
            continue
        name = node.attribute("name") or node.attribute("metric") or node.name
        for attribute, value in node.attributes.items():
            key = plain(attribute)
            if key not in _ORDINALS:
                yield node.name, name if key in ("value", "score", "level") else attribute, value
        if node.text.value and node.name != TEXT_RUN:
            yield parent, name, node.text.value
        stack.extend((child, node.name) for child in reversed(node.children))


def artifacts(index: Index, paths: Sequence[str]) -> tuple[Artifact, ...]:
    """What the packet hands over: name, kind and state of each artifact."""
    found: list[Artifact] = []
    for node in index.first_nodes(paths):
        found.extend(_artifact(each) for each in node.children or [node] if each.text.value or each.children)
    return tuple(each for each in found if each.name)


def _artifact(node: Node) -> Artifact:
    def get(*keys: str) -> str:
        children = {child.key: text_of(child) for child in node.children}
        return clean(next((v for k in keys if (v := children.get(k) or node.attribute(k))), ""), SHORT_MAX_CHARS)

    name = get("name", "title", "description", "path", "artifact", "id") if node.children else node.text.value
    return Artifact(
        name=clean(name, SHORT_MAX_CHARS) or clean(text_of(node), SHORT_MAX_CHARS),
        kind=get("type", "kind", "level"),
        state=get("state", "status"),
    )


def flattened(index: Index, dialect: Dialect, kind: SectionKind) -> dict[str, str]:
    """All text of the parts of `kind` by path below the part; list items joined by newlines."""
    found: dict[str, list[str]] = {}
    for path, mapped in dialect.section_paths.items():
        if mapped == kind:
            for node in index.nodes(path):
                _flatten(node, path, dialect, found)
    return {name: "\n".join(values)[:LONG_MAX_CHARS] for name, values in found.items()}


def _flatten(root: Node, root_path: str, dialect: Dialect, found: dict[str, list[str]]) -> None:
    stack = [(root, root_path, "")]
    while stack:
        node, path, label = stack.pop()
        if path != root_path and path in dialect.section_paths:
            continue
        value = node.text.value.strip() or (
            ", ".join(f"{name} {value}" for name, value in node.attributes.items()) if not node.children else ""
        )
        if value:
            found.setdefault(label or root.name, []).append(value)
        for child in reversed(node.children):
            below = label if child.name in ("item", TEXT_RUN) else f"{label}/{child.name}"[-200:].strip("/")
            stack.append((child, f"{path}/{child.key}"[-300:], below))
