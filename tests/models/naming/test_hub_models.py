"""The hub's real client against a hub on loopback: what is fetched, kept, checked and said."""

import hashlib
import json
import os
import resource
import shutil
import sys

import pytest
from huggingface_hub import constants

from isoscope.core.errors import IsoscopeError
from isoscope.models.naming.model_name import resolve_model
from tests.cli.calling import process
from tests.models.loopback_hub import LoopbackHub, hub  # noqa: F401
from tests.patience import run_process

WEIGHTS = 300_000


def save(folder, *, byte=7, **more):
    """A folder that looks like a model; no weights are read here."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"model_type": "bert"}))
    (folder / "tokenizer.json").write_text("{}")
    (folder / "README.md").write_text("about")
    for name, content in {"model.safetensors": bytes([byte]) * WEIGHTS, **more}.items():
        if content is not None:
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_bytes(content)
    return folder


@pytest.fixture
def home(hub, tmp_path, monkeypatch):  # noqa: F811
    """The environment of this process, so that the client comes to the loopback hub."""
    place = tmp_path / "home"
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)  # the client read it when it was imported
    for name, value in hub.environment(place).items():
        monkeypatch.delenv(name, raising=False) if value is None else monkeypatch.setenv(name, value)
    return place


def blobs(home):
    return [path for path in home.rglob("blobs/*") if path.is_file()]


def refused(spec, *pieces):
    with pytest.raises(IsoscopeError) as error:
        resolve_model(spec)
    said = str(error.value)
    assert said.endswith(".")
    assert "\n" not in said
    for piece in pieces:
        assert piece in said, said


def test_a_download_is_kept_and_is_the_same_model_as_its_folder(hub, home, tmp_path):  # noqa: F811
    folder = save(tmp_path / "folder")
    hub.add("org/name", folder)
    found = resolve_model("org/name")
    assert (found.name, found.revision) == ("org/name", hub.commit("org/name"))
    assert found.weights == resolve_model(str(folder)).weights
    assert hub.fetched() == {"config.json": 1, "tokenizer.json": 1, "model.safetensors": 1}
    hub.requests.clear()
    assert resolve_model("org/name") == found
    assert not hub.fetched()


def test_a_bug_of_ours_while_downloading_is_not_blamed_on_the_hub(hub, home, tmp_path, monkeypatch):  # noqa: F811
    hub.add("org/name", save(tmp_path / "folder"))
    monkeypatch.setattr("isoscope.models.naming.hub_models.weight_files", lambda *args, **options: {}["planted"])
    with pytest.raises(KeyError, match="planted"):
        resolve_model("org/name")


def test_the_environment_of_a_process_sets_hub_cache_and_token(hub, tmp_path):  # noqa: F811
    hub.add("org/name", save(tmp_path / "folder"))
    hub.tokens = {"hf_known"}
    hub.private = {"org/name"}
    code = (
        "import sys; from isoscope.models.naming.model_name import resolve_model; found = resolve_model('org/name'); "
        "assert 'torch' not in sys.modules; print(found.folder)"
    )
    shown = {**os.environ, **hub.environment(tmp_path / "home"), "HF_TOKEN": "hf_known", "HF_HUB_CACHE": str(tmp_path / "cache")}
    shown = {name: value for name, value in shown.items() if value is not None}
    ended = run_process([sys.executable, "-c", code], env=shown)
    assert ended.stdout.startswith(str(tmp_path / "cache")), ended.stderr
    assert {seen.token for seen in hub.requests} == {"hf_known"}
    hub.requests.clear()
    offline = run_process([sys.executable, "-c", code], env=shown | {"HF_HUB_OFFLINE": "1"})
    assert offline.stdout == ended.stdout, offline.stderr
    assert not hub.requests


def test_a_revision_is_another_commit(hub, home, tmp_path):  # noqa: F811
    hub.add(
        "org/name", save(tmp_path / "new"), revisions={"v1": save(tmp_path / "old", byte=8), "refs/pr/1": save(tmp_path / "pr", byte=9)}
    )
    assert resolve_model("org/name@refs/pr/1").revision == hub.commit("org/name", "refs/pr/1")
    new, old = resolve_model("org/name"), resolve_model("org/name@v1")
    assert (new.revision, old.revision) == (hub.commit("org/name"), hub.commit("org/name", "v1"))
    assert new.weights != old.weights
    assert old.name == "org/name"
    hub.requests.clear()
    assert resolve_model(f"org/name@{old.revision}").weights == old.weights
    assert not hub.fetched()


def test_a_moved_branch_is_followed_and_the_shared_file_kept(hub, home, tmp_path):  # noqa: F811
    hub.add("org/name", save(tmp_path / "one"))
    first = resolve_model("org/name")
    hub.add("org/name", save(tmp_path / "two", **{"vocab.txt": b"a\nb\n"}))
    hub.requests.clear()
    second = resolve_model("org/name")
    assert second.revision != first.revision
    assert hub.fetched() == {"vocab.txt": 1}


def test_a_broken_download_resumes_where_it_stopped(hub, home, tmp_path):  # noqa: F811
    part = constants.DOWNLOAD_CHUNK_SIZE  # what the client writes at once, and so what it has when the rest breaks off
    size = part + part // 4
    hub.add("org/name", save(tmp_path / "folder", **{"model.safetensors": os.urandom(size)}))
    hub.breaks = {"model.safetensors": part + 1000}
    found = resolve_model("org/name")
    tries = [seen for seen in hub.requests if seen.method == "GET" and seen.path.endswith("model.safetensors") and seen.sent]
    assert [(seen.status, seen.range, seen.sent) for seen in tries] == [
        (200, None, part + 1000),
        (206, f"bytes={part}-", size - part),
    ]
    assert found.weights == resolve_model(str(tmp_path / "folder")).weights


def test_a_wrong_hash_is_refused_and_the_file_deleted(hub, home, tmp_path):  # noqa: F811
    folder = save(tmp_path / "folder")
    hub.add("org/name", folder)
    hub.spoilt = {"model.safetensors"}
    good = (folder / "model.safetensors").read_bytes()
    sums = [hashlib.sha256(content).hexdigest()[:12] for content in (good, good[:-1] + bytes([good[-1] ^ 1]))]
    refused("org/name", "model.safetensors of org/name", *sums, "deleted from the cache")
    assert not [path for path in blobs(home) if path.stat().st_size == WEIGHTS]
    hub.spoilt = set()
    assert resolve_model("org/name").weights == resolve_model(str(folder)).weights


def test_a_file_is_hashed_against_the_hub_once(hub, home, tmp_path):  # noqa: F811
    hub.add("org/name", save(tmp_path / "folder"))
    resolve_model("org/name")
    blob = next(path for path in blobs(home) if path.stat().st_size == WEIGHTS)
    dates = blob.stat().st_atime_ns, blob.stat().st_mtime_ns
    blob.write_bytes(b"\0" * WEIGHTS)
    os.utime(blob, ns=dates)
    resolve_model("org/name")  # as large and as old as what was checked
    os.utime(blob)
    refused("org/name", "but the hub declares")


def test_offline_takes_what_is_there_and_asks_nothing(hub, home, tmp_path, monkeypatch):  # noqa: F811
    hub.add("org/name", save(tmp_path / "folder"))
    found = resolve_model("org/name")
    hub.requests.clear()
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert resolve_model("org/name") == found
    refused("org/other", "org/other is not complete in the hub's cache", str(home), "HF_HUB_OFFLINE")
    refused("org/name@v2", "org/name@v2 is not complete in the hub's cache")
    assert not hub.requests


def test_offline_with_the_configuration_but_no_weights(hub, home, tmp_path, monkeypatch):  # noqa: F811
    hub.add("org/name", save(tmp_path / "folder"))
    resolve_model("untrained:org/name")
    assert hub.fetched() == {"config.json": 1, "tokenizer.json": 1}
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    refused("org/name", "org/name is not complete in the hub's cache")
    assert resolve_model("untrained:org/name").revision == "seed0"


@pytest.mark.parametrize("status", [500, 503])
def test_a_hub_that_is_down(hub, home, tmp_path, status):  # noqa: F811
    hub.add("org/name", save(tmp_path / "folder"))
    found = resolve_model("org/name")
    hub.down = status
    refused("org/other", f"The hub does not give org/other: it answered {status}; try again later.")
    assert resolve_model("org/name") == found  # what is in the cache will do


def test_without_a_network_the_hub_cannot_be_reached(home, monkeypatch):
    with LoopbackHub() as closed:
        pass
    monkeypatch.setenv("HF_ENDPOINT", closed.url)
    refused("org/name", "org/name is not a folder here, and the hub cannot be reached", closed.url, "HF_ENDPOINT")


def test_a_hub_that_goes_away_leaves_what_was_fetched(hub, home, tmp_path, monkeypatch):  # noqa: F811
    hub.add("org/name", save(tmp_path / "folder"))
    found = resolve_model("org/name")
    with LoopbackHub() as closed:
        pass
    monkeypatch.setenv("HF_ENDPOINT", closed.url)
    assert resolve_model("org/name") == found


def test_private_and_gated_models_are_refused_with_what_to_do(hub, home, tmp_path, monkeypatch):  # noqa: F811
    hub.add("org/private", save(tmp_path / "folder"))
    hub.add("org/gated", tmp_path / "folder")
    hub.private, hub.gated, hub.tokens = {"org/private"}, {"org/gated"}, {"hf_known"}
    missing = "it does not exist, or it needs a token that may read it (HF_TOKEN)"
    refused("org/private", "The hub does not give org/private", missing)
    refused("org/nothing", "The hub does not give org/nothing", missing)
    refused("org/gated", "org/gated is gated: ask for access", "HF_TOKEN")
    monkeypatch.setenv("HF_TOKEN", "hf_unknown")
    refused("org/private", missing)
    monkeypatch.setenv("HF_TOKEN", "hf_known")
    refused("org/nothing", "there is no model of that name")
    refused("org/gated", "org/gated is gated")
    refused("org/private@v9", "The hub has no revision v9 of org/private")
    assert resolve_model("org/private").name == "org/private"


def test_a_full_disk_is_reported_with_the_cache_folder(hub, home, tmp_path):  # noqa: F811
    hub.add("org/name", save(tmp_path / "folder"))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (WEIGHTS // 2, before[1]))
    try:
        refused("org/name", "There is no room for org/name in the hub's cache", str(home))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert resolve_model("org/name").revision == hub.commit("org/name")


def test_a_cache_that_cannot_be_made(hub, home, tmp_path, monkeypatch):  # noqa: F811
    hub.add("org/name", save(tmp_path / "folder"))
    monkeypatch.setenv("HF_HOME", "/proc/nowhere")
    refused("org/name", "The hub's cache /proc/nowhere/hub cannot be written", "set HF_HOME")


def index(*shards):
    return json.dumps({"weight_map": {str(number): name for number, name in enumerate(shards)}}).encode()


OTHERS = {
    "flax_model.msgpack": b"1",
    "tf_model.h5": b"2",
    "onnx/model.onnx": b"3",
    "training_args.bin": b"4",
    "extra/model.safetensors": b"5",
}


@pytest.mark.parametrize(
    ("there", "taken"),
    [
        ({"pytorch_model.bin": b"a", **OTHERS}, {"model.safetensors"}),
        ({"model.safetensors": None, "pytorch_model.bin": b"a", **OTHERS}, {"pytorch_model.bin"}),
        (
            {
                "model.safetensors": None,
                "model.safetensors.index.json": index("m-1.safetensors", "m-2.safetensors"),
                "m-1.safetensors": b"a",
                "m-2.safetensors": b"b",
                "consolidated.safetensors": b"ab",
                **OTHERS,
            },
            {"model.safetensors.index.json", "m-1.safetensors", "m-2.safetensors"},
        ),
        (
            {"model.safetensors": None, "pytorch_model.bin.index.json": index("p-1.bin"), "p-1.bin": b"a", **OTHERS},
            {"pytorch_model.bin.index.json", "p-1.bin"},
        ),
    ],
)
def test_only_one_kind_of_weights_is_fetched(hub, home, tmp_path, there, taken):  # noqa: F811
    hub.add("org/name", save(tmp_path / "folder", **there))
    found = resolve_model("org/name")
    assert set(hub.fetched()) == {"config.json", "tokenizer.json", *taken}
    assert found.weights == resolve_model(str(tmp_path / "folder")).weights


def test_repositories_without_usable_weights_are_refused(hub, home, tmp_path):  # noqa: F811
    hub.add("org/name", save(tmp_path / "folder", **{"model.safetensors": None, "tf_model.h5": b"2"}))
    refused("org/name", "org/name holds no weights")
    hub.add("org/gguf", save(tmp_path / "gguf", **{"model.safetensors": None, "q8.gguf": b"2"}))
    refused("org/gguf", "org/gguf has its weights as GGUF only; name the file, as in org/gguf::q8.gguf")
    refused("org/gguf::tf_model.h5", "only a .gguf file or a Whisper .pt can be named")
    lacking = {"model.safetensors": None, "model.safetensors.index.json": index("m-1.safetensors")}
    hub.add("org/lacking", save(tmp_path / "lacking", **lacking))
    refused("org/lacking", "org/lacking lacks m-1.safetensors, which model.safetensors.index.json names")


def test_a_file_of_a_repository_is_fetched_by_name(hub, home, tmp_path):  # noqa: F811
    folder = save(tmp_path / "folder", **{"model.safetensors": None, "small.gguf": b"a", "large.gguf": b"b" * 9, "t.pt": b"c"})
    hub.add("org/name", folder)
    found = resolve_model("org/name::small.gguf")
    assert (found.gguf, found.name, found.revision) == ("small.gguf", "org/name::small.gguf", hub.commit("org/name"))
    assert found.weights == resolve_model(str(folder / "small.gguf")).weights
    assert "large.gguf" not in hub.fetched()
    refused("org/name::none.gguf", "org/name has no file none.gguf", "small.gguf")


def test_several_whisper_checkpoints_want_a_name(hub, home, tmp_path):  # noqa: F811
    folder = save(tmp_path / "folder", **{"model.safetensors": None, "tiny.pt": b"a", "base.pt": b"b"})
    (folder / "config.json").unlink()
    hub.add("org/name", folder)
    refused("org/name", "org/name holds 2 checkpoints (base.pt, tiny.pt); name one of them")
    assert resolve_model("org/name::tiny.pt").whisper == "tiny.pt"
    assert "base.pt" not in hub.fetched()


def test_a_sentence_transformers_repository(hub, home, tmp_path):  # noqa: F811
    modules = [
        {"idx": 0, "name": "0", "path": "0_Transformer", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    ]
    folder = tmp_path / "folder"
    save(folder, **{"model.safetensors": None, "modules.json": json.dumps(modules).encode()})
    shutil.move(save(tmp_path / "inner", **{"onnx/model.onnx": b"x"}), folder / "0_Transformer")
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text("{}")
    hub.add("org/name", folder)
    found = resolve_model("org/name")
    assert (found.folder.name, found.name, found.revision) == ("0_Transformer", "org/name", hub.commit("org/name"))
    assert found.weights == resolve_model(str(folder)).weights == resolve_model(str(folder / "0_Transformer")).weights
    fetched = {seen.path.rpartition(hub.commit("org/name"))[2] for seen in hub.requests if "Pooling" in seen.path or "onnx" in seen.path}
    assert fetched == {"/1_Pooling/config.json"}, "the settings of the pooling, and no weights in another form"


def test_measured_from_the_command_line(hub, small_models, texts, tmp_path):  # noqa: F811
    hub.add("org/small", small_models("bert"), revisions={"v1": small_models("bert")})
    hub.spoilt = {"model.safetensors"}
    environment = hub.environment(tmp_path / "home")

    def measure(spec):
        words = ("measure", spec, "--data", texts, "--out", tmp_path / "run", "--layers", "0", "-q", "--threads", "1")
        return process(*words, **environment)

    measure("org/small@v1").refused("model.safetensors of org/small@v1", "but the hub declares")
    hub.spoilt = set()
    hub.requests.clear()
    measure("org/small@v1").worked()
    assert hub.fetched()["model.safetensors"] == 1
    hub.requests.clear()
    measure("org/small@v1").worked()
    assert not hub.fetched()
