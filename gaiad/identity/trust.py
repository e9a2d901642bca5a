"""Whether the identity of a home may be trusted (GCP 3.3, decision 14), looked at before anything else is opened.

An identity is in force when the trust root's key signed it and it is not older than the one that was in force before:
the audit remembers that one, words and signature. A signature is tamper evidence, no lock: it shows a change that was
made without the key. Making and changing signatures is in `signing.py`.
"""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec

from council.governance.rules import governance_table
from council.governance.tables import read_stability
from gaiad.base.clock import Clock, SystemClock, to_epoch_ms
from gaiad.base.errors import BadInput, ConfigError, Conflict, GaiadError, NotFound
from gaiad.base.logs import get_logger
from gaiad.identity.keys import (
    IdentityFiles,
    KeyFolder,
    PublicKey,
    Signature,
    ensure_keys,
    is_signed,
    owner_folder,
    read_private,
    read_public,
    sign_identity,
)
from gaiad.ledger.audit import AuditLog, newest_event
from gaiad.ledger.chain import ChainRow
from gaiad.store.home_databases import HomeDatabases
from gaiad.wire.governance import StabilityReport
from prompts.identity import Identity, identity_bytes, identity_digest, parse_identity, shipped_identity

SIGNED = "identity.signed"
ACCEPTED = "identity.accepted"
REFUSED = "identity.refused"
KEY_MADE = "identity.key_made"
KEY_REPLACED = "identity.key_replaced"
RESTORED = "identity.restored"
IN_FORCE = (SIGNED, ACCEPTED, RESTORED)
_REMEDY = (
    "`gaiad identity init` puts back the identity that was signed last; if you changed it yourself, raise its version"
    " and `gaiad identity sign` it"
)
_log = get_logger("gaiad.identity")


class InForce(msgspec.Struct, frozen=True, kw_only=True):
    """An identity as the audit remembers it: enough to put it back without the private key."""

    version: str
    digest: str
    key_id: str
    signature: str
    text: str


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """What a look at a home's identity found. Without `problem` the identity is to be trusted."""

    identity: Identity | None = None
    signature: Signature | None = None
    problem: str = ""


def remembered(row: ChainRow | None) -> InForce | None:
    """The identity of the last row of the kinds IN_FORCE. Raises Conflict for a row that no gaiad wrote."""
    if row is None:
        return None
    try:
        return msgspec.json.decode(row.body.encode("utf-8", "surrogateescape"), type=InForce)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Conflict(f"row {row.number} of the audit cannot be read ({error}); see `gaiad audit verify`") from error


def in_force(identity: Identity, signature: Signature) -> InForce:
    """What the audit is to remember of a signed identity."""
    return InForce(
        version=identity.version,
        digest=identity_digest(identity),
        key_id=signature.key_id,
        signature=signature.signature,
        text=identity_bytes(identity).decode("utf-8"),
    )


def look(home: Path, folder: KeyFolder, last: InForce | None) -> Standing:
    """Read key, identity and signatures, and judge them. Raises Conflict when a file cannot be read at all."""
    files = IdentityFiles(home)
    content = files.read_text()
    if content is None:
        words = "no identity is signed in this home yet" if last is None else f"{files.text} is missing; {_REMEDY}"
        return Standing(problem=words)
    public = read_public(folder.public)
    if public is None:
        return Standing(
            problem=f"{folder.public} is missing, and without the owner's public key no signature can be checked;"
            " put it back from a backup, or `gaiad identity init` starts over with another key"
        )
    try:
        identity = parse_identity(str(files.text), content)
    except ConfigError as error:
        return Standing(problem=f"{error.message}; {_REMEDY}")
    return judge(identity, files.read_signatures(), public, last, str(files.text))


def judge(
    identity: Identity, signatures: tuple[Signature, ...], public: PublicKey, last: InForce | None, name: str
) -> Standing:
    """Whether `identity`, read from the file `name`, is signed by the trust root and no step back. Pure."""
    signature = is_signed(identity_bytes(identity), signatures, public)
    if signature is None:
        fault = (
            "has no signature"
            if not signatures
            else f"was changed since it was signed, or not signed by the owner's key {public.key_id}"
        )
        return Standing(identity=identity, problem=f"{name} {fault}; {_REMEDY}")
    if last is not None and last.key_id != public.key_id:
        problem = (
            f"the owner's key is {public.key_id} now, and {last.key_id} signed this home's identity before; put the old"
            " identity.pub back, or `gaiad identity init` takes the new key over if you changed it yourself"
        )
        return Standing(identity=identity, signature=signature, problem=problem)
    if last is not None and steps_back(identity, last):
        problem = (
            f"{name} is version {identity.version}, and {last.version} with other words was in force: an older identity"
            f" was put back; {_REMEDY}"
        )
        return Standing(identity=identity, signature=signature, problem=problem)
    return Standing(identity=identity, signature=signature)


def steps_back(identity: Identity, last: InForce) -> bool:
    """Whether `identity` is another one than `last` without being newer."""
    return identity_digest(identity) != last.digest and _numbers(identity.version) <= _numbers(last.version)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def open_trust(
    stack: AsyncExitStack, databases: HomeDatabases, clock: Clock, environment: Mapping[str, str]
) -> tuple[AuditLog, Identity]:
    """The audit and the verified identity, at the daemon's start. Raises ConfigError for one not to be trusted."""
    audit = AuditLog.open(databases.state, clock)
    stack.callback(audit.close)
    return audit, open_identity(databases.home, owner_folder(environment), audit)


def open_identity(home: Path, folder: KeyFolder, audit: AuditLog) -> Identity:
    """The identity in force. A first start makes the owner's key where there is none and signs the shipped identity.

    Raises ConfigError, with the way to restore it, for one that is not to be trusted; the audit notes it. Starting
    again would not repair it, which is what the exit code of that error tells a service manager.
    """
    try:
        last = remembered(audit.newest(IN_FORCE))
        if last is None and IdentityFiles(home).read_text() is None:
            last = _begin(home, folder, audit)
        elif folder.private.exists() and not folder.public.exists():
            ensure_keys(folder)  # a kill left the private half alone
        standing = look(home, folder, last)
    except (Conflict, BadInput, NotFound) as error:
        standing, last = Standing(problem=error.message), None
    if standing.problem or standing.identity is None or standing.signature is None:
        _refuse(audit, standing.problem)
        raise ConfigError(f"identity not trusted: {standing.problem}")
    if last is None or last.digest != identity_digest(standing.identity):
        audit.append_now(ACCEPTED, "daemon", msgspec.structs.asdict(in_force(standing.identity, standing.signature)))
    return standing.identity


def make_keys(folder: KeyFolder, audit: AuditLog, actor: str) -> tuple[PublicKey, bool]:
    """The trust root, made and noted where there is none, and whether it was."""
    public, made = ensure_keys(folder)
    if made:
        audit.append_now(KEY_MADE, actor, {"key_id": public.key_id, "public": str(folder.public)})
    return public, made


def _begin(home: Path, folder: KeyFolder, audit: AuditLog) -> InForce:
    """Sign the shipped identity in a home that never had one. Raises Conflict without the private key."""
    public, made = make_keys(folder, audit, "daemon")
    if made:
        advice = "keep a copy of the private key; you can move it offline, because only signing needs it"
        _log.info("identity_key_made", key_id=public.key_id, private_key=str(folder.private), advice=advice)
    try:
        key = read_private(folder.private)
    except (NotFound, BadInput) as error:
        remedy = "`gaiad identity init --key FILE` signs the shipped one"
        raise Conflict(f"no identity is signed in this home yet: {error.message}; {remedy}") from error
    if key.public() != public:
        raise Conflict(
            f"{folder.private} and {folder.public} are of two pairs; put the right private key there, or sign with"
            " `gaiad identity init --key FILE`"
        )
    identity = shipped_identity()
    signature = sign_identity(key, identity_bytes(identity))
    IdentityFiles(home).put(identity_bytes(identity), signature)
    signed = in_force(identity, signature)
    audit.append_now(SIGNED, "daemon", msgspec.structs.asdict(signed))
    return signed


def _refuse(audit: AuditLog, problem: str) -> None:
    """Note a refusal once, however often a start is tried again."""
    row = audit.newest((REFUSED, *IN_FORCE))
    if row is None or row.kind != REFUSED or msgspec.json.decode(row.body) != {"problem": problem}:
        audit.append_now(REFUSED, "daemon", {"problem": problem})


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
