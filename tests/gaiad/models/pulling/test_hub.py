from hashlib import sha256

import gguf
import numpy as np
import pytest

from gaiad.base.errors import BadInput, DeadlineExceeded, Forbidden, NotFound, Unauthorized, Unavailable
from gaiad.models.pulling.download import PullFailed, Tries
from gaiad.models.pulling.hub import HubFile, choose
from gaiad.models.pulling.pull import Wish, pull
from gaiad.models.pulling.source import HubSource
from tests.makers.file_server import COMMIT, Fault, Served, put_on_hub, serving

QUICK = Tries(connect_s=2.0, silence_s=2.0, count=3, first_wait_s=0.01, longest_wait_s=0.05)
REPO = "someone/tiny-GGUF"
CUT = 50_000


class Heard:
    def __init__(self):
        self.lines = []

    def say(self, line):
        self.lines.append(line)

    def show(self, label, done, total):
        assert 0 <= done <= total


@pytest.fixture
def heard():
    return Heard()


@pytest.fixture
def hub(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("HF_TOKEN", "hf_mine")
    with serving() as one:
        yield one


@pytest.fixture
def store(hub):
    with serving() as one:
        yield one


@pytest.fixture
def data(tiny_llama):
    return tiny_llama.read_bytes()


@pytest.fixture
def fetch(tmp_path, hub, heard):
    def one(source, tries=QUICK, **wish):
        environment = {"GAIAD_MODELS": str(tmp_path / "models"), "HF_ENDPOINT": hub.base}
        return pull(Wish(source=source, **wish), environment, heard, tries)

    return one


def hash_of(data):
    return sha256(data).hexdigest()


def names(tmp_path):
    return sorted(path.name for path in (tmp_path / "models").iterdir())


def test_the_only_model_of_a_repository_is_pulled_and_the_login_stays_with_the_hub(hub, store, data, fetch, tmp_path):
    put_on_hub(hub, store, REPO, {"README.md": b"about", "tiny-Q8_0.gguf": data, "mmproj-tiny.gguf": data[:9]})
    pulled = fetch(REPO)
    assert (pulled.name, pulled.sha256, pulled.source) == ("tiny-Q8_0", hash_of(data), REPO)
    assert (tmp_path / "models" / "tiny-Q8_0.gguf").read_bytes() == data
    assert [seen.path for seen in hub.seen] == [
        f"/api/models/{REPO}?blobs=true",
        f"/{REPO}/resolve/{COMMIT}/tiny-Q8_0.gguf",
    ]
    assert {seen.headers.get("authorization") for seen in hub.seen} == {"Bearer hf_mine"}
    assert [seen.headers.get("authorization") for seen in store.seen] == [None]


def test_a_second_pull_asks_the_hub_for_the_listing_only(hub, store, data, fetch):
    put_on_hub(hub, store, REPO, {"tiny-Q8_0.gguf": data})
    fetch(REPO)
    hub.seen.clear()
    store.seen.clear()
    assert [file.how for file in fetch(REPO).files] == ["present"]
    assert (len(hub.seen), store.seen) == (1, [])


def test_a_hub_download_goes_on_where_it_stopped(hub, store, data, fetch, tmp_path):
    put_on_hub(hub, store, REPO, {"tiny-Q8_0.gguf": data})
    store.faults = [Fault(cut=CUT), *[Fault(status=503)] * 3]
    with pytest.raises(Unavailable):
        fetch(REPO)
    assert names(tmp_path) == ["tiny-Q8_0.gguf.part", "tiny-Q8_0.gguf.part.json"]
    store.faults.clear()
    store.seen.clear()
    assert [file.how for file in fetch(REPO).files] == ["resumed"]
    assert [(seen.headers["range"], seen.sent) for seen in store.seen] == [(f"bytes={CUT}-", len(data) - CUT)]
    assert (tmp_path / "models" / "tiny-Q8_0.gguf").read_bytes() == data


def test_a_part_that_was_complete_is_not_asked_for_again(hub, store, data, fetch, tmp_path):
    put_on_hub(hub, store, REPO, {"tiny-Q8_0.gguf": data})
    fetch(REPO)
    models = tmp_path / "models"
    (models / "tiny-Q8_0.gguf").rename(models / "tiny-Q8_0.gguf.part")
    (models / "tiny-Q8_0.gguf.source.json").rename(models / "tiny-Q8_0.gguf.part.json")
    store.seen.clear()
    assert [file.how for file in fetch(REPO).files] == ["resumed"]
    assert store.seen == []


def test_a_flipped_bit_from_the_store_is_found_by_the_hubs_hash(hub, store, data, fetch, tmp_path):
    put_on_hub(hub, store, REPO, {"tiny-Q8_0.gguf": data})
    store.files[f"/store/{hash_of(data)}"].data = data[:-1] + bytes([data[-1] ^ 1])
    with pytest.raises(PullFailed, match=f"promised is {hash_of(data)}"):
        fetch(REPO)
    assert names(tmp_path) == []


def test_a_hash_that_the_hub_does_not_name_fetches_nothing(hub, store, data, fetch):
    put_on_hub(hub, store, REPO, {"tiny-Q8_0.gguf": data})
    with pytest.raises(PullFailed, match=f"the hub names SHA-256 {hash_of(data)}, wanted is {'0' * 64}"):
        fetch(REPO, sha256="0" * 64)
    assert store.seen == []


def test_a_small_file_without_a_hash_must_have_the_promised_size(hub, store, data, fetch):
    put_on_hub(hub, store, REPO, {"tiny-Q8_0.gguf": data}, large=False)
    store.files[f"/store/{hash_of(data)}"].data = data + b"more"
    with pytest.raises(PullFailed, match=f"has {len(data) + 4} bytes, the hub promised {len(data)}"):
        fetch(REPO)


def test_a_revision_is_asked_for_and_a_missing_one_named(hub, store, data, fetch):
    put_on_hub(hub, store, REPO, {"tiny-Q8_0.gguf": data})
    fetch(REPO, revision="v1")
    assert hub.seen[0].path.startswith(f"/api/models/{REPO}/revision/v1")
    with pytest.raises(NotFound, match="has no revision 'v2'"):
        fetch(REPO, revision="v2")


def test_what_the_hub_refuses_is_one_line_with_a_remedy(hub, fetch):
    path = f"/api/models/{REPO}"
    with pytest.raises(NotFound, match=r"has no such model.*hf auth login"):
        fetch(REPO)
    hub.put(path, b"{}")
    for status, headers, error, says in (
        (403, {"X-Error-Code": "GatedRepo"}, Forbidden, "accept its terms"),
        (401, {"X-Error-Code": "RepoNotFound"}, NotFound, "hf auth login"),
        (401, {}, Unauthorized, "hf auth login"),
        (403, {}, Forbidden, "access denied"),
        (503, {}, Unavailable, "server error"),
    ):
        hub.faults = [Fault(status=status, headers=headers)] * 3
        with pytest.raises(error, match=says) as caught:
            fetch(REPO)
        assert REPO in caught.value.message
        assert "\n" not in caught.value.message
        hub.faults.clear()
    hub.faults = [Fault(silent=True)] * 2
    with pytest.raises(DeadlineExceeded, match="fell silent"):
        fetch(REPO, tries=Tries(silence_s=0.05, count=2, first_wait_s=0.0))


def test_something_that_is_no_hub_is_named_as_such(hub, fetch):
    hub.put(f"/api/models/{REPO}", b"<html>")
    with pytest.raises(PullFailed, match=r"is not a hub.*HF_ENDPOINT"):
        fetch(REPO)
    hub.files[f"/api/models/{REPO}"] = Served(data=b"[1, 2]")
    with pytest.raises(PullFailed, match=r"is not a hub.*HF_ENDPOINT"):
        fetch(REPO)
    with pytest.raises(BadInput, match="not a hub name"):
        fetch("some..one/tiny")


def test_no_telemetry_is_gathered(hub, store, data, fetch, monkeypatch):
    from huggingface_hub import constants
    from huggingface_hub.utils import _headers

    asked = []
    monkeypatch.setattr(_headers, "detect_agent", lambda: asked.append("which agent"))
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_TELEMETRY", False)
    put_on_hub(hub, store, REPO, {"tiny-Q8_0.gguf": data})
    fetch(REPO)
    assert asked == []


def shard(path, number, count):
    """A part that holds only which part it is, and a tensor."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.kv_data[0].clear()
    writer.add_uint16("split.no", number - 1)
    writer.add_uint16("split.count", count)
    writer.add_tensor(f"blk.{number}.weight", np.ones(8, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path.read_bytes()


def split_first(data):
    """The tiny model as part 1 of 3: the two keys put before its own."""
    keys = int.from_bytes(data[16:24], "little")
    added = b"".join(
        len(key).to_bytes(8, "little") + key + (2).to_bytes(4, "little") + value.to_bytes(2, "little")
        for key, value in ((b"split.no", 0), (b"split.count", 3), (b"pad.aligns", 0))
    )
    return data[:16] + (keys + 3).to_bytes(8, "little") + added + data[24:] + bytes(64)


@pytest.fixture
def shards(tmp_path, data):
    files = {"q8/big-00001-of-00003.gguf": split_first(data)}
    for number in (2, 3):
        files[f"q8/big-0000{number}-of-00003.gguf"] = shard(tmp_path / f"{number}.gguf", number, 3)
    return files


def test_a_model_in_parts_is_pulled_whole_its_first_part_last(hub, store, data, shards, fetch, tmp_path):
    put_on_hub(hub, store, REPO, {**shards, "small-Q4_0.gguf": data})
    pulled = fetch(f"{REPO}:big", name="mine")
    assert pulled.path == str(tmp_path / "models" / "mine-00001-of-00003.gguf")
    assert (pulled.name, pulled.bytes) == ("mine", sum(map(len, shards.values())))
    assert [file.sha256 for file in pulled.files] == [hash_of(part) for part in shards.values()]
    order = [seen.path.rpartition("/")[2] for seen in hub.gets(f"/{REPO}/resolve")]
    assert order == [f"big-0000{number}-of-00003.gguf" for number in (2, 3, 1)]


def test_parts_that_are_not_what_their_names_say_are_refused(hub, store, shards, fetch, tmp_path):
    second, third = "q8/big-00002-of-00003.gguf", "q8/big-00003-of-00003.gguf"
    put_on_hub(hub, store, REPO, {**shards, second: shards[third]})
    with pytest.raises(PullFailed, match=r"its header says part 2 \(from 0\) of 3"):
        fetch(REPO)
    assert names(tmp_path) == []
    put_on_hub(hub, store, REPO, {name: part for name, part in shards.items() if name != third})
    with pytest.raises(NotFound, match=f"3 parts, but {third} is missing"):
        fetch(REPO)


def test_parts_at_an_address_and_in_a_folder_are_all_taken(hub, shards, fetch, tmp_path):
    for name, part in shards.items():
        hub.put(f"/{name}", part, '"1"')
    pulled = fetch(f"{hub.base}/q8/big-00002-of-00003.gguf?download=true")
    assert [seen.path for seen in hub.seen] == [
        f"/q8/big-0000{number}-of-00003.gguf?download=true" for number in (2, 3, 1)
    ]
    folder = tmp_path / "mine"
    folder.mkdir()
    for name, part in shards.items():
        (folder / name.removeprefix("q8/")).write_bytes(part)
    again = fetch(str(folder / "big-00001-of-00003.gguf"))
    assert [file.how for file in again.files] == ["present"] * 3
    assert [file.sha256 for file in again.files] == [file.sha256 for file in pulled.files]
    (folder / "big-00003-of-00003.gguf").unlink()
    with pytest.raises(BadInput, match=r"big-00003-of-00003\.gguf: not found"):
        fetch(str(folder / "big-00001-of-00003.gguf"))


FILES = [
    HubFile(path=name, size=3 << 20, sha256="")
    for name in ("m-Q4_K_M.gguf", "m-Q4_K_S.gguf", "sub/m-F16.gguf", "mmproj-F16.gguf", "README.md")
]


@pytest.mark.parametrize(
    ("wanted", "path"),
    [
        ("Q4_K_M", "m-Q4_K_M.gguf"),
        ("q4_k_s", "m-Q4_K_S.gguf"),
        ("m-Q4_K_M.gguf", "m-Q4_K_M.gguf"),
        ("m-F16.gguf", "sub/m-F16.gguf"),
        ("sub/m-F16.gguf", "sub/m-F16.gguf"),
        ("*_S.gguf", "m-Q4_K_S.gguf"),
        ("mmproj-F16.gguf", "mmproj-F16.gguf"),
    ],
)
def test_a_file_is_chosen_by_name_pattern_or_quantisation(wanted, path):
    assert [file.path for file in choose(FILES, HubSource(repo=REPO, wanted=wanted))] == [path]


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        ("", r"3 models fit; .*m-Q4_K_M\.gguf \(3\.0 MiB\), m-Q4_K_S\.gguf \(3\.0 MiB\), sub/m-F16\.gguf"),
        ("Q4_K", "no model fits"),
        ("*", "4 models fit"),
        ("Q9", r"no model fits; .*mmproj"),
    ],
)
def test_what_fits_several_or_none_is_answered_with_a_list(wanted, says):
    with pytest.raises(BadInput, match=says):
        choose(FILES, HubSource(repo=REPO, wanted=wanted))
    with pytest.raises(NotFound, match="contains no GGUF"):
        choose(FILES[-1:], HubSource(repo=REPO, wanted=wanted))
