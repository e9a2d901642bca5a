"""What a person names as a model, and how the choice is written down."""

import tomllib
from pathlib import Path

import pytest

from gaiad.base.config import ModelConfig, load_config, user_files
from gaiad.base.errors import BadInput, Unavailable
from gaiad.models import catalogue
from gaiad.service import models
from gaiad.service.models import find, written
from tests.makers.llama_files import write_tiny_llama

CONFIG = load_config(environment={})
QWEN = ModelConfig(kind="gguf", path="/m/q.gguf")


def test_a_file_is_known_by_its_name(tmp_path: Path) -> None:
    path = write_tiny_llama(tmp_path / "my model (1).gguf")
    assert find(str(path), CONFIG) == ("my-model-1", ModelConfig(kind="gguf", path=str(path)))
    assert find(str(write_tiny_llama(tmp_path / "prime.gguf")), CONFIG)[0] == "prime-model"


@pytest.mark.parametrize(
    ("what", "remedy"),
    [
        ("models/a.gguf", "give the full path"),
        ("/nowhere/a.gguf", "check the path"),
        ("llama-3.2-1b", "run `gaiad models pull bartowski/Llama-3.2-1B-Instruct-GGUF:Q4_K_M --as Llama-3.2-1B`"),
        ("gibberish", "`gaiad models catalogue`"),
    ],
)
def test_what_cannot_be_used_has_one_remedy(what: str, remedy: str) -> None:
    with pytest.raises(BadInput) as error:
        find(what, CONFIG)
    assert remedy in error.value.message


def test_a_server_is_asked_for_its_models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "models_of", lambda url: ["llama3.2:latest", "other"])
    name, model = find("ollama:llama3.2", CONFIG)
    assert (name, model) == (
        "llama3.2-latest",
        ModelConfig(kind="openai", base_url="http://127.0.0.1:11434/v1", model="llama3.2:latest"),
    )
    assert find("http://127.0.0.1:9/v1/", CONFIG)[1] == (
        ModelConfig(kind="openai", base_url="http://127.0.0.1:9/v1", model="llama3.2:latest")
    )
    with pytest.raises(BadInput, match=r"has no model 'absent'; it has llama3\.2:latest, other"):
        find("ollama:absent", CONFIG)


def test_a_server_that_does_not_answer_is_said_with_its_address() -> None:
    with pytest.raises(Unavailable, match=r"http://127\.0\.0\.1:1/v1/models: no answer"):
        catalogue.models_of("http://127.0.0.1:1/v1")


def test_the_choice_is_added_and_comments_stay(tmp_path: Path) -> None:
    known = '[models.known.old]\nkind = "gguf"\npath = "/o.gguf"\n'
    before = f'# mine\n[http]\nport = 0  # free\n\n{known}\n[roles]\nlite = "old"\n'
    text = written(before, "qwen-0.5", QWEN, ["prime"])
    assert "# mine" in text
    assert "# free" in text
    found = tomllib.loads(text)
    assert found["http"] == {"port": 0}
    assert found["models"]["known"]["old"] == {"kind": "gguf", "path": "/o.gguf"}
    assert found["models"]["known"]["qwen-0.5"] == {"kind": "gguf", "path": "/m/q.gguf"}
    assert found["roles"] == {"lite": "old", "prime": "qwen-0.5"}
    (tmp_path / "config.toml").write_text(written(text, "extractive", None, ["prime", "lite", "codemind"]))
    config = load_config(user_files(tmp_path, {"XDG_CONFIG_HOME": "/none"}), {})
    assert (config.roles.prime, config.roles.codemind, config.http.port) == ("extractive", "extractive", 0)
    assert tomllib.loads(written("", "q", QWEN, ["lite"]))["roles"] == {"lite": "q"}


def test_settings_that_are_no_toml_are_left_alone() -> None:
    with pytest.raises(BadInput, match="correct it"):
        written("[roles\n", "q", QWEN, ["lite"])


def test_the_catalogue_goes_up_in_size_and_says_what_fits() -> None:
    sizes = [model.megabytes for model in catalogue.catalogue()]
    assert sizes == sorted(sizes)
    rows = catalogue.rows(1_300_000_000)
    assert [row.fits for row in rows] == [row.memory_mb <= 1300 for row in rows]
    assert any(row.fits for row in rows)
    assert not all(row.fits for row in rows)
