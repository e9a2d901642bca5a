"""What a dialect is: a table that says where each canonical field is found and what each part of the packet is.

Paths are child steps from the root (`header/id`), `/@name` at the end for an attribute, `**/name` for the nearest
element or key of that name in the first levels. Names compare without case, underscore and hyphen, so one path serves
`behaviorProfile` and `behavior_profile`. Paths are tried in order; the first with text wins, lists take the first that
has items.
"""

from collections.abc import Mapping
from functools import cache, cached_property

import msgspec

from gaiad.archive.reading.document import Document, plain
from gaiad.archive.reading.packet import SectionKind


class DialectSignature(msgspec.Struct, frozen=True, kw_only=True):
    """One way to recognise a dialect; everything given must hold. `children` are spelled exactly as under the root."""

    roots: tuple[str, ...] = ()
    namespace: str = ""
    children: tuple[str, ...] = ()
    json: bool | None = None

    def matches(self, document: Document, children: frozenset[str]) -> bool:
        return (
            (not self.roots or document.root.key in self.roots)
            and (self.namespace in document.namespace)
            and children.issuperset(self.children)
            and (self.json is None or self.json == (document.media_type == "application/json"))
        )


class SpeechRule(msgspec.Struct, frozen=True, kw_only=True):
    """Where a dialect keeps what was said: the items at `path`, each with its words in `text`, said by `speaker`.

    With `markers` only the items whose `marker` is one of them; those whose `marker` is among `without` never.
    """

    path: str
    speaker: str
    text: str
    kind: SectionKind
    markers: frozenset[str] = frozenset()
    without: frozenset[str] = frozenset()


LABELS: Mapping[str, tuple[str, ...]] = {
    "classification": ("**/classification",),
    "policy_tag": ("**/policy_tags", "**/policy_tag"),
}


class Dialect(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A dialect's table. `fields` maps a canonical field to paths, `sections` a path to what is below it.

    `metrics` are the paths under which every number is a behavioural metric. A dialect with `said` makes pages of
    those words and of nothing else. `labels` maps a key of the index metadata to paths (JIT's propagated fields);
    by them `memory.exclude` hides a packet.
    """

    name: str
    signatures: tuple[DialectSignature, ...]
    fields: Mapping[str, tuple[str, ...]]
    sections: Mapping[str, SectionKind]
    metrics: tuple[str, ...]
    said: tuple[SpeechRule, ...] = ()
    labels: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=lambda: LABELS)

    @cached_property
    def section_paths(self) -> Mapping[str, SectionKind]:
        """`sections` with its paths in the compared spelling."""
        return {compared(path): kind for path, kind in self.sections.items()}

    @cached_property
    def section_parents(self) -> frozenset[str]:
        """Every path that has a mapped path below it: such an element is structure, not running text."""
        parents = {""}
        for path in self.section_paths:
            steps = path.split("/")
            parents.update("/".join(steps[:count]) for count in range(1, len(steps)))
        return frozenset(parents)


@cache
def compared(path: str) -> str:
    """A path of a table with every step in the compared spelling."""
    return "/".join(plain(step) for step in path.split("/"))


FIELDS: Mapping[str, tuple[str, ...]] = {
    "id": ("header/id", "header/packet_id", "header/transmission_id", "@id", "id", "packet_id"),
    "timestamp": ("header/timestamp", "header/packet_created", "header/created_at", "header/last_interaction"),
    "schema_version": ("@version", "@schema_version", "header/schema_version", "schema_version", "version"),
    "session_id": ("header/session_id", "@session_id", "session_id"),
    "original_model": ("header/original_model", "header/source_model", "header/model"),
    "current_model": ("header/current_model", "header/target_model"),
    "researcher": ("header/researcher", "header/user", "header/author"),
    "topic": ("header/topic", "header/title", "packet_loop_closure/title", "header/purpose", "header/persona"),
    "challenge_phrases": ("header/challenge_phrases", "body/challenge_phrases", "challenge_phrases"),
    "tags": ("behavior_profile/tags", "behavioral_profile/tags", "header/tags", "tags"),
    "notes": ("behavior_profile/notes", "behavioral_profile/notes", "notes"),
    "summary": ("body/summary", "body/session_summary", "summary", "packet_loop_closure/answer_summary"),
    "content": ("body/content", "content"),
    "artifacts": ("body/artifacts", "artifacts"),
}

SECTIONS: Mapping[str, SectionKind] = {
    "header": "header",
    "metadata": "header",
    "behavior_profile": "behavior",
    "behavioral_profile": "behavior",
    "behavior": "behavior",
    "behavioral_metrics": "behavior",
    "body": "content",
    "body/content": "content",
    "body/summary": "summary",
    "body/session_summary": "summary",
    "body/transcript": "transcript",
    "body/artifacts": "artifact",
    "body/challenge_phrases": "header",
    "summary": "summary",
    "content": "content",
    "transcript": "transcript",
    "artifacts": "artifact",
    "packet_loop_closure": "closure",
    "loop_closure": "closure",
    "packet_loop_closure/instructions_for_next_model": "instructions",
    "loop_closure/instructions_for_next_model": "instructions",
    "instructions_for_next_model": "instructions",
    "integrity_chain": "integrity",
    "integrity": "integrity",
}

METRICS: tuple[str, ...] = ("behavior_profile", "behavioral_profile", "behavior", "behavioral_metrics", "metrics")
