"""What there is to say of a home's identity: who GAIA is by it, who signed it, whether it may be trusted."""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from council.governance.reflection_table import read_stability
from council.governance.rules import governance_table
from gaiad.base.clock import SystemClock, to_epoch_ms
from gaiad.base.errors import ConfigError, Conflict, GaiadError
from gaiad.identity.files import IdentityFiles
from gaiad.identity.keys import owner_folder, read_public
from gaiad.identity.trust import IN_FORCE, Standing, look, remembered
from gaiad.ledger.audit_reading import newest_event
from gaiad.wire.governance import StabilityReport
from prompts.identity import Identity, identity_digest, shipped_identity


class IdentityCard(msgspec.Struct, frozen=True, kw_only=True):
    """`identity` is what is in the file, trusted or not; `private_key` is empty when it is not beside `public_key`.

    `shipped_version` is empty when the shipped identity is the one in the file. `stability` is None when its record
    cannot be read, which `stability_problem` tells.
    """

    ok: bool
    problem: str
    identity: Identity | None
    digest: str
    key_id: str
    file: str
    public_key: str
    private_key: str
    shipped_version: str
    stability: StabilityReport | None
    stability_problem: str = ""


def read_card(home: Path, environment: Mapping[str, str]) -> IdentityCard:
    """The card of a home, with a daemon or without. Problems with the files are in the card, not raised."""
    folder = owner_folder(environment)
    try:
        standing = look(home, folder, remembered(newest_event(home, IN_FORCE)))
        public = read_public(folder.public)
    except (Conflict, ConfigError) as error:
        standing, public = Standing(problem=error.message), None
    digest = identity_digest(standing.identity) if standing.identity else ""
    shipped = shipped_identity()
    stability, trouble = _stability(home)
    return IdentityCard(
        ok=not standing.problem,
        problem=standing.problem,
        identity=standing.identity,
        digest=digest,
        key_id=public.key_id if public else "",
        file=str(IdentityFiles(home).text),
        public_key=str(folder.public),
        private_key=str(folder.private) if folder.private.is_file() else "",
        shipped_version="" if digest == identity_digest(shipped) else shipped.version,
        stability=stability,
        stability_problem=trouble,
    )


def _stability(home: Path) -> tuple[StabilityReport | None, str]:
    """The self-reflection stability of a home (GCP 3.3), or why it cannot be read."""
    try:
        return read_stability(home, to_epoch_ms(SystemClock().now()), governance_table().stability), ""
    except GaiadError as error:
        return None, error.message
