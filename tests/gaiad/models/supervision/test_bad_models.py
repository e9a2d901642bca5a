"""Every bad file gives one clear error that names it, and the daemon's side goes on."""

import random

import pytest

from gaiad.base.errors import BadInput, Unavailable
from gaiad.base.ports import RequestContext
from gaiad.models.gguf.gguf_header import read_header
from gaiad.models.gguf.tiny_gguf import write_llama_gguf
from gaiad.models.supervision.process import RestartPolicy
from tests.makers.gguf_files import flipped, truncated


def test_header_of_a_good_file(tiny_bert):
    header = read_header(tiny_bert)
    assert (header.architecture, header.embedding, header.context, header.pooling) == ("bert", 32, 64, "mean")


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (None, "no such model file; check the path, or fetch one with `gaiad models pull`"),
        (b"", "is not a GGUF"),
        (b"PK\x03\x04 a zip file", "is not a GGUF"),
        (b"GGUF\x03\x00\x00", "truncated"),
        (b"GGUF\x63\x00\x00\x00" + bytes(16), "version 99"),
        (b"GGUF\x03\x00\x00\x00" + bytes(16), "no weights"),
        (b"GGUF\x03\x00\x00\x00" + b"\xff" * 16, "damaged header"),
        (b"GGUF\x03\x00\x00\x00" + b"\x01" + bytes(7) + b"\x01" + bytes(7) + b"\xff" * 8, "string of"),
        (random.Random(1).randbytes(5000), "is not a GGUF"),
    ],
)
def test_a_file_that_is_no_model_is_refused_by_name(tmp_path, content, complaint):
    path = tmp_path / "some-model.gguf"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(BadInput, match=complaint) as caught:
        read_header(path)
    assert str(path) in caught.value.message


def test_a_folder_is_refused_by_name(tmp_path):
    with pytest.raises(BadInput, match="cannot be read"):
        read_header(tmp_path)


async def test_a_truncated_file_fails_with_the_files_name_and_no_retry(open_embedder, tiny_bert, tmp_path):
    path = truncated(tiny_bert, tmp_path / "half.gguf", 0.6)
    embedder = await open_embedder(path, wait=False)
    with pytest.raises(Unavailable, match=r"half\.gguf.*corrupted or incomplete") as caught:
        await embedder.wait_ready(20.0)
    assert "\n" not in caught.value.message
    status = embedder.status()
    assert (status.state, status.restarts, status.pid) == ("failed", 0, 0)
    with pytest.raises(Unavailable, match=r"half\.gguf"):
        await embedder.embed(["x"], RequestContext())


async def test_a_model_that_makes_no_such_vectors_is_refused(open_embedder, tmp_path, tiny_bert):
    data = tiny_bert.read_bytes()
    path = tmp_path / "vocabulary-says-more.gguf"
    path.write_bytes(data.replace(b"[SEP]", b"[SEQ]"))
    embedder = await open_embedder(path, wait=False)
    await embedder.wait_ready(20.0)
    assert embedder.status().state == "ready", "another spelling of a token is no damage"


async def test_weights_that_are_not_numbers_are_noticed_by_the_canary(open_embedder, tiny_bert, tmp_path):
    path = tmp_path / "nan.gguf"
    data = bytearray(tiny_bert.read_bytes())
    data[-20_000:] = b"\xff" * 20_000
    path.write_bytes(data)
    embedder = await open_embedder(path, wait=False)
    with pytest.raises(Unavailable, match=r"nan\.gguf.*not finite"):
        await embedder.wait_ready(20.0)


async def test_flipped_bits_in_the_header_never_reach_the_daemon(open_embedder, tiny_bert, tmp_path):
    for position in random.Random(5).sample(range(4, 1600), 8):
        path = flipped(tiny_bert, tmp_path / f"flip-{position}.gguf", position, 0x84)
        outcome = await _try(open_embedder, path)
        assert outcome == "works" or (path.name in outcome and len(outcome) < 1000), outcome


async def _try(open_embedder, path):
    try:
        embedder = await open_embedder(path, restart_policy=RestartPolicy(failures=1))
    except (BadInput, Unavailable) as error:
        return error.message
    await embedder.embed(["still a model"], RequestContext())
    await embedder.close()
    return "works"


async def test_a_chat_model_embeds_or_says_why_not(open_embedder, tmp_path):
    path = tmp_path / "decoder.gguf"
    write_llama_gguf(path)
    embedder = await open_embedder(path)
    rows = await embedder.embed(["one", "two " * 200], RequestContext())
    assert rows.shape == (2, 256)
