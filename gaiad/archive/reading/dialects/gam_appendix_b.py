"""GAM Appendix B: snake_case sections, metrics as direct elements, repeated challenge_phrases; also as JSON."""

from gaiad.archive.reading.dialects.table import FIELDS, METRICS, SECTIONS, Dialect, Signature

GAM_APPENDIX_B = Dialect(
    name="gam_appendix_b",
    signatures=(
        Signature(namespace="docs.google.com/transmission_packet"),
        Signature(roots=("transmissionpacket", "packet"), children=("header", "behavior_profile", "body")),
        Signature(children=("header", "behavior_profile", "body"), json=True),
    ),
    fields=FIELDS,
    sections=SECTIONS,
    metrics=METRICS,
)
