"""Token file, callers, and what they may."""

import os
from pathlib import Path

import pytest

from gaiad.base.errors import ConfigError, Forbidden
from gaiad.base.home import Home, replace_file
from gaiad.intake.auth import PeerCheck, TokenCheck, TokenFile


def test_the_first_start_makes_one_private_owner_token(tmp_path: Path) -> None:
    path = tmp_path / "token"
    tokens = TokenFile(path)
    tokens.load()
    token = path.read_text().strip()
    assert path.stat().st_mode & 0o777 == 0o600
    assert len(token) >= 43
    caller = tokens.caller(token)
    assert caller is not None
    assert caller.owner
    assert tokens.caller(token[:-1]) is None
    assert tokens.caller("") is None
    again = TokenFile(path)
    again.load()
    assert again.caller(token) is not None


def test_a_token_with_tenants_is_not_the_owners(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("owner-owner-owner-owner\n# for the team\nteam-team-team-team work play  # two\n")
    path.chmod(0o600)
    tokens = TokenFile(path)
    tokens.load()
    team = tokens.caller("team-team-team-team")
    assert team is not None
    assert not team.owner
    assert team.may_use("work")
    assert not team.may_use("local")
    with pytest.raises(Forbidden, match="'local'; its tenants: play, work"):
        team.require_tenant("local")
    with pytest.raises(Forbidden, match="backup is for the owner"):
        team.require_owner("backup")


def test_a_token_approves_only_where_its_line_grants_it(home: Home) -> None:
    replace_file(home.token, b"a-token-of-the-owner\na-token-for-work work\na-token-that-may work +approve\n")
    tokens = TokenFile(home.token)
    tokens.load()
    allowed = []
    for token in ("a-token-of-the-owner", "a-token-for-work", "a-token-that-may"):
        caller = tokens.caller(token)
        assert caller is not None
        try:
            caller.require_person("approve")
            allowed.append(token)
        except Forbidden:
            pass
        with pytest.raises(Forbidden):
            caller.require_person("backup")
    assert allowed == ["a-token-that-may"]
    assert caller.tenants == {"work"}
    replace_file(home.token, b"a-token-that-may work +backup\n")
    with pytest.raises(ConfigError, match="line 1: a token can be granted"):
        tokens.load()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "contains no token"),
        ("# only words\n", "contains no token"),
        ("ok-ok-ok-ok-ok-ok-ok\nshort\n", "line 2: a token"),
    ],
)
def test_a_token_file_that_is_wrong_says_what_to_do(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "token"
    path.write_text(content)
    path.chmod(0o600)
    with pytest.raises(ConfigError, match=message):
        TokenFile(path).load()


def test_a_token_file_others_can_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("owner-owner-owner-owner\n")
    path.chmod(0o644)
    with pytest.raises(ConfigError, match="other users can read it"):
        TokenFile(path).load()


def test_a_token_file_that_is_a_link_is_refused(tmp_path: Path) -> None:
    target, path = tmp_path / "elsewhere", tmp_path / "token"
    target.write_text("owner-owner-owner-owner\n")
    target.chmod(0o600)
    path.symlink_to(target)
    with pytest.raises(ConfigError, match="cannot be read"):
        TokenFile(path).load()


def test_a_broken_token_file_keeps_the_tokens_loaded_before(tmp_path: Path) -> None:
    path = tmp_path / "token"
    tokens = TokenFile(path)
    tokens.load()
    token = path.read_text().strip()
    path.write_text("short\n")
    with pytest.raises(ConfigError):
        tokens.load()
    assert tokens.caller(token) is not None


def test_our_own_uid_is_the_owner_and_a_stranger_is_told_the_setting() -> None:
    peers = PeerCheck(lambda: {"4242": ["work"]})
    assert peers.caller_of(os.getuid()).owner
    assert peers.caller_of(4242).tenants == {"work"}
    with pytest.raises(Forbidden, match=r"access\.uids"):
        peers.caller_of(4343)


def test_port_80_may_be_left_out_of_the_host(tmp_path: Path) -> None:
    check = TokenCheck(TokenFile(tmp_path / "token"), 80, [])
    check.check_host("localhost")
    with pytest.raises(Forbidden):
        check.check_host("localhost:8477")
