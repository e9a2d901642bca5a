"""Redaction (GCP 7.3): what is taken out of a text while it streams to a channel that others may read."""

from router.redact.rules import RedactionRules, redaction_rules
from router.redact.settings import STAGES, RedactionSettings, channel_stages
from router.redact.stream import Redacted, Redaction, Redactor, redact

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
