"""Changes of a home's identity by its owner: bringing it under a key, and signing a new one (GCP 3.3, decision 14).

Versions only go up: an older identity that somebody puts back is noticed. To go back, sign the old words under a new
version. They are made within `changing`, which holds the home's lock.

An RFC is signed where the private key is, by the command line; the daemon, which never reads that key, checks the
signature against the public one, the trust root. A merged identity is put in its place for the next start.
"""

import base64
import binascii
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec

from council.governance.reviewing import rfc_bytes
from council.governance.rules import governance_table
from council.governance.tables import passed_offline, read_stability
from council.governance.workflow import Attached
from gaiad.base.clock import SystemClock, to_epoch_ms
from gaiad.base.errors import BadInput, ConfigError, Conflict, Forbidden, NotFound
from gaiad.base.home import Home, HomeLock, make_private_directory
from gaiad.identity.keys import (
    IdentityFiles,
    KeyFolder,
    PrivateKey,
    PublicKey,
    Signature,
    is_signed,
    owner_folder,
    read_private,
    read_public,
    sign_identity,
    trust,
)
from gaiad.identity.trust import (
    IN_FORCE,
    KEY_REPLACED,
    RESTORED,
    SIGNED,
    InForce,
    Standing,
    in_force,
    look,
    make_keys,
    remembered,
    steps_back,
)
from gaiad.ledger.audit import AuditLog
from gaiad.store.home_databases import HomeDatabases
from gaiad.wire.governance import RfcRecord, RfcSignature
from prompts.identity import Identity, identity_bytes, identity_digest, parse_identity, shipped_identity

_PERSON = "person"


@contextmanager
def changing(home: Home) -> Iterator[AuditLog]:
    """The home's audit, for a change while no daemon runs: it would not see the change. Raises Conflict for one."""
    make_private_directory(home.root)
    lock = HomeLock(home)
    lock.take()
    try:
        with (
            closing(HomeDatabases(home.root)) as databases,
            closing(AuditLog.open(databases.state, SystemClock())) as audit,
        ):
            yield audit
    finally:
        lock.release()


def begin_identity(home: Path, folder: KeyFolder, audit: AuditLog, key_file: Path | None = None) -> Standing:
    """Put the identity that was signed last, at first the shipped one, in place under the trust root.

    Makes the owner's key where there is none; with `key_file` that key is the owner's. Needs the private key only
    when nothing fits yet. Raises Conflict, BadInput, NotFound.
    """
    public = _trust_root(folder, audit, key_file)
    last = remembered(audit.newest(IN_FORCE))
    standing = look(home, folder, last)
    if not standing.problem:
        return standing
    identity = _recorded(last) if last else shipped_identity()
    known = (Signature(last.key_id, last.signature),) if last else ()
    signature = is_signed(identity_bytes(identity), known, public)
    if signature is not None:
        IdentityFiles(home).put(identity_bytes(identity), signature)
        audit.append_now(RESTORED, _PERSON, msgspec.structs.asdict(in_force(identity, signature)))
        return look(home, folder, last)
    key = owner_key(folder, public, key_file)
    if last is not None and last.key_id != public.key_id:
        audit.append_now(KEY_REPLACED, _PERSON, {"key_id": public.key_id, "replaced": last.key_id})
    return _put(home, folder, audit, identity, key)


def sign_file(
    home: Path, folder: KeyFolder, audit: AuditLog, source: Path | None = None, key_file: Path | None = None
) -> Standing:
    """Sign the identity in `source`, by default the home's own file, and put it in force from the next start.

    Raises BadInput for a version that is not above the last, a wrong key or a faulty file; NotFound; Conflict when the
    stack is self-aware and its council has not passed this identity (GCP 3.3).
    """
    public = trusted_key(folder)
    identity = _read(source or IdentityFiles(home).text)
    last = remembered(audit.newest(IN_FORCE))
    check_successor(identity, last, public)
    if last is not None and last.digest != identity_digest(identity):
        _require_vote(home, identity)
    return _put(home, folder, audit, identity, owner_key(folder, public, key_file))


def trusted_key(folder: KeyFolder) -> PublicKey:
    """The trust root. Raises NotFound where there is none."""
    public = read_public(folder.public)
    if public is None:
        raise NotFound(f"{folder.public}: no owner's key yet; create one with `gaiad identity init`")
    return public


def check_successor(identity: Identity, last: InForce | None, public: PublicKey) -> None:
    """Raises BadInput for a version that is not above the last one's, Conflict when another key signed that."""
    if last is not None and last.key_id != public.key_id:
        raise Conflict(
            f"the owner's key is {public.key_id} now, and {last.key_id} signed before; `gaiad identity init` takes the"
            " new key over"
        )
    if last is not None and steps_back(identity, last):
        raise BadInput(
            f"version {identity.version} is not above {last.version}, which was signed with other words; raise it"
        )


def put_signed(home: Path, folder: KeyFolder, audit: AuditLog, identity: Identity, signature: Signature) -> Standing:
    """Put an identity with its signature in place, in force from the next start, and tell the audit."""
    IdentityFiles(home).put(identity_bytes(identity), signature)
    new = in_force(identity, signature)
    audit.append_now(SIGNED, _PERSON, msgspec.structs.asdict(new))
    return look(home, folder, new)


def owner_key(folder: KeyFolder, public: PublicKey, key_file: Path | None) -> PrivateKey:
    """The private half of `public`, from `key_file` or beside it. Raises NotFound, BadInput for another one."""
    key = read_private(key_file or folder.private)
    if key.public() != public:
        raise BadInput(
            f"{key_file or folder.private} is the key {key.public().key_id}, and {folder.public} is {public.key_id};"
            " give the right one with --key"
        )
    return key


def _trust_root(folder: KeyFolder, audit: AuditLog, key_file: Path | None) -> PublicKey:
    if key_file is None:
        return make_keys(folder, audit, _PERSON)[0]
    public = read_private(key_file).public()
    trust(folder, public)
    return public


def _put(home: Path, folder: KeyFolder, audit: AuditLog, identity: Identity, key: PrivateKey) -> Standing:
    return put_signed(home, folder, audit, identity, sign_identity(key, identity_bytes(identity)))


def _require_vote(home: Path, identity: Identity) -> None:
    """Stopping the daemon does not end the council's say: what counts is the stack as it was last seen."""
    now_ms = to_epoch_ms(SystemClock().now())
    report = read_stability(home, now_ms, governance_table().stability, last_seen=True)
    if report.self_aware and not passed_offline(home, identity_digest(identity)):
        raise Conflict(
            f"the stack was self-aware when it last ran (score {report.score:.3f}), and then identity changes by the"
            " council's vote too: `gaiad rfc propose --kind identity --identity FILE`, or --kind security in an"
            " emergency"
        )


def _recorded(last: InForce) -> Identity:
    """Raises Conflict when the audit's words are not what its digest says."""
    try:
        identity = parse_identity("the audit", last.text.encode("utf-8"))
    except ConfigError as error:
        raise Conflict(
            f"the identity in the audit cannot be read: {error.message}; see `gaiad audit verify`"
        ) from error
    if identity_digest(identity) != last.digest:
        raise Conflict("the identity in the audit was altered; see `gaiad audit verify`, and restore a backup")
    return identity


def _read(file: Path) -> Identity:
    try:
        content = file.read_bytes()
    except OSError as error:
        raise NotFound(f"{file}: cannot be read ({error.strerror}); give the identity's file") from error
    return parse_identity(str(file), content)


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
