"""The reference form: transmissionPacket of ai-collaboration.org, camelCase sections; the same shape in JSON."""

from gaiad.archive.reading.dialects.table import FIELDS, METRICS, SECTIONS, Dialect, Signature

REFERENCE = Dialect(
    name="reference",
    signatures=(
        Signature(namespace="ai-collaboration.org"),
        Signature(roots=("transmissionpacket",), children=("header", "behaviorProfile")),
        Signature(children=("header", "behaviorProfile"), json=True),
        Signature(children=("header", "packetLoopClosure"), json=True),
    ),
    fields={**FIELDS, "timestamp": ("header/packet_created", *FIELDS["timestamp"])},
    sections=SECTIONS,
    metrics=METRICS,
)
