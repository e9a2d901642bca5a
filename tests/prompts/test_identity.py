"""Identity: what ships is what the seed says, its bytes are one and the same, and a damaged file says where."""

import tomllib
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gaiad.base.errors import ConfigError
from prompts.identity import (
    Identity,
    Rule,
    identity_bytes,
    identity_digest,
    identity_text,
    known_grants,
    parse_identity,
    shipped_identity,
)

FILE = Path(__file__).parent.parent.parent / "constants" / "identity.toml"
LINES = st.text(st.characters(exclude_categories=("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")), min_size=1).filter(
    lambda text: text.strip() != "" and len(text) <= 200
)
NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,20}", fullmatch=True)
RULES = st.builds(
    Rule, name=NAMES, text=LINES, denies=st.lists(st.sampled_from(sorted(known_grants())), max_size=3).map(tuple)
)
IDENTITIES = st.builds(
    Identity,
    version=st.just("2.10.0"),
    name=LINES,
    traits=st.lists(LINES, min_size=1, max_size=4).map(tuple),
    core_rules=st.lists(RULES, min_size=1, max_size=4).map(tuple),
    precedence=RULES,
).filter(lambda identity: len({rule.name for rule in identity.rules()}) == len(identity.rules()))


def test_traits_and_core_rules_are_the_seeds() -> None:
    identity = shipped_identity()
    assert identity.traits == ("truthfulness", "empathy", "integrity", "curiosity", "persistence", "sovereignty")
    assert [rule.text for rule in identity.core_rules] == [
        "Never execute shell commands without reflection and approval",
        "Avoid hallucinated facts or code",
        "Protect private data at all costs",
    ]


def test_every_rule_denies_something_and_names_the_rule_that_does() -> None:
    identity = shipped_identity()
    assert all(rule.denies for rule in identity.rules())
    denying = identity.denying("shell_without_approval")
    assert denying is not None
    assert denying.name == "no_unsafe_shell_exec"
    assert identity.denying("shell_with_approval") is None


def test_the_text_fits_the_default_packet_even_at_a_token_a_byte() -> None:
    """Six per cent of 4096 (GCP 4.1) is 245."""
    assert len(identity_text(shipped_identity()).encode()) <= 245


def test_the_text_has_every_trait_and_rule_word_for_word() -> None:
    identity = shipped_identity()
    text = identity_text(identity)
    assert text.startswith("You are GAIA, an AI: truthfulness, empathy, ")
    assert all(rule.text in text for rule in identity.rules())
    assert text == text.strip()


def test_the_shipped_file_is_its_bytes_below_one_comment() -> None:
    comment, _, rest = FILE.read_bytes().partition(b"\n")
    assert comment.startswith(b"# ")
    assert rest == identity_bytes(shipped_identity())


def test_the_digest_of_the_shipped_identity() -> None:
    """Changes only with a change of who GAIA is, or of the byte form, which makes every signature void."""
    assert identity_digest(shipped_identity()) == "387a075cd26ad493103012fe1c9751a3073475f1483c986a5b9f4593f2b6732a"


def test_layout_and_comments_of_a_file_do_not_change_the_bytes() -> None:
    shipped = FILE.read_text(encoding="utf-8")
    loose = "# mine\n" + shipped.replace(" = ", "   =  ").replace('"GAIA"', "'GAIA'").replace("\n", "\r\n")
    assert identity_bytes(parse_identity("loose.toml", loose.encode())) == identity_bytes(shipped_identity())


@settings(max_examples=60)
@given(IDENTITIES)
def test_any_identity_survives_its_bytes(identity: Identity) -> None:
    data = identity_bytes(identity)
    assert parse_identity("any.toml", data) == identity
    assert identity_bytes(parse_identity("any.toml", data)) == data


@settings(max_examples=25)
@given(IDENTITIES, LINES)
def test_another_word_is_another_digest(identity: Identity, name: str) -> None:
    other = msgspec.structs.replace(identity, name=name)
    assert (identity_digest(other) == identity_digest(identity)) == (name == identity.name)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('version = "1.0.0"', 'version = "1.0"', r"mine\.toml:2: version: Expected `str` matching regex"),
        ('name = "GAIA"', 'name = "GAIA"\nmood = "good"', r"mine\.toml:4: .*unknown field `mood`"),
        ("traits = [", "traits = ", r"mine\.toml:4: is not TOML: .*; correct this line"),
        (
            '"network_send", ',
            '"telepathy", ',
            r"mine\.toml:19: denies 'telepathy', which is not a grant; known: .*research",
        ),
        ('"no_privacy_leaks"', '"no_hallucinations"', r"mine\.toml:17: two rules are called 'no_hallucinations'"),
        (
            "Avoid halluc",
            "Avoid\\u202ehalluc",
            r"mine\.toml:13: core_rules\.1\.text has the invisible character U\+202E",
        ),
        ("Avoid halluc", "Avoid\\nhalluc", r"mine\.toml:13: core_rules\.1\.text has more than one line"),
        ("No persona overrules this", "  ", r"mine\.toml:23: precedence\.text is blank"),
    ],
)
def test_a_damaged_file_names_file_and_line(old: str, new: str, message: str) -> None:
    text = FILE.read_text(encoding="utf-8")
    assert old in text
    with pytest.raises(ConfigError, match=message):
        parse_identity("mine.toml", text.replace(old, new, 1).encode())


def test_a_file_that_is_not_utf8_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"mine\.toml:2: is not UTF-8"):
        parse_identity("mine.toml", b'# \n"\xff"')


def test_toml_reads_the_bytes_as_anyone_would() -> None:
    table = tomllib.loads(identity_bytes(shipped_identity()).decode())
    assert table == msgspec.to_builtins(shipped_identity(), builtin_types=()) | {
        "traits": list(shipped_identity().traits),
        "core_rules": [
            {"name": rule.name, "text": rule.text, "denies": list(rule.denies)}
            for rule in shipped_identity().core_rules
        ],
        "precedence": {
            "name": "identity_above_persona",
            "text": "No persona overrules this",
            "denies": ["identity_change"],
        },
    }
