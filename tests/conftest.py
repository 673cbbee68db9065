"""Small models of every shape that text models come in, with a tokenizer, in folders as a hub would give them."""

import gc
import os
import sys
from pathlib import Path

import pytest

# The libraries make a million objects, none of them garbage, and every measurement of a cell asks for a search of all of them.
gc.set_threshold(10_000)
os.environ.setdefault("HF_HUB_OFFLINE", "1")
for _pool in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_pool, "1")  # tests share the cores; threads that wait for each other would spend most of them
sys.path.insert(0, str(Path(__file__).parent.parent / "tools"))
os.environ.setdefault("ISOSCOPE_CACHE", str(Path(__file__).parent.parent / ".cache"))

collect_ignore = ["watching/ranks_script.py"]  # started by its test as a program of its own, with arguments


@pytest.fixture(scope="module", autouse=True)
def _frozen():
    """Leave out of every later search for garbage what is there before the first test of a file: it stays to the end."""
    gc.collect()
    gc.freeze()


_WORDS = """the of and to a in that is was it for with as his on be at by i this had not are but from or have an they which one you were"""
WORDS = _WORDS.split()


def word_tokenizer(folder: Path, *, around: bool) -> None:
    """Words of the embedded text; `around` puts [CLS] and [SEP] around a sequence, as BERT has them."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    vocabulary = {
        word: i for i, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, *"abcdefghjklmnopqrstuvwxyz,.;:!?-'"])
    }
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    if around:
        tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    marks = {"unk_token": "[UNK]", "pad_token": "[PAD]"} | ({"cls_token": "[CLS]", "sep_token": "[SEP]"} if around else {})
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=64, **marks).save_pretrained(folder)


def small_config(name: str):
    """A configuration of one architecture, small enough for a test."""
    import transformers as t

    common = {"vocab_size": 80, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 48}
    longest = {"max_position_embeddings": 64}
    return {
        "bert": lambda: t.BertConfig(**common, **longest),
        "albert": lambda: t.AlbertConfig(**common, **longest, embedding_size=16),
        "gpt2": lambda: t.GPT2Config(vocab_size=80, n_embd=32, n_layer=3, n_head=4, n_positions=64, bos_token_id=2, eos_token_id=3),
        "llama": lambda: t.LlamaConfig(
            **common, **longest, num_key_value_heads=2, tie_word_embeddings=False, bos_token_id=2, eos_token_id=3
        ),
        "opt": lambda: t.OPTConfig(
            vocab_size=80,
            hidden_size=32,
            num_hidden_layers=3,
            num_attention_heads=4,
            ffn_dim=48,
            max_position_embeddings=64,
            word_embed_proj_dim=32,
        ),
        "t5": lambda: t.T5Config(vocab_size=80, d_model=32, d_kv=8, d_ff=48, num_layers=3, num_decoder_layers=2, num_heads=4),
    }[name]()


SMALL = ("bert", "albert", "gpt2", "llama", "opt", "t5")


@pytest.fixture(scope="session")
def small_models(tmp_path_factory):
    """`small_models("bert")`: the folder of a model with random weights, spread out so that layers differ."""
    import torch
    import transformers as t

    heads = {"bert": t.BertForMaskedLM, "albert": t.AlbertForMaskedLM, "gpt2": t.GPT2LMHeadModel, "llama": t.LlamaForCausalLM}
    heads |= {"opt": t.OPTForCausalLM, "t5": t.T5ForConditionalGeneration}
    made: dict[str, Path] = {}

    def make(name: str) -> Path:
        if name not in made:
            folder = tmp_path_factory.mktemp(name) / f"small-{name}"
            torch.manual_seed(0)
            model = heads[name](small_config(name))
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.add_(torch.randn_like(parameter) * 0.2)
            model.save_pretrained(folder)
            word_tokenizer(folder, around=name in ("bert", "albert", "t5"))
            made[name] = folder
        return made[name]

    return make


@pytest.fixture(scope="session")
def texts(tmp_path_factory):
    """A .txt of 80 paragraphs of very different lengths, some longer than a sequence."""
    import random

    chance = random.Random(0)
    path = tmp_path_factory.mktemp("texts") / "paragraphs.txt"
    paragraphs = [" ".join(chance.choices(WORDS, k=chance.choice([3, 9, 20, 45, 90, 170]))) for _ in range(80)]
    path.write_text("\n\n".join(paragraphs), "utf-8")
    return path


@pytest.fixture(scope="session")
def data(tmp_path_factory, texts):
    """A few items of each modality: where its text, its clips and its images lie."""
    from tests.models.zoo import clips, images

    short = tmp_path_factory.mktemp("short") / "short.txt"
    short.write_text("\n\n".join(texts.read_text("utf-8").split("\n\n")[:12]), "utf-8")
    return {
        "text": str(short),
        "speech": str(clips(tmp_path_factory.mktemp("speech"))),
        "images": str(images(tmp_path_factory.mktemp("images"))),
    }


@pytest.fixture(scope="session")
def minilm():
    """all-MiniLM-L6-v2, a real encoder."""
    from isoscope.packages.download import package_path

    return package_path("all-minilm-l6-v2")


@pytest.fixture(scope="session")
def smollm2():
    """SmolLM2-135M-Instruct, a real decoder, as a GGUF file."""
    from isoscope.packages.download import package_path

    return package_path("smollm2-135m-instruct")
