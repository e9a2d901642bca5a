"""The dialects gaiad knows, the most particular first; `generic` takes what no other does."""

from gaiad.archive.reading.dialects.crtp import CRTP
from gaiad.archive.reading.dialects.gam_appendix_b import GAM_APPENDIX_B
from gaiad.archive.reading.dialects.generic import GENERIC
from gaiad.archive.reading.dialects.irp_universal import IRP_UNIVERSAL
from gaiad.archive.reading.dialects.orchestrator import ORCHESTRATOR
from gaiad.archive.reading.dialects.orchestrator_handoff import ORCHESTRATOR_HANDOFF
from gaiad.archive.reading.dialects.reference import REFERENCE
from gaiad.archive.reading.dialects.session_json import SESSION_JSON
from gaiad.archive.reading.dialects.session_turn import SESSION_TURN
from gaiad.archive.reading.dialects.table import Dialect
from gaiad.archive.reading.document import Document

DIALECTS: tuple[Dialect, ...] = (
    SESSION_TURN,
    IRP_UNIVERSAL,
    ORCHESTRATOR,
    ORCHESTRATOR_HANDOFF,
    CRTP,
    SESSION_JSON,
    GAM_APPENDIX_B,
    REFERENCE,
    GENERIC,
)


def choose_dialect(document: Document) -> Dialect:
    """The first dialect one of whose signatures matches; never fails, for generic matches everything."""
    children = frozenset(child.name for child in document.root.children)
    for dialect in DIALECTS:
        if any(signature.matches(document, children) for signature in dialect.signatures):
            return dialect
    return GENERIC
