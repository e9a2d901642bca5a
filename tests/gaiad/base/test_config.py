"""Settings: every key has a default, overrides win in order, and a wrong one is named with source, key and remedy."""

import re
from pathlib import Path

import pytest

from gaiad.base.config import Config, config_sections, default_file, load_config, user_files
from gaiad.base.errors import ConfigError


def test_the_shipped_file_names_every_setting_with_a_comment() -> None:
    text = default_file().read_text(encoding="utf-8")
    config = config_sections(load_config(environment={}))
    for section, values in config.items():
        assert f"[{section}]" in text
        for key in values:
            line = re.search(rf"^{key} = .*$", text, re.MULTILINE)
            assert line, f"{section}.{key} is missing"
            assert "#" in line.group() or key.startswith(("weight_", "neighbour_")), f"{section}.{key} is not explained"


def test_file_then_environment_then_assignment(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text("[http]\nport = 1001\n[search]\ncandidates = 50\n[daemon]\nlog_level = 'debug'\n")
    config = load_config([file], {"GAIAD_HTTP__PORT": "1002", "GAIAD_SEARCH__CANDIDATES": "60"}, ["http.port=1003"])
    assert (config.http.port, config.search.candidates, config.daemon.log_level) == (1003, 60, "debug")


def test_home_and_socket_variables_are_not_settings() -> None:
    assert isinstance(load_config(environment={"GAIAD_HOME": "/x", "GAIAD_SOCKET": "/y"}), Config)


def test_lists_and_tables_can_be_set_from_the_environment() -> None:
    config = load_config(
        environment={
            "GAIAD_HTTP__ALLOWED_ORIGINS": '["http://localhost:3000", "http://localhost:4000"]',
            "GAIAD_INTAKE__FOLDERS": '[{path = "/tmp/packets", tenant = "work"}]',
            "GAIAD_ACCESS__UIDS": '{"1001" = ["work"]}',
        }
    )
    assert config.http.allowed_origins == ["http://localhost:3000", "http://localhost:4000"]
    assert config.intake.folders[0].tenant == "work"
    assert config.access.uids == {"1001": ["work"]}


def test_a_relative_path_is_beside_the_file_it_stands_in(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "mine.toml"
    file.parent.mkdir()
    file.write_text(
        "[roles]\nprime = 'models/big.gguf'\nlite = 'demo'\ncodemind = '~/big.gguf'\n"
        "[embedder]\nkind = 'gguf'\npath = 'mini.gguf'\n"
        "[models.known.demo]\nkind = 'scripted'\npath = 'demo.toml'\n"
        "[models.known.far]\nkind = 'openai'\nbase_url = 'http://x/v1'\nmodel = 'm'\nkey_file = '/k'\n"
    )
    config = load_config([file], {}, ["discord.token_file=here"])
    assert config.roles.prime == str(file.parent / "models" / "big.gguf")
    assert (config.roles.lite, config.roles.codemind) == ("demo", "~/big.gguf")
    assert config.embedder.path == str(file.parent / "mini.gguf")
    assert config.models.known["demo"].path == str(file.parent / "demo.toml")
    assert (config.models.known["far"].key_file, config.models.known["far"].model) == ("/k", "m")
    assert (config.models.known["demo"].tokenizer, config.channels["discord"]["token_file"]) == ("", "here")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("[http]\nprot = 1\n", "unknown key http.prot; did you mean 'port'"),
        ("[htpp]\nport = 1\n", "unknown section [htpp]; did you mean 'http'"),
        ("[http]\nport = 'eighty'\n", "http.port = 'eighty' does not fit"),
        ("[http]\nhost = '0.0.0.0'\n", "http.host = '0.0.0.0' does not fit"),
        ("http = 3\n", "[http] must be a table"),
        ("[http\n", "cannot be read as TOML"),
        ("[[intake.folders]]\npath = '/x'\ntenat = 'a'\n", "intake.folders"),
    ],
)
def test_a_wrong_file_is_named_with_key_and_remedy(tmp_path: Path, content: str, expected: str) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(content)
    with pytest.raises(ConfigError) as caught:
        load_config([file], {})
    assert str(file) in caught.value.message
    assert expected in caught.value.message


@pytest.mark.parametrize(
    ("assignment", "expected"),
    [
        ("http.port", "write it as section.key=value"),
        ("http.port=70000", "a port is 0 to 65535"),
        ("archive.page_overlap_chars=900", "below half"),
        ("embedder.kind=gguf", "needs embedder.path"),
        ("cognition.mtu=0", "cognition.mtu = 0: must be above 0"),
        ("cognition.reserve_tokens=0", "cognition.reserve_tokens = 0: must be above 0"),
        ("search.weight_bm25=-1.0", "must not be negative"),
    ],
)
def test_a_wrong_assignment_says_what_is_wrong(assignment: str, expected: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(expected)):
        load_config(environment={}, assignments=[assignment])


def test_the_unknown_environment_variable_is_named() -> None:
    with pytest.raises(ConfigError, match="GAIAD_HTTP__PROT"):
        load_config(environment={"GAIAD_HTTP__PROT": "1"})


def test_user_files_are_found_weakest_first(tmp_path: Path) -> None:
    general, own = tmp_path / "xdg" / "gaiad" / "config.toml", tmp_path / "home" / "config.toml"
    for path in (general, own):
        path.parent.mkdir(parents=True)
        path.write_text("")
    assert user_files(tmp_path / "home", {"XDG_CONFIG_HOME": str(tmp_path / "xdg")}) == [general, own]


def test_what_started_the_daemon_may_name_a_weaker_file_and_models_of_all_files_are_known(tmp_path: Path) -> None:
    given, home = tmp_path / "given.toml", tmp_path / "home"
    environment = {"GAIAD_DEFAULTS": str(given), "XDG_CONFIG_HOME": str(tmp_path / "none")}
    assert user_files(home, environment) == []
    small = '[models.known.small]\nkind = "gguf"\npath = "/small.gguf"\n'
    given.write_text(f'{small}[roles]\nprime = "small"\nlite = "small"\n')
    home.mkdir()
    mine = '[models.known.mine]\nkind = "gguf"\npath = "/mine.gguf"\n'
    (home / "config.toml").write_text(f'{mine}[roles]\nprime = "mine"\n')
    config = load_config(user_files(home, environment), environment)
    assert (config.roles.prime, config.roles.lite) == ("mine", "small")
    assert set(config.models.known) == {"mine", "small"}
