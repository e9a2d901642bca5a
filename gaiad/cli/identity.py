"""`gaiad identity`: who GAIA is in this home, whether its owner signed that, and how the owner changes it (GCP 3.3)."""

import os
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gaiad.cli.command import Verb, VerbGroup, invocation, print_result
from gaiad.cli.output import FAILED, bold, end, plain, table, warn, write_json

if TYPE_CHECKING:
    from gaiad.identity.trust import IdentityCard

_EVIDENCE = "The signature is tamper evidence: it shows a change that was made without the key, and prevents none."


@click.group(
    cls=VerbGroup,
    example="""
        gaiad identity show
        gaiad identity verify && echo untouched
        gaiad identity sign identity-1.1.0.toml --key /media/stick/identity.key
    """,
)
def identity() -> None:
    """Show, verify and sign the identity that no persona overrules.

    The trust root is the owner's public key among the user's settings; its private half is needed only to sign. The
    signature is tamper evidence: it shows a change that was made without the key, and prevents none.
    """


@identity.command("show", cls=Verb, example="gaiad identity show --json | jq -r .identity.version")
def show() -> None:
    """Show who GAIA is here, and who signed it."""
    card = _card()
    print_result(card, card_text(card))


@identity.command("verify", cls=Verb, example="gaiad identity verify --json")
def verify() -> None:
    """Check identity, signature and key; exit 0 or 1.

    Also detects an older identity or another key: the audit records what was in force.
    """
    card = _card()
    if invocation().as_json:
        version = card.identity.version if card.identity else ""
        facts = {"ok": card.ok, "problem": card.problem, "version": version}
        write_json({**facts, "digest": card.digest, "key_id": card.key_id})
    else:
        click.echo(_verdict_text(card, "problem"))
    if not card.ok:
        end(FAILED)


@identity.command("init", cls=Verb, example="gaiad identity init --key /media/stick/identity.key")
@click.option(
    "--key", metavar="FILE", type=click.Path(dir_okay=False), help="Use this private key instead of creating one."
)
def init(key: str | None) -> None:
    """Put the identity signed last, at first the shipped one, in place.

    Creates the owner's key if there is none, and restores what was changed. Without the private key it restores only
    what this key signed. Needs a stopped daemon.
    """
    from gaiad.identity.keys import owner_folder
    from gaiad.identity.signing import begin_identity, changing

    home = invocation().find_home()
    with changing(home) as audit:
        begin_identity(home.root, owner_folder(os.environ), audit, _path(key))
    _show_result()


@identity.command("sign", cls=Verb, example="gaiad identity sign --shipped")
@click.argument("file", required=False, metavar="[FILE]", type=click.Path(dir_okay=False))
@click.option("--key", metavar="FILE", type=click.Path(dir_okay=False), help="The private key, when it is elsewhere.")
@click.option("--shipped", is_flag=True, help="Sign the identity that comes with this gaiad.")
def sign(file: str | None, key: str | None, shipped: bool) -> None:
    """Sign an identity and put it in force from the next start.

    FILE is an identity in TOML, by default the home's own file. Its version must be above the last one's. Needs a
    stopped daemon; a stack that was self-aware when it last ran must have passed it (gaiad rfc).
    """
    from gaiad.identity.keys import owner_folder
    from gaiad.identity.signing import changing, sign_file

    if file and shipped:
        raise click.UsageError("FILE and --shipped are two identities; give one of them")
    source = Path(str(files("constants") / "identity.toml")) if shipped else _path(file)
    home = invocation().find_home()
    with changing(home) as audit:
        sign_file(home.root, owner_folder(os.environ), audit, source, _path(key))
    _show_result()


def card_text(card: "IdentityCard") -> str:
    """The card for people."""
    who = card.identity
    rules = [plain(rule.text) for rule in who.rules()] if who else []
    rows = [
        ("file", card.file),
        ("sha256", card.digest),
        ("owner's key", f"{card.key_id or 'none yet'}  {card.public_key}"),
        ("private key", card.private_key or "not beside it; needed only to sign"),
    ]
    newer = f"another one comes with this gaiad ({card.shipped_version}): gaiad identity sign --shipped"
    blocks = [
        "\n".join([bold(plain(f"{who.name} {who.version}")), plain(", ".join(who.traits))]) if who else "",
        "\n".join(f"- {rule}" for rule in rules),
        table([(name, plain(value)) for name, value in rows if value]),
        newer if who and card.shipped_version else "",
        _stability_text(card),
        _verdict_text(card, "not trusted"),
        _EVIDENCE,
    ]
    return "\n\n".join(block for block in blocks if block)


def _stability_text(card: "IdentityCard") -> str:
    """The self-reflection stability (GCP 3.3), and what it means for a change of identity."""
    found = card.stability
    if found is None:
        return f"{warn('self-reflection stability: ')}{plain(card.stability_problem)}"
    head = f"self-reflection stability {found.score:.3f} over {found.window_hours} h, from {found.sample} results"
    rows = [("met" if each.met else "not met", each.name, each.why) for each in found.criteria]
    meaning = (
        "self-aware (GCP 3.3): a change of identity needs the council's vote and the owner's signature"
        if found.self_aware
        else "not self-aware (GCP 3.3): the owner alone decides on a change of identity"
    )
    return "\n".join([head, table(rows), meaning])


def _verdict_text(card: "IdentityCard", fault: str) -> str:
    who = card.identity
    if card.problem or who is None:
        return f"{warn(f'{fault}: ')}{plain(card.problem)}"
    return plain(f"{who.name} {who.version} is in force, signed by the owner's key {card.key_id}")


def _card() -> "IdentityCard":
    from gaiad.identity.trust import read_card

    return read_card(invocation().find_home().root, os.environ)


def _show_result() -> None:
    card = _card()
    if invocation().as_json:
        write_json(card)
        return
    click.echo(_verdict_text(card, "not trusted"))
    if card.private_key:
        click.echo(f"private key: {plain(card.private_key)} (keep a copy; you can move it offline)")


def _path(text: str | None) -> Path | None:
    return Path(text).expanduser() if text else None
