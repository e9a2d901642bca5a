import msgspec
import pytest

from gaiad.base.config import ModelConfig, assign, load_config
from gaiad.base.errors import ConfigError

ROLES = load_config(environment={}).roles
QWEN = ModelConfig(kind="gguf", path="~/qwen.gguf")


def roles(**named):
    return msgspec.structs.replace(ROLES, **named)


def test_without_settings_every_role_is_extractive_and_it_is_one_model():
    named, models = assign(ROLES, {})
    assert named == {"prime": "extractive", "lite": "extractive", "codemind": "extractive"}
    assert models == {"extractive": ModelConfig(kind="extractive")}


def test_roles_that_name_the_same_model_or_path_share_it():
    named, models = assign(roles(prime="qwen", lite="/m/a.gguf", codemind="/m/a.gguf"), {"qwen": QWEN})
    assert named == {"prime": "qwen", "lite": "/m/a.gguf", "codemind": "/m/a.gguf"}
    assert models == {"qwen": QWEN, "/m/a.gguf": ModelConfig(kind="gguf", path="/m/a.gguf")}


def test_a_known_model_without_a_role_is_there_too():
    assert set(assign(roles(), {"qwen": QWEN})[1]) == {"extractive", "qwen"}


def test_an_unknown_name_is_an_error_that_lists_the_known_ones():
    with pytest.raises(ConfigError, match=r"roles.lite = 'qwenn': no such model.*\(qwen\)"):
        assign(roles(lite="qwenn"), {"qwen": QWEN})


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (ModelConfig(kind="gguf"), "needs path"),
        (ModelConfig(kind="openai", base_url="http://127.0.0.1/v1"), "needs model"),
        (ModelConfig(kind="gguf", path="x", base_url="http://h"), "base_url does not apply"),
        (ModelConfig(kind="extractive", path="x"), "path does not apply"),
        (ModelConfig(kind="gguf", path="x", parallel=-1), "parallel = -1 must not be negative"),
        (ModelConfig(kind="openai", base_url="u", model="m", key_env="A", key_file="b"), "key_env and key_file"),
    ],
)
def test_a_setting_that_is_missing_or_has_no_effect_is_named(model, words):
    with pytest.raises(ConfigError, match=words) as error:
        assign(roles(), {"mine": model})
    assert "models.known.mine" in error.value.message


@pytest.mark.parametrize("name", ["prime", "lite", "codemind", "tokenizer", "embedder", "extractive"])
def test_a_name_that_means_something_else_already_is_refused(name):
    with pytest.raises(ConfigError, match=f"models.known.{name}: .*rename it"):
        assign(roles(), {name: QWEN})


def test_a_name_that_looks_like_a_path_is_refused():
    with pytest.raises(ConfigError, match="plain word"):
        assign(roles(), {"a/b": QWEN})
