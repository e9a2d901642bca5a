"""The integrity verdict of a packet (GAM Appendix B, ARCHITECTURE decision 21): a verdict, never a gate.

`broken`: a link or a recomputed hash does not hold. `verified`: at least one hash was recomputed and matches, and
nothing is broken. `unverifiable`: all else, links that hold without a recomputable hash among it, for anyone can
write those.
"""

import hashlib
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from gaiad.archive.reading.dialect import Dialect
from gaiad.archive.reading.document import Document, Node, leaves, plain, text_of, walk
from gaiad.archive.reading.fields import SHORT_MAX_CHARS, Index, clean
from gaiad.archive.reading.packet import HashClaim, IntegrityEntry, IntegrityFinding, SectionKind
from gaiad.wire.schemas import IntegrityVerdict

HEX_DIGITS = {"md5": 32, "sha1": 40, "sha224": 56, "sha256": 64, "sha384": 96, "sha512": 128}
_BY_LENGTH = {digits: name for name, digits in HEX_DIGITS.items()}
ENTRIES_MAX = 2000
RECOMPUTED_MAX = 32
_HASH = ("hashvalue", "hash", "digest", "checksum", "value", "sha256")
_PREVIOUS = ("prevhash", "previoushash", "parenthash", "prev", "previous", "previousentryhash")
_NOTE = ("note", "comment", "description", "event", "action")
_OF = ("of", "path", "target", "covers", "scope", "element", "field", "hashof", "hashed", "hashedpath", "hashscope")
_LONE = re.compile(r"(?:hash|hashvalue|checksum|digest|sha\d{1,3}|sha\d{3}hash)$")
_NOT_LONE = frozenset(_PREVIOUS)
_SAYS_OF = re.compile(
    r"\b(?:(sha-?\d{1,3}|md5)|hash|digest|checksum)\s+of\s+(?:the\s+)?(?:element\s+|text\s+of\s+)?[`'\"<]*/*([\w:./-]+)",
    re.IGNORECASE,
)
_PREFIX = re.compile(r"\s*(sha-?\d{1,3}|md5)\s*[:=]\s*", re.IGNORECASE)
_GENESIS = frozenset(("", "genesis", "none", "null", "n/a", "root", "origin"))


def read_integrity(index: Index, dialect: Dialect) -> tuple[tuple[IntegrityEntry, ...], tuple[HashClaim, ...]]:
    """The chain's entries in order, then lone hashes (`note` is their name), and what they claim to hash."""
    roots = [
        node
        for wanted in _KINDS
        for path, kind in dialect.section_paths.items()
        if kind == wanted
        for node in index.nodes(path)
    ]
    entries: list[IntegrityEntry] = []
    claims: list[HashClaim] = []
    seen: set[int] = set()
    for root in roots:
        algorithm = _algorithm(next((text_of(n) for n in root.children if n.key in ("algorithm", "hashmethod")), ""))
        for node in _statements(root, seen):
            entry = _entry(node, len(entries) + 1)
            if len(entries) >= ENTRIES_MAX:
                return tuple(entries), tuple(claims)
            entries.append(entry)
            claim = _claim(index.document, node, entry, algorithm)
            if claim:
                claims.append(claim)
    return tuple(entries), tuple(claims)


_KINDS: tuple[SectionKind, ...] = ("integrity", "closure")


def _statements(root: Node, seen: set[int]) -> Iterator[Node]:
    """Entries (structures with a hash of their own) and lone hash leaves at or below `root`, each once."""
    stack = [(root, "")]
    while stack:
        node, parent_key = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if node.key in ("entry", "item", "link", "block") and (_get(node, _HASH)):
            seen.update(id(each) for each in walk(node))
            yield node
            continue
        if node.text.value and node.key not in _NOT_LONE and not node.children:
            is_hash = _LONE.search(node.key) or (parent_key.endswith("hashes"))
            if is_hash and len(node.text.value.split()) == 1:
                yield node
        stack.extend((child, node.key) for child in reversed(node.children))


def _get(node: Node, keys: Sequence[str]) -> str:
    if not node.children and not node.attributes:
        return ""
    found = {plain(name): value for name, value in node.attributes.items()}
    found.update({child.key: text_of(child) for child in reversed(node.children)})
    return next((clean(value, SHORT_MAX_CHARS) for key in keys if (value := found.get(key, "").strip())), "")


def _entry(node: Node, position: int) -> IntegrityEntry:
    stated = _get(node, ("index", "sequence", "id"))
    is_entry = bool(_get(node, _HASH))
    own_text = clean(node.text.value, SHORT_MAX_CHARS)
    return IntegrityEntry(
        index=int(stated) if re.fullmatch(r"\d{1,9}", stated, re.ASCII) else position,
        hash=_get(node, _HASH) if is_entry else own_text,
        previous_hash=_get(node, _PREVIOUS),
        timestamp=_get(node, ("timestamp", "time", "date")),
        signer=_get(node, ("signerid", "signer", "author")),
        note=_get(node, _NOTE) or (own_text if is_entry else node.name),
    )


def _claim(document: Document, node: Node, entry: IntegrityEntry, algorithm: str) -> HashClaim | None:
    says = _SAYS_OF.search(entry.note)
    path = says[2].rstrip(".") if says else _get(node, _OF)
    if not path:
        return None
    prefix = _PREFIX.match(entry.hash)
    named = _algorithm(prefix[1] if prefix else "") or _algorithm(says[1] if says and says[1] else "") or algorithm
    return HashClaim(path=path, algorithm=named or "sha256", hash=_bare(entry.hash))


def _algorithm(text: str) -> str:
    name = plain(text).strip()
    return name if name in HEX_DIGITS else ""


def _bare(stated: str) -> str:
    return _PREFIX.sub("", stated, count=1).strip().lower()


def assess(
    document: Document, entries: Sequence[IntegrityEntry], claims: Sequence[HashClaim]
) -> tuple[IntegrityVerdict, tuple[IntegrityFinding, ...]]:
    """The verdict and everything it rests on."""
    recomputed = [_recompute(document, claim) for claim in claims[:RECOMPUTED_MAX]]
    findings = [*recomputed, *_links(entries), *_formats(entries, {claim.hash for claim in claims})]
    if len(claims) > RECOMPUTED_MAX:
        detail = f"only the first {RECOMPUTED_MAX} of {len(claims)} stated hashes are recomputed"
        findings.append(IntegrityFinding(what="hashes", verdict="unverifiable", detail=detail))
    if not entries:
        findings.append(IntegrityFinding(what="hashes", verdict="unverifiable", detail="the packet states no hashes"))
    elif not claims:
        detail = "no entry says what was hashed, so nothing can be recomputed"
        findings.append(IntegrityFinding(what="hashes", verdict="unverifiable", detail=detail))
    if any(finding.verdict == "broken" for finding in findings):
        return "broken", tuple(findings)
    if any(finding.verdict == "verified" for finding in recomputed):
        return "verified", tuple(findings)
    return "unverifiable", tuple(findings)


def _recompute(document: Document, claim: HashClaim) -> IntegrityFinding:
    what = f"{claim.algorithm} of {claim.path}"
    problem = _format_problem(claim.hash, claim.algorithm)
    if problem:
        return IntegrityFinding(what=what, verdict="unverifiable", detail=problem)
    node = resolve(document, claim.path)
    if node is None:
        return IntegrityFinding(what=what, verdict="unverifiable", detail=f"no element {claim.path!r} in the packet")
    for form, data in _forms(document, node):
        if hashlib.new(claim.algorithm, data, usedforsecurity=False).hexdigest() == claim.hash:
            return IntegrityFinding(what=what, verdict="verified", detail=f"recomputed from {form}")
    if node.children:
        detail = f"{claim.path} has parts, and the packet does not say how they were written when hashed"
        return IntegrityFinding(what=what, verdict="unverifiable", detail=detail)
    actual = hashlib.new(claim.algorithm, node.text.value.encode(), usedforsecurity=False).hexdigest()
    return IntegrityFinding(what=what, verdict="broken", detail=f"stated {claim.hash}, recomputed {actual}")


def _forms(document: Document, node: Node) -> Iterator[tuple[str, bytes]]:
    if not node.children:
        yield "its text", node.text.value.encode()
        yield "its text without the space around it", node.text.value.strip().encode()
        return
    raw = document.data[node.start : node.end]
    yield "its bytes in the file", raw
    yield "the text of its parts", "".join(leaf.text.value for leaf in leaves(node)).encode()
    inner = raw[raw.find(b">") + 1 : raw.rfind(b"<")] if document.media_type == "application/xml" else raw
    yield "its bytes in the file, without its own tags", inner


def resolve(document: Document, path: str) -> Node | None:
    """The one element a packet means by `path`: steps from the root, or a name that occurs once."""
    steps = [plain(step.rpartition(":")[2]) for step in re.split(r"[/.]+", path) if step]
    if steps and steps[0] == document.root.key:
        steps = steps[1:]
    nodes = [document.root]
    for step in steps:
        nodes = [child for node in nodes for child in node.children if child.key == step]
    if len(nodes) == 1 and steps:
        return nodes[0]
    if len(steps) == 1 and not nodes:
        named = [node for node in walk(document.root) if node.key == steps[0]]
        return named[0] if len(named) == 1 else None
    return None


def _links(entries: Sequence[IntegrityEntry]) -> Iterator[IntegrityFinding]:
    checked = 0
    for before, entry in zip([None, *entries], entries, strict=False):
        previous = _bare(entry.previous_hash)
        if previous in _GENESIS or set(previous) == {"0"}:
            continue
        if before is None:
            detail = "the first entry names a previous hash that is not in this packet"
            yield IntegrityFinding(what=f"link of entry {entry.index}", verdict="unverifiable", detail=detail)
        elif previous != _bare(before.hash):
            detail = f"names {previous} as previous, entry {before.index} has {_bare(before.hash)}"
            yield IntegrityFinding(what=f"link of entry {entry.index}", verdict="broken", detail=detail)
        else:
            checked += 1
    for before, entry in pairwise(entries):
        if entry.index <= before.index and _bare(entry.previous_hash) not in _GENESIS:
            detail = f"entry {entry.index} follows entry {before.index}; indexes of linked entries must rise"
            yield IntegrityFinding(what="index order", verdict="broken", detail=detail)
    if checked:
        yield IntegrityFinding(
            what="links", verdict="verified", detail=f"{checked} links name the hash of the entry before"
        )


def _formats(entries: Sequence[IntegrityEntry], claimed: set[str]) -> Iterator[IntegrityFinding]:
    for entry in entries:
        value = _bare(entry.hash)
        problem = _format_problem(value, "", entry.hash) if value not in claimed else ""
        if problem:
            yield IntegrityFinding(
                what=f"hash of entry {entry.index} ({entry.note[:80]})", verdict="unverifiable", detail=problem
            )


def _format_problem(value: str, algorithm: str, stated: str = "") -> str:
    """Why `value`, written as `stated`, cannot be a hash of `algorithm` ("" is any known); "" when it can."""
    if not re.fullmatch(r"[0-9a-f]+", value):
        return f"{(stated or value)[:80]!r} is a placeholder, not a hash"
    if set(value) == {"0"}:
        return "all zeros: a placeholder, not a hash"
    known = _BY_LENGTH.get(len(value))
    if algorithm and len(value) != HEX_DIGITS[algorithm]:
        return f"{len(value)} hex digits; {algorithm} has {HEX_DIGITS[algorithm]}"
    if known is None:
        return f"{len(value)} hex digits: the length of no known hash (SHA-256 has 64)"
    return "" if algorithm or known == "sha256" else f"{len(value)} hex digits: the length of {known}, not of SHA-256"
