"""Models out of packages: every folder loads whole, computes, and knows what its model is known to know."""

import hashlib
import json
import re
import wave
from importlib.resources import files

import numpy as np
import pytest
import torch
from PIL import Image

from isoscope.core.progress import Progress
from isoscope.packages.catalogue import find_entry
from isoscope.packages.download import fetch_packages, package_folder

# The packages' own tokenisation: RXNMapper's pattern as published, and a residue a token.
ATOMS = re.compile(r"(\[[^\]]+]|Br?|Cl?|N|O|S|P|F|I|b|c|n|o|s|p|\(|\)|\.|=|#|-|\+|\\|\/|:|~|@|\?|>>?|\*|\$|\%[0-9]{2}|[0-9])")


def real(test):
    return pytest.mark.slow(pytest.mark.models(test))


def package_folder_of(name):
    """The folder of a package, fetched if it is not there."""
    fetch_packages([name], Progress(quiet=True))
    return package_folder(find_entry(name))


def load(name, kind):
    """A model with no weight missing or of another shape; left over may be heads and poolers only."""
    model, report = kind.from_pretrained(package_folder_of(name), output_loading_info=True)
    assert not report["missing_keys"]
    assert not report["mismatched_keys"]
    assert all(re.search(r"pooler|^cls\.|^predictions\.", key) for key in report["unexpected_keys"])
    return model.eval()


def tokenizer_of(name):
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(package_folder_of(name))


def texts(name):
    return [json.loads(line)["text"] for line in (package_folder_of(name) / f"{name}.jsonl").read_text("utf-8").splitlines()]


def state(model, **inputs):
    with torch.no_grad():
        found = model(**inputs).last_hidden_state
    assert torch.isfinite(found).all()
    return found


def similarity(a, b):
    return torch.nn.functional.cosine_similarity(a, b, dim=-1).item()


def photograph(name, left, top, size=224):
    with Image.open(package_folder_of("photographs") / name) as image:
        return image.convert("RGB").crop((left, top, left + size, top + size))


@real
@pytest.mark.parametrize("name", ["all-minilm-l6-v2", "gte-small", "flan-t5-small-encoder"])
def test_text_encoders_put_a_paraphrase_nearer_than_another_subject(name):
    from transformers import AutoModel, T5EncoderModel

    model, tokenizer = load(name, T5EncoderModel if name.startswith("flan") else AutoModel), tokenizer_of(name)
    sentences = ["The cat sat on the warm mat.", "A cat was sitting on a warm rug.", "Interest rates rose by half a percent."]
    cat, paraphrase, rates = (state(model, **tokenizer(text, return_tensors="pt"))[0].mean(0) for text in sentences)
    assert similarity(cat, paraphrase) > similarity(cat, rates) + 0.1


@real
def test_t5_reads_words_and_ends_a_sequence():
    ids = tokenizer_of("flan-t5-small-encoder")(" ".join(["translate"] * 100)).input_ids
    assert ids == [13959] * 100 + [1]  # T5's published ids; the package would have stopped at 48


@real
def test_smollm2_expects_the_capital_of_france():
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = package_folder_of("smollm2-135m-instruct")
    file = next(folder.glob("*.gguf")).name
    tokenizer, model = AutoTokenizer.from_pretrained(folder, gguf_file=file), AutoModelForCausalLM.from_pretrained(folder, gguf_file=file)
    with torch.no_grad():
        logits = model(**tokenizer("The capital of France is", return_tensors="pt")).logits[0, -1]
    assert torch.isfinite(logits).all()
    assert tokenizer.decode(logits.argmax()).strip() == "Paris"


@real
def test_stories15m_expects_a_story_for_children():
    """Its perplexity on such a sentence is far below that of a Llama whose rotary pairs or tokens are in the wrong order."""
    from transformers import LlamaForCausalLM

    model, tokenizer = load("stories15m", LlamaForCausalLM), tokenizer_of("stories15m")
    story = "Once upon a time, there was a little girl named Lily. She loved to play outside in the park."
    ids = tokenizer(story, return_tensors="pt").input_ids
    assert ids[0, :6].tolist() == [1, 9038, 2501, 263, 931, 29892]  # Llama's published ids of "Once upon a time,"
    with torch.no_grad():
        assert model(ids, labels=ids).loss.exp().item() < 2
    odd = "naïve 漢字\ttabs"
    assert tokenizer.decode(tokenizer(odd).input_ids, skip_special_tokens=True) == odd


@real
def test_moonshine_transcribes_a_clip():
    import soundfile
    from transformers import MoonshineForConditionalGeneration

    model, tokenizer = load("moonshine-tiny", MoonshineForConditionalGeneration), tokenizer_of("stories15m")  # both read Llama's tokens
    samples, _ = soundfile.read(files("isoscope") / "sources" / "data" / "speech" / "sense-and-sensibility-0880.flac", dtype="float32")
    ids = model.generate(torch.from_numpy(samples)[None], max_new_tokens=60)[0]
    heard = tokenizer.decode(ids, skip_special_tokens=True)
    assert heard.strip().startswith("And Mr. John Dashwood had then leisure to consider how much there might be prudently in his power")


@real
def test_rxnfp_fills_gaps_and_its_tuned_versions_have_moved():
    from transformers import BertForMaskedLM, BertModel

    model, tokenizer, reactions = load("rxnfp-pretrained", BertForMaskedLM), tokenizer_of("rxnfp-pretrained"), texts("reactions")
    assert share_filled(model, tokenizer, reactions[:20]) > 0.5
    ids = tokenizer(reactions[0], return_tensors="pt").input_ids
    states = [state(load(name, BertModel), input_ids=ids) for name in ("rxnfp-pretrained", "rxnfp-ft", "rxnfp-ft-10k-25s")]
    assert all((states[0] - tuned).abs().max() > 0.1 for tuned in states[1:])


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
    saved = torch.load(package_folder_of("whisper-tiny.en") / "tiny.en.pt", weights_only=True, map_location="cpu")
    assert saved["dims"]["n_audio_layer"] == saved["dims"]["n_text_layer"] == 4
    weights = saved["model_state_dict"]
    assert weights["encoder.conv1.weight"].shape == (384, 80, 3)
    assert weights["decoder.token_embedding.weight"].shape == (51864, 384)
    assert all(torch.isfinite(weight).all() for weight in weights.values())


@real
@pytest.mark.parametrize(("name", "kind"), [("dinov2-small", "Dinov2Model"), ("resnet-50", "ResNetModel")])
def test_vision_models_put_two_crops_of_a_photograph_nearer_than_two_photographs(name, kind):
    import transformers

    with_head = transformers.ResNetForImageClassification if kind == "ResNetModel" else transformers.Dinov2Model
    model = load(name, with_head).base_model
    processor = transformers.AutoImageProcessor.from_pretrained(package_folder_of(name))
    crops = [
        photograph("chelsea.png", 100, 20),
        photograph("chelsea.png", 130, 40),
        photograph("coffee.png", 150, 80),
        photograph("china.jpg", 200, 100),
    ]
    pixels = processor(crops, return_tensors="pt").pixel_values
    assert pixels.shape == (4, 3, 224, 224)
    features = state(model, pixel_values=pixels)
    cat, same, coffee, temple = features[:, 0] if name == "dinov2-small" else features.mean((2, 3))
    assert similarity(cat, same) > max(similarity(cat, coffee), similarity(cat, temple)) + 0.1


@real
def test_dinov2_s_position_table_is_that_of_the_published_size():
    from transformers import Dinov2Model

    model = load("dinov2-small", Dinov2Model)
    table = model.embeddings.position_embeddings.detach()[0]
    assert table.shape == (1 + 37 * 37, 384)
    grid = table[1:].reshape(37, 37, 384)
    beside, apart = torch.nn.functional.cosine_similarity(grid[:, :-1], grid[:, 1:], dim=-1), similarity(grid[5, 5], grid[30, 30])
    assert beside.mean() > 0.8 > apart  # neighbours are alike only if the table was cut and joined in the right order


@real
def test_speech_is_decoded_bit_for_bit():
    clips = sorted(package_folder_of("speech").rglob("*.wav"))
    seconds = 0.0
    for path in clips:
        with wave.open(str(path)) as file:
            assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (16000, 1, 2)
            seconds += file.getnframes() / 16000
    assert len(clips) == 558
    assert 24 * 60 < seconds < 25 * 60
    with wave.open(str(package_folder_of("speech") / "prompts" / "demo-instruct.wav")) as file:  # 73 s: cut into pieces and joined again
        assert hashlib.sha256(file.readframes(-1)).hexdigest() == DEMO_INSTRUCT


DEMO_INSTRUCT = "622fc3a24527d2575eed280ecc301a12d274ba2db0e8cd70bc667ebdbba1c425"
"""Of the samples that the G.722 codec of the package G722 1.2.8 decodes."""


@real
def test_pictures_are_pictures():
    for path in package_folder_of("photographs").iterdir():
        with Image.open(path) as image:
            assert min(image.size) >= 200
    images = sorted(package_folder_of("cifar10").rglob("*.png"))
    assert len(images) == 1000
    assert {path.parent.name for path in images} >= {"cat", "ship", "frog"}
    stack = np.stack([np.asarray(Image.open(path)) for path in images]).astype(float)
    assert stack.shape == (1000, 32, 32, 3)
    beside = np.corrcoef(stack[:, :, :-1].ravel(), stack[:, :, 1:].ravel())[0, 1]
    assert beside > 0.9  # rows of pixels put together in the right order
