"""The orchestrator form of starwreck.ai: a thread topology with drift vectors instead of a body."""

from gaiad.archive.reading.dialects.table import FIELDS, METRICS, SECTIONS, Dialect, Signature

ORCHESTRATOR = Dialect(
    name="orchestrator",
    signatures=(
        Signature(namespace="starwreck.ai"),
        Signature(roots=("orchestratorpacket",)),
        Signature(children=("header", "thread_topology"), json=True),
    ),
    fields={
        **FIELDS,
        "original_model": ("header/original_model", "header/model", "header/routing_source"),
        "current_model": ("header/current_model", "header/routing_target"),
        "summary": ("body/summary", "thread_topology/convergence_point"),
        "content": ("body/content", "thread_topology/torsion_analysis/coherence_assessment"),
        "artifacts": ("body/artifacts", "thread_topology/resultant_artifact"),
    },
    sections={
        **SECTIONS,
        "thread_topology": "content",
        "thread_topology/convergence_point": "summary",
        "thread_topology/resultant_artifact": "artifact",
    },
    metrics=(*METRICS, "thread_topology/torsion_analysis"),
)
