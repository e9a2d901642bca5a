"""The creator's signature on an RFC (GCP 3.3, decision 14): made where the private key is, checked where it is merged.

The daemon never reads the private key: the command line signs, and the daemon holds the signature against the public
key, the trust root. A merged identity is put in its place as `gaiad identity sign` does, for the next start.
"""

import base64
import binascii
from collections.abc import Mapping
from pathlib import Path

from council.governance.reviewing import rfc_bytes
from council.governance.workflow import Attached
from gaiad.base.errors import BadInput, ConfigError, Conflict, Forbidden
from gaiad.identity.files import Signature, is_signed, sign_identity
from gaiad.identity.keys import KeyFolder, PublicKey, owner_folder
from gaiad.identity.signing import check_successor, owner_key, put_signed, trusted_key
from gaiad.identity.trust import IN_FORCE, remembered
from gaiad.ledger.audit import AuditLog
from gaiad.wire.governance import RfcRecord, RfcSignature
from prompts.identity import Identity, identity_bytes, identity_digest, parse_identity

_ATTACHED = "the attached identity"


def sign_rfc(record: RfcRecord, folder: KeyFolder, key_file: Path | None = None) -> RfcSignature:
    """The creator's signature: on the attached identity, else on the RFC itself; with the key in `key_file`.

    Raises NotFound or BadInput without the right private key.
    """
    key = owner_key(folder, trusted_key(folder), key_file)
    if record.identity_toml:
        made = sign_identity(key, identity_bytes(_parsed(record.identity_toml)))
        return RfcSignature(key_id=made.key_id, signature=made.signature)
    signature = base64.b64encode(key.sign(rfc_bytes(record))).decode("ascii")
    return RfcSignature(key_id=key.public().key_id, signature=signature)


def sign_here(record: RfcRecord, environment: Mapping[str, str], key_file: Path | None = None) -> RfcSignature:
    """`sign_rfc` with the owner's keys of this environment."""
    return sign_rfc(record, owner_folder(environment), key_file)


class HomeSeal:
    """The Seal of a home: its identity files, the trust root in `folder`, and its audit."""

    def __init__(self, home: Path, folder: KeyFolder, audit: AuditLog) -> None:
        self._home = home
        self._folder = folder
        self._audit = audit

    def current(self) -> str:
        """The words that were signed last."""
        last = remembered(self._audit.newest(IN_FORCE))
        return "" if last is None else last.text

    def check(self, identity_toml: str) -> Attached:
        """Raises BadInput for a faulty identity or an old version, Conflict for another owner's key."""
        identity = _parsed(identity_toml)
        last = remembered(self._audit.newest(IN_FORCE))
        check_successor(identity, last, trusted_key(self._folder))
        if last is not None and last.digest == identity_digest(identity):
            raise BadInput(f"{_ATTACHED} is the one in force, version {identity.version}; change it, raise its version")
        return Attached(
            text=identity_bytes(identity).decode("utf-8"), version=identity.version, digest=identity_digest(identity)
        )

    def admit(self, record: RfcRecord, signature: RfcSignature) -> str:
        """Raises Forbidden for a signature that is not the creator's; BadInput, Conflict as `check`."""
        public = trusted_key(self._folder)
        if not record.identity_toml:
            if not _is_signed(record, signature, public):
                raise Forbidden(_not_signed(public))
            return "adopted; who keeps the files carries it out"
        identity = _parsed(record.identity_toml)
        found = is_signed(identity_bytes(identity), (Signature(signature.key_id, signature.signature),), public)
        if found is None:
            raise Forbidden(_not_signed(public))
        check_successor(identity, remembered(self._audit.newest(IN_FORCE)), public)
        standing = put_signed(self._home, self._folder, self._audit, identity, found)
        if standing.problem:
            raise Conflict(f"the identity was put in place and is not to be trusted: {standing.problem}")
        return f"{identity.name} {identity.version} is signed and takes force at the next start"


def _parsed(identity_toml: str) -> Identity:
    try:
        return parse_identity(_ATTACHED, identity_toml.encode("utf-8"))
    except ConfigError as error:
        raise BadInput(error.message) from error


def _is_signed(record: RfcRecord, signature: RfcSignature, public: PublicKey) -> bool:
    try:
        raw = base64.b64decode(signature.signature, validate=True)
    except (binascii.Error, ValueError):
        return False
    return public.verifies(raw, rfc_bytes(record))


def _not_signed(public: PublicKey) -> str:
    return f"the signature is not the creator's (key {public.key_id}); sign with that key: `gaiad rfc merge --key FILE`"
