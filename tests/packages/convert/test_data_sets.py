"""Data sets: reactions, residues and images as plain files."""

import gzip
import json

import numpy as np
from PIL import Image

from isoscope.packages.convert.data_sets import cifar10, photographs, reactions, residues


def texts(path):
    return [json.loads(line)["text"] for line in path.read_text("utf-8").splitlines()]


def test_reactions_have_their_reagents_in_front_and_appear_once(tmp_path):
    source = tmp_path / "from"
    (source / "reactionclassifier" / "data").mkdir(parents=True)
    (source / "tests").mkdir()
    tree = {"a": [{"example_reactions": ["CC>O>CO", "CCl>>CBr"]}], "example_reactions": ["[CH3:1]C>>CC"]}
    (source / "reactionclassifier" / "data" / "granularity.json").write_text(json.dumps(tree))
    (source / "tests" / "test_x.py").write_text("one = 'CCl>>CBr'\ntwo = \"CN>>CO\"\nthree = 'not a > b > c'\n")
    reactions(source, tmp_path)
    assert sorted(texts(tmp_path / "reactions.jsonl")) == ["CC.O>>CO", "CCl>>CBr", "CN>>CO"]


def test_a_chain_begins_where_its_signal_peptide_was_cut_off(tmp_path):
    """The first conserved cysteine is residue 22 of a heavy chain; one of the peptide's own does not count."""
    peptide, mature = "MCWTLLLLLAVLAPGAYS", "A" * 21 + "C" + "G" * 60
    entries = {
        "Immunoglobulin heavy variable 1-2 OS=Homo sapiens": peptide + mature,
        "Haemoglobin OS=Homo sapiens": "A" * 90,
    }
    with gzip.open(tmp_path / "uniprot_sprot_human.fasta.gz", "wt") as file:
        file.write("".join(f">sp|X|{name}\n{chain[:40]}\n{chain[40:]}\n" for name, chain in entries.items()))
    residues(tmp_path, tmp_path)
    assert texts(tmp_path / "residues.jsonl") == [mature]


def test_images_are_cut_out_of_the_sheet_into_folders_by_class(tmp_path):
    source, folder = tmp_path / "from", tmp_path / "to"
    source.mkdir()
    folder.mkdir()
    pixels = np.random.default_rng(0).integers(0, 256, (3, 32 * 32, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(source / "test_batch.png")
    (source / "test_lables.json").write_text("[3, 8, 3]")
    cifar10(source, folder)
    assert sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.png")) == [
        "cat/0000.png",
        "cat/0002.png",
        "ship/0001.png",
    ]
    np.testing.assert_array_equal(np.asarray(Image.open(folder / "ship" / "0001.png")), pixels[1].reshape(32, 32, 3))


def test_photographs_keep_their_names(tmp_path, monkeypatch):
    source, folder = tmp_path / "from", tmp_path / "to"
    (source / "skimage" / "data").mkdir(parents=True)
    folder.mkdir()
    (source / "skimage" / "data" / "moon.png").write_text("moon")
    monkeypatch.setattr("isoscope.packages.convert.data_sets.PHOTOGRAPHS", ("skimage/data/moon.png",))
    photographs(source, folder)
    assert (folder / "moon.png").read_text() == "moon"
