from pathlib import Path

import pytest

from gaiad.base.errors import BadInput
from gaiad.models.pulling.source import (
    FileSource,
    HubSource,
    WebSource,
    model_name,
    parse_sha256,
    parse_source,
    part_names,
    target_names,
)


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("https://models.example/a.gguf", WebSource(url="https://models.example/a.gguf")),
        ("HTTP://127.0.0.1:80/a.gguf", WebSource(url="HTTP://127.0.0.1:80/a.gguf")),
        ("Qwen/Qwen2.5-0.5B-GGUF", HubSource(repo="Qwen/Qwen2.5-0.5B-GGUF", wanted="")),
        ("o/r:Q4_K_M", HubSource(repo="o/r", wanted="Q4_K_M")),
        ("o/r:sub/m.gguf", HubSource(repo="o/r", wanted="sub/m.gguf")),
    ],
)
def test_kinds_of_sources_are_told_apart(text, source):
    assert parse_source(text, lambda _: False) == source


@pytest.mark.parametrize("text", ["o/r", "model.gguf", "./model.gguf", "/models/m.gguf"])
def test_what_is_there_as_a_file_is_that_file(text):
    assert parse_source(text, lambda _: True) == FileSource(path=Path(text))


@pytest.mark.parametrize(
    "text", ["", "model.gguf", "models/m.gguf", "./o", "/o/r", "a/b/c", "ftp://h/m.gguf", "hf://o/r", "a b/c"]
)
def test_what_is_nothing_of_these_names_the_forms(text):
    with pytest.raises(BadInput, match=r"write a path, an http\(s\) address, or a hub name") as caught:
        parse_source(text, lambda _: False)
    assert text in caught.value.message


def test_a_hash_is_64_digits():
    assert parse_sha256("sha256:" + "AB" * 32) == "ab" * 32
    assert parse_sha256("") == ""
    for text in ("abc", "z" * 64, "a" * 65):
        with pytest.raises(BadInput, match="64 hexadecimal digits"):
            parse_sha256(text)


def test_parts_are_all_parts():
    assert part_names("m.gguf") == ["m.gguf"]
    assert part_names("q/m-00002-of-00002.gguf") == ["q/m-00001-of-00002.gguf", "q/m-00002-of-00002.gguf"]
    assert part_names("m-00003-of-00002.gguf") == ["m-00003-of-00002.gguf"]
    assert part_names("m-00001-of-00001.gguf") == ["m-00001-of-00001.gguf"]
    with pytest.raises(BadInput, match="99999 parts"):
        part_names("m-00001-of-99999.gguf")


@pytest.mark.parametrize(
    ("own", "chosen", "target"),
    [
        ("Model-Q8_0.GGUF", "", "Model-Q8_0.gguf"),
        ("a name (2).gguf", "", "a-name-2.gguf"),
        ("../../etc/x.gguf", "", "etc-x.gguf"),
        ("\x1b[31mred.gguf", "", "31mred.gguf"),
        (".hidden.gguf", "", "hidden.gguf"),
        ("download", "mine", "mine.gguf"),
        ("m.gguf", "mine.gguf", "mine.gguf"),
        ("m-00002-of-00003.gguf", "mine", "mine-00002-of-00003.gguf"),
    ],
)
def test_a_target_is_a_plain_file_name(own, chosen, target):
    assert target_names([own], chosen) == [target]


@pytest.mark.parametrize(("own", "chosen"), [("m.gguf", "../m"), ("m.gguf", "-m"), ("m.gguf", "a/b"), ("???.gguf", "")])
def test_a_name_that_cannot_be_is_refused(own, chosen):
    with pytest.raises(BadInput, match="--as"):
        target_names([own], chosen)


def test_the_models_name_is_its_files_without_ending_and_number():
    assert model_name("qwen-0.5b.gguf") == "qwen-0.5b"
    assert model_name("big-00001-of-00003.gguf") == "big"


@pytest.mark.parametrize("text", ["http://", "http:///m.gguf", "http://[bad/m.gguf", "http://h:port/m.gguf"])
def test_an_address_that_is_none_is_refused(text):
    with pytest.raises(BadInput, match="write a path"):
        parse_source(text, lambda _: False)
