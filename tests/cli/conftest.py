"""Two small models, a small text, and the runs that several files look at."""

import random
import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.cli.calling import isoscope
from tests.conftest import WORDS, word_tokenizer

FAST = ("--quiet", "--threads", "1")


def saved(model, folder: Path, *, around: bool) -> Path:
    """A model with random weights, spread out so that layers differ, and its tokenizer in a folder."""
    import torch

    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.2 + (parameter.ndim == 1))
    model.save_pretrained(folder)
    word_tokenizer(folder, around=around)
    return folder


@pytest.fixture(scope="session")
def bert(tmp_path_factory) -> Path:
    from transformers import BertConfig, BertForMaskedLM

    size = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
    config = BertConfig(vocab_size=80, max_position_embeddings=64, **size)
    return saved(BertForMaskedLM(config), tmp_path_factory.mktemp("cli") / "small-bert", around=True)


@pytest.fixture(scope="session")
def gpt2(tmp_path_factory) -> Path:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(vocab_size=80, n_embd=32, n_layer=2, n_head=4, n_positions=64, bos_token_id=2, eos_token_id=3)
    return saved(GPT2LMHeadModel(config), tmp_path_factory.mktemp("cli") / "small-gpt2", around=False)


@pytest.fixture(scope="session")
def paragraphs(tmp_path_factory) -> Path:
    """A .txt of 60 paragraphs, none longer than the models take."""
    chance = random.Random(1)
    path = tmp_path_factory.mktemp("cli") / "sixty.txt"
    path.write_text("\n\n".join(" ".join(chance.choices(WORDS, k=chance.randint(5, 30))) for _ in range(60)), "utf-8")
    return path


@pytest.fixture(scope="session")
def good_run(tmp_path_factory, bert, gpt2, paragraphs) -> Path:
    """Both models, measured; for reading only."""
    out = tmp_path_factory.mktemp("cli") / "good"
    isoscope("measure", bert, gpt2, "--data", paragraphs, "--out", out, *FAST).worked()
    return out


@pytest.fixture(scope="session")
def shards(tmp_path_factory, bert, paragraphs):
    """`shards("1/2")`: a run with that part of the text under BERT, made once; for reading only."""
    made: dict[tuple[str, ...], Path] = {}

    def make(part: str, *more: str) -> Path:
        if (part, *more) not in made:
            out = tmp_path_factory.mktemp("cli") / part.replace("/", "of")
            isoscope("measure", bert, "--data", paragraphs, "--out", out, "--shard", part, *more, *FAST).worked()
            made[(part, *more)] = out
        return made[(part, *more)]

    return make


@pytest.fixture
def model_copy(tmp_path, bert):
    """`model_copy(weights=change)`: a copy of BERT that may be spoilt; `change` gets the weights by name and alters them."""
    from safetensors.numpy import load_file, save_file

    def copy(name: str = "spoilt", *, source: Path = bert, weights=None) -> Path:
        folder = tmp_path / name
        shutil.copytree(source, folder)
        if weights is not None:
            arrays = load_file(folder / "model.safetensors")
            weights(arrays)
            save_file({key: np.ascontiguousarray(x) for key, x in arrays.items()}, folder / "model.safetensors", metadata={"format": "pt"})
        return folder

    return copy


@pytest.fixture
def quick(paragraphs, tmp_path):
    """`quick(model, …)`: measure one layer of a model on the text, as fast as can be, into `tmp_path / "run"`."""

    def call(*words: object):
        return isoscope("measure", *words, "--data", paragraphs, "--out", tmp_path / "run", "--layers", "0", *FAST)

    return call
