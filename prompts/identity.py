"""Identity (GCP 3.1): who GAIA is and what its rules deny, as one file with one byte form that can be signed.

Signing and changing it belong to governance; here it is read, checked, put into bytes and into the packet's words.
"""

import hashlib
from collections.abc import Iterator
from importlib.resources import files
from typing import Annotated, Any

import msgspec

from constants.load import load
from gaiad.base.errors import ConfigError
from prompts.load import IdentityWords, fill
from prompts.registry_files import RegistryFile, RegistryProblem, convert, read_source, text_fault, texts_in

SHIPPED_FILE = "constants/identity.toml"
Name = Annotated[str, msgspec.Meta(pattern=r"^[a-z][a-z0-9_]{0,47}$")]
Version = Annotated[str, msgspec.Meta(pattern=r"^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)$")]
Line = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One rule in words, and the grants of constants/grants.toml that it denies to every persona."""

    name: Name
    text: Line
    denies: tuple[Name, ...] = ()


class Identity(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Traits and core rules of GCP 3.1; `precedence` is the rule of GCP 3.3 that no persona overrules them."""

    version: Version
    name: Line
    traits: Annotated[tuple[Line, ...], msgspec.Meta(min_length=1)]
    core_rules: Annotated[tuple[Rule, ...], msgspec.Meta(min_length=1)]
    precedence: Rule

    def rules(self) -> tuple[Rule, ...]:
        """The core rules and then the precedence."""
        return (*self.core_rules, self.precedence)

    def denying(self, grant: str) -> Rule | None:
        """The first rule that denies `grant`."""
        return next((rule for rule in self.rules() if grant in rule.denies), None)


class Grants(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Every grant there is with its meaning in words."""

    meanings: dict[str, str]


def known_grants() -> dict[str, str]:
    """What a persona can ask for, denied or not: name -> meaning."""
    return load("grants.toml", Grants).meanings


def shipped_identity() -> Identity:
    """The identity that comes with gaiad. Raises ConfigError when the file was damaged."""
    return parse_identity(SHIPPED_FILE, (files("constants") / "identity.toml").read_bytes())


def parse_identity(file: str, data: bytes) -> Identity:
    """The identity in a file's bytes. Raises ConfigError naming file, line and remedy."""
    source = read_source(file, data)
    if isinstance(source, RegistryProblem):
        raise ConfigError(str(source))
    identity = convert(source, (), source.table, Identity)
    if isinstance(identity, RegistryProblem):
        raise ConfigError(str(identity))
    for problem in _faults(source, identity):
        raise ConfigError(str(problem))
    return identity


def _faults(source: RegistryFile, identity: Identity) -> Iterator[RegistryProblem]:
    builtins: Any = msgspec.to_builtins(identity)
    for path, text in texts_in(builtins):
        fault = text_fault(text) or ("has more than one line; write it as one" if "\n" in text else "")
        if fault:
            yield source.problem(path, f"{'.'.join(path)} {fault}")
    names = [rule.name for rule in identity.rules()]
    for number, rule in enumerate(identity.rules()):
        path = ("core_rules", str(number)) if number < len(identity.core_rules) else ("precedence",)
        if rule.name in names[:number]:
            yield source.problem((*path, "name"), f"two rules are called {rule.name!r}; rename one")
        unknown = sorted(set(rule.denies) - known_grants().keys())
        if unknown:
            known = ", ".join(sorted(known_grants()))
            yield source.problem((*path, "denies"), f"denies {unknown[0]!r}, which is not a grant; known: {known}")


def identity_bytes(identity: Identity) -> bytes:
    """What is signed: TOML in UTF-8 with a fixed order, one space, one kind of quotes, no comments, \\n at line ends.

    Equal identities have equal bytes however their files are laid out, and the bytes parse back to the identity.
    """
    lines = [
        f"version = {_quoted(identity.version)}",
        f"name = {_quoted(identity.name)}",
        f"traits = {_listed(identity.traits)}",
    ]
    for rule in identity.core_rules:
        lines += ["", "[[core_rules]]", *_rule_lines(rule)]
    lines += ["", "[precedence]", *_rule_lines(identity.precedence)]
    return "\n".join([*lines, ""]).encode("utf-8")


def _rule_lines(rule: Rule) -> list[str]:
    return [f"name = {_quoted(rule.name)}", f"text = {_quoted(rule.text)}", f"denies = {_listed(rule.denies)}"]


def _listed(texts: tuple[str, ...]) -> str:
    return f"[{', '.join(map(_quoted, texts))}]"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t") + '"'


def identity_digest(identity: Identity) -> str:
    """SHA-256 of `identity_bytes`, in hex."""
    return hashlib.sha256(identity_bytes(identity)).hexdigest()


def identity_text(identity: Identity) -> str:
    """The words that stand in the packet's identity field; the same for the same identity."""
    words = IdentityWords(
        name=identity.name,
        traits=", ".join(identity.traits),
        rules="\n".join(rule.text for rule in identity.core_rules),
        precedence=identity.precedence.text,
    )
    return fill(words).rstrip("\n")
