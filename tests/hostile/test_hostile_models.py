"""Checkpoints that would run code, or claim to be larger than they are: refused in one sentence on every way in."""

import json
import os
import pickle
import shutil
import struct
import time
import zipfile

import pytest
import torch
from safetensors.torch import load_file

from isoscope.core.errors import IsoscopeError
from isoscope.models.loading.load import is_trusted, load_model
from isoscope.models.naming.audit import tensor_hashes
from isoscope.models.naming.model_name import read_config, resolve_model
from isoscope.trust.gguf import check_gguf
from tests.cli.calling import isoscope
from tests.hostile.seeds import write_gguf
from tests.patience import WORK_LIMIT


class Marker:
    """Leaves a folder behind when it is unpickled by anything that runs what a pickle says."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.fixture
def model(small_models, tmp_path):
    """`model("pytorch_model.bin")`: a copy of BERT without weights, and where weights of that name would be."""

    def copy(name):
        folder = tmp_path / "model"
        shutil.copytree(small_models("bert"), folder)
        (folder / "model.safetensors").unlink()
        return folder, folder / name

    return copy


def refused(call, *pieces):
    started = time.process_time()
    with pytest.raises(IsoscopeError) as error:
        call()
    said = str(error.value)
    assert "\n" not in said
    assert time.process_time() - started < WORK_LIMIT
    for piece in pieces:
        assert piece in said, said


@pytest.mark.parametrize("form", ["archive", "old", "bare"])
@pytest.mark.parametrize("name", ["pytorch_model.bin", "weights.bin", "last.ckpt", "model.pt"])
def test_a_pickle_that_runs_code_is_not_opened_in_a_folder(model, tmp_path, name, form):
    folder, path = model(name)
    write_marked({"weight": Marker(tmp_path / "ran")}, path, form)
    refused(lambda: load_model(resolve_model(str(folder)), device="cpu"), "holds a pickle that is more than weights; it was not opened")
    assert not (tmp_path / "ran").exists()


def write_marked(content, path, form):
    if form == "bare":
        path.write_bytes(pickle.dumps(content))
    else:
        torch.save(content, path, _use_new_zipfile_serialization=form == "archive")


@pytest.mark.parametrize("form", ["archive", "old", "bare"])
def test_a_pickle_that_runs_code_is_not_opened_as_whisper(tmp_path, form):
    write_marked({"dims": Marker(tmp_path / "ran"), "model_state_dict": {}}, tmp_path / "tiny.pt", form)
    refused(
        lambda: load_model(resolve_model(str(tmp_path / "tiny.pt")), device="cpu"),
        "holds a pickle that is more than weights; it was not opened",
    )
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("ending", ["pt", "ckpt", "bin"])
def test_a_pickle_that_runs_code_is_not_opened_in_a_suite(model, tmp_path, ending):
    folder, path = model(f"step_10.{ending}")
    write_marked({"weight": Marker(tmp_path / "ran")}, path, "archive")
    answer = isoscope("sweep", folder, "--audit-only", "--out", tmp_path / "run", "-q")
    assert answer.code == 1
    assert "holds a pickle that is more than weights; it was not opened" in answer.out
    assert not (tmp_path / "ran").exists()
    refused(lambda: load_model(resolve_model(str(path)), device="cpu"), "holds a pickle that is more than weights")
    refused(lambda: tensor_hashes(resolve_model(str(path)).folder), "holds a pickle that is more than weights")
    assert not (tmp_path / "ran").exists()


def test_an_archive_that_is_compressed_or_lies(model, small_models):
    """Deflate would unfold it a thousand times; torch.save stores."""
    folder, path = model("pytorch_model.bin")
    torch.save(load_file(small_models("bert") / "model.safetensors"), path)
    with zipfile.ZipFile(path) as old:
        members = {info.filename: old.read(info) for info in old.infolist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    refused(lambda: load_model(resolve_model(str(folder)), device="cpu"), "is an archive that torch.save did not write, and was not opened")
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
        archive.filelist[-1].file_size = archive.filelist[-1].compress_size = 1 << 60
    refused(lambda: load_model(resolve_model(str(folder)), device="cpu"), "was not opened")


def test_one_number_that_stands_for_a_tensor_of_any_size(model):
    folder, path = model("last.ckpt")
    torch.save({"bert.embeddings.word_embeddings.weight": torch.zeros(1).expand(10**6, 10**6)}, path)
    refused(lambda: tensor_hashes(folder), "holds tensors of 4,000,000,000,000 bytes in a file of ")
    refused(lambda: load_model(resolve_model(str(folder)), device="cpu"), "holds tensors of 4,000,000,000,000 bytes in a file of ")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"num_hidden_layers": 10**9}, "num_hidden_layers = 1,000,000,000 in the configuration of ... exceeds the limit of 16,384"),
        ({"num_attention_heads": 10**12, "hidden_size": 10**12}, "exceeds the limit of"),
        ({"num_labels": 10**12}, "num_labels = 1,000,000,000,000"),
        ({"vocab_size": 10**18}, "vocab_size = 1,000,000,000,000,000,000"),
        ({"vocab_size": 10**9}, "its configuration describes 33,000,025,936 numbers"),
        ({"max_position_embeddings": 10**9}, "its configuration describes "),
        ({"intermediate_size": 1 << 31}, "its configuration describes "),
    ],
)
def test_a_configuration_that_describes_more_than_there_is(small_models, tmp_path, change, said):
    shutil.copytree(small_models("bert"), tmp_path / "model")
    path = tmp_path / "model" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    refused(lambda: load_model(resolve_model(str(tmp_path / "model")), device="cpu", allow_partial=True), *said.split("..."))
    refused(lambda: load_model(resolve_model(f"untrained:{tmp_path / 'model'}"), device="cpu"), *said.split("..."))
    if "describes" in said:  # without weights there is nothing to hold it against but the machine
        (tmp_path / "model" / "model.safetensors").unlink()
        refused(lambda: load_model(resolve_model(f"untrained:{tmp_path / 'model'}"), device="cpu"), "GB are free; choose a smaller model")


def test_a_configuration_that_is_nested_without_end_or_too_long(small_models, tmp_path):
    shutil.copytree(small_models("bert"), tmp_path / "model")
    path = tmp_path / "model" / "config.json"
    path.write_text('{"a":' * 100_000 + "1" + "}" * 100_000)
    refused(lambda: load_model(resolve_model(str(tmp_path / "model")), device="cpu"), "config.json cannot be read: it is nested too deeply")
    path.write_text("{}")
    os.truncate(path, 1 << 40)
    with pytest.raises(IsoscopeError, match="it has more than 67,108,864 bytes"):
        read_config(path.parent)


@pytest.mark.parametrize(
    "header",
    [
        struct.pack("<Q", 1 << 60) + b"{}",
        b"\xff" * 8 + b"{}",
        lambda raw: struct.pack("<Q", len(raw)) + raw,
    ],
)
def test_safetensors_that_claim_too_much(model, header):
    folder, path = model("model.safetensors")
    entry = {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}
    raws = [{"a": entry, "b": entry}, {"a": entry | {"data_offsets": [1 << 60, (1 << 60) + 16]}}, {"a": entry | {"shape": [1 << 40]}}]
    for raw in [json.dumps(one).encode() for one in raws] if callable(header) else [header]:
        path.write_bytes((header(raw) if callable(header) else raw) + bytes(32))
        refused(lambda: load_model(resolve_model(str(folder)), device="cpu"), "are damaged")


@pytest.mark.parametrize("name", ["../../../etc/passwd", "/etc/passwd", "sub/model.bin"])
def test_an_index_of_shards_does_not_lead_out_of_its_folder(model, name):
    folder, path = model("model.safetensors.index.json")
    path.write_text(json.dumps({"weight_map": {"a": name}}))
    refused(lambda: resolve_model(str(folder)), f"lacks {name}, which model.safetensors.index.json names")


def test_pipes_and_devices_in_a_folder_are_not_read(small_models, tmp_path):
    shutil.copytree(small_models("bert"), tmp_path / "model")
    before = resolve_model(str(tmp_path / "model")).weights
    os.mkfifo(tmp_path / "model" / "merges.txt")
    (tmp_path / "model" / "zeros.json").symlink_to("/dev/zero")
    assert resolve_model(str(tmp_path / "model")).weights == before


def test_code_is_trusted_model_by_model(small_models, tmp_path):
    reference = resolve_model(str(small_models("bert")))
    assert not is_trusted(reference, False)
    assert not is_trusted(reference, ())
    assert not is_trusted(reference, ("small-gpt2", "small", ""))
    assert is_trusted(reference, ("small-gpt2", "small-bert"))
    assert is_trusted(reference, (str(small_models("bert")),))
    assert is_trusted(reference, "small-bert")
    assert is_trusted(resolve_model(f"untrained:{small_models('bert')}"), ("small-bert",))
    shutil.copytree(small_models("bert"), tmp_path / "a b")
    path = tmp_path / "a b" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"auto_map": {"AutoModel": "m.M"}}))
    refused(lambda: load_model(resolve_model(str(tmp_path / "a b")), device="cpu"), "if you trust it, use --trust-remote-code 'a b'.")


@pytest.mark.parametrize("where", ["_attn_implementation", "attn_implementation"])
def test_attention_from_a_repository_is_code_too(small_models, tmp_path, where):
    shutil.copytree(small_models("bert"), tmp_path / "model")
    path = tmp_path / "model" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"text_config": {where: "someone/attention"}}))
    refused(lambda: load_model(resolve_model(str(tmp_path / "model")), device="cpu"), "brings its own code")


def test_a_tokenizer_that_brings_code(small_models, tmp_path):
    shutil.copytree(small_models("bert"), tmp_path / "model")
    path = tmp_path / "model" / "tokenizer_config.json"
    own = {"auto_map": {"AutoTokenizer": ["own.Own", "own.Own"]}, "tokenizer_class": "Own"}
    path.write_text(json.dumps(json.loads(path.read_text()) | own))
    (tmp_path / "model" / "own.py").write_text(f"import os\nos.mkdir({str(tmp_path / 'ran')!r})\nclass Own: pass\n")
    try:
        load_model(resolve_model(str(tmp_path / "model")), device="cpu")
    except IsoscopeError as error:
        assert "--trust-remote-code model" in str(error)  # noqa: PT017
    assert not (tmp_path / "ran").exists()


@pytest.fixture(scope="module")
def gguf(tmp_path_factory):
    path = tmp_path_factory.mktemp("gguf") / "llama.gguf"
    write_gguf(path)
    return path


def test_a_good_gguf_is_read(gguf):
    check_gguf(gguf)
    assert load_model(resolve_model(str(gguf)), device="cpu").config.hidden_size == 32


def text(value):
    return struct.pack("<Q", len(value)) + value


START, LIST_OF = b"GGUF" + struct.pack("<I", 3), text(b"general.architecture") + struct.pack("<I", 8) + text(b"llama") + text(b"x")
BAD = {
    "tensors": (START + struct.pack("<QQ", 1 << 63, 0), "it claims 9,223,372,036,854,775,808 tensors"),
    "fields": (START + struct.pack("<QQ", 0, 1 << 63), "9,223,372,036,854,775,808 fields"),
    "string": (START + struct.pack("<QQ", 0, 2) + LIST_OF + struct.pack("<IQ", 8, 1 << 63), "a string claims 9,223,372,036,854,775,808"),
    "numbers": (START + struct.pack("<QQ", 0, 2) + LIST_OF + struct.pack("<IIQ", 9, 0, 1 << 63), "its lists claim"),
    "few numbers": (START + struct.pack("<QQ", 0, 2) + LIST_OF + struct.pack("<IIQ", 9, 10, 1 << 20), "a list claims 8,388,608 bytes"),
    "strings": (START + struct.pack("<QQ", 0, 2) + LIST_OF + struct.pack("<IIQ", 9, 8, 1 << 21), "it ends within its header"),
    "nested": (START + struct.pack("<QQ", 0, 2) + LIST_OF + struct.pack("<IIQ", 9, 9, 1 << 20), "a value of type 9 within a list"),
    "axes": (START + struct.pack("<QQ", 1, 0) + text(b"a") + struct.pack("<I", 1 << 31), "a tensor claims 2,147,483,648 axes"),
    "values": (
        START + struct.pack("<QQ", 1, 0) + text(b"a") + struct.pack("<IQQIQ", 2, 1 << 40, 1 << 40, 0, 0),
        "its tensors claim 4,835,703,278,458,516,698,824,704 bytes",
    ),
    "place": (START + struct.pack("<QQ", 1, 0) + text(b"a") + struct.pack("<IQIQ", 1, 8, 0, 1 << 62), "its tensors claim 32 bytes"),
    "shared": (
        START + struct.pack("<QQ", 2, 0) + b"".join(text(name) + struct.pack("<IQIQ", 1, 12, 0, 0) for name in (b"a", b"b")),
        "its tensors claim 96 bytes, and 64 are left",
    ),
    "version": (b"GGUF" + struct.pack("<I", 77) + bytes(32), "its version is 77"),
}


@pytest.mark.parametrize("name", BAD)
def test_gguf_headers_that_claim_too_much(tmp_path, name):
    """The library itself would be busy for ever with some of these."""
    content, said = BAD[name]
    (tmp_path / "a.gguf").write_bytes(content + bytes(64))
    refused(
        lambda: load_model(resolve_model(str(tmp_path / "a.gguf")), device="cpu"),
        f"{tmp_path / 'a.gguf'} cannot be read as a GGUF file: ",
        said,
    )


def test_every_cut_of_a_gguf_is_refused(gguf, tmp_path):
    raw = gguf.read_bytes()
    for size in [*range(0, 1900, 61), len(raw) // 2, len(raw) - 256]:
        (tmp_path / "a.gguf").write_bytes(raw[:size])
        refused(lambda: check_gguf(tmp_path / "a.gguf"), "cannot be read as a GGUF file")
