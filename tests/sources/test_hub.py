"""The hub's grammar and its sentences. No hub is reached: a stand-in client shows which arguments it is given, and the real one reads
datasets that lie here, in every form in which the hub holds clips and images."""

import io
import sys
import tarfile
import zipfile
from types import SimpleNamespace

import numpy as np
import PIL.Image
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import soundfile

from isoscope.core.errors import IsoscopeError
from isoscope.sources import open_source
from isoscope.sources.hub import HubSource


@pytest.fixture
def client(monkeypatch):
    calls = []

    def load_dataset(*arguments, **options):
        calls.append((arguments, options))
        return iter([{"text": "one", "id": 1}, {"text": "", "id": 2}, {"text": "three", "id": 3}])

    def dataset_info(name, revision=None):
        if name == "unreachable":
            raise ConnectionError("Name or service not known\nmore lines")
        return SimpleNamespace(sha={"main": "abc", None: "abc", "old": "def"}[revision])

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load_dataset))
    monkeypatch.setitem(sys.modules, "huggingface_hub", SimpleNamespace(dataset_info=dataset_info))
    return calls


def test_a_dataset_is_streamed_from_the_resolved_commit(client):
    source = open_source("hf:org/wiki?config=en&split=validation&revision=main")
    assert [(item.id, item.content) for item in source.items()] == [
        ("org/wiki/en/validation#0", "one"),
        ("org/wiki/en/validation#2", "three"),
    ]
    assert client == [(("org/wiki", "en"), {"split": "validation", "revision": "abc", "streaming": True})]


def test_the_fingerprint_follows_the_commit_and_not_its_name(client):
    prints = {
        rest: open_source(f"hf:wiki{rest}").fingerprint for rest in ("", "?revision=main", "?revision=old", "?split=test", "?config=en")
    }
    assert prints[""] == prints["?revision=main"]
    assert len(set(prints.values())) == 4
    assert open_source("hf:wiki", "id").fingerprint not in prints.values()


def test_the_split_is_train_unless_named(client):
    assert next(open_source("hf:wiki").items()).id == "wiki/train#0"


def test_a_missing_or_unsuitable_column_is_refused(client):
    with pytest.raises(IsoscopeError, match=r"The dataset wiki has no column 'body'; its columns are text, id"):
        next(open_source("hf:wiki", "body").items())
    with pytest.raises(IsoscopeError, match=r"The column 'id' of the dataset wiki must hold strings; row 0 is a int"):
        next(open_source("hf:wiki", "id").items())


def test_no_network_is_one_sentence(client):
    with pytest.raises(IsoscopeError, match=r"unreachable could not be read from the hub \(Name or service not known\); check its name"):
        open_source("hf:unreachable")


def test_a_client_that_fails_between_rows_is_one_sentence(client, monkeypatch):
    def rows(*arguments, **options):
        yield {"text": "one"}
        raise TimeoutError("The read operation timed out.")

    monkeypatch.setattr(sys.modules["datasets"], "load_dataset", rows)
    items = open_source("hf:wiki").items()
    assert next(items).content == "one"
    with pytest.raises(IsoscopeError, match=r"wiki could not be read from the hub \(The read operation timed out\); check its name"):
        next(items)


def test_a_bug_of_ours_between_rows_keeps_its_traceback(client, monkeypatch):
    monkeypatch.setattr("isoscope.sources.hub.choose_column", lambda *_: {}["planted"])
    with pytest.raises(KeyError, match="planted"):
        next(open_source("hf:wiki").items())


def test_the_package_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(IsoscopeError, match=r"hf:wiki needs the package datasets: pip install 'isoscope\[datasets\]'"):
        open_source("hf:wiki")


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ("hf:", r"names no dataset; write hf:NAME"),
        ("hf:wiki?splt=test", r"has the option 'splt', did you mean split; a dataset takes config, split, revision"),
        ("hf:wiki?validation", r"must be hf:NAME\?config=…&split=…&revision=…; 'validation' is not of that form"),
    ],
)
def test_a_malformed_spec_is_refused(spec, sentence):
    with pytest.raises(IsoscopeError, match=sentence):
        open_source(spec)


def test_the_real_client_streams_a_local_folder(tmp_path):
    pq.write_table(pa.table({"text": ["one", "", "three"], "n": [1, 2, 3]}), tmp_path / "train.parquet")
    items = HubSource(str(tmp_path), None, None, "train", "main").items()
    assert [(item.id.rpartition("#")[2], item.content) for item in items] == [("0", "one"), ("2", "three")]
    with pytest.raises(IsoscopeError, match=r"could not be read from the hub \(Bad split: nosplit"):
        list(HubSource(str(tmp_path), None, None, "nosplit", "main").items())


def wav(value, rate=8_000):
    """A clip that is told by its height."""
    buffer = io.BytesIO()
    soundfile.write(buffer, np.full(80, value), rate, format="WAV", subtype="FLOAT")
    return buffer.getvalue()


def png(value):
    buffer = io.BytesIO()
    PIL.Image.new("L", (4, 4), value).save(buffer, "PNG")
    return buffer.getvalue()


def cells(*contents):
    return [None if content is None else {"bytes": content, "path": None} for content in contents]


def parquet(folder, table):
    """As `push_to_hub` writes it, the types of the columns in the file's metadata."""
    import datasets

    dataset = datasets.Dataset.from_dict(table)
    for column, kind in (("voice", datasets.Audio()), ("other", datasets.Audio()), ("view", datasets.Image())):
        if column in table:
            dataset = dataset.cast_column(column, kind)
    pq.write_table(dataset.data.table, folder / "train.parquet")


def values(source):
    """What each item holds, by the number of its row."""
    found = {}
    for item in source.items():
        if source.modality == "speech":
            assert (item.content.rate, item.content.samples.shape) == (8_000, (80,))
            found[int(item.id.rpartition("#")[2])] = round(float(item.content.samples[0]), 6)
        else:
            assert item.content.mode == "RGB"
            found[int(item.id.rpartition("#")[2])] = item.content.getpixel((0, 0))[0]
    return found


def local(folder, modality, column=None):
    return HubSource(str(folder), column, None, "train", "main", modality)


def test_columns_are_chosen_by_their_type(tmp_path):
    table = {"n": [1, 2, 3], "voice": cells(wav(0.25), None, wav(0.5)), "view": cells(png(10), png(20), None)}
    parquet(tmp_path, table)
    assert values(local(tmp_path, "speech")) == {0: 0.25, 2: 0.5}
    assert values(local(tmp_path, "images")) == {0: 10, 1: 20}
    assert values(local(tmp_path, "images", "view")) == {0: 10, 1: 20}
    assert len({local(tmp_path, modality).fingerprint for modality in ("text", "speech", "images")}) == 3
    with pytest.raises(
        IsoscopeError, match=r"has no column 'vew', did you mean view; its columns are n, voice, view: choose one with --column"
    ):
        next(local(tmp_path, "images", "vew").items())
    parquet(tmp_path, table | {"other": cells(wav(0.1), wav(0.2), wav(0.3))})
    with pytest.raises(IsoscopeError, match=r"has no column 'audio'; its columns are voice, other: choose one with --column"):
        next(local(tmp_path, "speech").items())
    assert values(local(tmp_path, "speech", "other")) == {0: 0.1, 1: 0.2, 2: 0.3}


def test_a_column_without_a_type_is_found_by_its_name(tmp_path):
    pq.write_table(pa.table({"image": cells(png(7), png(8)), "n": [1, 2]}), tmp_path / "train.parquet")
    assert values(local(tmp_path, "images")) == {0: 7, 1: 8}
    with pytest.raises(IsoscopeError, match=r"has no column 'audio'; its columns are image, n"):
        next(local(tmp_path, "speech").items())


@pytest.mark.parametrize(
    ("modality", "make", "ending", "expected"),
    [("speech", wav, "wav", {0: 0.25, 1: 0.5}), ("images", lambda value: png(int(value * 100)), "png", {0: 25, 1: 50})],
)
@pytest.mark.parametrize("form", ["folder", "zip", "tar"])
def test_files_on_the_hub(tmp_path, modality, make, ending, expected, form):
    """Loose files, which the client hands over as paths, files in an archive, and WebDataset's tar files."""
    files = {f"a.{ending}": make(0.25), f"b.{ending}": make(0.5)}
    if form == "folder":
        (tmp_path / "train").mkdir()
        for name, raw in files.items():
            (tmp_path / "train" / name).write_bytes(raw)
    elif form == "zip":
        with zipfile.ZipFile(tmp_path / "train.zip", "w") as archive:
            for name, raw in files.items():
                archive.writestr(name, raw)
    else:
        with tarfile.open(tmp_path / "train.tar", "w") as archive:
            for name, raw in files.items():
                entry = tarfile.TarInfo(name)
                entry.size = len(raw)
                archive.addfile(entry, io.BytesIO(raw))
    assert values(local(tmp_path, modality)) == expected


def test_a_damaged_cell_is_named_by_its_row(tmp_path):
    parquet(tmp_path, {"voice": cells(wav(0.25), b"no sound"), "view": cells(png(1), png(2)[:-20])})
    with pytest.raises(IsoscopeError, match=r"/train#1 is not a readable sound file"):
        list(local(tmp_path, "speech").items())
    with pytest.raises(IsoscopeError, match=r"/train#1 is damaged or cut short"):
        list(local(tmp_path, "images").items())
