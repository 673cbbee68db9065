"""Valid small files of everything that isoscope parses."""

import bz2
import contextlib
import json
import re
import zipfile
from pathlib import Path

import numpy as np

X = np.random.default_rng(0).standard_normal((40, 6)).astype(np.float32)
RUN = {"sample": 16, "taps": ("hidden", "attention"), "batch_size": 8}
"""How the run is measured."""
KINDS = (
    "CharacterBERT",
    "MANTa-LM",
    "VAN",
    "ByT5",
    "CANINE-s",
    "T5",
    "Llama",
    "ViT",
    "SegFormer (MiT)",
    "ResNet",
    "wav2vec 2.0",
    "Whisper",
)
"""Architectures whose configurations are spoilt too: each family that reads one in its own way."""
DUMP = """<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.3/" version="0.3" xml:lang="en">
<siteinfo><namespaces><namespace key="0" /><namespace key="6">Image</namespace></namespaces></siteinfo>
<page><title>Lithium</title><ns>0</ns><id>1</id><revision><text xml:space="preserve">'''Lithium''' is a [[metal|soft metal]].{{cn|a={{b}}}}
{| class="x"
|-
| a || b
|}
<ref>A book</ref> [[Image:Li.jpg|thumb|In [[oil]]]] == Uses == It is &amp;lt; used. &lt;nowiki&gt;</text></revision></page>
<page><title>Other</title><ns>0</ns><revision><text>More [[text]] here, and more.</text></revision></page></mediawiki>
"""


def write_seeds(folder: Path) -> None:
    """Every kind of file, into `folder`, one folder a kind; a run and models too."""
    for kind in ("arrays", "text", "wiki", "speech", "images", "models", "suite", "repairs"):
        (folder / kind).mkdir(parents=True)
    _arrays(folder / "arrays")
    _text(folder / "text")
    (folder / "wiki" / "a.xml").write_text(DUMP)
    (folder / "wiki" / "a.bz2").write_bytes(bz2.compress(DUMP.encode()))
    with zipfile.ZipFile(folder / "wiki" / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("dump", DUMP)
    _speech(folder / "speech")
    _images(folder / "images")
    _models(folder / "models")
    _repairs(folder / "repairs")
    _run(folder)
    _swept(folder / "swept")
    _trained(folder / "trained")


def _arrays(folder: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq
    from safetensors.numpy import save_file

    np.save(folder / "c.npy", X)
    np.save(folder / "fortran.npy", np.asfortranarray(X))
    np.savez(folder / "stored.npz", X)
    np.savez_compressed(folder / "deflated.npz", a=np.arange(3), X=X)
    np.savez_compressed(folder / "deflated-fortran.npz", X=np.asfortranarray(X))
    save_file({"bias": X[0].copy(), "x": X}, folder / "x.safetensors", metadata={"format": "np"})
    fixed = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), 6)
    pq.write_table(pa.table({"x": fixed, "n": range(40)}), folder / "fixed.parquet", row_group_size=16)
    pq.write_table(pa.table({"x": list(X)}), folder / "list.parquet", compression="zstd")
    pq.write_table(pa.table({f"d{j}": X[:, j] for j in range(6)}), folder / "columns.parquet")
    np.savetxt(folder / "a.csv", X, delimiter=",", header="a,b,c,d,e,f", comments="")
    np.savetxt(folder / "b.tsv", X, delimiter="\t")
    import torch

    torch.save({"x": torch.from_numpy(X.copy()), "bias": torch.ones(6)}, folder / "t.pt")


def _text(folder: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    texts = [f"the number {i} and so on, é" for i in range(12)]
    (folder / "a.txt").write_text("\n\n".join(texts))
    (folder / "a.jsonl").write_text("\n".join(json.dumps({"id": i, "text": text}) for i, text in enumerate(texts)))
    pq.write_table(pa.table({"text": texts, "n": range(12)}), folder / "a.parquet")
    pq.write_table(pa.table({"text": pa.array(texts).dictionary_encode()}), folder / "dictionary.parquet", compression="gzip")


def _speech(folder: Path) -> None:
    import soundfile

    wave = np.sin(np.arange(4000) / 9) * 0.5
    soundfile.write(folder / "a.wav", wave, 16_000)
    soundfile.write(folder / "float.wav", np.stack([wave, wave], 1), 44_100, subtype="FLOAT")
    soundfile.write(folder / "a.flac", wave, 16_000)
    soundfile.write(folder / "a.ogg", wave, 16_000)
    soundfile.write(folder / "a.mp3", wave, 16_000)


def _images(folder: Path) -> None:
    import PIL.Image

    picture = PIL.Image.fromarray(np.random.default_rng(1).integers(0, 255, (24, 20, 3), np.uint8))
    for ending in ("png", "jpg", "gif", "bmp", "webp", "tif"):
        picture.save(folder / f"a.{ending}")
    picture.convert("P").save(folder / "palette.png")
    picture.convert("RGBA").save(folder / "alpha.png")
    picture.save(folder / "lzw.tif", compression="tiff_lzw")


def _models(folder: Path) -> None:
    import torch
    from safetensors.torch import load_file
    from transformers import BertConfig, BertModel

    from tests.conftest import word_tokenizer
    from tests.models.zoo import ZOO, build

    torch.manual_seed(0)
    size = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    model = BertModel(BertConfig(vocab_size=80, max_position_embeddings=16, architectures=["BertModel"], **size))
    model.save_pretrained(folder / "safetensors")
    word_tokenizer(folder / "safetensors", around=True)
    (folder / "bin").mkdir()
    for path in (folder / "safetensors").iterdir():
        if path.suffix != ".safetensors":
            (folder / "bin" / path.name).write_bytes(path.read_bytes())
    torch.save(load_file(folder / "safetensors" / "model.safetensors"), folder / "bin" / "pytorch_model.bin")
    torch.save(_whisper(), folder / "whisper.pt")
    write_gguf(folder / "llama.gguf")
    zoo = {small.title: small for small in ZOO}
    for title in KINDS:
        _preprocessor(title, zoo[title].config, build(zoo[title], folder / "kinds" / re.sub(r"\W", "-", title)))


def _preprocessor(title: str, config: dict, folder: Path) -> None:
    """The file that says how images or clips are prepared, for some."""
    import transformers

    if title == "Whisper":
        transformers.WhisperFeatureExtractor(feature_size=config["num_mel_bins"]).save_pretrained(folder)
    elif title == "wav2vec 2.0":
        transformers.Wav2Vec2FeatureExtractor().save_pretrained(folder)
    elif title in ("ViT", "ResNet"):
        side = config.get("image_size", 32)
        about = {"image_processor_type": "ViTImageProcessor", "do_resize": True, "size": {"height": side, "width": side}, "resample": 3}
        about |= {"do_normalize": True, "image_mean": [0.5] * 3, "image_std": [0.5] * 3, "do_rescale": True, "rescale_factor": 1 / 255}
        (folder / "preprocessor_config.json").write_text(json.dumps(about))


def _whisper() -> dict:
    """A checkpoint in OpenAI's form, with few and small weights; not all that a model needs."""
    import torch

    dims = {"n_mels": 8, "n_vocab": 60, "n_audio_ctx": 6, "n_audio_state": 8, "n_audio_head": 2, "n_audio_layer": 1}
    dims |= {"n_text_ctx": 6, "n_text_state": 8, "n_text_head": 2, "n_text_layer": 1}
    state = {"decoder.token_embedding.weight": torch.zeros(60, 8), "encoder.positional_embedding": torch.zeros(6, 8)}
    return {"dims": dims, "model_state_dict": state}


def write_gguf(path: Path, *, bos: int | None = 1, eos: int | None = 2, **settings: bool) -> None:
    """A Llama of one block; `settings` are of its tokenizer, such as add_bos_token."""
    import gguf

    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("small")
    writer.add_context_length(16)
    writer.add_embedding_length(32)
    writer.add_block_count(1)
    writer.add_feed_forward_length(32)
    writer.add_head_count(2)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(40)
    writer.add_tokenizer_model("llama")
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{i:02X}>" for i in range(4)), *"▁abcdefghijklmnopqrstuvwxyz012345"][:40]
    writer.add_token_list([token.encode() for token in tokens])
    writer.add_token_scores([0.0] * len(tokens))
    writer.add_token_types([2, 3, 3, *([6] * 4), *([1] * (len(tokens) - 7))])
    if bos is not None:
        writer.add_bos_token_id(bos)
    if eos is not None:
        writer.add_eos_token_id(eos)
    for name, value in settings.items():
        writer.add_bool(f"tokenizer.ggml.{name}", value)
    chance = np.random.default_rng(2)

    def add(name: str, *shape: int) -> None:
        writer.add_tensor(name, chance.standard_normal(shape).astype(np.float32))

    add("token_embd.weight", 40, 32)
    add("output_norm.weight", 32)
    add("output.weight", 40, 32)
    for name in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"):
        add(f"blk.0.{name}.weight", 32, 32)
    for name in ("attn_norm", "ffn_norm"):
        add(f"blk.0.{name}.weight", 32)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _run(folder: Path) -> None:
    """A measured run, what another left half done, and a suite of two checkpoints, the second a copy of the first."""
    import shutil
    from unittest import mock

    import isoscope
    from isoscope.runs.run import Run

    (folder / "run.txt").write_text("\n\n".join(f"the of and to {word} in that" for word in "abcdefghjklmnopqrstuvwxyzabcdefghjklmnop"))
    model, data = str(folder / "models" / "safetensors"), str(folder / "run.txt")
    isoscope.measure(model, data, folder / "run", quiet=True, **RUN)
    with mock.patch.object(Run, "write_cell", side_effect=InterruptedError), contextlib.suppress(InterruptedError):
        isoscope.measure(model, data, folder / "stopped", quiet=True, save_every=0, **RUN)
    (half,) = (folder / "stopped" / "partial").iterdir()
    half.rename(folder / "partial.safetensors")
    for step in (0, 10):
        shutil.copytree(folder / "models" / "safetensors", folder / "suite" / f"checkpoint-{step}")


def _repairs(folder: Path) -> None:
    """One of each kind that is fitted."""
    from isoscope import repair

    chance = np.random.default_rng(3)
    cloud = chance.standard_normal((64, 6)) * [8, 4, 2, 1, 1, 1] + 1
    for made in (repair.Centre(), repair.Standardise(), repair.Whiten(), repair.AllButTheTop(2), repair.CentreClusters(2)):
        made.fit(cloud).save(folder / f"{type(made).__name__}.safetensors")


def _swept(folder: Path) -> None:
    """Four checkpoints, and a run into which a sweep measured them."""
    from tests.measuring.many_cells import checkpoints, sweep

    suite = checkpoints(folder / "suite", 4)
    (folder / "data.txt").write_text("the of and\n\nthe of", "utf-8")
    sweep(suite, folder / "data.txt", folder / "run")


def _trained(folder: Path) -> None:
    """Three steps of two seeds of a small model, and a run into which a sweep measured them, with heads and what they say together."""
    import shutil

    import torch
    from safetensors.torch import load_file, save_file

    import isoscope

    start = folder.parent / "models" / "safetensors"
    weights = load_file(start / "model.safetensors")
    for seed in (0, 1):
        torch.manual_seed(seed)
        for step in (0, 10, 20):
            place = folder / "suite" / f"seed-{seed}" / f"step-{step}"
            shutil.copytree(start, place)
            moved = {name: value + 0.01 * step * torch.randn(value.shape) for name, value in weights.items()}
            save_file(moved, place / "model.safetensors", metadata={"format": "pt"})
    isoscope.sweep(str(folder / "suite"), str(folder.parent / "run.txt"), folder / "run", processes=1, quiet=True, **RUN)
