"""The hub's grammar and its sentences. No hub is reached: a stand-in client shows which arguments it is given."""

import sys
from types import SimpleNamespace

import pytest

from isoscope.core.errors import IsoscopeError
from isoscope.sources import open_source
from isoscope.sources.hub import HubText


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


def test_columns(client):
    with pytest.raises(IsoscopeError, match=r"The dataset wiki has no column 'body'; its columns are text, id"):
        next(open_source("hf:wiki", "body").items())
    with pytest.raises(IsoscopeError, match=r"The column 'id' of the dataset wiki must hold strings; row 0 is a int"):
        next(open_source("hf:wiki", "id").items())


def test_no_network_is_one_sentence(client):
    with pytest.raises(IsoscopeError, match=r"unreachable could not be read from the hub \(Name or service not known\); check its name"):
        open_source("hf:unreachable")


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
def test_the_grammar(spec, sentence):
    with pytest.raises(IsoscopeError, match=sentence):
        open_source(spec)


def test_the_real_client_streams_a_local_folder(tmp_path):
    pytest.importorskip("datasets", reason="the extra isoscope[datasets] is not installed")
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"text": ["one", "", "three"], "n": [1, 2, 3]}), tmp_path / "train.parquet")
    items = HubText(str(tmp_path), None, None, "train", "main").items()
    assert [(item.id.rpartition("#")[2], item.content) for item in items] == [("0", "one"), ("2", "three")]
    with pytest.raises(IsoscopeError, match=r"could not be read from the hub \(Bad split: nosplit"):
        list(HubText(str(tmp_path), None, None, "nosplit", "main").items())
