"""Settings with their sources, and the doctor's checks, with a daemon and without."""

import json
from pathlib import Path
from typing import Any

import pytest

from gaiad.base.config import config_sections, load_config
from gaiad.base.home import find_home
from gaiad.cli import doctor as checks
from gaiad.cli.config import setting_sources, settings_text
from gaiad.cli.doctor import checks_text, merge
from gaiad.cli.main import program, run
from gaiad.wire.status import Check


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("GAIAD_HTTP__PORT", "GAIAD_MODELS__PROBE"):
        monkeypatch.delenv(name, raising=False)
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    return home


def test_config_show_names_the_source_of_every_changed_setting(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "config.toml").write_text("[http]\nport = 9000\n[search]\ncandidates = 50\n")
    monkeypatch.setenv("GAIAD_HTTP__PORT", "9001")
    assert run(program, "gaiad", ["config", "show", "--json", "--home", str(home)]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["settings"]["http"]["port"] == 9001
    assert shown["sources"] == {"http.port": "$GAIAD_HTTP__PORT", "search.candidates": str(home / "config.toml")}
    assert shown["daemon"] is False


def test_config_show_tells_what_the_running_daemon_uses(
    api: Any, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = config_sections(load_config())
    settings["http"]["port"] = 1234
    api.routes["GET /config"] = settings
    assert run(program, "gaiad", ["config", "show", "--json", "--home", str(api.home)]) == 0
    assert json.loads(capsys.readouterr().out)["sources"] == {"http.port": "running daemon"}


def test_config_check_names_file_key_and_remedy(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(program, "gaiad", ["config", "check", "--home", str(home)]) == 0
    (home / "config.toml").write_text("[http]\nprot = 1\n")
    assert run(program, "gaiad", ["config", "check", "--home", str(home)]) == 2
    error = capsys.readouterr().err
    assert str(home / "config.toml") in error
    assert "did you mean 'port'?" in error


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[roles]\nprime = "qwenn"\n', "roles.prime = 'qwenn': no such model"),
        ('[models.known.mine]\nkind = "gguf"\n', 'models.known.mine: kind = "gguf" needs path'),
        ("[models]\nparallel = 0\n", "models.parallel = 0: must be above 0"),
    ],
)
def test_config_check_looks_at_roles_and_models_too(
    home: Path, capsys: pytest.CaptureFixture[str], text: str, words: str
) -> None:
    (home / "config.toml").write_text(text)
    assert run(program, "gaiad", ["config", "check", "--home", str(home)]) == 2
    assert words in capsys.readouterr().err


def test_config_check_looks_whether_a_named_file_is_there(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "config.toml").write_text('[roles]\nprime = "/nowhere/a.gguf"\n')
    assert run(program, "gaiad", ["config", "check", "--home", str(home)]) == 2
    assert "no such file /nowhere/a.gguf; correct the path" in capsys.readouterr().err


def test_config_reload_separates_what_waits_for_a_restart(api: Any, capsys: pytest.CaptureFixture[str]) -> None:
    api.routes["POST /config/reload"] = {"changed": ["http.port", "search.candidates"], "restart_needed": ["http.port"]}
    assert run(program, "gaiad", ["config", "reload", "--home", str(api.home)]) == 0
    assert capsys.readouterr().out == "search.candidates  in force\nhttp.port          at the next start\n"


def test_config_path_shows_where_settings_may_stand(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(program, "gaiad", ["config", "path", "--json", "--home", str(home)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["home"] == str(home / "config.toml")
    assert Path(found["default"]).is_file()


def test_settings_are_printed_as_toml() -> None:
    text = settings_text({"a": {"x": True, "y": ['q"'], "z": {"k": 1.5}}}, {"a.x": "$V"})
    assert text.splitlines() == ["a.x = true         $V", 'a.y = ["q\\""]', 'a.z = {"k" = 1.5}']


def test_the_strongest_source_of_a_setting_is_named(tmp_path: Path) -> None:
    weak, strong = tmp_path / "weak.toml", tmp_path / "strong.toml"
    weak.write_text("[http]\nport = 1\nhost = '::1'\n")
    strong.write_text("[http]\nport = 2\n")
    found = setting_sources([weak, strong], {"GAIAD_HOME": "/h", "PATH": "", "GAIAD_USER__TIMEZONE": "UTC"})
    assert found == {"http.port": str(strong), "http.host": str(weak), "user.timezone": "$GAIAD_USER__TIMEZONE"}


def test_a_home_that_others_can_read_is_found(home: Path) -> None:
    assert checks.check_home(find_home(str(home), {})).ok
    home.chmod(0o755)
    found = checks.check_home(find_home(str(home), {}))
    assert (found.ok, found.remedy) == (False, f"chmod 700 {home}")
    assert checks.check_home(find_home(str(home / "later"), {})).ok
    assert checks.check_disk(find_home(str(home / "later"), {})).name == "disk"


def test_a_child_that_fails_is_told_with_its_last_words_and_a_remedy() -> None:
    fine = checks.check_child("x", "platform", [], "mend it")
    assert fine.ok
    bad = checks.check_child("x", "no_such_module_here", [], "mend it")
    assert (bad.ok, bad.remedy) == (False, "mend it")
    assert "no_such_module_here" in bad.detail


def test_an_embedding_file_that_is_not_there_is_found(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    config = load_config([], {}, ["embedder.kind=gguf", f"embedder.path={path}"])
    assert not checks.check_model(config).ok
    path.touch()
    assert checks.check_model(config).ok
    assert checks.check_model(load_config([], {}, ["embedder.kind=none"])).ok


def test_settings_that_cannot_be_read_are_a_finding_not_an_end(home: Path) -> None:
    (home / "config.toml").write_text("[nothing]\n")
    found, config = checks.load_settings(find_home(str(home), {}))
    assert (found.ok, config) == (False, None)


def test_the_daemons_view_replaces_ours_and_remedies_are_shown() -> None:
    own = [Check(name="home", ok=True, detail="ours"), Check(name="python", ok=True, detail="3")]
    daemon = [Check(name="home", ok=False, detail="theirs", remedy="chmod 700 it")]
    merged = merge(own, daemon)
    assert [check.detail for check in merged] == ["3", "theirs"]
    text = checks_text(merged)
    assert "BAD  home    theirs\n             -> chmod 700 it" in text
    assert text.endswith("1 of 2 checks need attention")


def test_doctor_works_without_a_daemon_and_exits_by_what_it_finds(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(checks, "check_llama", lambda: Check(name="llama.cpp", ok=True, detail="decodes"))
    (home / "config.toml").write_text('[embedder]\nkind = "none"\n')
    assert run(program, "gaiad", ["doctor", "--json", "--home", str(home)]) == 0
    found = json.loads(capsys.readouterr().out)
    names = [check["name"] for check in found["checks"]]
    assert names == ["python", "settings", "llama.cpp", "embedding model", "home", "disk", "daemon", "index"]
    home.chmod(0o755)
    assert run(program, "gaiad", ["doctor", "--home", str(home)]) == 1
