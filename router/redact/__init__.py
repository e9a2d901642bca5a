"""Redaction (GCP 7.3): what is taken out of a text while it streams to a channel that others may read."""

from router.redact.settings import STAGES, RedactionSettings, channel_stages
from router.redact.stream import Redacted, Redaction, RedactionRules, Redactor, redact, redaction_rules

__all__ = [
    "STAGES",
    "Redacted",
    "Redaction",
    "RedactionRules",
    "RedactionSettings",
    "Redactor",
    "channel_stages",
    "redact",
    "redaction_rules",
]
